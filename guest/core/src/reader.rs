//! Opening a store and reading it by position: the header, the record table,
//! stored bytes, dictionaries and the schema.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::io;
use std::ops::Range;

use crate::error::{Error, Result};
use crate::format::{Commit, Format, RecordLocation, classic, extended};
use crate::memory;
use crate::schema::{SCHEMA_SIZE_MAX, Schema};
use crate::storage::{Access, Directory, File, FileName, Span};

/// The most bytes a dictionary file may have. zstd's own trainer makes at
/// most a few MiB; loaderx at most 1 MiB.
pub const DICTIONARY_SIZE_MAX: u64 = 16 << 20;

/// How many entries of the table are read at once when it is scanned.
const ENTRIES_PER_BLOCK: u64 = 4096;
/// How many entries are asked for at once where they lie apart: the batches of
/// a trainer in one go.
const ENTRIES_PER_READ: usize = 1 << 16;
/// A reader keeps at most this many chunk files open.
const CHUNKS_OPEN_MAX: usize = 16;
/// How often a commit slot is read again while a writer is changing it.
const SLOT_ATTEMPTS: u32 = 100;

/// What a store is, fixed at its creation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Identity {
    /// A store as loaderx 0.9 writes it; it has no id.
    Classic,
    /// A store with checksums, and an id drawn at creation.
    Extended(extended::StoreId),
}

impl Identity {
    /// The store's format.
    pub fn format(&self) -> Format {
        match self {
            Self::Classic => Format::Classic,
            Self::Extended(_) => Format::Extended,
        }
    }

    /// Its id, in a format that has one.
    pub fn id(&self) -> Option<extended::StoreId> {
        match self {
            Self::Classic => None,
            Self::Extended(id) => Some(*id),
        }
    }
}

/// An opened store, read by position.
#[derive(Debug)]
pub struct Reader<D: Directory> {
    pub(crate) directory: D,
    pub(crate) access: Access,
    pub(crate) meta: D::File,
    pub(crate) identity: Identity,
    pub(crate) commit: Commit,
    pub(crate) chunks: BTreeMap<u32, Chunk<D::File>>,
}

/// A chunk file and the size it had when it was last asked for.
#[derive(Debug)]
pub(crate) struct Chunk<F> {
    pub(crate) file: F,
    size: u64,
}

impl<D: Directory> Reader<D> {
    /// Opens the store in `directory` and reads its newest commit, without
    /// recovery: see [`crate::recovery`].
    ///
    /// # Errors
    ///
    /// [`Error::Io`] with `NotFound` when there is no `meta.zr`;
    /// [`Error::NotAStore`], [`Error::Unsupported`] or [`Error::Corrupt`] when
    /// it is none that can be read.
    pub fn open(directory: D, access: Access) -> Result<Self> {
        let meta = directory.open(FileName::Meta, access).map_err(Error::io(FileName::Meta))?;
        let identity = read_identity(&meta)?;
        let mut reader = Self {
            directory,
            access,
            meta,
            identity,
            commit: Commit::default(),
            chunks: BTreeMap::new(),
        };
        reader.commit = reader.read_commit()?;
        reader.check_table_size()?;
        Ok(reader)
    }

    /// Takes over files that a writer has just created.
    pub(crate) fn created(directory: D, meta: D::File, identity: Identity, commit: Commit) -> Self {
        let chunks = BTreeMap::new();
        Self { directory, access: Access::Write, meta, identity, commit, chunks }
    }

    /// The directory of the store.
    pub fn directory(&self) -> &D {
        &self.directory
    }

    /// What the store is.
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// The store's format.
    pub fn format(&self) -> Format {
        self.identity.format()
    }

    /// The commit that reads see.
    pub fn commit(&self) -> &Commit {
        &self.commit
    }

    /// Follows a writer: reads the header again. Never goes back.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open).
    pub fn refresh(&mut self) -> Result<&Commit> {
        let newest = self.read_commit()?;
        let newer = match self.format() {
            Format::Extended => newest.sequence > self.commit.sequence,
            Format::Classic => newest.length > self.commit.length,
        };
        if newer {
            self.commit = newest;
        }
        Ok(&self.commit)
    }

    fn read_commit(&self) -> Result<Commit> {
        match self.identity {
            Identity::Classic => self.read_classic_commit(),
            Identity::Extended(id) => {
                for _ in 0..SLOT_ATTEMPTS {
                    if let Some(newest) = newest_first(read_slots(&self.meta, &id)?).next() {
                        return Ok(newest);
                    }
                }
                Err(Error::corrupt(FileName::Meta, "neither of its commit slots is valid"))
            }
        }
    }

