//! Rewriting a store in the other format: stored frames and dictionaries
//! verbatim, only the table anew.

use std::collections::BTreeSet;

use crate::codec::Codec;
use crate::codec::pack::PackedRecord;
use crate::error::{Error, Result};
use crate::format::{Format, RecordLocation, checksum};
use crate::memory;
use crate::reader::{Identity, Reader, to_usize};
use crate::storage::{Directory, File, Span};
use crate::writer::{Progress, Segment, Writer};

/// So many records are converted at once, at most.
const STEP_RECORDS: u64 = 1 << 16;
/// So many stored bytes are converted at once, at most, or one record.
const STEP_BYTES: u64 = 64 << 20;

/// What the new store must hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Survey {
    length: u64,
    stored_bytes: u64,
    /// Dictionaries of the source, in the order of their new numbers.
    dictionaries: Vec<u8>,
}

impl Survey {
    /// Looks at everything of a store but its chunks for what `format` cannot
    /// hold, and for records that share so many bytes that the new store would
    /// be larger than the old one.
    ///
    /// # Errors
    ///
    /// [`Error::Unsupported`], naming the first record that `format` cannot
    /// hold; corruption of the table or the schema; IO errors.
    pub fn new<D: Directory>(reader: &Reader<D>, format: Format) -> Result<Self> {
        let length = reader.commit().length;
        if let Some(schema) = reader.schema()? {
            schema.encode(format)?;
        }
        if length > format.length_max() {
            let limit = format.length_max();
            return Err(refusal(format, limit, format!("more than {limit} records")));
        }
        let mut used = BTreeSet::new();
        let mut stored_bytes = 0;
        reader.scan(0..length, |index, location| {
            check_holds(format, index, &location, &mut used)?;
            stored_bytes += u64::from(location.stored_len);
            Ok(())
        })?;
        for (number, usage) in reader.chunk_usage()? {
            usage.check_overlaps(number)?;
        }
        let count = reader.commit().dictionaries;
        let dictionaries = match format {
            Format::Extended => (0..count).filter_map(|number| u8::try_from(number).ok()).collect(),
            // The one that is used; else the newest, which appends would use.
            Format::Classic => {
                let newest = count.checked_sub(1).and_then(|number| u8::try_from(number).ok());
                used.first().copied().or(newest).into_iter().collect()
            }
        };
        Ok(Self { length, stored_bytes, dictionaries })
    }

    /// The number that a record's dictionary gets.
    fn renumbered(&self, location: &RecordLocation) -> u8 {
        let number = location.dictionary;
        match location.codec {
            Codec::Raw | Codec::Zstd => 0,
            Codec::ZstdDict => {
                let position = self.dictionaries.iter().position(|other| *other == number);
                position.and_then(|position| u8::try_from(position).ok()).unwrap_or(number)
            }
        }
    }

    /// How a record with these stored bytes is packed in the new store.
    fn packed(&self, location: &RecordLocation, stored: &[u8]) -> PackedRecord {
        let RecordLocation { stored_len, len, codec, .. } = *location;
        let dictionary = self.renumbered(location);
        // One that was compared and covers the same numbers holds there too.
        let checksum = location
            .checksum
            .filter(|_| dictionary == location.dictionary)
            .unwrap_or_else(|| checksum(stored, len, codec, dictionary));
        PackedRecord { stored_len, len, codec, dictionary, checksum }
    }
}

/// Whether `format` holds a record, and the dictionaries `used` up to it.
fn check_holds(
    format: Format,
    index: u64,
    location: &RecordLocation,
    used: &mut BTreeSet<u8>,
) -> Result<()> {
    let len = u64::from(location.len);
    if len > format.record_len_max() {
        let limit = format.record_len_max();
        return Err(refusal(format, index, format!("a record of {len} bytes, more than {limit},")));
    }
    if len == 0 && format == Format::Classic {
        return Err(refusal(format, index, "an empty record".into()));
    }
    if location.codec == Codec::ZstdDict {
        used.insert(location.dictionary);
        if used.len() as u64 > u64::from(format.dictionaries_max()) {
            return Err(refusal(format, index, "a second dictionary".into()));
        }
    }
    Ok(())
}

