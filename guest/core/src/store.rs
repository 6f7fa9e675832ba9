//! The sequential reference store: every operation over any storage, one
//! thread. The component runs it over its imports, tests over memory; the
//! native host, which maps and threads its reading, is checked against it.

use std::collections::BTreeMap;

use crate::codec::pack::{
    Arena, PackDictionary, PackEncoder, PackPolicy, PackedRecord, Packer, unpack_record,
};
use crate::codec::{Codec, CodecError, Zstd};
use crate::error::{Error, Result};
use crate::format::{Format, RecordLocation};
use crate::memory;
use crate::reader::{Identity, Reader, to_usize};
use crate::recovery::Recovery;
use crate::schema::Schema;
use crate::storage::{Access, Directory, File, FileName, Span, total_len};
use crate::usage::Stats;
use crate::writer::{Compaction, Progress, Segment, Writer};

/// Records of a gather, packed one behind the other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecordBatch {
    /// The bytes of all records.
    pub bytes: Vec<u8>,
    /// Where each record ends in `bytes`.
    pub ends: Vec<u64>,
}

impl RecordBatch {
    /// How many records there are.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// True when there are none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The records, in order.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(start, &end)| &self.bytes[to_usize(start)..to_usize(end)])
    }
}

/// A store over the storage `D` with the codec backend `Z`.
pub struct Store<D: Directory, Z: Zstd> {
    handle: Handle<D>,
    decoder: Z::Decoder,
    dictionaries: BTreeMap<u8, Z::Dictionary>,
    /// It was opened for writing, and writes no more.
    has_ended: bool,
}

enum Handle<D: Directory> {
    Reader(Reader<D>),
    Writer(Box<Writer<D>>),
}

impl<D: Directory, Z: Zstd> Store<D, Z> {
    /// Opens a store for reading. With no writer at work, pass `recover`: it
    /// brings a store that was not closed cleanly to what can be trusted, in
    /// memory, and writes nothing.
    ///
    /// # Errors
    ///
    /// As [`Reader::open`] and [`Reader::recover`].
    pub fn open(directory: D, recover: bool) -> Result<Self> {
        let mut reader = Reader::open(directory, Access::Read)?;
        if recover {
            reader.recover()?;
        }
        Ok(Self::of_reader(reader))
    }

    /// A store for reading, as far as `reader` has come.
    pub fn of_reader(reader: Reader<D>) -> Self {
        Self::over(Handle::Reader(reader))
    }

    /// Opens a store for writing; the caller holds the writer's lock.
    ///
    /// # Errors
    ///
    /// As [`Writer::open`].
    pub fn open_writer(directory: D) -> Result<(Self, Recovery)> {
        let (writer, recovery) = Writer::open(Reader::open(directory, Access::Write)?)?;
        Ok((Self::over(Handle::Writer(Box::new(writer))), recovery))
    }

    /// Creates a store, for writing; the caller holds the writer's lock.
    ///
    /// # Errors
    ///
    /// As [`Writer::create`].
    pub fn create(directory: D, identity: Identity) -> Result<Self> {
        Ok(Self::over(Handle::Writer(Box::new(Writer::create(directory, identity)?))))
    }

    fn over(handle: Handle<D>) -> Self {
        let (decoder, dictionaries) = (Z::Decoder::default(), BTreeMap::new());
        Self { handle, decoder, dictionaries, has_ended: false }
    }

    /// The store as it is read.
    pub fn reader(&mut self) -> &mut Reader<D> {
        match &mut self.handle {
            Handle::Reader(reader) => reader,
            Handle::Writer(writer) => writer.reader(),
        }
    }

    /// The store's writer.
    ///
    /// # Errors
    ///
    /// [`Error::ReadOnly`] when it was opened for reading, or has ended writing.
    pub fn writer(&mut self) -> Result<&mut Writer<D>> {
        match &mut self.handle {
            Handle::Writer(writer) if !self.has_ended => Ok(writer),
            _ => Err(Error::ReadOnly),
        }
    }

    /// The store as it is read, alone.
    pub fn into_reader(self) -> Reader<D> {
        match self.handle {
            Handle::Reader(reader) => reader,
            Handle::Writer(writer) => writer.into_reader(),
        }
    }

    /// How many records there are.
    pub fn len(&mut self) -> u64 {
        self.reader().commit().length
    }

    /// True when there are none.
    pub fn is_empty(&mut self) -> bool {
        self.len() == 0
    }

