//! The core as an implementation of the contract, natively: the side that is
//! believed. Its codec is the component's, so that stored bytes are the same.

use std::rc::Rc;

use zrecord_core::Error as CoreError;
use zrecord_core::codec::pack::PackPolicy;
use zrecord_core::codec::pure::Ruzstd;
use zrecord_core::convert::{Conversion, Failure, Survey};
use zrecord_core::dtype::{Dtype, DtypeError};
use zrecord_core::format::Format as CoreFormat;
use zrecord_core::reader::Identity;
use zrecord_core::schema::{Kind as CoreKind, Schema as CoreSchema, decode_metadata};
use zrecord_core::storage::Directory;
use zrecord_core::store::Store;
use zrecord_core::verify::FaultList;

use super::bindings::store::{
    Error, Fault, Format, Info, Kind, Locations, RecordBatch, Schema, Summary, Usage,
};
use super::bindings::store_edit::{Compaction, Packing, Progress};
use super::contract::{Answer, Contract};
use super::words;

/// The sequential store over a directory.
pub struct Core<D: Directory> {
    directory: D,
    /// Makes the directory that a conversion fills.
    empty: Rc<dyn Fn() -> D>,
    store: Option<Store<D, Ruzstd>>,
    conversion: Option<Conversion<D, D>>,
    converted: Option<D>,
}

impl<D: Directory + Clone> Core<D> {
    /// Over a directory; conversions go into what `empty` makes.
    pub fn new(directory: D, empty: Rc<dyn Fn() -> D>) -> Self {
        Self { directory, empty, store: None, conversion: None, converted: None }
    }

    /// The directory.
    pub fn directory(&self) -> &D {
        &self.directory
    }

    /// The open store.
    pub fn store(&mut self) -> &mut Store<D, Ruzstd> {
        self.store.as_mut().expect("no store is open")
    }

    /// Whether a store is open.
    pub fn is_open(&self) -> bool {
        self.store.is_some()
    }

    fn opened(&mut self, store: zrecord_core::Result<Store<D, Ruzstd>>) -> Answer<()> {
        self.store = Some(store.map_err(words::error)?);
        Ok(())
    }
}

/// What a new store is to be.
pub fn identity(format: Format, id: &[u8]) -> Answer<Identity> {
    let found = id.len();
    match (format, id.try_into(), found) {
        (Format::Extended, Ok(id), _) => Ok(Identity::Extended(id)),
        (Format::Classic, _, 0) => Ok(Identity::Classic),
        (Format::Extended, ..) => {
            let reason = format!("{found} bytes; an extended store has 16");
            Err(words::invalid_argument("id", reason))
        }
        (Format::Classic, ..) => {
            let reason = format!("{found} bytes; a classic store has none");
            Err(words::invalid_argument("id", reason))
        }
    }
}

/// A schema of the contract's.
pub fn core_schema(schema: &Schema) -> Answer<CoreSchema> {
    let kind = match schema.kind {
        Kind::Dense => CoreKind::Dense,
        Kind::Ragged => CoreKind::Ragged,
    };
    let dtype = Dtype::parse(&schema.dtype).map_err(|error| match error {
        DtypeError::Unsupported(what) => Error::Unsupported(what),
        error => words::invalid_argument("dtype", error.to_string()),
    })?;
    let metadata = decode_metadata(&schema.metadata).map_err(words::error)?;
    let codec = words::codec(schema.codec);
    CoreSchema::new(kind, dtype, schema.item_shape.clone(), codec, metadata).map_err(words::error)
}

/// The records that lie in `bytes` and end at `ends`.
fn slices<'a>(bytes: &'a [u8], ends: &[u64]) -> Answer<Vec<&'a [u8]>> {
    let mut slices = Vec::new();
    let (mut start, size) = (0, bytes.len() as u64);
    for (position, &end) in ends.iter().enumerate() {
        if end < start || end > size {
            let reason = format!("record {position} is to lie at {start}..{end} of {size} bytes");
            return Err(words::invalid_argument("ends", reason));
        }
        slices.push(&bytes[start as usize..end as usize]);
        start = end;
    }
    if start < size {
        let reason = format!("{} bytes lie behind the last record", size - start);
        return Err(words::invalid_argument("ends", reason));
    }
    Ok(slices)
}

/// How the core is to pack.
pub fn policy(packing: Packing, format: CoreFormat) -> PackPolicy {
    let policy = PackPolicy::new(words::codec(packing.codec), format);
    let min_saving = packing.min_saving.unwrap_or(policy.min_saving);
    PackPolicy { level: packing.level, min_saving, ..policy }
}

/// How many faults one call returns, as the contract says.
pub const FAULTS_PER_CALL: usize = 4096;

/// As many faults as one call returns.
fn listed(
    report: impl FnOnce(&mut dyn FnMut(zrecord_core::verify::Fault)) -> zrecord_core::Result<()>,
) -> Answer<Vec<Fault>> {
    let mut faults = FaultList::new(FAULTS_PER_CALL);
    report(&mut |fault| faults.push(fault)).map_err(words::error)?;
    Ok(faults.into_faults().into_iter().map(words::fault).collect())
}

