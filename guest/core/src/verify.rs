//! Finding everything that is wrong with a store, each fault with its place.

use std::collections::BTreeSet;
use std::fmt;
use std::ops::Range;

use crate::codec::{Codec, Zstd};
use crate::error::{Error, Result};
use crate::format::{CHUNK_SIZE_MAX, Commit, Format, RecordLocation, classic, extended};
use crate::memory;
use crate::overlap::Places;
use crate::reader::{Identity, Reader, blocks, to_usize};
use crate::salvage::read_header;
use crate::schema::Schema;
use crate::storage::{Directory, FileName};
use crate::store::Store;

/// Something that is wrong with a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The file at fault.
    pub file: FileName,
    /// Where in it, in bytes, if the fault has one place.
    pub offset: Option<u64>,
    /// The record that suffers, if it is one.
    pub index: Option<u64>,
    /// What was found and what was expected.
    pub reason: String,
}

impl Fault {
    fn of_file(file: FileName, reason: impl Into<String>) -> Self {
        Self { file, offset: None, index: None, reason: reason.into() }
    }

    /// The fault that an error reports: a corruption, or a file of the store
    /// that cannot be read; other errors are handed back.
    ///
    /// # Errors
    ///
    /// The error, when it is none of the store's.
    pub fn from_error(error: Error) -> Result<Self> {
        Ok(match error {
            Error::Corrupt { file, reason } => Self::of_file(file, reason),
            Error::CorruptRecord { index, file, offset, reason } => {
                Self { file, offset: Some(offset), index: Some(index), reason }
            }
            Error::Checksum { index, file, offset, expected, found } => Self {
                file,
                offset: Some(offset),
                index: Some(index),
                reason: format!("checksum {found:08x}, expected {expected:08x}"),
            },
            // What the system does not read is lost to whoever wants it.
            Error::Io { file, source } => Self::of_file(file, source.to_string()),
            other => return Err(other),
        })
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.file)?;
        if let Some(offset) = self.offset {
            write!(f, " at {offset}")?;
        }
        if let Some(index) = self.index {
            write!(f, ", record {index}")?;
        }
        write!(f, ": {}", self.reason)
    }
}

impl<D: Directory> Reader<D> {
    /// Checks what is not a record: header, commit slots, sizes, schema,
    /// dictionaries, and that no two records share bytes. Reads the whole
    /// record table, no chunk.
    ///
    /// # Errors
    ///
    /// IO errors of `meta.zr`; faults are not errors.
    pub fn verify_structure(&mut self) -> Result<Vec<Fault>> {
        let mut faults = Vec::new();
        self.report_structure(&mut |fault| faults.push(fault))?;
        Ok(faults)
    }

    /// As [`verify_structure`](Self::verify_structure), a fault at a time: a
    /// table may hold more than memory does.
    ///
    /// # Errors
    ///
    /// As there.
    pub fn report_structure(&mut self, report: &mut dyn FnMut(Fault)) -> Result<()> {
        let is_counted = match *self.identity() {
            Identity::Extended(_) => self.report_extended_header(report)?,
            Identity::Classic => self.report_classic_header(report)?,
        };
        self.report_table_size(report)?;
        match self.schema() {
            Ok(_) => {}
            // Nothing can be said of the records by a schema that is not
            // understood.
            Err(Error::Unsupported { what }) => {
                report(Fault::of_file(FileName::Schema, format!("unsupported: {what}")));
            }
            Err(error) => report(Fault::from_error(error)?),
        }
        for number in 0..self.commit().dictionaries {
            let number = u8::try_from(number).unwrap_or(u8::MAX);
            if let Err(error) = self.dictionary(number) {
                report(Fault::from_error(error)?);
            }
        }
        self.report_places(is_counted, report)
    }

