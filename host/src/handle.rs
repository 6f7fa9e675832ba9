//! What is behind a [`Store`](crate::Store) in one process: files, locks, and
//! the commit that readers see.
//!
//! Locks inside a handle are taken in this order: `files`, `writing`,
//! `reader`. Gathers and appends share `files`; delete, compact and close
//! have it alone, so that no batch is half old and half new.

use std::io::{self, ErrorKind};
use std::mem;
use std::ops::{Deref, DerefMut};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use arc_swap::ArcSwap;
use zrecord_core::format::{Commit, Format};
use zrecord_core::reader::{Identity, Reader};
use zrecord_core::schema::Schema;
use zrecord_core::storage::{Access, Directory, FileName};
use zrecord_core::{Error, Result};

use crate::chunks::Chunks;
use crate::dictionaries::Dictionaries;
use crate::directory::{FsDirectory, create_directories};
use crate::lock::{self, Presence};
use crate::options::{Mode, OpenOptions};
use crate::pool;
use crate::process;
use crate::table::Table;
use crate::verified::Verified;
use crate::writing::Writing;

/// An open store, as one process holds it.
pub(crate) struct Handle {
    pub(crate) directory: FsDirectory,
    pub(crate) options: OpenOptions,
    pub(crate) identity: Identity,
    /// The process that opened it; a forked child makes a handle of its own.
    pub(crate) process: u32,
    /// The process whose handle this one replaces.
    pub(crate) forked_from: Option<u32>,
    pub(crate) threads: usize,
    /// `None` once it is closed.
    pub(crate) files: RwLock<Option<Arc<Files>>>,
    pub(crate) writing: Mutex<Option<Writing>>,
    reader: Mutex<Option<Reader<FsDirectory>>>,
    /// Held on by views that outlive the handle.
    pub(crate) presence: Mutex<Option<Arc<Presence>>>,
    /// This handle is the writer, so nobody else commits.
    pub(crate) is_writer: AtomicBool,
    snapshot: ArcSwap<Snapshot>,
    publishing: Mutex<()>,
    schema: Mutex<Option<Arc<Schema>>>,
    pub(crate) dictionaries: Dictionaries,
    /// How many zero-copy views are alive.
    pub(crate) views: Arc<AtomicUsize>,
}

/// The files that batches are read from.
#[derive(Debug)]
pub(crate) struct Files {
    pub(crate) table: Table,
    pub(crate) chunks: Chunks,
}

/// The state of the store that a batch sees.
#[derive(Debug, Default)]
pub(crate) struct Snapshot {
    pub(crate) commit: Commit,
    /// Belongs to the commit's generation.
    pub(crate) verified: Arc<Verified>,
    /// The chunk of the first record, if the commit has a stride.
    pub(crate) first_chunk: u32,
}

impl Snapshot {
    /// Whether every record has passed its checksum.
    pub(crate) fn is_verified(&self) -> bool {
        self.verified.is_complete(self.commit.length)
    }
}

/// Keeps delete, compact and close away while a batch is at work.
pub(crate) struct Reading<'a> {
    pub(crate) files: Arc<Files>,
    pub(crate) snapshot: Arc<Snapshot>,
    _shared: RwLockReadGuard<'a, Option<Arc<Files>>>,
}

/// The reader of a handle that is not closed.
pub(crate) struct ReaderGuard<'a>(MutexGuard<'a, Option<Reader<FsDirectory>>>);

impl Deref for ReaderGuard<'_> {
    type Target = Reader<FsDirectory>;

    fn deref(&self) -> &Self::Target {
        match &*self.0 {
            Some(reader) => reader,
            None => unreachable!("it was there when the guard was made"),
        }
    }
}

impl DerefMut for ReaderGuard<'_> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        match &mut *self.0 {
            Some(reader) => reader,
            None => unreachable!("it was there when the guard was made"),
        }
    }
}

impl Handle {
    /// Opens or creates, as the options say.
    pub(crate) fn open(path: &Path, options: &OpenOptions) -> crate::Result<Self> {
        options.check().map_err(crate::Error::store(path))?;
        let directory = FsDirectory::new(path);
        let handle = match options.mode {
            Mode::Read => Self::open_existing(&directory, options),
            Mode::Create => return Self::create(&directory, options),
            Mode::Append => match Self::open_existing(&directory, options) {
                Err(error) if is_missing(&error) => {
                    return Self::create_or_open(&directory, options);
                }
                result => result,
            },
        };
        handle.map_err(crate::Error::store(path))
    }

