//! Saving what is intact of a damaged store into a new one of its format.
//!
//! An extended store proves its records by their checksums, whatever became
//! of its header. In a classic store only lengths and zstd frames tell, so a
//! damaged raw record is taken as it is.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::Path;

use zrecord_core::codec::Codec;
use zrecord_core::codec::libzstd::Libzstd;
use zrecord_core::codec::pack::PackedRecord;
use zrecord_core::format::{Format, RecordLocation, checksum};
use zrecord_core::reader::{Identity, Reader};
use zrecord_core::schema::Schema;
use zrecord_core::storage::FileName;
use zrecord_core::store::Store;
use zrecord_core::verify::{Fault, Scratch};
use zrecord_core::writer::{Progress, Segment, Writer};
use zrecord_core::{Error as CoreError, Result as CoreResult};

use crate::directory::FsDirectory;
use crate::error::{Error, Result};
use crate::gather::to_usize;
use crate::lock::Presence;
use crate::pool;
use crate::salvage::{Checkers, Salvaged, cut};
use crate::successor::{Successor, check_outside};
use crate::writing::draw_id;

/// About this many stored bytes are held at once, or so many records.
const BLOCK_BYTES: u64 = 32 << 20;
const BLOCK_RECORDS: u64 = 1 << 14;
/// How many records a thread saves at a time.
const RANGE_RECORDS: u64 = 256;

/// Neighbouring records that were lost for one reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loss {
    /// Their indices in the damaged store.
    pub records: Range<u64>,
    /// The file at fault.
    pub file: FileName,
    /// What is wrong.
    pub reason: String,
}

/// What became of a schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SchemaFate {
    /// The store is untyped.
    None,
    /// The new store has it.
    Kept,
    /// The new store is untyped.
    Lost,
}

/// What [`repair`] saved and what it could not.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RepairReport {
    /// The format of both stores.
    pub format: Format,
    /// How many records the damaged store counts.
    pub counted: u64,
    /// How many the new one has.
    pub saved: u64,
    /// The records that were lost, by ascending index. Those behind them got
    /// lower indices, without gaps and in their order.
    pub lost: Vec<Loss>,
    /// What became of the schema.
    pub schema: SchemaFate,
    /// The numbers of dictionaries that were kept, in the order of their new
    /// numbers.
    pub dictionaries: Vec<u8>,
    /// The numbers of those that were lost, and with them every record that
    /// needs one.
    pub lost_dictionaries: Vec<u8>,
    /// What is wrong with the damaged store besides its records.
    pub faults: Vec<Fault>,
}

impl RepairReport {
    /// True when nothing was lost.
    pub fn is_complete(&self) -> bool {
        self.saved == self.counted
            && self.schema != SchemaFate::Lost
            && self.lost_dictionaries.is_empty()
    }

    fn lose(&mut self, records: Range<u64>, file: FileName, reason: String) {
        match self.lost.last_mut() {
            Some(last)
                if last.records.end == records.start
                    && last.file == file
                    && last.reason == reason =>
            {
                last.records.end = records.end;
            }
            _ => self.lost.push(Loss { records, file, reason }),
        }
    }
}

/// Writes every intact record of the damaged store at `source` into a new
/// store of its format at `destination`, with its dictionaries and its schema
/// as far as they are intact. `source` is only read. Progress counts records.
///
/// # Errors
///
/// `AlreadyExists` when there is anything at `destination`, `InvalidArgument`
/// when that lies in `source`; `NotAStore` or `Corrupt` when nothing tells
/// which format the store has, `Io` with `NotFound` when it has no `meta.zr`,
/// which alone knows where records begin; IO errors of the destination.
/// Nothing is left behind then.
pub fn repair(
    source: impl AsRef<Path>,
    destination: impl AsRef<Path>,
    progress: &mut dyn FnMut(Progress),
) -> Result<RepairReport> {
    let (source, destination) = (source.as_ref(), destination.as_ref());
    if destination.symlink_metadata().is_ok() {
        return Err(Error::store(destination)(CoreError::AlreadyExists));
    }
    // Held for as long as it takes, so that nothing is deleted meanwhile.
    let presence = Presence::take(source).map_err(Error::store(source))?;
    let mut faults = Vec::new();
    let salvaged = Salvaged::open(source, presence, &mut |fault| faults.push(fault));
    let mut salvaged = salvaged.map_err(Error::store(source))?;
    check_outside(source, destination)?;
    let successor = Successor::begin(destination, false)?;
    let reader = salvaged.store.reader();
    let report = RepairReport {
        format: reader.format(),
        counted: salvaged.counted.max(reader.commit().length),
        saved: 0,
        lost: Vec::new(),
        schema: SchemaFate::None,
        dictionaries: Vec::new(),
        lost_dictionaries: Vec::new(),
        faults,
    };
    let paths = Paths { source, destination };
    let writer = paths.create(successor.path(), report.format)?;
    let room = chunk_bytes(source)?.saturating_mul(2);
    let report = Repair { paths, writer, report, schema: None, room }.run(salvaged, progress)?;
    successor.publish()?;
    Ok(report)
}