    /// Returns whether a slot says what the store holds.
    fn report_extended_header(&mut self, report: &mut dyn FnMut(Fault)) -> Result<bool> {
        let header = read_header(&self.meta, Format::Extended)?;
        let mut at = |offset: u64, reason: String| {
            report(Fault { file: FileName::Meta, offset: Some(offset), index: None, reason });
        };
        if !header.starts_with(&extended::MAGIC) {
            at(0, format!("it begins with {:02x?}, not ZRX1", head(&header)));
        } else if let Err(reason) = extended::decode_identity(&header) {
            at(0, reason);
        }
        for range in unused_header(self.commit().dictionaries) {
            let end = to_usize(range.end).min(header.len());
            let unused = header.get(to_usize(range.start)..end).unwrap_or_default();
            if let Some(position) = unused.iter().position(|&byte| byte != 0) {
                at(range.start + position as u64, "an unused byte is not zero".into());
            }
        }
        let id = self.identity().id().unwrap_or_default();
        let slots = [0, 1].map(|sequence| {
            let offset = extended::slot_offset(sequence);
            let slot = header.get(to_usize(offset)..).unwrap_or_default();
            let slot = slot.get(..extended::SLOT_SIZE);
            let slot = slot.and_then(|slot| extended::decode_slot(slot, &id));
            if slot.is_none() {
                at(offset, "the commit slot is damaged".into());
            }
            slot
        });
        if let [Some(one), Some(other)] = &slots
            && one.sequence == other.sequence
            && one != other
        {
            let reason = format!("two different commit slots claim sequence {}", one.sequence);
            report(Fault::of_file(FileName::Meta, reason));
        }
        // Bytes past the end mean nothing: a cut append leaves them, and the
        // next writer cuts them off.
        Ok(slots.iter().any(Option::is_some))
    }

    fn report_classic_header(&mut self, report: &mut dyn FnMut(Fault)) -> Result<bool> {
        let header = read_header(&self.meta, Format::Classic)?;
        let decoded = if header.starts_with(&classic::MAGIC) {
            classic::decode_header(&header).map(|_| ())
        } else {
            Err(format!("it begins with {:02x?}, not ZREC", head(&header)))
        };
        let is_valid = decoded.is_ok();
        if let Err(reason) = decoded {
            report(Fault { file: FileName::Meta, offset: Some(0), index: None, reason });
        }
        Ok(is_valid)
    }

    fn report_table_size(&self, report: &mut dyn FnMut(Fault)) -> Result<()> {
        let (length, present) = (self.commit().length, self.entries_present()?);
        if present < length {
            let reason = format!(
                "it was cut short: {length} records are counted, it has the entries of {present}"
            );
            let offset = Some(self.format().entry_offset(present));
            report(Fault { file: FileName::Meta, offset, index: Some(present), reason });
        }
        Ok(())
    }

    /// Every entry is possible, no two records overlap, no chunk is shorter
    /// than the header says or longer than any may be, and the sums in the
    /// header, where it counts, are the table's.
    fn report_places(&mut self, is_counted: bool, report: &mut dyn FnMut(Fault)) -> Result<()> {
        let mut places = Places::default();
        let mut chunks = BTreeSet::new();
        let (mut live_stored, mut live_len) = (0_u64, 0_u64);
        let mut first_chunk = None;
        let mut entries = Vec::new();
        let format = self.format();
        let size = to_usize(format.entry_size());
        let Commit { length, stride, .. } = *self.commit();
        let present = self.entries_present()?;
        for (first, count) in crate::reader::blocks(0..present) {
            if let Err(error) = self.entries(first, count, &mut entries) {
                report(Fault { index: Some(first), ..Fault::from_error(error)? });
                continue;
            }
            for (index, entry) in (first..).zip(entries.chunks_exact(size)) {
                // A bad entry is reported with its record.
                let Ok(location) = format.decode_entry(entry, index) else { continue };
                let first = *first_chunk.get_or_insert(location.chunk);
                if stride != 0 && !location.is_strided(first, stride, index) {
                    let reason = "it does not lie where the header's stride says";
                    report(Fault::from_error(location.corrupt(index, reason))?);
                }
                // Without a header that counts, nothing says where the tail is.
                if is_counted && location.is_past(self.commit().tail) {
                    let reason = "it ends past the tail of the store";
                    report(Fault::from_error(location.corrupt(index, reason))?);
                }
                live_stored = live_stored.saturating_add(location.stored_len.into());
                live_len = live_len.saturating_add(location.len.into());
                if location.stored_len > 0 {
                    chunks.insert(location.chunk);
                }
                places.push(index, &location);
            }
        }
        places.report(self, report)?;
        self.report_chunk_sizes(&chunks, report)?;
        let commit = self.commit();
        let sums = (commit.live_stored, commit.live_len);
        let is_summed = format == Format::Extended && is_counted && present == length;
        if is_summed && sums != (live_stored, live_len) {
            let reason = format!(
                "its header sums up {} stored and {} plain bytes, its table {live_stored} and {live_len}",
                sums.0, sums.1
            );
            report(Fault::of_file(FileName::Meta, reason));
        }
        Ok(())
    }