    fn read_classic_commit(&self) -> Result<Commit> {
        let commit = self.read_classic_header()?;
        let dictionaries = u32::from(self.exists(FileName::Dictionary(0))?);
        Ok(Commit { dictionaries, ..commit })
    }

    /// What the header alone says.
    pub(crate) fn read_classic_header(&self) -> Result<Commit> {
        let mut header = [0; classic::HEADER_SIZE];
        read_exact(&self.meta, FileName::Meta, &mut header, 0)?;
        classic::decode_header(&header).map_err(|reason| Error::corrupt(FileName::Meta, reason))
    }

    /// The table must be there as far as the header counts.
    fn check_table_size(&self) -> Result<()> {
        let size = self.meta.size().map_err(Error::io(FileName::Meta))?;
        // A slot that counts entries which a loss of power took is for
        // recovery to judge; what was synced must be there in any case.
        let counted = self.commit.durable_length;
        let needed = self.format().entry_offset(counted);
        if size < needed {
            let reason =
                format!("it has {size} bytes, {counted} records need {needed}; it was cut short");
            return Err(Error::corrupt(FileName::Meta, reason));
        }
        Ok(())
    }

    /// Where records `indices` lie.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfRange`], or [`Error::CorruptRecord`] for an entry that no
    /// writer writes.
    pub fn locations(&self, indices: &[u64]) -> Result<Vec<RecordLocation>> {
        let format = self.format();
        let length = self.commit.length;
        if let Some(&index) = indices.iter().find(|&&index| index >= length) {
            return Err(Error::OutOfRange { index, length });
        }
        let len = format.entry_size();
        let io = Error::io;
        let mut locations = memory::with_room(indices.len()).map_err(io(FileName::Meta))?;
        let mut spans = Vec::new();
        // In blocks, so that what is read takes no memory beside the answer.
        for indices in indices.chunks(ENTRIES_PER_READ) {
            spans.clear();
            spans.extend(
                indices.iter().map(|&index| Span { offset: format.entry_offset(index), len }),
            );
            let entries = self.meta.read_list(&spans).map_err(io(FileName::Meta))?;
            if entries.len() < to_usize(len) * indices.len() {
                return Err(Error::corrupt(FileName::Meta, "its record table was cut short"));
            }
            for (&index, entry) in indices.iter().zip(entries.chunks_exact(to_usize(len))) {
                locations.push(format.decode_entry(entry, index)?);
            }
        }
        Ok(locations)
    }

    /// Where record `index` lies, counted or not.
    pub(crate) fn location(&self, index: u64) -> Result<RecordLocation> {
        let mut entry = Vec::new();
        self.entries(index, 1, &mut entry)?;
        self.format().decode_entry(&entry, index)
    }

    /// The entries of records `first..first + count` as bytes.
    pub(crate) fn entries(&self, first: u64, count: u64, bytes: &mut Vec<u8>) -> Result<()> {
        let format = self.format();
        bytes.resize(to_usize(count * format.entry_size()), 0);
        read_exact(&self.meta, FileName::Meta, bytes, format.entry_offset(first))
    }

    /// Visits the locations of records `range` in order.
    ///
    /// # Errors
    ///
    /// What `visit` returns, and [`Error::CorruptRecord`] for an entry that no
    /// writer writes.
    pub fn scan(
        &self,
        range: Range<u64>,
        mut visit: impl FnMut(u64, RecordLocation) -> Result<()>,
    ) -> Result<()> {
        self.scan_entries(range, |index, location| visit(index, location?))
    }

    /// As [`scan`](Self::scan), passing over entries that no writer writes.
    pub(crate) fn scan_possible(
        &self,
        range: Range<u64>,
        mut visit: impl FnMut(u64, RecordLocation) -> Result<()>,
    ) -> Result<()> {
        self.scan_entries(range, |index, location| {
            location.map_or(Ok(()), |location| visit(index, location))
        })
    }

    fn scan_entries(
        &self,
        range: Range<u64>,
        mut visit: impl FnMut(u64, Result<RecordLocation>) -> Result<()>,
    ) -> Result<()> {
        let format = self.format();
        let size = to_usize(format.entry_size());
        let mut bytes = Vec::new();
        for (first, count) in blocks(range) {
            self.entries(first, count, &mut bytes)?;
            for (index, entry) in (first..).zip(bytes.chunks_exact(size)) {
                visit(index, format.decode_entry(entry, index))?;
            }
        }
        Ok(())
    }

