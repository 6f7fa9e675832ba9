//! [`Store`]: records by index, from any number of threads.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arc_swap::{ArcSwap, Guard};
use zrecord_core::codec::Codec;
use zrecord_core::format::Format;
use zrecord_core::schema::Schema;
use zrecord_core::storage::FileName;
use zrecord_core::usage::Stats;
use zrecord_core::verify::Fault;
use zrecord_core::writer::{Compaction, Progress};

use crate::error::{Error, Result};
use crate::gather::Places;
use crate::handle::Handle;
use crate::inspect::Inspection;
use crate::options::{Io, OpenOptions, Verify};
use crate::process;
use crate::view::View;

/// An open store.
///
/// Every method takes `&self`: gathers and appends run at once from any
/// number of threads, and readers see a committed prefix. Closing finishes
/// running gathers first; dropping closes, and logs what goes wrong.
///
/// In a forked child a store still reads, over files it opens for itself, and
/// refuses to change anything.
pub struct Store {
    path: PathBuf,
    handle: ArcSwap<Handle>,
    /// Said by a forked child of its copy; the handle itself knows otherwise.
    closed_after_fork: AtomicBool,
}

impl Store {
    /// Opens the store at `path` for reading; writes nothing.
    ///
    /// # Errors
    ///
    /// As [`open_with`](Self::open_with).
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Self::open_with(path, &OpenOptions::new())
    }

    /// Opens or creates the store at `path`.
    ///
    /// # Errors
    ///
    /// The core's `Io` with `NotFound` when there is none and none is to be
    /// made, `AlreadyExists` when one is and a new one was asked for,
    /// `NotAStore`, `Corrupt` or `Unsupported` for one that cannot be read,
    /// `InvalidArgument` or `Unsupported` for an option out of its range,
    /// `Busy` while another handle deletes or compacts.
    pub fn open_with(path: impl AsRef<Path>, options: &OpenOptions) -> Result<Self> {
        let path = path.as_ref().to_path_buf();
        let handle = ArcSwap::from_pointee(Handle::open(&path, options)?);
        Ok(Self { path, handle, closed_after_fork: AtomicBool::new(false) })
    }

    /// Opens the same store once more, with the same options: also in a forked
    /// child, where the new one may change it. Creates nothing.
    ///
    /// # Errors
    ///
    /// As [`open_with`](Self::open_with); the core's `Io` with `NotFound` also
    /// when another store is in its place, which a classic one cannot tell
    /// from another classic one.
    pub fn open_again(&self) -> Result<Self> {
        let handle = self.handle.load_full();
        let again = handle.open_again(&handle.options)?;
        let handle = ArcSwap::from_pointee(again);
        Ok(Self { path: self.path.clone(), handle, closed_after_fork: AtomicBool::new(false) })
    }

    /// The handle of this process.
    pub(crate) fn handle(&self) -> Result<Arc<Handle>> {
        let handle = self.handle.load_full();
        if handle.process == process::id() {
            return Ok(handle);
        }
        if self.closed_after_fork.load(Ordering::Acquire) {
            return Err(Error::store(&self.path)(zrecord_core::Error::Closed));
        }
        handle.drop_inherited_locks();
        let reopened = Arc::new(handle.reopen_after_fork()?);
        let before = self.handle.compare_and_swap(&handle, Arc::clone(&reopened));
        if !Arc::ptr_eq(&before, &handle) {
            // Another thread was faster, and its handle may be in use.
            return Ok(Guard::into_inner(before));
        }
        drop(before);
        Handle::abandon(handle);
        Ok(reopened)
    }

    /// The handle of this process, for a change.
    fn handle_to_change(&self) -> Result<Arc<Handle>> {
        let handle = self.handle()?;
        match handle.forked_from {
            None => Ok(handle),
            Some(opened_by) => Err(Error::Forked { path: self.path.clone(), opened_by }),
        }
    }

    /// Runs a reading operation of the handle.
    pub(crate) fn read<T>(
        &self,
        mut operation: impl FnMut(&Handle) -> zrecord_core::Result<T>,
    ) -> Result<T> {
        let handle = self.handle()?;
        let result = match operation(&handle) {
            // A writer in another process that recovers the store cuts what a
            // reader opened meanwhile still counts.
            Err(error) if error.is_corruption() && handle.has_moved() => operation(&handle),
            result => result,
        };
        result.map_err(Error::store(&self.path))
    }

    /// Runs a changing operation of the handle.
    fn change<T>(&self, operation: impl FnOnce(&Handle) -> zrecord_core::Result<T>) -> Result<T> {
        let handle = self.handle_to_change()?;
        operation(&handle).map_err(Error::store(&self.path))
    }

    /// The directory of the store.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The store's format.
    pub fn format(&self) -> Format {
        self.handle.load().format()
    }

    /// The codec of records for which none is named: the schema's, else the
    /// one it was opened with.
    pub fn codec(&self) -> Codec {
        self.schema().map_or_else(|| self.handle.load().options.codec, |schema| schema.codec())
    }

    /// The store's id, in a format that has one.
    pub fn id(&self) -> Option<[u8; 16]> {
        self.handle.load().identity.id()
    }

    /// Rises when records are renumbered; 0 in a classic store.
    pub fn generation(&self) -> u64 {
        self.handle.load().snapshot().commit.generation
    }

    /// When checksums are compared.
    pub fn verifies(&self) -> Verify {
        self.handle.load().options.verify
    }

    /// How stored bytes are read.
    pub fn io(&self) -> Io {
        self.handle.load().options.io
    }

    /// How many records there are by now, also when another process appends.
    ///
    /// # Errors
    ///
    /// `Closed`, IO errors.
    pub fn len(&self) -> Result<u64> {
        self.read(Handle::len)
    }

    /// True when there are no records.
    ///
    /// # Errors
    ///
    /// As [`len`](Self::len).
    pub fn is_empty(&self) -> Result<bool> {
        Ok(self.len()? == 0)
    }

    /// The schema, if the store is typed and its schema can be read.
    pub fn schema(&self) -> Option<Arc<Schema>> {
        self.read_schema().ok().flatten()
    }

    /// The schema, if the store is typed.
    ///
    /// # Errors
    ///
    /// `Corrupt` or `Unsupported` naming `schema.msgpack`.
    pub fn read_schema(&self) -> Result<Option<Arc<Schema>>> {
        self.read(Handle::schema)
    }

    /// Makes an empty store typed. One that has this layout already stays as
    /// it is.
    ///
    /// # Errors
    ///
    /// `SchemaMismatch` when it has another schema, or untyped records.
    pub fn set_schema(&self, schema: &Schema) -> Result<()> {
        self.change(|handle| handle.set_schema(schema))
    }

    /// Appends records as one commit: record `i` is
    /// `src[offsets[i]..offsets[i + 1]]`, the last one runs to the end, and
    /// what lies before `offsets[0]` is skipped. Returns the index of the
    /// first. Not synced: see [`sync`](Self::sync).
    ///
    /// With one thread a call holds the packed bytes of all its records in
    /// memory, with more those of some; whoever has more than fits calls once
    /// a block.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` for offsets that decrease or pass the end, or a
    /// dictionary codec in a store that has none; `TooLarge`,
    /// `SchemaMismatch`, `Busy`, `ReadOnly`: all before anything is written.
    /// After `Full` or an IO error the store is as it was.
    pub fn append(&self, src: &[u8], offsets: &[u64], codec: Option<Codec>) -> Result<u64> {
        self.change(|handle| handle.append(src, offsets, codec, true))
    }

    /// Writes records past the end of the store, where nobody sees them until
    /// [`commit_staged`](Self::commit_staged) or the next
    /// [`append`](Self::append) of this handle makes them count, all at once.
    /// Closing takes them back, and so does a killed process. Returns the index
    /// that the first will have. Meanwhile every other change is `Busy`.
    ///
    /// # Errors
    ///
    /// As [`append`](Self::append); what was staged before stays staged.
    pub fn stage(&self, src: &[u8], offsets: &[u64], codec: Option<Codec>) -> Result<u64> {
        self.change(|handle| handle.append(src, offsets, codec, false))
    }

    /// Makes staged records count, all at once.
    ///
    /// # Errors
    ///
    /// IO errors, after which the records are still staged.
    pub fn commit_staged(&self) -> Result<()> {
        self.change(Handle::commit_staged)
    }

    /// Takes staged records back.
    ///
    /// # Errors
    ///
    /// `Closed`, `Busy`.
    pub fn discard_staged(&self) -> Result<()> {
        self.change(Handle::discard_staged)
    }

    /// Becomes the store's writer now rather than with the first change.
    ///
    /// # Errors
    ///
    /// `Busy` when another handle writes, `ReadOnly`.
    pub fn lock_writer(&self) -> Result<()> {
        self.change(Handle::lock_writer)
    }

    /// The lengths of records in bytes.
    ///
    /// # Errors
    ///
    /// `OutOfRange`, `CorruptRecord`.
    pub fn lengths(&self, indices: &[u64]) -> Result<Vec<u32>> {
        self.read(|handle| handle.lengths(indices))
    }

    /// Gathers records: record `indices[i]` lands at `dst[offsets[i]..]`.
    /// Other bytes of `dst` stay as they are.
    ///
    /// # Errors
    ///
    /// Before a byte is written: `OutOfRange`, `BufferTooSmall`,
    /// `InvalidArgument` when places overlap or offsets do not match indices.
    /// `Checksum` or `CorruptRecord` for damage, naming the record; what `dst`
    /// then holds is unspecified.
    pub fn gather(&self, indices: &[u64], dst: &mut [u8], offsets: &[u64]) -> Result<()> {
        self.read(|handle| handle.gather(indices, dst, Places::Offsets(offsets)))
    }

    /// Gathers records of `record_len` bytes, one behind the other.
    ///
    /// # Errors
    ///
    /// As [`gather`](Self::gather), and `SchemaMismatch` for a record of
    /// another length.
    pub fn gather_packed(&self, indices: &[u64], dst: &mut [u8], record_len: u64) -> Result<()> {
        self.read(|handle| handle.gather(indices, dst, Places::Packed(record_len)))
    }

    /// Records `start..stop` of a raw store whose records have one length,
    /// without a copy. While it lives, delete and compact are busy; it outlives
    /// the store.
    ///
    /// A file that is cut or written by others under a view is outside the
    /// store's promise: see [`View`].
    ///
    /// # Errors
    ///
    /// `Unsupported` when the records do not lie so, or nothing is mapped;
    /// `OutOfRange`; damage as in [`gather`](Self::gather).
    pub fn view(&self, start: u64, stop: u64) -> Result<View> {
        self.read(|handle| handle.view(start, stop))
    }

    /// Deletes records, durably. From the highest index down, each hole is
    /// filled with the record that is then the last, so indices change. Bytes
    /// stay until [`compact`](Self::compact).
    ///
    /// Rewrites the record table: 24 MB per million records, 16 in the classic
    /// format.
    ///
    /// # Errors
    ///
    /// `OutOfRange` before anything is changed; `Busy` when another handle has
    /// the store open or a [`View`] is alive.
    pub fn delete(&self, indices: &[u64]) -> Result<()> {
        self.change(|handle| handle.delete(indices))
    }

    /// Gives the bytes of deleted records back to the file system. Cut at any
    /// point it has lost and changed nothing. `progress` must not use the
    /// store.
    ///
    /// # Errors
    ///
    /// `Busy` as [`delete`](Self::delete); damage, at which it stops.
    pub fn compact(&self, progress: &mut dyn FnMut(Progress)) -> Result<Compaction> {
        self.change(|handle| handle.compact(progress))
    }

    /// Counts of the store.
    ///
    /// # Errors
    ///
    /// `Closed`, IO errors, entries that no writer writes.
    pub fn stats(&self) -> Result<Stats> {
        self.read(|handle| {
            let mut reading = handle.share()?;
            handle.follow(&mut reading)?;
            let mut reader = handle.reader()?;
            reader.refresh()?;
            reader.stats()
        })
    }

    /// Everything that can be said of the store without reading its chunks.
    ///
    /// # Errors
    ///
    /// As [`stats`](Self::stats).
    pub fn inspect(&self) -> Result<Inspection> {
        self.read(Handle::inspect)
    }

    /// Makes every append so far survive a loss of power.
    ///
    /// # Errors
    ///
    /// IO errors, after which the handle refuses to write.
    pub fn sync(&self) -> Result<()> {
        self.change(Handle::sync)
    }

    /// Trains a dictionary of at most `capacity` bytes on samples that lie
    /// packed in `samples`, and adds it, durably. Returns its size.
    ///
    /// # Errors
    ///
    /// `Training` when the samples are too few or too small, `Unsupported` in
    /// a classic store that already uses its one dictionary, `Full` when an
    /// extended one has all it can.
    pub fn train_dictionary(
        &self,
        samples: &[u8],
        sizes: &[usize],
        capacity: usize,
    ) -> Result<usize> {
        self.change(|handle| handle.train_dictionary(samples, sizes, capacity))
    }

    /// True when the store has a dictionary to pack with.
    pub fn has_dictionary(&self) -> bool {
        // A handle that cannot look any more says what it last saw.
        let followed = self.read(Handle::len);
        drop(followed);
        self.handle.load().snapshot().commit.dictionaries > 0
    }

    /// Reads everything and lists what is wrong. Progress counts records;
    /// `progress` must not use the store.
    ///
    /// # Errors
    ///
    /// IO errors; faults are not errors.
    pub fn verify(&self, progress: &mut dyn FnMut(Progress)) -> Result<Vec<Fault>> {
        self.read(|handle| handle.verify(progress))
    }

    /// Files that a cut operation left behind. They do no harm; the next
    /// compaction removes them.
    ///
    /// # Errors
    ///
    /// As [`stats`](Self::stats).
    pub fn leftovers(&self) -> Result<Vec<FileName>> {
        self.read(|handle| {
            let _reading = handle.share()?;
            let mut reader = handle.reader()?;
            reader.refresh()?;
            reader.leftovers()
        })
    }

    /// Syncs what was written and lets go of the store. Later calls are
    /// `Closed`, except for this one.
    ///
    /// # Errors
    ///
    /// IO errors of the sync; the store is closed all the same.
    pub fn close(&self) -> Result<()> {
        let handle = self.handle.load_full();
        if handle.process != process::id() {
            self.closed_after_fork.store(true, Ordering::Release);
            handle.drop_inherited_locks();
            return Ok(());
        }
        handle.close().map_err(Error::store(&self.path))
    }

    /// In a forked child: gives up the locks that it has inherited, so that
    /// they die with their holder. Nothing elsewhere.
    pub fn after_fork(&self) {
        let handle = self.handle.load_full();
        if handle.process != process::id() {
            handle.drop_inherited_locks();
        }
    }

    /// True once the store was closed.
    pub fn is_closed(&self) -> bool {
        let handle = self.handle.load();
        match handle.process == process::id() {
            true => handle.is_closed(),
            false => self.closed_after_fork.load(Ordering::Acquire),
        }
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        let handle = self.handle.load_full();
        if handle.process != process::id() {
            Handle::abandon(handle);
        }
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let handle = self.handle.load();
        f.debug_struct("Store")
            .field("path", &self.path)
            .field("format", &handle.format())
            .field("mode", &handle.options.mode)
            .field("verify", &handle.options.verify)
            .field("io", &handle.options.io)
            .finish_non_exhaustive()
    }
}