    /// The store's format.
    pub fn format(&mut self) -> Format {
        self.reader().format()
    }

    /// The schema, if the store is typed.
    ///
    /// # Errors
    ///
    /// As [`Reader::schema`].
    pub fn schema(&mut self) -> Result<Option<Schema>> {
        self.reader().schema()
    }

    /// The lengths of records in bytes.
    ///
    /// # Errors
    ///
    /// As [`Reader::locations`].
    pub fn lengths(&mut self, indices: &[u64]) -> Result<Vec<u32>> {
        let locations = self.reader().locations(indices)?;
        Ok(locations.iter().map(|location| location.len).collect())
    }

    /// Gathers the leading records of `indices` whose bytes fit into
    /// `bytes_max`, at least one. Checksums are verified.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfRange`] before anything is read; [`Error::TooLarge`] when
    /// the first record alone does not fit; corruption naming the record.
    pub fn gather(&mut self, indices: &[u64], bytes_max: u64) -> Result<RecordBatch> {
        let locations = self.reader().locations(indices)?;
        let mut ends = memory::with_room(indices.len()).map_err(Error::io(FileName::Meta))?;
        let mut end = 0;
        for location in &locations {
            let next = end + u64::from(location.len);
            if next > bytes_max {
                break;
            }
            end = next;
            ends.push(end);
        }
        match (ends.is_empty(), locations.first()) {
            (true, Some(first)) => {
                let len = u64::from(first.len);
                return Err(Error::TooLarge { index: 0, len, limit: bytes_max });
            }
            (true, None) => return Ok(RecordBatch::default()),
            (false, _) => {}
        }
        let count = ends.len();
        let (indices, locations) = (&indices[..count], &locations[..count]);
        self.prepare(indices, locations)?;
        if let Some(bytes) = self.gather_raw(indices, locations)? {
            return Ok(RecordBatch { bytes, ends });
        }
        let mut bytes = memory::zeroed(end).map_err(Error::io(FileName::Meta))?;
        self.gather_prepared(indices, locations, &ends, &mut bytes)?;
        Ok(RecordBatch { bytes, ends })
    }

    /// The first bytes of a record, at most `bytes_max`. Of a raw record no more
    /// is read, and its checksum is compared only where that is all of it.
    ///
    /// # Errors
    ///
    /// As [`gather`](Self::gather), but for [`Error::TooLarge`].
    pub fn read_prefix(&mut self, index: u64, bytes_max: u64) -> Result<Vec<u8>> {
        let locations = self.reader().locations(&[index])?;
        let Some(location) = locations.first() else { return Ok(Vec::new()) };
        let len = bytes_max.min(location.len.into());
        if location.codec != Codec::Raw {
            // The caller has not asked for so many bytes as the record may
            // claim: memory for them is taken once its frame is seen to hold
            // them.
            let mut bytes = Vec::new();
            self.verify_record(index, location, &mut Vec::new(), &mut bytes)?;
            bytes.truncate(to_usize(len));
            return Ok(bytes);
        }
        if len == u64::from(location.len) {
            return Ok(self.gather(&[index], len)?.bytes);
        }
        self.reader().check_bounds(index, location)?;
        let mut bytes = memory::zeroed(len).map_err(Error::io(location.file()))?;
        let file = &self.reader().chunk(location.chunk)?.file;
        let read = file.read(&mut bytes, location.offset.into());
        let read = read.map_err(Error::io(location.file()))?;
        if read < bytes.len() {
            let reason = format!("{len} stored bytes were expected, {read} are there");
            return Err(location.corrupt(index, reason));
        }
        Ok(bytes)
    }

    /// Checks bounds before memory is taken, and loads what decoding needs.
    fn prepare(&mut self, indices: &[u64], locations: &[RecordLocation]) -> Result<()> {
        // A chunk, and how long it is at least.
        let mut known = (0, 0);
        for (&index, location) in indices.iter().zip(locations) {
            let is_known = location.chunk == known.0 && location.end() <= known.1;
            if location.stored_len > 0 && !is_known {
                self.reader().check_bounds(index, location)?;
                known = (location.chunk, location.end());
            }
            if location.codec == Codec::ZstdDict {
                self.load_dictionary(location.dictionary)?;
            }
        }
        Ok(())
    }

