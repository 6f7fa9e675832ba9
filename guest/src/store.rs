//! The interface `store`: core's sequential store over the imported files.

use std::cell::RefCell;

use zrecord_core::codec::pure::Ruzstd;
use zrecord_core::format::{Format as CoreFormat, RecordLocation, classic, extended};
use zrecord_core::memory;
use zrecord_core::store::Store as CoreStore;
use zrecord_core::summary::Summary as CoreSummary;
use zrecord_core::verify::FaultList;

use crate::Component;
use crate::bindings::exports::zrecord::store::store::{
    self, Error, Fault, Guest, GuestStore, Info, Locations, RecordBatch, Schema, Summary, Usage,
};
use crate::bindings::zrecord::store::files;
use crate::error::{invalid_argument, no_memory};
use crate::files::Directory;

/// How many faults one call returns, as the contract says.
const FAULTS_PER_CALL: usize = 4096;

/// The store that runs in the component.
pub(crate) type Sequential = CoreStore<Directory, Ruzstd>;

/// A store that is open. Methods only borrow it, so it changes behind a cell;
/// nothing calls into a component that is itself calling out, so no two borrow
/// the cell at once.
pub(crate) struct Store(pub(crate) RefCell<Sequential>);

impl Store {
    /// The resource that is handed out.
    pub(crate) fn export(store: Sequential) -> store::Store {
        store::Store::new(Self(RefCell::new(store)))
    }
}

impl Guest for Component {
    type Store = Store;
}

impl GuestStore for Store {
    fn open(directory: files::Directory, recover: bool) -> Result<store::Store, Error> {
        Ok(Self::export(CoreStore::open(Directory(directory), recover)?))
    }

    fn salvage(directory: files::Directory, recover: bool) -> Result<store::Store, Error> {
        Ok(Self::export(CoreStore::salvage(Directory(directory), recover)?))
    }

    fn info(&self) -> Info {
        info(&mut self.0.borrow_mut())
    }

    fn refresh(&self) -> Result<Info, Error> {
        let mut store = self.0.borrow_mut();
        store.reader().refresh()?;
        Ok(info(&mut store))
    }

    fn schema(&self) -> Result<Option<Schema>, Error> {
        Ok(self.0.borrow_mut().schema()?.as_ref().map(Schema::from))
    }

    fn dictionary(&self, number: u8) -> Result<Vec<u8>, Error> {
        let mut store = self.0.borrow_mut();
        let count = store.reader().commit().dictionaries;
        if u32::from(number) >= count {
            let reason = format!("{number} is not below the number of dictionaries, {count}");
            return Err(invalid_argument("number", reason));
        }
        Ok(store.reader().dictionary(number)?)
    }

    fn locations(&self, indices: Vec<u64>) -> Result<Locations, Error> {
        let mut store = self.0.borrow_mut();
        let format = store.format();
        columns(&store.reader().locations(&indices)?, format)
    }

    fn lengths(&self, indices: Vec<u64>) -> Result<Vec<u32>, Error> {
        Ok(self.0.borrow_mut().lengths(&indices)?)
    }

    fn gather(&self, indices: Vec<u64>, max_bytes: u64) -> Result<RecordBatch, Error> {
        let batch = self.0.borrow_mut().gather(&indices, max_bytes)?;
        Ok(RecordBatch { bytes: batch.bytes, ends: batch.ends })
    }

    fn read_prefix(&self, index: u64, max_bytes: u64) -> Result<Vec<u8>, Error> {
        Ok(self.0.borrow_mut().read_prefix(index, max_bytes)?)
    }

    fn summarise(&self, first: u64, count: u64) -> Result<Summary, Error> {
        let range = first..first.saturating_add(count);
        Ok(self.0.borrow_mut().reader().summarise(range)?.into())
    }

    fn usage(&self) -> Result<Usage, Error> {
        let stats = self.0.borrow_mut().stats()?;
        Ok(Usage {
            chunks: stats.chunks,
            chunk_bytes: stats.chunk_bytes,
            reclaimable_bytes: stats.reclaimable,
        })
    }

    fn leftovers(&self) -> Result<Vec<String>, Error> {
        let names = self.0.borrow_mut().reader().leftovers()?;
        Ok(names.iter().map(ToString::to_string).collect())
    }

    fn entries_present(&self) -> Result<u64, Error> {
        Ok(self.0.borrow_mut().reader().entries_present()?)
    }

    fn verify(&self, first: u64, count: u64) -> Result<Vec<Fault>, Error> {
        let mut faults = FaultList::new(FAULTS_PER_CALL);
        let range = first..first.saturating_add(count);
        self.0.borrow_mut().report_records(range, &mut |fault| faults.push(fault))?;
        Ok(faults.into_faults().into_iter().map(Fault::from).collect())
    }

    fn verify_structure(&self) -> Result<Vec<Fault>, Error> {
        let mut faults = FaultList::new(FAULTS_PER_CALL);
        let mut store = self.0.borrow_mut();
        store.reader().report_structure(&mut |fault| faults.push(fault))?;
        Ok(faults.into_faults().into_iter().map(Fault::from).collect())
    }
}

fn info(store: &mut Sequential) -> Info {
    let reader = store.reader();
    let (identity, commit) = (reader.identity(), reader.commit());
    let (version, durable_length) = match identity.format() {
        CoreFormat::Classic => (u32::from(classic::VERSION), commit.length),
        CoreFormat::Extended => (extended::VERSION, commit.durable_length),
    };
    Info {
        format: identity.format().into(),
        version,
        id: identity.id().map(Vec::from),
        length: commit.length,
        durable_length,
        generation: commit.generation,
        stride: commit.stride,
        stored_bytes: commit.live_stored,
        plain_bytes: commit.live_len,
        dictionaries: commit.dictionaries,
    }
}

/// Locations as columns; those of the format, also of no records.
fn columns(locations: &[RecordLocation], format: CoreFormat) -> Result<Locations, Error> {
    Ok(Locations {
        chunks: column(locations, |location| location.chunk)?,
        offsets: column(locations, |location| u64::from(location.offset))?,
        stored_lens: column(locations, |location| location.stored_len)?,
        lens: column(locations, |location| location.len)?,
        codecs: column(locations, |location| location.codec.into())?,
        dictionaries: column(locations, |location| location.dictionary)?,
        checksums: match format {
            CoreFormat::Extended => {
                Some(column(locations, |location| location.checksum.unwrap_or(0))?)
            }
            CoreFormat::Classic => None,
        },
    })
}

fn column<T>(
    locations: &[RecordLocation],
    field: impl FnMut(&RecordLocation) -> T,
) -> Result<Vec<T>, Error> {
    let mut column = memory::with_room(locations.len()).map_err(no_memory)?;
    column.extend(locations.iter().map(field));
    Ok(column)
}

impl From<CoreSummary> for Summary {
    fn from(summary: CoreSummary) -> Self {
        Self {
            records: summary.records,
            stored_bytes: summary.stored_bytes,
            plain_bytes: summary.plain_bytes,
            codecs: summary.codecs.to_vec(),
            lens: summary.lens.to_vec(),
            ratios: summary.ratios.to_vec(),
        }
    }
}