    /// A chunk that is too short for a record is reported with the record, and
    /// so is one that is missing.
    fn report_chunk_sizes(
        &mut self,
        chunks: &BTreeSet<u32>,
        report: &mut dyn FnMut(Fault),
    ) -> Result<()> {
        let tail = self.commit().tail;
        let (most, used) = match self.format() {
            Format::Classic => (classic::CHUNK_FILE_SIZE, 0),
            Format::Extended => (CHUNK_SIZE_MAX, u64::from(tail.offset)),
        };
        let tail_chunk = (used > 0).then_some(tail.chunk);
        for &number in chunks.iter().chain(tail_chunk.iter().filter(|tail| !chunks.contains(tail)))
        {
            let size = match self.chunk_size(number) {
                Ok(size) => size.unwrap_or(0),
                // Each of its records says so; a tail without any must here.
                Err(_) if chunks.contains(&number) => continue,
                Err(error) => {
                    report(Fault::from_error(error)?);
                    continue;
                }
            };
            let file = FileName::Chunk(number);
            if size > most {
                let reason = format!("it has {size} bytes, a chunk at most {most}");
                report(Fault::of_file(file, reason));
            }
            if tail_chunk == Some(number) && size < used {
                let reason = format!("it was cut short: {used} bytes are in use, it has {size}");
                report(Fault { offset: Some(size), ..Fault::of_file(file, reason) });
            }
        }
        Ok(())
    }

    /// Files that a cut operation left behind. They do no harm; compacting
    /// removes them.
    ///
    /// # Errors
    ///
    /// IO errors, and entries that no writer writes.
    pub fn leftovers(&mut self) -> Result<Vec<FileName>> {
        let mut names = vec![FileName::MetaNew, FileName::SchemaNew];
        let next = u8::try_from(self.commit().dictionaries).ok();
        names
            .extend(next.into_iter().flat_map(|number| {
                [FileName::DictionaryNew(number), FileName::Dictionary(number)]
            }));
        let usage = self.chunk_usage()?;
        names.extend(self.unused_chunks(&usage).into_iter().rev().map(FileName::Chunk));
        let mut found = Vec::new();
        for name in names {
            // loaderx keeps every chunk file up to the tail, so an unused one
            // is no leftover there.
            let classic = self.format() == Format::Classic;
            let expected = match name {
                FileName::Chunk(number) => classic && number < self.commit().tail.chunk,
                _ => false,
            };
            if !expected && self.exists(name)? {
                found.push(name);
            }
        }
        Ok(found)
    }
}

/// Faults as they come, the first so many of them: a hostile store has as many
/// as it has records.
#[derive(Debug)]
pub struct FaultList {
    limit: usize,
    listed: Vec<Fault>,
    /// How many came after the list was full, and the file of the first.
    besides: Option<(u64, FileName)>,
}

impl FaultList {
    /// A list that keeps `limit` faults and counts the rest.
    pub fn new(limit: usize) -> Self {
        Self { limit, listed: Vec::new(), besides: None }
    }

    /// Adds a fault, or counts it.
    pub fn push(&mut self, fault: Fault) {
        if self.listed.len() < self.limit {
            self.listed.push(fault);
        } else {
            let (count, _) = self.besides.get_or_insert((0, fault.file));
            *count += 1;
        }
    }

    /// The faults; one more, of no record, says how many there are besides.
    pub fn into_faults(self) -> Vec<Fault> {
        let Self { mut listed, besides, .. } = self;
        listed.extend(
            besides.map(|(count, file)| Fault::of_file(file, format!("and {count} more faults"))),
        );
        listed
    }
}

/// Memory that checking reuses from record to record.
#[derive(Debug, Default)]
pub struct Scratch {
    stored: Vec<u8>,
    plain: Vec<u8>,
}

impl Scratch {
    /// The stored bytes of the record that was checked last.
    pub fn stored(&self) -> &[u8] {
        &self.stored
    }
}

impl<D: Directory, Z: Zstd> Store<D, Z> {
    /// Checks records `range`, as far as there are any: that each can be read,
    /// matches its checksum, decodes to its length and fits the schema. Work
    /// comes in ranges so that a caller can show progress and stop.
    ///
    /// # Errors
    ///
    /// Faults are not errors.
    pub fn verify_records(&mut self, range: Range<u64>) -> Result<Vec<Fault>> {
        let mut faults = Vec::new();
        self.report_records(range, &mut |fault| faults.push(fault))?;
        Ok(faults)
    }

