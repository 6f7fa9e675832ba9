//! [`Sandbox`]: a store that is read and changed inside a component.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use wasmtime::component::{Resource, ResourceAny};
use zrecord_core::Error as CoreError;
use zrecord_core::format::Format;
use zrecord_core::schema::Schema;
use zrecord_core::storage::{Access, Directory, FileName};

use crate::directory::FsDirectory;
use crate::error::{Error, Result};
use crate::lock::{self, Presence, WriterLock};
use crate::process;
use crate::sandbox::bindings::store::{GuestStore, Info};
use crate::sandbox::bindings::store_edit;
use crate::sandbox::engine::World;
use crate::sandbox::failure::Failure;
use crate::sandbox::instance::{Called, Instance, Wasm};
use crate::sandbox::lent::LentDirectory;
use crate::sandbox::limits::Limits;
use crate::sandbox::wire;

/// A store inside a sandbox: a WebAssembly component parses and decodes it,
/// and can reach nothing but the files of its directory. The host takes the
/// locks and serves bytes.
///
/// It answers as [`Store`](crate::Store) does, with the same errors, and with
/// [`Error::Sandbox`] where a limit is met or the component fails. Calls run
/// one at a time. Checksums are always compared; records longer than
/// [`Limits::call_bytes`] cannot be gathered. In a forked child every call is
/// [`Error::Forked`], but for [`open_again`](Self::open_again).
pub struct Sandbox {
    pub(super) path: PathBuf,
    format: Format,
    /// As it was when the store was opened.
    pub(super) id: Option<[u8; 16]>,
    is_writer: bool,
    pub(super) limits: Limits,
    /// The process that has opened it.
    pub(super) process: u32,
    /// `None` once it is closed. Shared with nobody but itself: see the drop.
    pub(super) session: Arc<Mutex<Option<Session>>>,
}

/// An open store in its component, and the locks that go with it.
pub(crate) struct Session {
    pub(super) instance: Instance,
    pub(super) store: ResourceAny,
    /// As it was last read.
    pub(super) info: Info,
    pub(super) presence: Option<Presence>,
    pub(super) writer: Option<WriterLock>,
}

impl Sandbox {
    /// Opens the store at `path` for reading; writes nothing.
    ///
    /// # Errors
    ///
    /// As [`Store::open`](crate::Store::open); [`Error::Sandbox`].
    pub fn open(path: impl AsRef<Path>, limits: Limits) -> Result<Self> {
        let path = path.as_ref();
        let session = Session::open(path, limits).map_err(Failure::at(path))?;
        Self::over(path, session, false).map_err(Failure::at(path))
    }

    /// Opens the store at `path` for reading and writing. It is the store's
    /// writer until it is closed.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open); `Busy` when another handle writes.
    pub fn open_writer(path: impl AsRef<Path>, limits: Limits) -> Result<Self> {
        let path = path.as_ref();
        let open = || {
            check_present(path)?;
            Session::edit(path, limits, |wasm, guest, directory| guest.call_open(wasm, directory))
        };
        open().and_then(|session| Self::over(path, session, true)).map_err(Failure::at(path))
    }

    pub(super) fn over(path: &Path, session: Session, is_writer: bool) -> Result<Self, Failure> {
        Ok(Self {
            path: path.into(),
            format: wire::format(session.info.format),
            id: wire::id(&session.info)?,
            is_writer,
            limits: *session.instance.limits(),
            process: process::id(),
            session: Arc::new(Mutex::new(Some(session))),
        })
    }

    /// The directory of the store.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The store's format.
    pub fn format(&self) -> Format {
        self.format
    }

    /// True when it was opened for writing.
    pub fn is_writer(&self) -> bool {
        self.is_writer
    }

    /// Runs an operation on the open store.
    pub(super) fn with<T>(
        &self,
        operation: impl FnOnce(&mut Session) -> Result<T, Failure>,
    ) -> Result<T> {
        // Before the lock, which a thread of the parent may have held.
        if self.is_inherited() {
            return Err(Error::Forked { path: self.path.clone(), opened_by: self.process });
        }
        let mut guard = self.lock();
        let Some(session) = &mut *guard else {
            return Err(Error::store(&self.path)(CoreError::Closed));
        };
        operation(session).map_err(Failure::at(&self.path))
    }

    fn lock(&self) -> MutexGuard<'_, Option<Session>> {
        // A panic leaves a component that is as good as it was: it either
        // answered or was ended.
        self.session.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many records there are by now, also when another process appends.
    ///
    /// # Errors
    ///
    /// `Closed`, IO errors.
    pub fn len(&self) -> Result<u64> {
        self.with(Session::len)
    }

    /// True when there are no records.
    ///
    /// # Errors
    ///
    /// As [`len`](Self::len).
    pub fn is_empty(&self) -> Result<bool> {
        Ok(self.len()? == 0)
    }

    /// The store's id, in a format that has one.
    pub fn id(&self) -> Option<[u8; 16]> {
        self.id
    }

    /// Rises when records are renumbered; 0 in a classic store.
    ///
    /// # Errors
    ///
    /// `Closed`, IO errors.
    pub fn generation(&self) -> Result<u64> {
        self.with(|session| Ok(session.follow()?.generation))
    }

    /// The schema, if the store is typed.
    ///
    /// # Errors
    ///
    /// `Corrupt` or `Unsupported` naming `schema.msgpack`.
    pub fn schema(&self) -> Result<Option<Arc<Schema>>> {
        self.with(Session::schema)
    }

