//! Rewriting a store in the other format: stored frames and dictionaries
//! verbatim, only the table anew.
//!
//! The new store grows beside the destination and takes its place at the end:
//! see [`Successor`].

use std::collections::BTreeSet;
use std::path::Path;

use rayon::prelude::*;
use zrecord_core::codec::Codec;
use zrecord_core::codec::pack::PackedRecord;
use zrecord_core::format::{Format, RecordLocation, checksum};
use zrecord_core::reader::{Identity, Reader};
use zrecord_core::storage::Access;
use zrecord_core::writer::{Progress, Segment, Writer};
use zrecord_core::{Error as CoreError, Result as CoreResult};

use crate::directory::FsDirectory;
use crate::error::{Error, Result};
use crate::handle::Handle;
use crate::options::OpenOptions;
use crate::pool;
use crate::successor::Successor;
use crate::writing::draw_id;

/// This many stored bytes are read and committed at once, or so many records.
const BLOCK_BYTES: u64 = 32 << 20;
const BLOCK_RECORDS: u64 = 1 << 16;

/// Writes the records of the store at `source` into a new store of `format`
/// at `destination`. Checksums are compared where the source has them.
/// Progress counts stored bytes.
///
/// # Errors
///
/// `AlreadyExists` when there is anything at `destination`; `Unsupported`,
/// before anything is written, naming the first record that `format` cannot
/// hold; damage in the source; IO errors. Nothing is left behind then.
pub fn convert(
    source: impl AsRef<Path>,
    destination: impl AsRef<Path>,
    format: Format,
    progress: &mut dyn FnMut(Progress),
) -> Result<()> {
    let (source, destination) = (source.as_ref(), destination.as_ref());
    if destination.symlink_metadata().is_ok() {
        return Err(Error::store(destination)(CoreError::AlreadyExists));
    }
    // Open for as long as it takes, so that nothing is deleted meanwhile.
    let handle = Handle::open(source, &OpenOptions::new())?;
    let survey = survey(&handle, format).map_err(Error::store(source))?;
    let successor = Successor::begin(destination, false)?;
    let conversion = Conversion { handle, survey, destination };
    conversion.run(successor.path(), format, progress)?;
    successor.publish()
}

/// What the destination must hold.
struct Survey {
    length: u64,
    stored_bytes: u64,
    /// Dictionaries of the source, in the order of their new numbers.
    dictionaries: Vec<u8>,
}

impl Survey {
    /// The number that a dictionary gets.
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
}

/// Looks at every entry for what `format` cannot hold.
fn survey(handle: &Handle, format: Format) -> CoreResult<Survey> {
    let reading = handle.share()?;
    let length = reading.snapshot.commit.length;
    if let Some(schema) = handle.schema()? {
        schema.encode(format)?;
    }
    let refused = |index: u64, what: String| {
        let what = format!("{what} in a {} store (record {index})", format.name());
        Err(CoreError::Unsupported { what })
    };
    if length > format.length_max() {
        let limit = format.length_max();
        return refused(limit, format!("more than {limit} records"));
    }
    let table = reading.files.table.view(length)?;
    let mut used = BTreeSet::new();
    let mut stored_bytes = 0;
    for index in 0..length {
        let location = table.location(index)?;
        let len = u64::from(location.len);
        if len > format.record_len_max() {
            let limit = format.record_len_max();
            return refused(index, format!("a record of {len} bytes, more than {limit},"));
        }
        if len == 0 && format == Format::Classic {
            return refused(index, "an empty record".into());
        }
        if location.codec == Codec::ZstdDict {
            used.insert(location.dictionary);
            if used.len() as u64 > u64::from(format.dictionaries_max()) {
                return refused(index, "a second dictionary".into());
            }
        }
        stored_bytes += u64::from(location.stored_len);
    }
    table.check_file()?;
    let dictionaries = match format {
        Format::Extended => (0..reading.snapshot.commit.dictionaries)
            .filter_map(|number| u8::try_from(number).ok())
            .collect(),
        // The one that is used; else the newest, which appends would use.
        Format::Classic => {
            let newest = reading.snapshot.commit.dictionaries.checked_sub(1);
            let newest = newest.and_then(|number| u8::try_from(number).ok());
            used.first().copied().or(newest).into_iter().collect()
        }
    };
    Ok(Survey { length, stored_bytes, dictionaries })
}

