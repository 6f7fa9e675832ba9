//! What can be read of a store, by each of the two readers.

use std::path::{Path, PathBuf};

use tempfile::TempDir;
use zrecord_core::codec::Zstd;
use zrecord_core::codec::libzstd::Libzstd;
use zrecord_core::reader::Reader;
use zrecord_core::storage::FileName;
use zrecord_core::storage::memory::MemoryDirectory;
use zrecord_core::store::Store;
use zrecord_core::usage::Stats;
use zrecord_host::{Io, OpenOptions, Verify};

/// Longer records are not gathered, in bytes.
pub const RECORD_MAX: u32 = 1 << 20;
/// How many records from the first one on are looked at.
const RECORDS_SEEN: u64 = 40;
/// Stores with more records are not scanned whole.
pub const RECORDS_SCANNED: u64 = 1 << 12;

/// What a reader says of a store; `None` where it gave an error.
#[derive(Clone, Debug, PartialEq)]
pub struct Observation {
    /// How many records there are.
    pub length: u64,
    /// Lengths and bytes of the records looked at, by index.
    pub records: Vec<(u64, Option<u32>, Option<Vec<u8>>)>,
    /// The schema, as text.
    pub schema: Option<String>,
    /// What takes a look at all of it, where one was taken.
    pub whole: Option<Whole>,
}

/// What is said of a store as a whole; `None` where that was an error.
#[derive(Clone, Debug, PartialEq)]
pub struct Whole {
    /// The counts.
    pub stats: Option<Stats>,
    /// How many faults verifying found.
    pub faults: Option<usize>,
    /// What cut operations left.
    pub leftovers: Option<Vec<FileName>>,
}

impl Observation {
    /// The bytes of the records that could be read; `None` for the others.
    pub fn bytes(&self) -> impl Iterator<Item = (u64, Option<&[u8]>)> {
        self.records.iter().map(|(index, _, bytes)| (*index, bytes.as_deref()))
    }
}

/// The records that are looked at.
pub fn seen(length: u64) -> impl Iterator<Item = u64> {
    let last = length.checked_sub(1).filter(|last| *last >= RECORDS_SEEN);
    (0..length.min(RECORDS_SEEN)).chain(last)
}

/// What the sequential core says; `None` when it does not open the store.
pub fn core<Z: Zstd>(directory: &MemoryDirectory) -> Option<Observation> {
    let mut store = Store::<_, Z>::open(directory.clone(), true).ok()?;
    let length = store.len();
    assert!(store.gather(&[length], 1 << 20).is_err(), "a record past the end");
    let mut record = |index| {
        let len = store.lengths(&[index]).ok().map(|lengths| lengths[0]);
        let bytes = len.filter(|len| *len <= RECORD_MAX).and_then(|len| {
            let batch = store.gather(&[index], u64::from(RECORD_MAX)).ok()?;
            assert_eq!(batch.bytes.len(), len as usize);
            Some(batch.bytes)
        });
        (index, len, bytes)
    };
    let records: Vec<_> = seen(length).map(&mut record).collect();
    let schema = store.schema().ok().map(|schema| format!("{schema:?}"));
    let whole = (length <= RECORDS_SCANNED).then(|| {
        let reader = store.reader();
        let (stats, leftovers) = (reader.stats().ok(), reader.leftovers().ok());
        let structure = reader.verify_structure().ok().map(|faults| faults.len());
        let records = store.verify_records(0..u64::MAX).ok().map(|faults| faults.len());
        let faults = structure.and_then(|structure| Some(structure + records?));
        Whole { stats, faults, leftovers }
    });
    Some(Observation { length, records, schema, whole })
}

/// Every record of a store, read by the core; `None` for those that cannot be
/// read, and altogether when the store cannot be opened.
pub fn core_records(directory: &MemoryDirectory) -> Option<Vec<Option<Vec<u8>>>> {
    let mut store = Store::<_, Libzstd>::open(directory.clone(), true).ok()?;
    let length = store.len();
    let mut record = |index| Some(store.gather(&[index], u64::from(RECORD_MAX)).ok()?.bytes);
    Some((0..length).map(&mut record).collect())
}

/// What the host says, of the store as a `whole` too; `None` when it does not
/// open the store.
pub fn host(path: &Path, io: Io, verify: Verify, whole: bool) -> Option<Observation> {
    let options = OpenOptions::new().io(io).verify(verify).threads(1);
    let store = options.open(path).ok()?;
    let length = store.len().ok()?;
    assert!(store.gather(&[length], &mut [], &[0]).is_err(), "a record past the end");
    let record = |index| {
        let len = store.lengths(&[index]).ok().map(|lengths| lengths[0]);
        let bytes = len.filter(|len| *len <= RECORD_MAX).and_then(|len| {
            let mut bytes = vec![0; len as usize];
            let gathered = store.gather(&[index], &mut bytes, &[0]);
            // Once more: what was seen to be intact takes another way.
            let mut again = vec![0; len as usize];
            let packed = store.gather_packed(&[index], &mut again, u64::from(len));
            assert_eq!(gathered.is_ok(), packed.is_ok(), "record {index} at a second look");
            gathered.ok()?;
            assert_eq!(bytes, again, "record {index} at a second look");
            Some(bytes)
        });
        (index, len, bytes)
    };
    let records: Vec<_> = seen(length).map(record).collect();
    let schema = store.read_schema().ok().map(|schema| format!("{:?}", schema.as_deref()));
    let whole = (whole && length <= RECORDS_SCANNED).then(|| {
        drop(store.inspect());
        let (stats, leftovers) = (store.stats().ok(), store.leftovers().ok());
        let faults = store.verify(&mut |_| {}).ok().map(|faults| faults.len());
        Whole { stats, faults, leftovers }
    });
    Some(Observation { length, records, schema, whole })
}

/// Whether the header promises a stride that the table does not keep: then
/// the host, which rests on it, may refuse what the core finds in the table.
pub fn stride_lies(directory: &MemoryDirectory) -> bool {
    let access = zrecord_core::storage::Access::Read;
    let Ok(mut reader) = Reader::open(directory.clone(), access) else { return false };
    if reader.recover().is_err() || reader.commit().stride == 0 {
        return false;
    }
    let (stride, length) = (reader.commit().stride, reader.commit().length);
    let mut first = None;
    let kept = reader.scan(0..length, |index, location| {
        let first = *first.get_or_insert(location.chunk);
        match location.is_strided(first, stride, index) {
            true => Ok(()),
            false => Err(location.corrupt(index, "not where the stride says")),
        }
    });
    kept.is_err()
}

/// A folder for the files of a store, in memory where the system has such.
pub fn folder() -> (TempDir, PathBuf) {
    let shared = Path::new("/dev/shm");
    let made = match shared.is_dir() {
        true => tempfile::tempdir_in(shared),
        false => tempfile::tempdir(),
    };
    let folder = made.unwrap();
    let path = folder.path().join("store");
    std::fs::create_dir(&path).unwrap();
    (folder, path)
}