    pub(crate) fn load_dictionary(&mut self, number: u8) -> Result<()> {
        if !self.has_dictionary(number) {
            let bytes = self.reader().dictionary(number)?;
            self.insert_dictionary(number, &bytes)?;
        }
        Ok(())
    }

    pub(crate) fn has_dictionary(&self, number: u8) -> bool {
        self.dictionaries.contains_key(&number)
    }

    pub(crate) fn insert_dictionary(&mut self, number: u8, bytes: &[u8]) -> Result<()> {
        let dictionary = Z::dictionary(bytes)
            .map_err(|error| Error::corrupt(FileName::Dictionary(number), error.to_string()))?;
        self.dictionaries.insert(number, dictionary);
        Ok(())
    }

    /// Raw records of one chunk: read in the order asked for, the stored bytes
    /// are the records. `None` for any others, and where bytes are missing.
    fn gather_raw(
        &mut self,
        indices: &[u64],
        locations: &[RecordLocation],
    ) -> Result<Option<Vec<u8>>> {
        let Some(first) = locations.first() else { return Ok(None) };
        let is_alike =
            |other: &RecordLocation| other.codec == Codec::Raw && other.chunk == first.chunk;
        let spans: Vec<Span> = locations.iter().map(span).collect();
        let stored_bytes = total_len(&spans);
        if stored_bytes == 0 || !locations.iter().all(is_alike) {
            return Ok(None);
        }
        let file = &self.reader().chunk(first.chunk)?.file;
        let stored = file.read_list(&spans).map_err(Error::io(first.file()))?;
        if (stored.len() as u64) < stored_bytes {
            return Ok(None);
        }
        let mut rest = stored.as_slice();
        for (&index, location) in indices.iter().zip(locations) {
            let (record, behind) = rest.split_at(to_usize(u64::from(location.stored_len)));
            location.check(index, record)?;
            rest = behind;
        }
        Ok(Some(stored))
    }

    /// Reads chunk by chunk, in the order of the file, with one bulk read a
    /// chunk: crossing into the host costs the component about a microsecond.
    fn gather_prepared(
        &mut self,
        indices: &[u64],
        locations: &[RecordLocation],
        ends: &[u64],
        bytes: &mut [u8],
    ) -> Result<()> {
        let mut order: Vec<usize> = (0..indices.len()).collect();
        order.sort_by_key(|&position| (locations[position].chunk, locations[position].offset));
        for group in order.chunk_by(|&a, &b| locations[a].chunk == locations[b].chunk) {
            let stored = self.read_group(group, indices, locations)?;
            let mut start = 0;
            for &position in group {
                let (index, location) = (indices[position], &locations[position]);
                let stored_end = start + to_usize(u64::from(location.stored_len));
                let stored = &stored[start..stored_end];
                start = stored_end;
                location.check(index, stored)?;
                let end = to_usize(ends[position]);
                let dst = &mut bytes[end - to_usize(u64::from(location.len))..end];
                self.decode(index, location, stored, dst)?;
            }
        }
        Ok(())
    }

    pub(crate) fn decode(
        &mut self,
        index: u64,
        location: &RecordLocation,
        stored: &[u8],
        dst: &mut [u8],
    ) -> Result<()> {
        let dictionary = self.dictionaries.get(&location.dictionary);
        unpack_record::<Z>(&mut self.decoder, dictionary, index, location, stored, dst)
    }

    /// The stored bytes of records that lie in one chunk.
    fn read_group(
        &mut self,
        group: &[usize],
        indices: &[u64],
        locations: &[RecordLocation],
    ) -> Result<Vec<u8>> {
        let spans: Vec<Span> = group.iter().map(|&position| span(&locations[position])).collect();
        let first = &locations[group[0]];
        let stored_bytes = total_len(&spans);
        if stored_bytes == 0 {
            return Ok(Vec::new());
        }
        let file = &self.reader().chunk(first.chunk)?.file;
        let stored = file.read_list(&spans).map_err(Error::io(first.file()))?;
        if (stored.len() as u64) < stored_bytes {
            let found = stored.len();
            let reason = format!("{stored_bytes} stored bytes were expected, {found} are there");
            return Err(first.corrupt(indices[group[0]], reason));
        }
        Ok(stored)
    }

