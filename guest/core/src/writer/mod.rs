//! The only code that changes a store. Committed bytes are never overwritten
//! and there is no journal: data goes past the tail, entries go past the end
//! of the table, and then one small write makes them count.
//!
//! | file | holds |
//! | --- | --- |
//! | here | creating, taking over a store, sync, close, schema, dictionaries |
//! | `append` | placing records and committing them |
//! | `table` | writing a new table beside the old one and swapping it in |
//! | `delete` | renumbering without the deleted records |
//! | `compact` | giving dead bytes back |

use std::collections::BTreeSet;
use std::io;

use twox_hash::XxHash3_64;

use crate::error::{Error, Result};
use crate::format::{CHUNK_SIZE_MAX, Commit, Format, Tail, classic, extended};
use crate::reader::{DICTIONARY_SIZE_MAX, Identity, Reader};
use crate::recovery::Recovery;
use crate::schema::Schema;
use crate::storage::{Access, Directory, File, FileName};

mod append;
mod compact;
mod delete;
mod table;

use append::Staged;

pub use append::Segment;
pub use compact::{Compaction, Progress};

/// A writer syncs by itself after this many appended bytes, so that recovery
/// never has more than these to check.
const UNSYNCED_BYTES_MAX: u64 = 4 << 30;

/// How many chunks are looked at for records before a store is created.
const CHUNKS_LOOKED_AT: u32 = 4;

/// The one writer of a store. Whoever makes it holds the writer's lock.
///
/// Every operation either does all that it says or leaves the store as it
/// was; a failed sync alone makes the handle refuse further writing, since
/// nobody then knows what the disk holds.
pub struct Writer<D: Directory> {
    reader: Reader<D>,
    /// Over the entries `durable_length..length`.
    unsynced: XxHash3_64,
    unsynced_bytes: u64,
    /// Written past the end of the store, not counted yet.
    staged: Option<Staged>,
    dirty_chunks: BTreeSet<u32>,
    /// Chunk files begun since the last commit.
    new_chunks: BTreeSet<u32>,
    names_changed: bool,
    /// What this handle has written is not yet synced.
    dirty: bool,
    poisoned: bool,
    chunk_size_max: u64,
    chunks_max: u32,
}

impl<D: Directory> Writer<D> {
    /// Creates a store in an existing directory. It exists once its `meta.zr`
    /// is renamed into place: a cut creation leaves nothing that looks like a
    /// store or stands in the way of creating it again.
    ///
    /// # Errors
    ///
    /// [`Error::AlreadyExists`]; [`Error::NotAStore`] when there are chunks
    /// whose `meta.zr` is missing; IO errors.
    pub fn create(directory: D, identity: Identity) -> Result<Self> {
        match directory.open(FileName::Meta, Access::Read) {
            Ok(_) => return Err(Error::AlreadyExists),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(Error::io(FileName::Meta)(error)),
        }
        check_no_records(&directory)?;
        let commit = Commit { unsynced_hash: extended::EMPTY_HASH, ..Commit::default() };
        let meta = directory.create(FileName::MetaNew).map_err(Error::io(FileName::MetaNew))?;
        let reader = Reader::created(directory, meta, identity, commit);
        let mut writer = Self::over(reader);
        if let Err(error) = writer.write_new_store(identity, commit) {
            writer.abandon_table();
            if writer.reader.chunks.remove(&0).is_some() {
                let _ = writer.reader.directory.remove(FileName::Chunk(0));
            }
            return Err(error);
        }
        writer.reader.directory.sync().map_err(Error::io(FileName::Meta))?;
        writer.forget_unsynced();
        Ok(writer)
    }

    /// The files of a new store, up to the rename by which it exists.
    fn write_new_store(&mut self, identity: Identity, commit: Commit) -> Result<()> {
        let is_classic = identity.format() == Format::Classic;
        if is_classic {
            // loaderx expects the first chunk beside the header.
            self.create_chunk(0)?;
        }
        let header = table::header(&identity, &commit, None);
        self.write_meta(FileName::MetaNew, &header, 0)?;
        if is_classic {
            let size = classic::META_SIZE;
            self.reader.meta.set_size(size).map_err(Error::io(FileName::MetaNew))?;
        }
        self.rename_meta(&self.reader.meta)
    }

