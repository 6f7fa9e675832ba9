//! The contract of a store as one trait, function by function: what the
//! component exports, and what the core, asked natively, must answer.

use super::bindings::codec::Error as CodecError;
use super::bindings::sampler::{Error as SamplerError, Options};
use super::bindings::store::{
    Compression, Error, Fault, Format, Info, Locations, RecordBatch, Schema, Summary, Usage,
};
use super::bindings::store_edit::{Compaction, Packing, Progress};

/// What an operation on a store comes to.
pub type Answer<T> = Result<T, Error>;

/// An implementation of the interfaces `store` and `store-edit`, over a
/// directory of its own. Names are those of the contract. It holds one open
/// store at a time: opening another drops the one before, as a process does
/// that is killed.
pub trait Contract {
    /// What it is called, for messages.
    fn name(&self) -> &'static str;

    /// `store.open`.
    fn open(&mut self, recover: bool) -> Answer<()>;
    /// `store.salvage`.
    fn salvage(&mut self, recover: bool) -> Answer<()>;
    /// `store-edit.open`.
    fn open_to_edit(&mut self) -> Answer<()>;
    /// `store-edit.create`.
    fn create(&mut self, format: Format, id: &[u8]) -> Answer<()>;
    /// Drops the open store.
    fn drop_store(&mut self);

    /// `store.info`.
    fn info(&mut self) -> Info;
    /// `store.refresh`.
    fn refresh(&mut self) -> Answer<Info>;
    /// `store.schema`.
    fn schema(&mut self) -> Answer<Option<Schema>>;
    /// `store.dictionary`.
    fn dictionary(&mut self, number: u8) -> Answer<Vec<u8>>;
    /// `store.locations`.
    fn locations(&mut self, indices: &[u64]) -> Answer<Locations>;
    /// `store.lengths`.
    fn lengths(&mut self, indices: &[u64]) -> Answer<Vec<u32>>;
    /// `store.gather`.
    fn gather(&mut self, indices: &[u64], max_bytes: u64) -> Answer<RecordBatch>;
    /// `store.read-prefix`.
    fn read_prefix(&mut self, index: u64, max_bytes: u64) -> Answer<Vec<u8>>;
    /// `store.summarise`.
    fn summarise(&mut self, first: u64, count: u64) -> Answer<Summary>;
    /// `store.usage`.
    fn usage(&mut self) -> Answer<Usage>;
    /// `store.leftovers`.
    fn leftovers(&mut self) -> Answer<Vec<String>>;
    /// `store.entries-present`.
    fn entries_present(&mut self) -> Answer<u64>;
    /// `store.verify`.
    fn verify(&mut self, first: u64, count: u64) -> Answer<Vec<Fault>>;
    /// `store.verify-structure`.
    fn verify_structure(&mut self) -> Answer<Vec<Fault>>;

    /// `store-edit.set-schema`.
    fn set_schema(&mut self, schema: &Schema) -> Answer<()>;
    /// `store-edit.add-dictionary`.
    fn add_dictionary(&mut self, dictionary: &[u8]) -> Answer<u8>;
    /// `store-edit.append`.
    fn append(&mut self, bytes: &[u8], ends: &[u64], packing: Packing) -> Answer<u64>;
    /// `store-edit.sync`.
    fn sync(&mut self) -> Answer<()>;
    /// `store-edit.delete`.
    fn delete(&mut self, indices: &[u64]) -> Answer<()>;
    /// `store-edit.compact`.
    fn compact(&mut self) -> Answer<Compaction>;
    /// `store-edit.close`.
    fn close(&mut self) -> Answer<()>;

    /// `conversion.begin`, from the open store, which it takes, into an empty
    /// second directory.
    fn begin_conversion(&mut self, format: Format, id: &[u8]) -> Answer<()>;
    /// `conversion.step`.
    fn step_conversion(&mut self, max_bytes: u64) -> Answer<Progress>;
    /// Goes on with the store that a conversion made, which is not open.
    fn take_converted(&mut self);
}

/// An implementation of the interfaces `codec` and `sampler`.
pub trait Functions {
    /// `codec.unpack`.
    fn unpack(
        &mut self,
        codec: Compression,
        dictionary: Option<&[u8]>,
        bytes: &[u8],
        len: u32,
    ) -> Result<Vec<u8>, CodecError>;
    /// `codec.pack`.
    fn pack(
        &mut self,
        codec: Compression,
        bytes: &[u8],
    ) -> Result<(Compression, Vec<u8>), CodecError>;
    /// `codec.checksum`.
    fn checksum(&mut self, stored: &[u8], len: u32, codec: Compression, dictionary: u8) -> u32;
    /// `sampler.create`: the sampler that the next calls ask.
    fn create_sampler(&mut self, options: Options) -> Result<(), SamplerError>;
    /// `sampler.batches`.
    fn batches(&mut self, first_step: u64, count: u64) -> Result<Vec<u64>, SamplerError>;
    /// `sampler.batches-per-cycle`.
    fn batches_per_cycle(&mut self) -> Option<u64>;
}

/// Every record of the open store, in its order; one call's worth at a time.
///
/// # Errors
///
/// As [`Contract::gather`].
pub fn records(store: &mut dyn Contract) -> Answer<Vec<Vec<u8>>> {
    let indices: Vec<u64> = (0..store.info().length).collect();
    let mut records = Vec::new();
    while records.len() < indices.len() {
        let batch = store.gather(&indices[records.len()..], 1 << 20)?;
        records.extend(cut(&batch));
    }
    Ok(records)
}

/// The records of a batch.
pub fn cut(batch: &RecordBatch) -> Vec<Vec<u8>> {
    let ends = batch.ends.iter().map(|end| *end as usize);
    let starts = std::iter::once(0).chain(ends.clone());
    starts.zip(ends).map(|(start, end)| batch.bytes[start..end].to_vec()).collect()
}