    /// Appends records and commits them; returns the index of the first.
    ///
    /// # Errors
    ///
    /// As [`Writer::append`] and [`Packer::new`].
    pub fn append(&mut self, records: &[&[u8]], policy: PackPolicy) -> Result<u64> {
        let newest = self.newest_dictionary(policy.codec)?;
        let dictionary =
            newest.as_ref().map(|(number, bytes)| PackDictionary { number: *number, bytes });
        let packer = Packer::<Z>::new(policy, dictionary)?;
        let mut encoder = PackEncoder::default();
        let mut arena = Arena::default();
        let mut packed: Vec<PackedRecord> = Vec::with_capacity(records.len());
        for record in records {
            packed.push(packer.pack(&mut encoder, record, &mut arena).map_err(unsupported)?);
        }
        let segment = Segment { bytes: arena.bytes(), records: &packed };
        self.writer()?.append(&[segment])
    }

    /// The dictionary that new records use, if `codec` uses one.
    fn newest_dictionary(&mut self, codec: Codec) -> Result<Option<(u8, Vec<u8>)>> {
        let count = self.reader().commit().dictionaries;
        let newest = count.checked_sub(1).and_then(|newest| u8::try_from(newest).ok());
        match (codec, newest) {
            (Codec::ZstdDict, Some(number)) => {
                Ok(Some((number, self.reader().dictionary(number)?)))
            }
            _ => Ok(None),
        }
    }

    /// Deletes records: see [`Writer::delete`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn delete(&mut self, indices: &[u64]) -> Result<()> {
        self.writer()?.delete(indices)
    }

    /// Gives dead bytes back: see [`Writer::compact`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn compact(&mut self, progress: &mut dyn FnMut(Progress)) -> Result<Compaction> {
        self.writer()?.compact(progress)
    }

    /// Trains a dictionary of at most `capacity` bytes from samples packed in
    /// `samples`, and adds it; returns its size in bytes.
    ///
    /// # Errors
    ///
    /// [`Error::Training`], and as [`Writer::add_dictionary`].
    pub fn train_dictionary(
        &mut self,
        samples: &[u8],
        sizes: &[usize],
        capacity: usize,
    ) -> Result<usize> {
        let writer = self.writer()?;
        let bytes = Z::train(samples, sizes, capacity).map_err(|error| match error {
            CodecError::Training(reason) => Error::Training { reason },
            other => unsupported(other),
        })?;
        writer.add_dictionary(&bytes)?;
        // A classic store replaces its one dictionary.
        self.dictionaries.clear();
        Ok(bytes.len())
    }

    /// Adds a dictionary that was trained elsewhere: see
    /// [`Writer::add_dictionary`].
    ///
    /// # Errors
    ///
    /// As there, and [`Error::Corrupt`] for bytes that are none.
    pub fn add_dictionary(&mut self, bytes: &[u8]) -> Result<u8> {
        let next = self.reader().commit().dictionaries;
        let writer = self.writer()?;
        Z::dictionary(bytes).map_err(|error| {
            let number = u8::try_from(next).unwrap_or(u8::MAX);
            Error::corrupt(FileName::Dictionary(number), error.to_string())
        })?;
        let number = writer.add_dictionary(bytes)?;
        // A classic store replaces its one dictionary.
        self.dictionaries.clear();
        Ok(number)
    }

    /// Makes everything committed survive a loss of power.
    ///
    /// # Errors
    ///
    /// As [`Writer::sync`].
    pub fn sync(&mut self) -> Result<()> {
        self.writer()?.sync()
    }

    /// Syncs what was written and writes no more; the store can still be read.
    /// One that was opened for reading is left as it is.
    ///
    /// # Errors
    ///
    /// As [`Writer::close`]; it writes no more then either.
    pub fn end_writing(&mut self) -> Result<()> {
        let ended = self.has_ended;
        self.has_ended = true;
        match &mut self.handle {
            Handle::Writer(writer) if !ended => writer.close(),
            _ => Ok(()),
        }
    }

    /// Syncs what was written and ends.
    ///
    /// # Errors
    ///
    /// As [`Writer::close`].
    pub fn close(mut self) -> Result<()> {
        self.end_writing()
    }

    /// Counts of the store: see [`Reader::stats`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn stats(&mut self) -> Result<Stats> {
        self.reader().stats()
    }
}

/// Where the stored bytes of a record lie in their chunk.
fn span(location: &RecordLocation) -> Span {
    Span { offset: location.offset.into(), len: location.stored_len.into() }
}

fn unsupported(error: CodecError) -> Error {
    Error::Unsupported { what: error.to_string() }
}