/// How many bytes the chunks of a store have. Entries that were damaged, or
/// made, to lie over each other could else fill any disk; those of a classic
/// store, which has no checksums, may lie over intact ones by accident, which
/// is why twice as many are saved.
fn chunk_bytes(path: &Path) -> Result<u64> {
    let mut bytes = 0_u64;
    for entry in path.read_dir().map_err(Error::io(path))? {
        let entry = entry.map_err(Error::io(path))?;
        let name = entry.file_name();
        if let Some(FileName::Chunk(_)) = name.to_str().and_then(FileName::parse) {
            let metadata = entry.metadata().map_err(Error::io(path))?;
            bytes = bytes.saturating_add(metadata.len());
        }
    }
    Ok(bytes)
}

/// Failures are told apart by the store that is to blame.
#[derive(Clone, Copy)]
struct Paths<'a> {
    source: &'a Path,
    destination: &'a Path,
}

impl Paths<'_> {
    fn reading<T>(&self, result: CoreResult<T>) -> Result<T> {
        result.map_err(Error::store(self.source))
    }

    fn writing<T>(&self, result: CoreResult<T>) -> Result<T> {
        result.map_err(Error::store(self.destination))
    }

    fn create(&self, path: &Path, format: Format) -> Result<Writer<FsDirectory>> {
        let identity = match format {
            Format::Classic => Identity::Classic,
            Format::Extended => Identity::Extended(self.writing(draw_id())?),
        };
        self.writing(Writer::create(FsDirectory::new(path), identity))
    }
}

/// A repair under way.
struct Repair<'a> {
    paths: Paths<'a>,
    writer: Writer<FsDirectory>,
    report: RepairReport,
    /// The schema that records must fit.
    schema: Option<Schema>,
    /// How many stored bytes may yet be saved.
    room: u64,
}

impl Repair<'_> {
    fn run(
        mut self,
        mut salvaged: Salvaged,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<RepairReport> {
        let reader = salvaged.store.reader();
        let faults = &mut self.report.faults;
        self.paths.reading(reader.report_structure(&mut |fault| {
            // Those of records are told by what is lost.
            if fault.index.is_none() {
                faults.push(fault);
            }
        }))?;
        self.keep_schema(reader)?;
        let dictionaries = self.keep_dictionaries(reader)?;
        let total = self.paths.reading(reader.entries_present())?;
        let checkers = Checkers::new(self.paths.reading(reader.duplicate())?);
        let threads = self.paths.reading(pool::thread_count(None))?;
        let mut done = 0;
        while done < total {
            progress(Progress { done, total });
            let block = block(salvaged.store.reader(), done..total);
            let ranges = cut(block.clone(), RANGE_RECORDS);
            let save = |store: &mut Store<_, _>, range| {
                Ok(Saved::read(store, range, self.schema.as_ref(), &dictionaries))
            };
            let saved = self.paths.reading(checkers.each(threads, &ranges, save))?;
            self.write(saved)?;
            done = block.end;
        }
        let counted = self.report.counted;
        if total < counted {
            let reason = "meta.zr has no whole entry of it, or it was never synced".into();
            self.report.lose(total..counted, FileName::Meta, reason);
        }
        self.paths.writing(self.writer.close())?;
        progress(Progress { done: total, total });
        Ok(self.report)
    }

    fn keep_schema(&mut self, reader: &Reader<FsDirectory>) -> Result<()> {
        self.schema = match reader.schema() {
            Ok(schema) => schema,
            Err(_) => {
                self.report.schema = SchemaFate::Lost;
                return Ok(());
            }
        };
        if let Some(schema) = &self.schema {
            self.paths.writing(self.writer.set_schema(schema))?;
            self.report.schema = SchemaFate::Kept;
        }
        Ok(())
    }

    /// Returns the new numbers by the old ones.
    fn keep_dictionaries(&mut self, reader: &Reader<FsDirectory>) -> Result<BTreeMap<u8, u8>> {
        let mut kept = BTreeMap::new();
        for number in 0..reader.commit().dictionaries {
            let number = u8::try_from(number).unwrap_or(u8::MAX);
            let Ok(bytes) = reader.salvage_dictionary(number) else {
                self.report.lost_dictionaries.push(number);
                continue;
            };
            let added = self.paths.writing(self.writer.add_dictionary(&bytes))?;
            self.report.dictionaries.push(number);
            kept.insert(number, added);
        }
        Ok(kept)
    }

    fn write(&mut self, mut saved: Vec<Saved>) -> Result<()> {
        for saved in &mut saved {
            self.room = saved.limit(self.room);
        }
        let segments: Vec<Segment<'_>> = saved
            .iter()
            .map(|saved| Segment { bytes: &saved.bytes, records: &saved.records })
            .collect();
        self.paths.writing(self.writer.append(&segments))?;
        for saved in saved {
            self.report.saved += saved.records.len() as u64;
            for (index, file, reason) in saved.lost {
                self.report.lose(index..index + 1, file, reason);
            }
        }
        Ok(())
    }
}