impl<D: Directory + Clone> Contract for Core<D> {
    fn name(&self) -> &'static str {
        "core"
    }

    fn open(&mut self, recover: bool) -> Answer<()> {
        self.opened(Store::open(self.directory.clone(), recover))
    }

    fn salvage(&mut self, recover: bool) -> Answer<()> {
        self.opened(Store::salvage(self.directory.clone(), recover))
    }

    fn open_to_edit(&mut self) -> Answer<()> {
        self.opened(Store::open_writer(self.directory.clone()).map(|(store, _)| store))
    }

    fn create(&mut self, format: Format, id: &[u8]) -> Answer<()> {
        self.opened(Store::create(self.directory.clone(), identity(format, id)?))
    }

    fn drop_store(&mut self) {
        self.store = None;
    }

    fn info(&mut self) -> Info {
        words::info(self.store().reader())
    }

    fn refresh(&mut self) -> Answer<Info> {
        self.store().reader().refresh().map_err(words::error)?;
        Ok(self.info())
    }

    fn schema(&mut self) -> Answer<Option<Schema>> {
        Ok(self.store().schema().map_err(words::error)?.as_ref().map(words::schema))
    }

    fn dictionary(&mut self, number: u8) -> Answer<Vec<u8>> {
        let count = self.info().dictionaries;
        if u32::from(number) >= count {
            let reason = format!("{number} is not below the number of dictionaries, {count}");
            return Err(words::invalid_argument("number", reason));
        }
        self.store().reader().dictionary(number).map_err(words::error)
    }

    fn locations(&mut self, indices: &[u64]) -> Answer<Locations> {
        let format = self.store().format();
        let rows = self.store().reader().locations(indices).map_err(words::error)?;
        Ok(words::locations(&rows, format))
    }

    fn lengths(&mut self, indices: &[u64]) -> Answer<Vec<u32>> {
        self.store().lengths(indices).map_err(words::error)
    }

    fn gather(&mut self, indices: &[u64], max_bytes: u64) -> Answer<RecordBatch> {
        let batch = self.store().gather(indices, max_bytes).map_err(words::error)?;
        Ok(RecordBatch { bytes: batch.bytes, ends: batch.ends })
    }

    fn read_prefix(&mut self, index: u64, max_bytes: u64) -> Answer<Vec<u8>> {
        self.store().read_prefix(index, max_bytes).map_err(words::error)
    }

    fn summarise(&mut self, first: u64, count: u64) -> Answer<Summary> {
        let range = first..first.saturating_add(count);
        let sum = self.store().reader().summarise(range).map_err(words::error)?;
        Ok(words::summary(&sum))
    }

    fn usage(&mut self) -> Answer<Usage> {
        Ok(words::usage(&self.store().stats().map_err(words::error)?))
    }

    fn leftovers(&mut self) -> Answer<Vec<String>> {
        let names = self.store().reader().leftovers().map_err(words::error)?;
        Ok(names.iter().map(ToString::to_string).collect())
    }

    fn entries_present(&mut self) -> Answer<u64> {
        self.store().reader().entries_present().map_err(words::error)
    }

    fn verify(&mut self, first: u64, count: u64) -> Answer<Vec<Fault>> {
        let range = first..first.saturating_add(count);
        listed(|report| self.store().report_records(range, report))
    }

    fn verify_structure(&mut self) -> Answer<Vec<Fault>> {
        listed(|report| self.store().reader().report_structure(report))
    }

    fn set_schema(&mut self, schema: &Schema) -> Answer<()> {
        let schema = core_schema(schema)?;
        self.store().writer().and_then(|writer| writer.set_schema(&schema)).map_err(words::error)
    }

    fn add_dictionary(&mut self, dictionary: &[u8]) -> Answer<u8> {
        self.store().add_dictionary(dictionary).map_err(words::error)
    }

    fn append(&mut self, bytes: &[u8], ends: &[u64], packing: Packing) -> Answer<u64> {
        let records = slices(bytes, ends)?;
        let policy = policy(packing, self.store().format());
        if policy.codec == zrecord_core::codec::Codec::ZstdDict {
            let what = "encoding with a dictionary inside the sandbox: use the native host";
            return Err(Error::Unsupported(what.into()));
        }
        self.store().append(&records, policy).map_err(words::error)
    }

    fn sync(&mut self) -> Answer<()> {
        self.store().sync().map_err(words::error)
    }

    fn delete(&mut self, indices: &[u64]) -> Answer<()> {
        self.store().delete(indices).map_err(words::error)
    }

    fn compact(&mut self) -> Answer<Compaction> {
        let done = self.store().compact(&mut |_| {}).map_err(words::error)?;
        Ok(Compaction {
            moved_records: done.moved_records,
            moved_bytes: done.moved_bytes,
            reclaimed_bytes: done.reclaimed_bytes,
        })
    }

    fn close(&mut self) -> Answer<()> {
        self.store().end_writing().map_err(words::error)
    }

    fn begin_conversion(&mut self, format: Format, id: &[u8]) -> Answer<()> {
        let source = self.store.take().expect("no store is open").into_reader();
        let identity = identity(format, id)?;
        let destination = (self.empty)();
        let survey = Survey::new(&source, identity.format()).map_err(words::error)?;
        let begun = Conversion::begin(source, survey, destination.clone(), identity);
        self.conversion = Some(begun.map_err(failure)?);
        self.converted = Some(destination);
        Ok(())
    }

    fn step_conversion(&mut self, max_bytes: u64) -> Answer<Progress> {
        let conversion = self.conversion.as_mut().expect("no conversion has begun");
        let records = conversion.step(max_bytes).map_err(failure)?.records;
        Ok(Progress { done: records.done, total: records.total })
    }

    fn take_converted(&mut self) {
        (self.store, self.conversion) = (None, None);
        self.directory = self.converted.take().expect("nothing was converted");
    }
}

fn failure(failure: Failure) -> Error {
    let error: CoreError = failure.into_error();
    words::error(error)
}