    /// Takes over an existing store: reads its newest commit again, recovers,
    /// and makes the outcome durable when the store was not closed cleanly.
    ///
    /// # Errors
    ///
    /// As [`Reader::recover`], and IO errors.
    pub fn open(mut reader: Reader<D>) -> Result<(Self, Recovery)> {
        reader.refresh()?;
        let recovery = reader.recover()?;
        let mut writer = Self::over(reader);
        writer.check_sequence()?;
        match writer.reader.format() {
            Format::Classic => {
                writer.check_tail()?;
                writer.restore_sparse_sizes()?;
                writer.mark_everything_dirty()?;
            }
            Format::Extended => {
                if recovery.unclean {
                    writer.mark_unsynced_dirty()?;
                    writer.sync()?;
                } else {
                    writer.sync_found()?;
                }
                writer.cut_uncommitted()?;
                // So it is after every sync. A forged one would have recovery
                // take the next records for misplaced.
                writer.reader.commit.durable_tail = writer.commit().tail;
            }
        }
        Ok((writer, recovery))
    }

    fn over(reader: Reader<D>) -> Self {
        let chunks_max = reader.format().chunks_max();
        Self {
            reader,
            unsynced: XxHash3_64::new(),
            unsynced_bytes: 0,
            staged: None,
            dirty_chunks: BTreeSet::new(),
            new_chunks: BTreeSet::new(),
            names_changed: false,
            dirty: false,
            poisoned: false,
            chunk_size_max: CHUNK_SIZE_MAX,
            chunks_max,
        }
    }

    /// Begins a new chunk when one would grow beyond `bytes`, instead of at
    /// the format's limit. A record larger than that gets a chunk of its own.
    pub fn set_chunk_size_max(&mut self, bytes: u64) {
        self.chunk_size_max = bytes.min(CHUNK_SIZE_MAX);
    }

    /// Holds the store to chunk numbers below `count`, instead of the format's
    /// limit.
    pub fn set_chunks_max(&mut self, count: u32) {
        self.chunks_max = count.min(self.format().chunks_max());
    }

    /// The store as its writer sees it.
    pub fn reader(&mut self) -> &mut Reader<D> {
        &mut self.reader
    }

    /// The newest commit.
    pub fn commit(&self) -> &Commit {
        &self.reader.commit
    }

    /// The store's format.
    pub fn format(&self) -> Format {
        self.reader.format()
    }

    /// Makes everything committed survive a loss of power.
    ///
    /// # Errors
    ///
    /// [`Error::Io`]; the handle then refuses to write. [`Error::Busy`] while
    /// records are staged.
    pub fn sync(&mut self) -> Result<()> {
        self.check_settled()?;
        if !self.dirty {
            return Ok(());
        }
        let result = self.sync_files().and_then(|()| self.commit_durable());
        self.poisoned = result.is_err();
        result
    }

    /// Takes staged records back and syncs, if there is anything to sync.
    ///
    /// # Errors
    ///
    /// As [`sync`](Self::sync); [`Error::Poisoned`] when an earlier one failed,
    /// which nobody may have been told: a writer also syncs by itself.
    pub fn close(&mut self) -> Result<()> {
        self.discard_staged();
        self.sync()
    }

    fn sync_files(&mut self) -> Result<()> {
        for &number in &self.dirty_chunks {
            let name = FileName::Chunk(number);
            self.reader.chunk(number)?.file.sync().map_err(Error::io(name))?;
        }
        if self.names_changed {
            self.reader.directory.sync().map_err(Error::io(FileName::Meta))?;
        }
        self.reader.meta.sync().map_err(Error::io(FileName::Meta))
    }

    /// Says in both slots that everything is durable. The first is synced
    /// before the second is touched, so one of them is always whole.
    fn commit_durable(&mut self) -> Result<()> {
        if let Identity::Extended(id) = *self.reader.identity() {
            let commit = durable(self.reader.commit);
            let slot = extended::encode_slot(&commit, &id);
            self.write_meta(FileName::Meta, &slot, extended::slot_offset(commit.sequence))?;
            self.reader.meta.sync().map_err(Error::io(FileName::Meta))?;
            self.write_meta(FileName::Meta, &slot, extended::slot_offset(commit.sequence + 1))?;
            self.reader.commit = commit;
        }
        self.forget_unsynced();
        Ok(())
    }

    fn forget_unsynced(&mut self) {
        self.unsynced = XxHash3_64::new();
        self.unsynced_bytes = 0;
        self.dirty_chunks.clear();
        self.new_chunks.clear();
        self.names_changed = false;
        self.dirty = false;
    }

