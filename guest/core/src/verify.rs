//! Finding everything that is wrong with a store, each fault with its place.

use std::fmt;
use std::ops::Range;

use crate::codec::{Codec, Zstd};
use crate::error::{Error, Result};
use crate::format::{Format, RecordLocation, extended};
use crate::reader::{Identity, Reader, read_exact, read_slots, to_usize};
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

    /// The fault that an error reports; other errors are handed back.
    ///
    /// # Errors
    ///
    /// The error, when it is no corruption of the store.
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
    /// IO errors; faults are not errors.
    pub fn verify_structure(&mut self) -> Result<Vec<Fault>> {
        let mut faults = Vec::new();
        if let Identity::Extended(id) = *self.identity() {
            self.verify_header(&id, &mut faults)?;
        }
        collect(&mut faults, self.schema())?;
        for number in 0..self.commit().dictionaries {
            let number = u8::try_from(number).unwrap_or(u8::MAX);
            collect(&mut faults, self.dictionary(number))?;
        }
        self.verify_places(&mut faults)?;
        Ok(faults)
    }

    fn verify_header(&mut self, id: &extended::StoreId, faults: &mut Vec<Fault>) -> Result<()> {
        let mut header = vec![0; to_usize(extended::ENTRIES_OFFSET)];
        read_exact(&self.meta, FileName::Meta, &mut header, 0)?;
        for range in unused_header(self.commit().dictionaries) {
            let start = to_usize(range.start);
            let unused = &header[start..to_usize(range.end)];
            if let Some(position) = unused.iter().position(|&byte| byte != 0) {
                faults.push(Fault {
                    file: FileName::Meta,
                    offset: Some((start + position) as u64),
                    index: None,
                    reason: "an unused byte is not zero".into(),
                });
            }
        }
        let slots = read_slots(&self.meta, id)?;
        for (slot, page) in slots.iter().zip(0..) {
            if slot.is_none() {
                faults.push(Fault {
                    file: FileName::Meta,
                    offset: Some(extended::slot_offset(page)),
                    index: None,
                    reason: "the commit slot is damaged".into(),
                });
            }
        }
        if let [Some(one), Some(other)] = slots
            && one.sequence == other.sequence
            && one != other
        {
            let reason = format!("two different commit slots claim sequence {}", one.sequence);
            faults.push(Fault::of_file(FileName::Meta, reason));
        }
        // Bytes past the end mean nothing: a cut append leaves them, and the
        // next writer cuts them off.
        Ok(())
    }

    /// Every entry is possible and no two records overlap, and the sums in
    /// the header are the table's.
    fn verify_places(&mut self, faults: &mut Vec<Fault>) -> Result<()> {
        let mut places: Vec<(u32, u32, u32, u64)> = Vec::new();
        let (mut live_stored, mut live_len) = (0_u64, 0_u64);
        let mut first_chunk = None;
        let mut entries = Vec::new();
        let format = self.format();
        let size = to_usize(format.entry_size());
        let length = self.commit().length;
        for (first, count) in crate::reader::blocks(0..length) {
            if let Err(error) = self.entries(first, count, &mut entries) {
                faults.push(Fault::from_error(error)?);
                return Ok(());
            }
            for (index, entry) in (first..).zip(entries.chunks_exact(size)) {
                // A bad entry is reported with its record.
                let Ok(location) = format.decode_entry(entry, index) else { continue };
                let first = *first_chunk.get_or_insert(location.chunk);
                if self.commit().stride != 0
                    && !location.is_strided(first, self.commit().stride, index)
                {
                    let reason = "it does not lie where the header's stride says";
                    faults.push(Fault::from_error(location.corrupt(index, reason))?);
                }
                if location.is_past(self.commit().tail) {
                    let reason = "it ends past the tail of the store";
                    faults.push(Fault::from_error(location.corrupt(index, reason))?);
                }
                live_stored += u64::from(location.stored_len);
                live_len += u64::from(location.len);
                if location.stored_len > 0 {
                    places.push((location.chunk, location.offset, location.stored_len, index));
                }
            }
        }
        places.sort_unstable();
        for pair in places.windows(2) {
            let ((chunk, offset, stored_len, index), (next_chunk, next, _, next_index)) =
                (pair[0], pair[1]);
            if chunk == next_chunk && u64::from(offset) + u64::from(stored_len) > u64::from(next) {
                faults.push(Fault {
                    file: FileName::Chunk(chunk),
                    offset: Some(u64::from(next)),
                    index: Some(next_index),
                    reason: format!("it overlaps record {index}, which begins at {offset}"),
                });
            }
        }
        let commit = self.commit();
        let sums = (commit.live_stored, commit.live_len);
        if format == Format::Extended && sums != (live_stored, live_len) {
            let reason = format!(
                "its header sums up {} stored and {} plain bytes, its table {live_stored} and {live_len}",
                sums.0, sums.1
            );
            faults.push(Fault::of_file(FileName::Meta, reason));
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

impl<D: Directory, Z: Zstd> Store<D, Z> {
    /// Checks records `range`, as far as there are any: that each can be read,
    /// matches its checksum, decodes to its length and fits the schema. Work
    /// comes in ranges so that a caller can show progress and stop.
    ///
    /// # Errors
    ///
    /// IO errors; faults are not errors.
    pub fn verify_records(&mut self, range: Range<u64>) -> Result<Vec<Fault>> {
        let mut faults = Vec::new();
        let schema = self.schema().ok().flatten();
        let mut stored = Vec::new();
        let mut plain = Vec::new();
        for index in range.start..range.end.min(self.len()) {
            let checked = self.reader().locations(&[index]).and_then(|locations| {
                let location = &locations[0];
                self.verify_record(index, location, &mut stored, &mut plain)?;
                let fits = schema
                    .as_ref()
                    .map_or(Ok(()), |schema| schema.check_record_len(u64::from(location.len)));
                fits.map_err(|reason| location.corrupt(index, reason))
            });
            collect(&mut faults, checked)?;
        }
        Ok(faults)
    }

    fn verify_record(
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
        plain.resize(to_usize(u64::from(location.len)), 0);
        self.decode(index, location, stored, plain)
    }
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

/// Keeps a corruption as a fault and hands other errors on.
fn collect<T>(faults: &mut Vec<Fault>, result: Result<T>) -> Result<()> {
    if let Err(error) = result {
        faults.push(Fault::from_error(error)?);
    }
    Ok(())
}