    /// Another handle of the same store, which is never made anew.
    ///
    /// # Errors
    ///
    /// [`Error::Io`] with `NotFound` when another store is in its place.
    pub(crate) fn open_again(&self, options: &OpenOptions) -> crate::Result<Self> {
        let handle = Self::open_existing(&self.directory, options);
        let handle = handle.map_err(crate::Error::store(self.path()))?;
        if handle.identity != self.identity {
            let reason = "another store is where the one that was opened had been";
            let source = io::Error::new(ErrorKind::NotFound, reason);
            let gone = Error::Io { file: FileName::Meta, source };
            return Err(crate::Error::store(self.path())(gone));
        }
        Ok(handle)
    }

    /// A handle of the same store for a forked child: it reads only.
    pub(crate) fn reopen_after_fork(&self) -> crate::Result<Self> {
        let mut handle = self.open_again(&self.options.clone().mode(Mode::Read))?;
        handle.forked_from = Some(self.process);
        Ok(handle)
    }

    fn open_existing(directory: &FsDirectory, options: &OpenOptions) -> Result<Self> {
        let (mut reader, presence) = open_present(directory, options.lock)?;
        let format = reader.format();
        if let Some(asked) = options.format.filter(|asked| *asked != format) {
            let what = format!("the store is {}, not {}", format.name(), asked.name());
            return Err(Error::Unsupported { what });
        }
        let trusted =
            reader.commit().is_clean() || (options.lock && lock::writer_lives(directory.path())?);
        if !trusted {
            let recovery = reader.recover()?;
            if recovery.kept < recovery.counted {
                log::warn!(
                    "{}: the store was not closed cleanly; {} of {} records can be trusted",
                    directory.path().display(),
                    recovery.kept,
                    recovery.counted
                );
            }
        }
        Self::assemble(directory.clone(), options.clone(), reader, presence, None)
    }

    fn create_or_open(directory: &FsDirectory, options: &OpenOptions) -> crate::Result<Self> {
        match Self::create(directory, options) {
            // Another process was faster; what it has made is what was wanted.
            Err(error)
                if matches!(error.core(), Some(Error::AlreadyExists | Error::Busy { .. })) =>
            {
                match Self::open_existing(directory, options) {
                    Err(missing) if is_missing(&missing) => Err(error),
                    result => result.map_err(crate::Error::store(directory.path())),
                }
            }
            result => result,
        }
    }

    fn create(directory: &FsDirectory, options: &OpenOptions) -> crate::Result<Self> {
        let path = directory.path();
        // The writer of an existing store would make it busy instead.
        if directory.open(FileName::Meta, Access::Read).is_ok() {
            return Err(crate::Error::store(path)(Error::AlreadyExists));
        }
        create_directories(path).map_err(crate::Error::io(path))?;
        let (writing, identity) =
            Writing::create(directory, options).map_err(crate::Error::store(path))?;
        let assemble = || {
            let presence = match options.lock {
                true => Some(Presence::take(path)?.ok_or_else(lock::unsupported)?),
                false => None,
            };
            let reader = Reader::open(directory.clone(), Access::Read)?;
            debug_assert_eq!(*reader.identity(), identity);
            Self::assemble(directory.clone(), options.clone(), reader, presence, Some(writing))
        };
        assemble().map_err(crate::Error::store(path))
    }

    fn assemble(
        directory: FsDirectory,
        options: OpenOptions,
        reader: Reader<FsDirectory>,
        presence: Option<Presence>,
        writing: Option<Writing>,
    ) -> Result<Self> {
        let files = Files::open(&directory, &options, reader.format())?;
        let commit = *reader.commit();
        let handle = Self {
            directory,
            identity: *reader.identity(),
            process: process::id(),
            forked_from: None,
            threads: pool::thread_count(options.threads)?,
            is_writer: AtomicBool::new(writing.is_some()),
            files: RwLock::new(Some(Arc::new(files))),
            writing: Mutex::new(writing),
            reader: Mutex::new(Some(reader)),
            presence: Mutex::new(presence.map(Arc::new)),
            snapshot: ArcSwap::default(),
            publishing: Mutex::new(()),
            schema: Mutex::new(None),
            dictionaries: Dictionaries::default(),
            views: Arc::default(),
            options,
        };
        let files = handle.share()?.files;
        handle.publish(&files, commit)?;
        Ok(handle)
    }