    /// Makes the store typed. Only an empty one can become so.
    ///
    /// # Errors
    ///
    /// [`Error::SchemaMismatch`] when the store has another schema or records.
    pub fn set_schema(&mut self, schema: &Schema) -> Result<()> {
        self.check_settled()?;
        if let Some(existing) = self.reader.schema()? {
            return existing.same_layout(schema);
        }
        if self.commit().length > 0 {
            let reason = format!("the store holds {} untyped records", self.commit().length);
            return Err(Error::SchemaMismatch { reason });
        }
        let bytes = schema.encode(self.format())?;
        self.replace_file(FileName::SchemaNew, FileName::Schema, &bytes)?;
        if self.format() == Format::Extended {
            let hash = extended::file_hash(&bytes);
            self.commit_change(|commit| commit.schema_hash = hash)?;
        }
        Ok(())
    }

    /// Adds a dictionary; records packed from now on may use it. Durable when
    /// it returns. Its number in the store is returned.
    ///
    /// # Errors
    ///
    /// [`Error::Full`] when the store has all that its format allows,
    /// [`Error::Unsupported`] in a classic store that already uses its one.
    pub fn add_dictionary(&mut self, bytes: &[u8]) -> Result<u8> {
        self.check_settled()?;
        if bytes.len() as u64 > DICTIONARY_SIZE_MAX {
            let reason = format!("{} bytes, the limit is {DICTIONARY_SIZE_MAX}", bytes.len());
            return Err(Error::InvalidArgument { argument: "dictionary", reason });
        }
        match self.format() {
            Format::Classic => self.replace_classic_dictionary(bytes),
            Format::Extended => self.add_extended_dictionary(bytes),
        }
    }

    fn replace_classic_dictionary(&mut self, bytes: &[u8]) -> Result<u8> {
        let mut used = None;
        self.reader.scan(0..self.commit().length, |index, location| {
            if location.codec == crate::codec::Codec::ZstdDict {
                used.get_or_insert(index);
            }
            Ok(())
        })?;
        if let Some(index) = used {
            let what = format!(
                "another dictionary in a classic store: record {index} needs the one it has; \
                 convert it to the extended format, which holds several"
            );
            return Err(Error::Unsupported { what });
        }
        // As in an extended store, whatever was before it is durable with it.
        self.sync()?;
        self.replace_file(FileName::DictionaryNew(0), FileName::Dictionary(0), bytes)?;
        self.reader.commit.dictionaries = 1;
        Ok(0)
    }

    fn add_extended_dictionary(&mut self, bytes: &[u8]) -> Result<u8> {
        let count = self.commit().dictionaries;
        let number = u8::try_from(count).map_err(|_| Error::Full {
            reason: format!("it has {count} dictionaries, the limit"),
        })?;
        self.replace_file(FileName::DictionaryNew(number), FileName::Dictionary(number), bytes)?;
        let hash = extended::file_hash(bytes).to_le_bytes();
        self.write_meta(FileName::Meta, &hash, extended::dictionary_hash_offset(number))?;
        // The hash must be on the disk before a slot counts it: `sync` writes
        // the slot after it has synced the table's file.
        self.commit_change(|commit| commit.dictionaries = count + 1)?;
        Ok(number)
    }

    /// Commits a change of the header alone, durably.
    fn commit_change(&mut self, change: impl FnOnce(&mut Commit)) -> Result<()> {
        let before = self.reader.commit;
        self.dirty = true;
        let result = self.sync_files().and_then(|()| {
            change(&mut self.reader.commit);
            self.commit_durable()
        });
        if result.is_err() {
            self.reader.commit = before;
            self.poisoned = true;
        }
        result
    }

    /// Writes a small file beside its name and renames it into place, durably.
    fn replace_file(&mut self, new: FileName, name: FileName, bytes: &[u8]) -> Result<()> {
        let file = self.reader.directory.create(new).map_err(Error::io(new))?;
        let written = file.write(bytes, 0).and_then(|()| file.sync());
        let renamed = written
            .map_err(Error::io(new))
            .and_then(|()| self.reader.directory.rename(new, name).map_err(Error::io(name)));
        if renamed.is_err() {
            // Left behind, it means nothing, and the next one replaces it.
            let _ = self.reader.directory.remove(new);
        }
        renamed?;
        self.reader.directory.sync().map_err(Error::io(name))
    }