fn refusal(format: Format, index: u64, what: String) -> Error {
    Error::Unsupported { what: format!("{what} in a {} store (record {index})", format.name()) }
}

/// Why a conversion failed, told apart by the store that is to blame.
#[derive(Debug)]
pub enum Failure {
    /// The store that is read.
    Source(Error),
    /// The store that is written.
    Destination(Error),
}

impl Failure {
    /// The error, whosever it is.
    pub fn into_error(self) -> Error {
        match self {
            Self::Source(error) | Self::Destination(error) => error,
        }
    }
}

/// How far a conversion has come. It is over when all records are done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Converted {
    /// In records.
    pub records: Progress,
    /// In stored bytes.
    pub stored: Progress,
}

impl Converted {
    /// Whether it is over.
    pub fn is_over(&self) -> bool {
        self.records.done == self.records.total
    }
}

/// A conversion under way: a step at a time, so that a caller can show
/// progress and stop.
pub struct Conversion<S: Directory, D: Directory> {
    reader: Reader<S>,
    survey: Survey,
    /// `None` once the new store is closed, or a step has failed.
    writer: Option<Writer<D>>,
    is_closed: bool,
    records_done: u64,
    stored_done: u64,
}

impl<S: Directory, D: Directory> Conversion<S, D> {
    /// Creates the new store in an empty directory, with the schema and the
    /// dictionaries of the one that was surveyed.
    ///
    /// # Errors
    ///
    /// As [`Writer::create`], and damage of a dictionary.
    pub fn begin(
        reader: Reader<S>,
        survey: Survey,
        destination: D,
        identity: Identity,
    ) -> Result<Self, Failure> {
        let schema = reader.schema().map_err(Failure::Source)?;
        let writing = Failure::Destination;
        let mut writer = Writer::create(destination, identity).map_err(writing)?;
        if let Some(schema) = schema {
            writer.set_schema(&schema).map_err(writing)?;
        }
        for &number in &survey.dictionaries {
            let bytes = reader.dictionary(number).map_err(Failure::Source)?;
            writer.add_dictionary(&bytes).map_err(writing)?;
        }
        Ok(Self {
            reader,
            survey,
            writer: Some(writer),
            is_closed: false,
            records_done: 0,
            stored_done: 0,
        })
    }

    /// How far it has come.
    pub fn progress(&self) -> Converted {
        let Survey { length, stored_bytes, .. } = self.survey;
        Converted {
            records: Progress { done: self.records_done, total: length },
            stored: Progress { done: self.stored_done, total: stored_bytes },
        }
    }

    /// Converts some more records: at most `bytes_max` stored bytes of them and
    /// no more than fit into memory with ease, but at least one. Checksums are
    /// compared where the source has them. With the last ones the new store is
    /// synced and closed.
    ///
    /// # Errors
    ///
    /// Damage in the source; IO errors; as [`Writer::append`]. A step that is
    /// asked for after a failed one fails with [`Error::Closed`].
    pub fn step(&mut self, bytes_max: u64) -> Result<Converted, Failure> {
        match self.writer.take() {
            None if self.is_closed => Ok(self.progress()),
            None => Err(Failure::Destination(Error::Closed)),
            Some(writer) => self.step_with(writer, bytes_max),
        }
    }

    fn step_with(&mut self, mut writer: Writer<D>, bytes_max: u64) -> Result<Converted, Failure> {
        let block = Block::read(&mut self.reader, self.records_done, &self.survey, bytes_max);
        let block = block.map_err(Failure::Source)?;
        let segment = Segment { bytes: &block.bytes, records: &block.records };
        writer.append(&[segment]).map_err(Failure::Destination)?;
        let records_done = self.records_done + block.records.len() as u64;
        if records_done < self.survey.length {
            self.writer = Some(writer);
        } else {
            writer.close().map_err(Failure::Destination)?;
            self.is_closed = true;
        }
        self.records_done = records_done;
        self.stored_done += block.bytes.len() as u64;
        Ok(self.progress())
    }
}

