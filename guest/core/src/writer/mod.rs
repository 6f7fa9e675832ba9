//! The only code that changes a store. Committed bytes are never overwritten
//! and there is no journal: data goes past the tail, entries go past the end
//! of the table, and then one small write makes them count.
//!
//! | file | holds |
//! | --- | --- |
//! | here | sync, close, schema, dictionaries, chunk files |
//! | `create` | creating a store |
//! | `takeover` | taking over a store that is there |
//! | `append` | placing records and committing them |
//! | `table` | writing a new table beside the old one and swapping it in |
//! | `delete` | renumbering without the deleted records |
//! | `compact` | giving dead bytes back |

use std::collections::BTreeSet;

use twox_hash::XxHash3_64;

use crate::error::{Error, Result};
use crate::format::{CHUNK_SIZE_MAX, Commit, Format, Tail, classic, extended};
use crate::reader::{DICTIONARY_SIZE_MAX, Identity, Reader};
use crate::schema::Schema;
use crate::storage::{Access, Directory, File, FileName};

mod append;
mod compact;
mod create;
mod delete;
mod table;
mod takeover;

use append::Staged;

pub use append::{Savepoint, Segment};
pub use compact::{Compaction, Progress};

/// A writer syncs by itself after this many appended bytes, so that recovery
/// never has more than these to check.
const UNSYNCED_BYTES_MAX: u64 = 4 << 30;

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
    /// Where the one slot lies that is durable and as new as the last sync:
    /// the other's is older until the table's file is synced again.
    lone_slot: Option<u64>,
    poisoned: bool,
    chunk_size_max: u64,
    chunks_max: u32,
}

impl<D: Directory> Writer<D> {
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
            lone_slot: None,
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

    /// The store as it is read, alone; what is not synced stays so.
    pub fn into_reader(mut self) -> Reader<D> {
        self.discard_staged();
        self.reader.access = Access::Read;
        self.reader
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
        self.sync_meta()
    }

    fn sync_meta(&mut self) -> Result<()> {
        self.reader.meta.sync().map_err(Error::io(FileName::Meta))?;
        self.lone_slot = None;
        Ok(())
    }

    /// Before a slot is overwritten, the other must be durable and rest on the
    /// same sync: a killed process may leave half a slot, and a loss of power
    /// soon after only that half and what the other was before the sync.
    fn guard_lone_slot(&mut self, sequence: u64) -> Result<()> {
        if self.lone_slot != Some(extended::slot_offset(sequence)) {
            return Ok(());
        }
        let result = self.sync_meta();
        self.poisoned = result.is_err();
        result
    }

    /// Says in both slots that everything is durable. The first is synced
    /// before the second is touched, so one of them is always whole.
    fn commit_durable(&mut self) -> Result<()> {
        if let Identity::Extended(id) = *self.reader.identity() {
            let commit = durable(self.reader.commit);
            let slot = extended::encode_slot(&commit, &id);
            let first = extended::slot_offset(commit.sequence);
            self.write_meta(FileName::Meta, &slot, first)?;
            self.sync_meta()?;
            self.lone_slot = Some(first);
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
        self.sync_names(name)
    }

    /// Makes renames and removals durable. When that fails, nobody knows which
    /// of them the disk holds.
    fn sync_names(&mut self, name: FileName) -> Result<()> {
        let result = self.reader.directory.sync().map_err(Error::io(name));
        self.poisoned |= result.is_err();
        result
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
            self.sync_names(name)?;
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
        self.reader.scan_possible(0..length, |index, location| {
            if location.chunk == number && location.stored_len > 0 {
                let reason = format!("record {index} lies in it, past the tail of the store");
                return Err(Error::corrupt(FileName::Chunk(number), reason));
            }
            Ok(())
        })
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