    fn check_writable(&self) -> Result<()> {
        if self.poisoned { Err(Error::Poisoned) } else { Ok(()) }
    }

    /// Writable, and nothing staged that a change of the header would lose.
    fn check_settled(&self) -> Result<()> {
        self.check_writable()?;
        match self.staged {
            None => Ok(()),
            Some(_) => Err(Error::Busy { reason: "records are staged: commit them first".into() }),
        }
    }

    fn write_meta(&self, name: FileName, bytes: &[u8], offset: u64) -> Result<()> {
        self.reader.meta.write(bytes, offset).map_err(Error::io(name))
    }

    /// Creates a chunk file. One that is there already is the leftover of a
    /// cut write, unless the table says otherwise.
    fn create_chunk(&mut self, number: u32) -> Result<()> {
        let name = FileName::Chunk(number);
        if self.reader.chunk_size(number)?.is_some_and(|size| size > 0) {
            self.check_unused(number)?;
        }
        self.reader.chunks.remove(&number);
        let file = self.reader.directory.create(name).map_err(Error::io(name))?;
        self.names_changed = true;
        self.reader.insert_chunk(number, file);
        if self.format() == Format::Classic {
            if let Err(error) = self.grow_sparse(number) {
                self.reader.chunks.remove(&number);
                let _ = self.reader.directory.remove(name);
                return Err(error);
            }
            let result = self.reader.directory.sync();
            self.poisoned |= result.is_err();
            result.map_err(Error::io(name))?;
        }
        Ok(())
    }

    /// Gives a classic chunk file its full size, durably: a classic header
    /// does not say what was synced, and whatever it counts must have a place
    /// after a loss of power, or nobody could write to the store again.
    fn grow_sparse(&mut self, number: u32) -> Result<()> {
        let name = FileName::Chunk(number);
        let file = &self.reader.chunk(number)?.file;
        file.set_size(classic::CHUNK_FILE_SIZE).map_err(Error::io(name))?;
        let result = file.sync();
        self.poisoned |= result.is_err();
        result.map_err(Error::io(name))
    }

    fn check_unused(&self, number: u32) -> Result<()> {
        let length = self.reader.commit.length;
        self.reader.scan(0..length, |index, location| {
            if location.chunk == number && location.stored_len > 0 {
                let reason = format!("record {index} lies in it, past the tail of the store");
                return Err(Error::corrupt(FileName::Chunk(number), reason));
            }
            Ok(())
        })
    }

    /// loaderx maps its files at their full sparse sizes and dies of a short
    /// one, so files that were cut to their used length grow again before the
    /// first write. One that lacks used bytes is damaged and stays as it is.
    fn restore_sparse_sizes(&mut self) -> Result<()> {
        let tail = self.commit().tail;
        let mut needed = std::collections::BTreeMap::from([(tail.chunk, u64::from(tail.offset))]);
        let meta_size = self.reader.meta.size().map_err(Error::io(FileName::Meta))?;
        let cut = meta_size < classic::META_SIZE || self.any_chunk_cut(tail.chunk)?;
        if !cut {
            return Ok(());
        }
        self.reader.scan(0..self.commit().length, |_, location| {
            let end = needed.entry(location.chunk).or_default();
            *end = (*end).max(location.end());
            Ok(())
        })?;
        for (&number, &end) in &needed {
            // Of a chunk that is missing altogether no zeros are made: records
            // that lie in it, or say so and are damaged, go on being errors.
            let missing = (number == tail.chunk).then_some(0);
            let Some(size) = self.reader.chunk_size(number)?.or(missing) else { continue };
            if size < end {
                let reason = format!("it has {size} bytes, its records end at {end}");
                return Err(Error::corrupt(FileName::Chunk(number), reason));
            }
        }
        for &number in needed.keys() {
            match self.reader.chunk_size(number)? {
                None if number == tail.chunk => self.create_chunk(number)?,
                Some(size) if size < classic::CHUNK_FILE_SIZE => self.grow_sparse(number)?,
                _ => {}
            }
        }
        let meta = &self.reader.meta;
        meta.set_size(classic::META_SIZE.max(meta_size)).map_err(Error::io(FileName::Meta))?;
        // As chunks: see `grow_sparse`.
        meta.sync().map_err(Error::io(FileName::Meta))
    }