    /// Reads the stored bytes of one record into `buffer`, which is resized.
    ///
    /// # Errors
    ///
    /// [`Error::CorruptRecord`] when the chunk is too short for it.
    pub fn read_stored(
        &mut self,
        index: u64,
        location: &RecordLocation,
        buffer: &mut Vec<u8>,
    ) -> Result<()> {
        self.check_bounds(index, location)?;
        let stored_len = to_usize(u64::from(location.stored_len));
        // Shrinking takes none.
        let missing = stored_len.saturating_sub(buffer.len());
        memory::reserve(buffer, missing).map_err(Error::io(location.file()))?;
        buffer.resize(stored_len, 0);
        if buffer.is_empty() {
            return Ok(());
        }
        let file = &self.chunk(location.chunk)?.file;
        let read =
            file.read(buffer, u64::from(location.offset)).map_err(Error::io(location.file()))?;
        if read < buffer.len() {
            return Err(short(index, location, read));
        }
        Ok(())
    }

    /// Checks that the chunk is long enough for a record, before anything is
    /// allocated for it.
    pub(crate) fn check_bounds(&mut self, index: u64, location: &RecordLocation) -> Result<()> {
        if location.stored_len == 0 {
            return Ok(());
        }
        let missing = |source: Error| match source {
            Error::Io { source, .. } if source.kind() == io::ErrorKind::NotFound => {
                location.corrupt(index, "the chunk file is missing")
            }
            other => other,
        };
        let chunk = self.chunk(location.chunk).map_err(missing)?;
        if location.end() > chunk.size {
            chunk.size = chunk.file.size().map_err(Error::io(location.file()))?;
        }
        if location.end() > chunk.size {
            let found = chunk.size.saturating_sub(u64::from(location.offset));
            return Err(short(index, location, to_usize(found)));
        }
        Ok(())
    }

    /// The file of a chunk, opened when it is first asked for.
    pub(crate) fn chunk(&mut self, number: u32) -> Result<&mut Chunk<D::File>> {
        // What a writer has written through a file it also syncs through it.
        let is_full = self.chunks.len() >= CHUNKS_OPEN_MAX && self.access == Access::Read;
        if is_full && !self.chunks.contains_key(&number) {
            self.chunks.pop_first();
        }
        match self.chunks.entry(number) {
            Entry::Occupied(entry) => Ok(entry.into_mut()),
            Entry::Vacant(entry) => {
                let name = FileName::Chunk(number);
                let file = self.directory.open(name, self.access).map_err(Error::io(name))?;
                Ok(entry.insert(Chunk { file, size: 0 }))
            }
        }
    }

    /// Remembers a chunk file that a writer has just created.
    pub(crate) fn insert_chunk(&mut self, number: u32, file: D::File) {
        self.chunks.insert(number, Chunk { file, size: 0 });
    }