    /// As [`verify_records`](Self::verify_records), a fault at a time.
    ///
    /// # Errors
    ///
    /// As there.
    pub fn report_records(
        &mut self,
        range: Range<u64>,
        report: &mut dyn FnMut(Fault),
    ) -> Result<()> {
        let schema = self.schema().ok().flatten();
        let mut scratch = Scratch::default();
        let end = range.end.min(self.reader().entries_present()?);
        let format = self.reader().format();
        let entry_size = to_usize(format.entry_size());
        let mut entries = Vec::new();
        for (first, count) in blocks(range.start..end) {
            // Where a block cannot be read, some of its entries may be.
            let is_read = self.reader().entries(first, count, &mut entries).is_ok();
            for (index, entry) in (first..).zip(entries.chunks_exact(entry_size)) {
                let located = match is_read {
                    true => format.decode_entry(entry, index),
                    false => self.reader().location(index),
                };
                let checked = located.and_then(|location| {
                    self.check_located(index, &location, schema.as_ref(), &mut scratch)
                });
                if let Err(error) = checked {
                    let fault = Fault::from_error(error)?;
                    report(Fault { index: Some(index), ..fault });
                }
            }
        }
        Ok(())
    }

    /// Checks all that can be checked of one record: that it can be read,
    /// matches its checksum, decodes to its length and fits `schema`. Its
    /// stored bytes are then in `scratch`.
    ///
    /// # Errors
    ///
    /// What is wrong with it.
    pub fn check_record(
        &mut self,
        index: u64,
        schema: Option<&Schema>,
        scratch: &mut Scratch,
    ) -> Result<RecordLocation> {
        let location = self.reader().location(index)?;
        self.check_located(index, &location, schema, scratch)?;
        Ok(location)
    }

    fn check_located(
        &mut self,
        index: u64,
        location: &RecordLocation,
        schema: Option<&Schema>,
        scratch: &mut Scratch,
    ) -> Result<()> {
        self.verify_record(index, location, &mut scratch.stored, &mut scratch.plain)?;
        let fits = schema.map_or(Ok(()), |schema| schema.check_record_len(location.len.into()));
        fits.map_err(|reason| location.corrupt(index, reason))
    }

    /// Reads, checks and decodes one record. Memory for what it decodes to is
    /// taken once its frame is seen to hold as much.
    pub(crate) fn verify_record(
        &mut self,
        index: u64,
        location: &RecordLocation,
        stored: &mut Vec<u8>,
        plain: &mut Vec<u8>,
    ) -> Result<()> {
        self.reader().read_stored(index, location, stored)?;
        location.check(index, stored)?;
        match location.codec {
            Codec::Raw => return Ok(()),
            Codec::Zstd => {}
            Codec::ZstdDict => self.load_dictionary(location.dictionary)?,
        }
        // The frame must declare the length before memory is taken for it.
        location.check_frame(index, stored)?;
        let len = to_usize(u64::from(location.len));
        memory::reserve(plain, len.saturating_sub(plain.len()))
            .map_err(Error::io(location.file()))?;
        plain.resize(len, 0);
        self.decode(index, location, stored, plain)
    }
}

/// The bytes by which a format is recognised, as far as they are there.
fn head(header: &[u8]) -> &[u8] {
    header.get(..extended::MAGIC.len()).unwrap_or(header)
}

/// Parts of the header that hold nothing.
fn unused_header(dictionaries: u32) -> Vec<Range<u64>> {
    let hashes_end = extended::DICTIONARY_HASHES_OFFSET + 8 * u64::from(dictionaries);
    // A hash may be there that no slot counts yet, so one more may be in use.
    let hashes_end = (hashes_end + 8).min(extended::PAGE_SIZE);
    let mut unused = vec![
        extended::IDENTITY_SIZE as u64..extended::DICTIONARY_HASHES_OFFSET,
        hashes_end..extended::PAGE_SIZE,
    ];
    for sequence in 0..2 {
        let slot = extended::slot_offset(sequence);
        unused.push(slot + extended::SLOT_SIZE as u64..slot + extended::PAGE_SIZE);
    }
    unused
}