/// Neighbouring records as the new store will hold them.
#[derive(Default)]
struct Block {
    bytes: Vec<u8>,
    records: Vec<PackedRecord>,
}

impl Block {
    /// Reads and checks records from `first` on.
    fn read<D: Directory>(
        reader: &mut Reader<D>,
        first: u64,
        survey: &Survey,
        bytes_max: u64,
    ) -> Result<Self> {
        let locations = leading(reader, first..survey.length, bytes_max)?;
        let Some(location) = locations.first() else { return Ok(Self::default()) };
        let stored_bytes = locations.iter().map(|location| u64::from(location.stored_len)).sum();
        // The chunks were found to hold so many.
        let mut bytes = memory::zeroed(stored_bytes).map_err(Error::io(location.file()))?;
        read_stored(reader, first, &locations, &mut bytes)?;
        let mut records = Vec::with_capacity(locations.len());
        let mut rest = bytes.as_slice();
        for (index, location) in (first..).zip(&locations) {
            let (stored, behind) = rest.split_at(to_usize(location.stored_len.into()));
            rest = behind;
            location.check(index, stored)?;
            records.push(survey.packed(location, stored));
        }
        Ok(Self { bytes, records })
    }
}

/// Where the leading records of `range` lie whose stored bytes are at most
/// `bytes_max`, at least one.
fn leading<D: Directory>(
    reader: &mut Reader<D>,
    range: std::ops::Range<u64>,
    bytes_max: u64,
) -> Result<Vec<RecordLocation>> {
    let mut locations = Vec::new();
    let mut stored_bytes = 0;
    let bytes_max = bytes_max.min(STEP_BYTES);
    let end = range.end.min(range.start.saturating_add(STEP_RECORDS));
    for (first, count) in crate::reader::blocks(range.start..end) {
        let mut entries = Vec::new();
        reader.entries(first, count, &mut entries)?;
        let format = reader.format();
        let size = to_usize(format.entry_size());
        for (index, entry) in (first..).zip(entries.chunks_exact(size)) {
            let location = format.decode_entry(entry, index)?;
            stored_bytes += u64::from(location.stored_len);
            if stored_bytes > bytes_max && !locations.is_empty() {
                return Ok(locations);
            }
            reader.check_bounds(index, &location)?;
            locations.push(location);
        }
    }
    Ok(locations)
}

/// Reads the stored bytes of neighbouring records, which mostly lie one behind
/// the other: with one read for each chunk that they lie in, in turn.
fn read_stored<D: Directory>(
    reader: &mut Reader<D>,
    first: u64,
    locations: &[RecordLocation],
    bytes: &mut [u8],
) -> Result<()> {
    let mut rest = bytes;
    let mut index = first;
    for group in locations.chunk_by(|one, next| one.chunk == next.chunk) {
        let spans = joined(group);
        let len = spans.iter().map(|span| span.len).sum();
        let (buffer, behind) = rest.split_at_mut(to_usize(len));
        rest = behind;
        if let (Some(location), false) = (group.first(), buffer.is_empty()) {
            let file = &reader.chunk(location.chunk)?.file;
            let read = file.read_many(&spans, buffer).map_err(Error::io(location.file()))?;
            if read < buffer.len() {
                let reason =
                    format!("{len} stored bytes were expected from here, {read} are there");
                return Err(location.corrupt(index, reason));
            }
        }
        index += group.len() as u64;
    }
    Ok(())
}

/// The spans of records in one chunk, those that touch as one.
fn joined(locations: &[RecordLocation]) -> Vec<Span> {
    let mut spans: Vec<Span> = Vec::new();
    for location in locations {
        let (offset, len) = (u64::from(location.offset), u64::from(location.stored_len));
        match spans.last_mut() {
            Some(last) if last.offset + last.len == offset => last.len += len,
            _ => spans.push(Span { offset, len }),
        }
    }
    spans
}