    /// The size of a chunk file; `None` when there is none.
    pub(crate) fn chunk_size(&mut self, number: u32) -> Result<Option<u64>> {
        match self.chunk(number) {
            Ok(chunk) => chunk.file.size().map(Some).map_err(Error::io(FileName::Chunk(number))),
            Err(Error::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The bytes of a dictionary, checked against its hash where there is one.
    ///
    /// # Errors
    ///
    /// [`Error::Corrupt`] naming the dictionary's file.
    pub fn dictionary(&self, number: u8) -> Result<Vec<u8>> {
        let name = FileName::Dictionary(number);
        if u32::from(number) >= self.commit.dictionaries {
            return Err(Error::corrupt(name, "a record uses it, but the store does not count it"));
        }
        let bytes = self.read_small(name, DICTIONARY_SIZE_MAX)?;
        if self.format() == Format::Extended {
            check_hash(name, &bytes, self.dictionary_hash(number)?)?;
        }
        Ok(bytes)
    }

    /// The schema, if the store is typed.
    ///
    /// # Errors
    ///
    /// [`Error::Corrupt`] or [`Error::Unsupported`] naming `schema.msgpack`.
    pub fn schema(&self) -> Result<Option<Schema>> {
        let bytes = match (self.format(), self.commit.schema_hash) {
            // A schema that no commit counts is the leftover of a cut write.
            (Format::Extended, 0) => return Ok(None),
            (Format::Extended, hash) => {
                let bytes = self.read_small(FileName::Schema, SCHEMA_SIZE_MAX as u64)?;
                check_hash(FileName::Schema, &bytes, hash)?;
                bytes
            }
            (Format::Classic, _) => match self.read_small(FileName::Schema, SCHEMA_SIZE_MAX as u64)
            {
                Ok(bytes) => bytes,
                Err(Error::Corrupt { .. }) if !self.exists(FileName::Schema)? => return Ok(None),
                Err(error) => return Err(error),
            },
        };
        Schema::decode(&bytes, self.format()).map(Some)
    }

    /// Whether a file is there.
    pub(crate) fn exists(&self, name: FileName) -> Result<bool> {
        match self.directory.open(name, Access::Read) {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(Error::io(name)(error)),
        }
    }

    /// Reads a whole file that must be there and not be larger than `limit`.
    pub(crate) fn read_small(&self, name: FileName, limit: u64) -> Result<Vec<u8>> {
        let file =
            self.directory.open(name, Access::Read).map_err(|source| match source.kind() {
                io::ErrorKind::NotFound => Error::corrupt(name, "it is missing"),
                _ => Error::io(name)(source),
            })?;
        let size = file.size().map_err(Error::io(name))?;
        if size > limit {
            return Err(Error::corrupt(name, format!("it has {size} bytes, the limit is {limit}")));
        }
        let mut bytes = vec![0; to_usize(size)];
        read_exact(&file, name, &mut bytes, 0)?;
        Ok(bytes)
    }
}

/// Recognises the format by its first bytes.
pub(crate) fn read_identity(meta: &impl File) -> Result<Identity> {
    let mut head = [0; extended::IDENTITY_SIZE];
    let read = meta.read(&mut head, 0).map_err(Error::io(FileName::Meta))?;
    let not_a_store = |reason: String| Error::NotAStore { reason };
    if read < classic::HEADER_SIZE {
        return Err(not_a_store(format!("meta.zr has {read} bytes, fewer than any header")));
    }
    if head.starts_with(&classic::MAGIC) {
        return Ok(Identity::Classic);
    }
    if !head.starts_with(&extended::MAGIC) {
        return Err(not_a_store(format!("meta.zr begins with {:02x?}", &head[..4])));
    }
    if read < head.len() {
        return Err(Error::corrupt(FileName::Meta, format!("it was cut to {read} bytes")));
    }
    extended::decode_identity(&head)
        .map(Identity::Extended)
        .map_err(|reason| Error::corrupt(FileName::Meta, reason))
}

/// Both commit slots, each if it is valid.
pub(crate) fn read_slots(meta: &impl File, id: &extended::StoreId) -> Result<[Option<Commit>; 2]> {
    let mut slots = [None; 2];
    for (slot, sequence) in slots.iter_mut().zip(0..) {
        let mut bytes = [0; extended::SLOT_SIZE];
        read_exact(meta, FileName::Meta, &mut bytes, extended::slot_offset(sequence))?;
        *slot = extended::decode_slot(&bytes, id);
    }
    Ok(slots)
}

/// The valid slots, the newest first; of two that claim one sequence, the
/// first page's. Whoever chooses a slot chooses it here.
pub(crate) fn newest_first(slots: [Option<Commit>; 2]) -> impl Iterator<Item = Commit> {
    let [one, other] = slots;
    let swapped = matches!((one, other), (Some(one), Some(other)) if one.sequence < other.sequence);
    let ordered = if swapped { [other, one] } else { [one, other] };
    ordered.into_iter().flatten()
}

/// Cuts a range of records into blocks of the table that are read at once.
pub(crate) fn blocks(range: Range<u64>) -> impl Iterator<Item = (u64, u64)> {
    let step = usize::try_from(ENTRIES_PER_BLOCK).unwrap_or(usize::MAX);
    range.clone().step_by(step).map(move |first| (first, ENTRIES_PER_BLOCK.min(range.end - first)))
}

fn check_hash(name: FileName, bytes: &[u8], expected: u64) -> Result<()> {
    let found = extended::file_hash(bytes);
    if found == expected {
        return Ok(());
    }
    Err(Error::corrupt(name, format!("its hash is {found:016x}, expected {expected:016x}")))
}

pub(crate) fn read_exact(
    file: &impl File,
    name: FileName,
    buffer: &mut [u8],
    offset: u64,
) -> Result<()> {
    let read = file.read(buffer, offset).map_err(Error::io(name))?;
    if read == buffer.len() {
        return Ok(());
    }
    let reason = format!("{} bytes at {offset} were expected, {read} are there", buffer.len());
    Err(Error::corrupt(name, reason))
}

fn short(index: u64, location: &RecordLocation, found: usize) -> Error {
    location.corrupt(
        index,
        format!("{} stored bytes were expected, {found} are there", location.stored_len),
    )
}

/// Sizes that were checked against a limit or a file fit the address space,
/// or allocating them fails in its own way.
pub(crate) fn to_usize(value: u64) -> usize {
    usize::try_from(value).unwrap_or(usize::MAX)
}