    fn any_chunk_cut(&mut self, tail_chunk: u32) -> Result<bool> {
        for number in 0..=tail_chunk {
            let size = self.reader.chunk_size(number)?;
            if size.is_some_and(|size| size < classic::CHUNK_FILE_SIZE) || size.is_none() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// A writer that was killed between a change and its sync leaves a store
    /// that is clean and yet not durable: a table that was renamed into place
    /// could be gone again, with all that was written to it since.
    fn sync_found(&self) -> Result<()> {
        self.reader.meta.sync().map_err(Error::io(FileName::Meta))?;
        self.reader.directory.sync().map_err(Error::io(FileName::Meta))
    }

    /// A classic header does not say what was synced, and loaderx never syncs
    /// its table, so the first sync covers everything.
    fn mark_everything_dirty(&mut self) -> Result<()> {
        for number in 0..=self.commit().tail.chunk {
            if self.reader.chunk_size(number)?.is_some() {
                self.dirty_chunks.insert(number);
            }
        }
        self.names_changed = true;
        self.dirty = true;
        Ok(())
    }

    /// What the last writer committed and did not sync is this one's to sync.
    fn mark_unsynced_dirty(&mut self) -> Result<()> {
        let Commit { durable_length, length, .. } = *self.commit();
        let dirty = &mut self.dirty_chunks;
        self.reader.scan(durable_length..length, |_, location| {
            if location.stored_len > 0 {
                dirty.insert(location.chunk);
            }
            Ok(())
        })?;
        self.names_changed = true;
        self.dirty = true;
        Ok(())
    }

    fn check_sequence(&self) -> Result<()> {
        let sequence = self.commit().sequence;
        if sequence <= extended::SEQUENCE_WRITABLE_MAX {
            return Ok(());
        }
        let reason = format!("its newest commit has number {sequence}, which no writer reaches");
        Err(Error::corrupt(FileName::Meta, reason))
    }

    /// No record may lie past the tail: what goes there next would overwrite
    /// it. No writer leaves such a store.
    fn check_tail(&self) -> Result<()> {
        let Commit { tail, length, .. } = *self.commit();
        self.reader.scan(0..length, |index, location| {
            if location.is_past(tail) {
                let reason = format!("it ends past the tail of the store, {}", tail.offset);
                return Err(location.corrupt(index, reason));
            }
            Ok(())
        })
    }

    /// Files of an extended store have exactly their used length.
    fn cut_uncommitted(&mut self) -> Result<()> {
        let Commit { tail, length, .. } = *self.commit();
        if self.reader.chunk_size(tail.chunk)?.is_some_and(|size| size > u64::from(tail.offset)) {
            self.check_tail()?;
        }
        let end = Format::Extended.entry_offset(length);
        if self.reader.meta.size().map_err(Error::io(FileName::Meta))? > end {
            self.reader.meta.set_size(end).map_err(Error::io(FileName::Meta))?;
        }
        self.cut_chunk(tail)
    }

    /// Cuts a chunk file to its used length, if it is longer.
    fn cut_chunk(&mut self, tail: Tail) -> Result<()> {
        let end = u64::from(tail.offset);
        if self.reader.chunk_size(tail.chunk)?.is_some_and(|size| size > end) {
            let name = FileName::Chunk(tail.chunk);
            self.reader.chunk(tail.chunk)?.file.set_size(end).map_err(Error::io(name))?;
        }
        Ok(())
    }
}

/// A table that is missing, or that a copy has not brought yet, is no reason
/// to write over the records it tells of. What a cut creation leaves is empty
/// or reads as zeros.
fn check_no_records<D: Directory>(directory: &D) -> Result<()> {
    for number in 0..CHUNKS_LOOKED_AT {
        let name = FileName::Chunk(number);
        let file = match directory.open(name, Access::Read) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(Error::io(name)(error)),
        };
        let mut head = [0; 4096];
        let read = file.read(&mut head, 0).map_err(Error::io(name))?;
        if head[..read].iter().any(|byte| *byte != 0) {
            let reason = format!(
                "{name} holds records, but meta.zr is missing; put it back, or remove the chunks"
            );
            return Err(Error::NotAStore { reason });
        }
    }
    Ok(())
}

/// The commit that follows `commit` once everything is durable.
fn durable(commit: Commit) -> Commit {
    Commit {
        sequence: commit.sequence + 1,
        durable_length: commit.length,
        durable_tail: commit.tail,
        unsynced_hash: extended::EMPTY_HASH,
        ..commit
    }
}