    /// The directory of the store.
    pub(crate) fn path(&self) -> &Path {
        self.directory.path()
    }

    /// The store's format.
    pub(crate) fn format(&self) -> Format {
        self.identity.format()
    }

    /// Shares the files, for a batch or an append.
    pub(crate) fn share(&self) -> Result<Reading<'_>> {
        let shared = self.files.read().unwrap_or_else(PoisonError::into_inner);
        let files = Arc::clone(shared.as_ref().ok_or(Error::Closed)?);
        Ok(Reading { files, snapshot: self.snapshot.load_full(), _shared: shared })
    }

    /// The files alone: running batches finish first.
    pub(crate) fn exclude(&self) -> RwLockWriteGuard<'_, Option<Arc<Files>>> {
        self.files.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// The core's reader, for what batches do not need.
    ///
    /// # Errors
    ///
    /// [`Error::Closed`].
    pub(crate) fn reader(&self) -> Result<ReaderGuard<'_>> {
        let guard = self.reader.lock().unwrap_or_else(PoisonError::into_inner);
        if guard.is_some() { Ok(ReaderGuard(guard)) } else { Err(Error::Closed) }
    }

    /// The core's reader, for whoever needs one alone: the handle has none from
    /// here on, and only keeps the store open.
    ///
    /// # Errors
    ///
    /// [`Error::Closed`].
    pub(crate) fn take_reader(&self) -> Result<Reader<FsDirectory>> {
        let mut guard = self.reader.lock().unwrap_or_else(PoisonError::into_inner);
        guard.take().ok_or(Error::Closed)
    }

    /// The commit that readers see.
    pub(crate) fn snapshot(&self) -> Arc<Snapshot> {
        self.snapshot.load_full()
    }

    /// How many records there are by now: follows a writer in another process.
    pub(crate) fn len(&self) -> Result<u64> {
        let mut reading = self.share()?;
        self.follow(&mut reading)?;
        Ok(reading.snapshot.commit.length)
    }

    /// Brings what is being read to the newest commit.
    pub(crate) fn follow(&self, reading: &mut Reading<'_>) -> Result<()> {
        // Where this handle is the writer, it has published what there is.
        if !self.is_writer.load(Ordering::Acquire)
            && reading.files.table.may_be_newer(&reading.snapshot.commit)
        {
            let mut reader = self.reader()?;
            let commit = *reader.refresh()?;
            let _publishing = self.publishing.lock().unwrap_or_else(PoisonError::into_inner);
            if self.is_newer(&commit) {
                self.store_snapshot(&reading.files, commit)?;
            }
        }
        reading.snapshot = self.snapshot();
        Ok(())
    }

    /// Whether there is a newer commit, which readers then see.
    pub(crate) fn has_moved(&self) -> bool {
        let Ok(mut reading) = self.share() else { return false };
        let before = reading.snapshot.commit;
        self.follow(&mut reading).is_ok() && reading.snapshot.commit != before
    }

    fn is_newer(&self, commit: &Commit) -> bool {
        let current = self.snapshot.load().commit;
        match self.format() {
            Format::Classic => commit.length > current.length,
            Format::Extended => commit.sequence > current.sequence,
        }
    }

    /// Shows readers a commit. Whoever holds `writing` calls this.
    pub(crate) fn publish(&self, files: &Files, commit: Commit) -> Result<()> {
        let _publishing = self.publishing.lock().unwrap_or_else(PoisonError::into_inner);
        self.store_snapshot(files, commit)
    }

    fn store_snapshot(&self, files: &Files, mut commit: Commit) -> Result<()> {
        let current = self.snapshot.load();
        let verified = match current.commit.generation == commit.generation {
            true => Arc::clone(&current.verified),
            false => Arc::default(),
        };
        let first_chunk = match commit.stride {
            0 => 0,
            _ if commit.length == 0 => 0,
            _ if current.commit.stride == commit.stride
                && current.commit.generation == commit.generation =>
            {
                current.first_chunk
            }
            // A stride that the first entry denies is no guide.
            _ => {
                let table = files.table.view(1)?;
                let first = table.location(0);
                table.check_file()?;
                match first {
                    Ok(first) => first.chunk,
                    Err(error) => {
                        log::warn!("{}: {error}", self.path().display());
                        commit.stride = 0;
                        0
                    }
                }
            }
        };
        self.snapshot.store(Arc::new(Snapshot { commit, verified, first_chunk }));
        Ok(())
    }

    /// Makes readers forget where things lay, once the table was replaced.
    pub(crate) fn forget_places(&self) {
        let commit = Commit { stride: 0, ..self.snapshot.load().commit };
        let verified = Arc::clone(&self.snapshot.load().verified);
        self.snapshot.store(Arc::new(Snapshot { commit, verified, first_chunk: 0 }));
    }

    /// Opens the reading side anew, once the table was replaced.
    pub(crate) fn reopen_files(&self) -> Result<Arc<Files>> {
        let files = Files::open(&self.directory, &self.options, self.format())?;
        *self.reader()? = Reader::open(self.directory.clone(), Access::Read)?;
        Ok(Arc::new(files))
    }

    /// The schema, if the store is typed.
    pub(crate) fn schema(&self) -> Result<Option<Arc<Schema>>> {
        let mut known = self.schema.lock().unwrap_or_else(PoisonError::into_inner);
        if known.is_none() {
            let mut reader = self.reader()?;
            // An empty store may have become typed since it was opened.
            reader.refresh()?;
            *known = reader.schema()?.map(Arc::new);
        }
        Ok(known.clone())
    }

    /// Syncs what was written, and lets go of everything. Idempotent.
    pub(crate) fn close(&self) -> Result<()> {
        let mut files = self.exclude();
        *files = None;
        drop(self.reader.lock().unwrap_or_else(PoisonError::into_inner).take());
        let writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner).take();
        let result = writing.map_or(Ok(()), Writing::close);
        let presence = self.presence.lock().unwrap_or_else(PoisonError::into_inner).take();
        // A view that is still alive keeps it, and lets it go with its own end.
        if let Some(presence) = presence.and_then(Arc::into_inner) {
            presence.release();
        }
        result
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.files.read().unwrap_or_else(PoisonError::into_inner).is_none()
    }

    /// Closes the lock descriptors that a fork has copied, so that the child
    /// does not hold the parent's locks. One that a thread of the parent was
    /// just using stays, until the child ends.
    pub(crate) fn drop_inherited_locks(&self) {
        if let Ok(mut presence) = self.presence.try_lock() {
            drop(presence.take());
        }
        if let Ok(mut writing) = self.writing.try_lock() {
            drop(writing.take());
        }
    }

    /// Lets go of a handle that a fork has copied. One that a thread of the
    /// parent was just changing is never freed: it may be half changed.
    pub(crate) fn abandon(inherited: Arc<Self>) {
        let is_whole = inherited.files.try_read().is_ok()
            && inherited.writing.try_lock().is_ok()
            && inherited.reader.try_lock().is_ok()
            && inherited.presence.try_lock().is_ok()
            && inherited.schema.try_lock().is_ok();
        if !is_whole {
            mem::forget(inherited);
        }
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        // In a forked child the store is the parent's to close.
        if self.process != process::id() {
            return;
        }
        if let Err(error) = self.close() {
            log::error!("{}: closing: {error}", self.path().display());
        }
    }
}

impl Files {
    fn open(directory: &FsDirectory, options: &OpenOptions, format: Format) -> Result<Self> {
        let table = Table::open(directory, format, options.io)?;
        Ok(Self { table, chunks: Chunks::new(directory.clone(), options.io) })
    }
}

/// Takes presence, if `locks`, and opens. Presence first: while it is held,
/// the table is not replaced.
fn open_present(
    directory: &FsDirectory,
    locks: bool,
) -> Result<(Reader<FsDirectory>, Option<Presence>)> {
    let take = || if locks { Presence::take(directory.path()) } else { Ok(None) };
    let open = || Reader::open(directory.clone(), Access::Read);
    let presence = take()?;
    let reader = open()?;
    if presence.is_some() {
        return Ok((reader, presence));
    }
    // What was not there to be locked may just have been put into its place.
    match take()? {
        None => Ok((reader, None)),
        presence => Ok((open()?, presence)),
    }
}

fn is_missing(error: &Error) -> bool {
    matches!(error, Error::Io { file: FileName::Meta | FileName::Lock, source }
        if source.kind() == ErrorKind::NotFound)
}