/// As many records of `rest` as are to be held at once; at least one.
fn block(reader: &Reader<FsDirectory>, rest: Range<u64>) -> Range<u64> {
    let mut bytes = 0_u64;
    let mut end = rest.start;
    for index in rest.start..rest.end.min(rest.start + BLOCK_RECORDS) {
        // An entry that cannot be read has no bytes to hold.
        let stored = reader.locations(&[index]).ok();
        let stored = stored.map_or(0, |locations| u64::from(locations[0].stored_len));
        bytes = bytes.saturating_add(stored);
        if bytes > BLOCK_BYTES && end > rest.start {
            break;
        }
        end = index + 1;
    }
    rest.start..end
}

/// The intact records of a range, and the others.
struct Saved {
    range: Range<u64>,
    bytes: Vec<u8>,
    records: Vec<PackedRecord>,
    lost: Vec<(u64, FileName, String)>,
}

impl Saved {
    fn read(
        store: &mut Store<FsDirectory, Libzstd>,
        range: Range<u64>,
        schema: Option<&Schema>,
        dictionaries: &BTreeMap<u8, u8>,
    ) -> Self {
        let (bytes, records, lost) = (Vec::new(), Vec::new(), Vec::new());
        let mut saved = Self { range: range.clone(), bytes, records, lost };
        for &number in dictionaries.keys() {
            // One that no longer can be read is told with each record.
            let _ = store.salvage_dictionary(number);
        }
        let mut scratch = Scratch::default();
        for index in range {
            match Self::check(store, index, schema, dictionaries, &mut scratch) {
                Ok(location) => saved.push(&location, scratch.stored(), dictionaries),
                Err(error) => {
                    let (file, reason) = cause(error);
                    saved.lost.push((index, file, reason));
                }
            }
        }
        saved
    }

    /// A record whose dictionary is lost is told from its entry alone, or the
    /// same file would be read again for each of them.
    fn check(
        store: &mut Store<FsDirectory, Libzstd>,
        index: u64,
        schema: Option<&Schema>,
        dictionaries: &BTreeMap<u8, u8>,
        scratch: &mut Scratch,
    ) -> CoreResult<RecordLocation> {
        let location = store.reader().locations(&[index])?[0];
        let number = location.dictionary;
        if location.codec == Codec::ZstdDict && !dictionaries.contains_key(&number) {
            let reason = "it is lost, and with it what was compressed by it";
            let file = FileName::Dictionary(number);
            return Err(CoreError::Corrupt { file, reason: reason.into() });
        }
        store.check_record(index, schema, scratch)
    }

    /// Loses what is behind the first `room` bytes; returns how many are left.
    fn limit(&mut self, mut room: u64) -> u64 {
        let fitting = self.records.iter().take_while(|record| {
            let left = room.checked_sub(record.stored_len.into());
            room = left.unwrap_or(room);
            left.is_some()
        });
        let fitting = fitting.count();
        if fitting == self.records.len() {
            return room;
        }
        let lost: BTreeSet<u64> = self.lost.iter().map(|(index, ..)| *index).collect();
        let saved = self.range.clone().filter(|index| !lost.contains(index));
        let reason = "those before it have twice the bytes of all chunks: they overlap";
        let behind = saved.skip(fitting).map(|index| (index, FileName::Meta, reason.into()));
        self.lost.extend(behind.collect::<Vec<_>>());
        self.lost.sort_unstable_by_key(|(index, ..)| *index);
        let stored = |record: &PackedRecord| to_usize(record.stored_len.into());
        self.records.truncate(fitting);
        self.bytes.truncate(self.records.iter().map(stored).sum());
        // Whatever comes later would come out of its order.
        0
    }

    fn push(&mut self, location: &RecordLocation, stored: &[u8], dictionaries: &BTreeMap<u8, u8>) {
        let dictionary = match location.codec {
            Codec::ZstdDict => dictionaries.get(&location.dictionary).copied().unwrap_or(0),
            Codec::Raw | Codec::Zstd => 0,
        };
        self.bytes.extend_from_slice(stored);
        self.records.push(PackedRecord {
            stored_len: location.stored_len,
            len: location.len,
            codec: location.codec,
            dictionary,
            checksum: checksum(stored, location.len, location.codec, dictionary),
        });
    }
}

/// Why a record is lost, in words that neighbours share.
fn cause(error: CoreError) -> (FileName, String) {
    match error {
        CoreError::Checksum { file, .. } => (file, "the checksum does not match".into()),
        CoreError::CorruptRecord { file, reason, .. } | CoreError::Corrupt { file, reason } => {
            (file, reason)
        }
        CoreError::Io { file, source } => (file, source.to_string()),
        other => (FileName::Meta, other.to_string()),
    }
}