/// A conversion under way.
struct Conversion<'a> {
    handle: Handle,
    survey: Survey,
    destination: &'a Path,
}

impl Conversion<'_> {
    /// Fills the new store in `path` and closes it.
    fn run(&self, path: &Path, format: Format, progress: &mut dyn FnMut(Progress)) -> Result<()> {
        let Self { handle, survey, destination } = self;
        // Failures are told apart by the store that is to blame.
        let reading = || Error::store(handle.path());
        let writing = || Error::store(destination);
        let identity = match format {
            Format::Classic => Identity::Classic,
            Format::Extended => Identity::Extended(draw_id().map_err(writing())?),
        };
        let mut writer = Writer::create(FsDirectory::new(path), identity).map_err(writing())?;
        if let Some(schema) = handle.schema().map_err(reading())? {
            writer.set_schema(&schema).map_err(writing())?;
        }
        let reader = Reader::open(handle.directory.clone(), Access::Read);
        let mut reader = reader.map_err(reading())?;
        for (number, used) in reader.chunk_usage().map_err(reading())? {
            used.check_overlaps(number).map_err(reading())?;
        }
        for &number in &survey.dictionaries {
            let bytes = reader.dictionary(number).map_err(reading())?;
            writer.add_dictionary(&bytes).map_err(writing())?;
        }
        let (mut done, mut first) = (0, 0);
        while first < survey.length {
            progress(Progress { done, total: survey.stored_bytes });
            let block = Block::read(handle, &mut reader, first, survey).map_err(reading())?;
            let records = block.packed(handle.threads, survey).map_err(reading())?;
            let segment = Segment { bytes: &block.bytes, records: &records };
            writer.append(&[segment]).map_err(writing())?;
            done += block.bytes.len() as u64;
            first += block.locations.len() as u64;
        }
        writer.close().map_err(writing())?;
        progress(Progress { done, total: survey.stored_bytes });
        Ok(())
    }
}

/// Neighbouring records and their stored bytes.
struct Block {
    first: u64,
    locations: Vec<RecordLocation>,
    /// Where the stored bytes of each record begin.
    starts: Vec<usize>,
    bytes: Vec<u8>,
}

impl Block {
    fn read(
        handle: &Handle,
        reader: &mut Reader<FsDirectory>,
        first: u64,
        survey: &Survey,
    ) -> CoreResult<Self> {
        let reading = handle.share()?;
        let table = reading.files.table.view(survey.length)?;
        let (mut locations, mut starts, mut bytes) = (Vec::new(), Vec::new(), Vec::new());
        let mut stored = Vec::new();
        for index in first..survey.length.min(first + BLOCK_RECORDS) {
            if bytes.len() as u64 >= BLOCK_BYTES {
                break;
            }
            let location = table.location(index)?;
            reader.read_stored(index, &location, &mut stored)?;
            starts.push(bytes.len());
            bytes.extend_from_slice(&stored);
            locations.push(location);
        }
        table.check_file()?;
        Ok(Self { first, locations, starts, bytes })
    }

    /// Checks every record and says how it is stored in the destination.
    fn packed(&self, threads: usize, survey: &Survey) -> CoreResult<Vec<PackedRecord>> {
        let pack = |position: usize| {
            let location = &self.locations[position];
            let start = self.starts[position];
            let end = self.starts.get(position + 1).copied().unwrap_or(self.bytes.len());
            let stored = &self.bytes[start..end];
            location.check(self.first + position as u64, stored)?;
            let dictionary = survey.renumbered(location);
            Ok(PackedRecord {
                stored_len: location.stored_len,
                len: location.len,
                codec: location.codec,
                dictionary,
                checksum: checksum(stored, location.len, location.codec, dictionary),
            })
        };
        let positions = 0..self.locations.len();
        match pool::pool(threads) {
            Some(pool) => pool.install(|| positions.into_par_iter().map(pack).collect()),
            None => positions.map(pack).collect(),
        }
    }
}
