//! The interface `store-edit`.

use std::cell::RefCell;

use zrecord_core::codec::Codec;
use zrecord_core::codec::pack::PackPolicy;
use zrecord_core::convert::{Conversion as CoreConversion, Failure, Survey};
use zrecord_core::reader::Identity;
use zrecord_core::store::Store as CoreStore;

use crate::Component;
use crate::bindings::exports::zrecord::store::store::{
    Error, Format, Schema, Store as StoreHandle, StoreBorrow,
};
use crate::bindings::exports::zrecord::store::store_edit::{
    Compaction, Conversion as ConversionHandle, Guest, GuestConversion, Packing, Progress,
};
use crate::bindings::zrecord::store::files;
use crate::error::invalid_argument;
use crate::files::Directory;
use crate::schema::schema;
use crate::store::{Sequential, Store};

impl Guest for Component {
    type Conversion = Conversion;

    fn open(directory: files::Directory) -> Result<StoreHandle, Error> {
        let (store, _) = CoreStore::open_writer(Directory(directory))?;
        Ok(Store::export(store))
    }

    fn create(
        directory: files::Directory,
        format: Format,
        id: Vec<u8>,
    ) -> Result<StoreHandle, Error> {
        let identity = identity(format, &id)?;
        Ok(Store::export(CoreStore::create(Directory(directory), identity)?))
    }

    fn set_schema(store: StoreBorrow<'_>, new: Schema) -> Result<(), Error> {
        let schema = schema(new)?;
        with(&store, |store| Ok(store.writer()?.set_schema(&schema)?))
    }

    fn add_dictionary(store: StoreBorrow<'_>, dictionary: Vec<u8>) -> Result<u8, Error> {
        with(&store, |store| Ok(store.add_dictionary(&dictionary)?))
    }

    fn append(
        store: StoreBorrow<'_>,
        bytes: Vec<u8>,
        ends: Vec<u64>,
        packing: Packing,
    ) -> Result<u64, Error> {
        let records = records(&bytes, &ends)?;
        with(&store, |store| {
            let policy = PackPolicy::new(packing.codec.into(), store.format());
            let min_saving = packing.min_saving.unwrap_or(policy.min_saving);
            let policy = PackPolicy { level: packing.level, min_saving, ..policy };
            if policy.codec == Codec::ZstdDict {
                let what = "encoding with a dictionary inside the sandbox: use the native host";
                return Err(Error::Unsupported(what.into()));
            }
            Ok(store.append(&records, policy)?)
        })
    }

    fn sync(store: StoreBorrow<'_>) -> Result<(), Error> {
        with(&store, |store| Ok(store.sync()?))
    }

    fn delete(store: StoreBorrow<'_>, indices: Vec<u64>) -> Result<(), Error> {
        with(&store, |store| Ok(store.delete(&indices)?))
    }

    fn compact(store: StoreBorrow<'_>) -> Result<Compaction, Error> {
        let done = with(&store, |store| Ok(store.compact(&mut |_| {})?))?;
        Ok(Compaction {
            moved_records: done.moved_records,
            moved_bytes: done.moved_bytes,
            reclaimed_bytes: done.reclaimed_bytes,
        })
    }

    fn close(store: StoreBorrow<'_>) -> Result<(), Error> {
        with(&store, |store| Ok(store.end_writing()?))
    }
}

fn with<T>(
    store: &StoreBorrow<'_>,
    work: impl FnOnce(&mut Sequential) -> Result<T, Error>,
) -> Result<T, Error> {
    work(&mut store.get::<Store>().0.borrow_mut())
}

/// What a new store is to be.
fn identity(format: Format, id: &[u8]) -> Result<Identity, Error> {
    match (format, id.try_into(), id.len()) {
        (Format::Extended, Ok(id), _) => Ok(Identity::Extended(id)),
        (Format::Extended, Err(_), len) => {
            Err(invalid_argument("id", format!("{len} bytes; an extended store has 16")))
        }
        (Format::Classic, _, 0) => Ok(Identity::Classic),
        (Format::Classic, _, len) => {
            Err(invalid_argument("id", format!("{len} bytes; a classic store has none")))
        }
    }
}

/// Cuts `bytes` into records.
fn records<'a>(bytes: &'a [u8], ends: &[u64]) -> Result<Vec<&'a [u8]>, Error> {
    let mut start = 0;
    let mut records = Vec::with_capacity(ends.len());
    for (position, &end) in ends.iter().enumerate() {
        let record = usize::try_from(end).ok().and_then(|end| bytes.get(start..end));
        let Some(record) = record else {
            let reason =
                format!("record {position} is to lie at {start}..{end} of {} bytes", bytes.len());
            return Err(invalid_argument("ends", reason));
        };
        start += record.len();
        records.push(record);
    }
    match bytes.len() - start {
        0 => Ok(records),
        rest => Err(invalid_argument("ends", format!("{rest} bytes lie behind the last record"))),
    }
}

/// A conversion under way.
pub(crate) struct Conversion(RefCell<CoreConversion<Directory, Directory>>);

impl GuestConversion for Conversion {
    fn begin(
        source: StoreHandle,
        destination: files::Directory,
        format: Format,
        id: Vec<u8>,
    ) -> Result<ConversionHandle, Error> {
        let identity = identity(format, &id)?;
        let reader = source.into_inner::<Store>().0.into_inner().into_reader();
        let survey = Survey::new(&reader, identity.format())?;
        let conversion = CoreConversion::begin(reader, survey, Directory(destination), identity)
            .map_err(Failure::into_error)?;
        Ok(ConversionHandle::new(Self(RefCell::new(conversion))))
    }

    fn step(&self, max_bytes: u64) -> Result<Progress, Error> {
        let step = self.0.borrow_mut().step(max_bytes);
        let records = step.map_err(Failure::into_error)?.records;
        Ok(Progress { done: records.done, total: records.total })
    }
}