    /// True when records can be packed with a dictionary of the store's.
    ///
    /// # Errors
    ///
    /// `Closed`, IO errors.
    pub fn has_dictionary(&self) -> Result<bool> {
        self.with(|session| Ok(session.follow()?.dictionaries > 0))
    }

    /// Syncs what was written and lets go of the store. Later calls are
    /// `Closed`, except for this one.
    ///
    /// # Errors
    ///
    /// Those of the sync; the store is closed all the same.
    pub fn close(&self) -> Result<()> {
        if self.is_inherited() {
            // Files and locks are the parent's.
            self.after_fork();
            return Ok(());
        }
        let session = self.lock().take();
        let Some(session) = session else { return Ok(()) };
        session.close().map_err(Failure::at(&self.path))
    }

    /// True once the store was closed; false in a forked child.
    pub fn is_closed(&self) -> bool {
        !self.is_inherited() && self.lock().is_none()
    }
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        if self.is_inherited() {
            self.abandon();
            return;
        }
        if let Err(error) = self.close() {
            log::error!("{}: closing: {error}", self.path.display());
        }
    }
}

impl fmt::Debug for Sandbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sandbox")
            .field("path", &self.path)
            .field("format", &self.format)
            .field("is_writer", &self.is_writer)
            .finish_non_exhaustive()
    }
}

/// Refuses a directory without a store in the system's words, before a lock
/// makes a file in it.
pub(super) fn check_present(path: &Path) -> zrecord_core::Result<()> {
    let meta = FsDirectory::new(path).open(FileName::Meta, Access::Read);
    meta.map(drop).map_err(CoreError::io(FileName::Meta))
}

impl Session {
    /// Opens for reading. Presence first: while it is held, the table is not
    /// replaced.
    fn open(path: &Path, limits: Limits) -> Result<Self, Failure> {
        let presence = Presence::take(path)?;
        let session = Self::open_present(path, limits, presence)?;
        if session.presence.is_some() {
            return Ok(session);
        }
        // What was not there to be locked may just have been put into its place.
        match Presence::take(path)? {
            None => Ok(session),
            presence => Self::open_present(path, limits, presence),
        }
    }

    fn open_present(
        path: &Path,
        limits: Limits,
        presence: Option<Presence>,
    ) -> Result<Self, Failure> {
        check_present(path)?;
        let mut instance = Instance::new(World::Reader, limits)?;
        let recovers = !lock::writer_lives(path)?;
        let directory = instance.lend(FsDirectory::new(path), Access::Read)?;
        let store =
            instance.read(|wasm, guest| guest.store().call_open(wasm, directory, recovers))?;
        Self::over(instance, store, presence, None)
    }

    /// Opens or creates for writing, by `opening`.
    pub(super) fn edit(
        path: &Path,
        limits: Limits,
        opening: impl FnOnce(
            &mut Wasm,
            &store_edit::Guest,
            Resource<LentDirectory>,
        ) -> Called<ResourceAny>,
    ) -> Result<Self, Failure> {
        let mut instance = Instance::new(World::RecordStore, limits)?;
        let writer = WriterLock::take(path)?;
        let presence = Presence::take(path)?.ok_or_else(lock::unsupported)?;
        let directory = instance.lend(FsDirectory::new(path), Access::Write)?;
        let store = instance.edit(|wasm, guest| opening(wasm, guest, directory))?;
        Self::over(instance, store, Some(presence), Some(writer))
    }

    pub(super) fn over(
        mut instance: Instance,
        store: ResourceAny,
        presence: Option<Presence>,
        writer: Option<WriterLock>,
    ) -> Result<Self, Failure> {
        let info = instance.read(|wasm, guest| guest.store().call_info(wasm, store).map(Ok))?;
        Ok(Self { instance, store, info, presence, writer })
    }

    /// Calls a method of the store.
    pub(super) fn call<T>(
        &mut self,
        call: impl FnOnce(GuestStore<'_>, &mut Wasm, ResourceAny) -> Called<T>,
    ) -> Result<T, Failure> {
        let store = self.store;
        self.instance.read(|wasm, guest| call(guest.store(), wasm, store))
    }

    /// Brings what is known of the store to its newest commit.
    pub(super) fn follow(&mut self) -> Result<&Info, Failure> {
        self.info = match self.writer {
            // It has made every commit itself, and has no need to look.
            Some(_) => self.call(|guest, wasm, store| guest.call_info(wasm, store).map(Ok))?,
            None => self.call(|guest, wasm, store| guest.call_refresh(wasm, store))?,
        };
        Ok(&self.info)
    }

    pub(super) fn is_writer(&self) -> bool {
        self.writer.is_some()
    }

    pub(super) fn len(&mut self) -> Result<u64, Failure> {
        Ok(self.follow()?.length)
    }

    pub(super) fn schema(&mut self) -> Result<Option<Arc<Schema>>, Failure> {
        // An empty store may have become typed since it was opened.
        self.follow()?;
        let schema = self.call(|guest, wasm, store| guest.call_schema(wasm, store))?;
        schema.map(wire::schema).transpose()
    }

    fn close(mut self) -> Result<(), Failure> {
        let store = self.store;
        let closed = match self.writer {
            Some(_) => self.instance.edit(|wasm, guest| guest.call_close(wasm, store)),
            None => Ok(()),
        };
        if let Some(writer) = self.writer {
            writer.release();
        }
        if let Some(presence) = self.presence {
            presence.release();
        }
        closed
    }
}
