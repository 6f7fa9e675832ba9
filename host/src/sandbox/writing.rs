//! Changing a store inside a sandbox. The writer's lock is the host's, and it
//! is held for as long as the sandbox lives.

use std::path::Path;

use zrecord_core::Error as CoreError;
use zrecord_core::codec::Codec;
use zrecord_core::format::Format;
use zrecord_core::schema::Schema;
use zrecord_core::storage::{Access, Directory, FileName};
use zrecord_core::writer::Compaction;

use crate::append::Records;
use crate::directory::{FsDirectory, create_directories};
use crate::error::{Error, Result};
use crate::sandbox::bindings::store_edit::Packing;
use crate::sandbox::failure::Failure;
use crate::sandbox::limits::Limits;
use crate::sandbox::store::{Sandbox, Session};
use crate::sandbox::wire;
use crate::writing::draw_id;

impl Sandbox {
    /// Creates an empty store at `path`, parent directories too, and opens it
    /// for writing.
    ///
    /// # Errors
    ///
    /// `AlreadyExists` when there is a store, IO errors, [`Error::Sandbox`].
    pub fn create(path: impl AsRef<Path>, format: Format, limits: Limits) -> Result<Self> {
        let path = path.as_ref();
        // The writer of an existing store would make it busy instead.
        if FsDirectory::new(path).open(FileName::Meta, Access::Read).is_ok() {
            return Err(Error::store(path)(CoreError::AlreadyExists));
        }
        create_directories(path).map_err(Error::io(path))?;
        let create = || {
            let id = new_id(format)?;
            let format = wire::format_to_wire(format);
            Session::edit(path, limits, |wasm, guest, directory| {
                guest.call_create(wasm, directory, format, &id)
            })
        };
        create().and_then(|session| Self::over(path, session, true)).map_err(Failure::at(path))
    }

    /// Makes an empty store typed. One that has this layout already stays as
    /// it is. Durable when it returns.
    ///
    /// # Errors
    ///
    /// `SchemaMismatch` when it has another schema, or untyped records;
    /// `ReadOnly`.
    pub fn set_schema(&self, schema: &Schema) -> Result<()> {
        self.with(|session| {
            let schema = wire::schema_to_wire(schema);
            let store = session.store;
            session.instance.edit(|wasm, guest| guest.call_set_schema(wasm, store, &schema))
        })
    }

    /// Adds a dictionary that was trained elsewhere, durably, for records that
    /// the native host will pack; returns its number.
    ///
    /// # Errors
    ///
    /// `Unsupported` in a classic store whose records use one, `Full`,
    /// `ReadOnly`, IO errors.
    pub fn add_dictionary(&self, dictionary: &[u8]) -> Result<u8> {
        self.with(|session| {
            let store = session.store;
            session.instance.edit(|wasm, guest| guest.call_add_dictionary(wasm, store, dictionary))
        })
    }

    /// Appends records as one commit: record `i` is
    /// `src[offsets[i]..offsets[i + 1]]`, the last one runs to the end, and
    /// what lies before `offsets[0]` is skipped. `codec` is the schema's, or
    /// zstd, unless it is given. Returns the index of the first. Not synced:
    /// see [`sync`](Self::sync).
    ///
    /// # Errors
    ///
    /// `InvalidArgument` for offsets that decrease or pass the end, or more
    /// bytes than [`Limits::call_bytes`]; `TooLarge`, `Full`,
    /// `SchemaMismatch`, `ReadOnly`; `Unsupported` for
    /// [`Codec::ZstdDict`], which only the native host packs. After an IO error
    /// the store is as it was.
    pub fn append(&self, src: &[u8], offsets: &[u64], codec: Option<Codec>) -> Result<u64> {
        self.with(|session| {
            let records = Records::new(src, offsets)?;
            let bytes = records.all();
            let most = session.instance.limits().call_bytes;
            if bytes.len() as u64 > most {
                let found = bytes.len();
                let reason = format!("{found} bytes in one append; the sandbox takes {most}");
                return Err(CoreError::InvalidArgument { argument: "src", reason }.into());
            }
            let codec = match codec {
                Some(codec) => codec,
                None => session.schema()?.map_or(Codec::Zstd, |schema| schema.codec()),
            };
            let codec = wire::codec_to_wire(codec);
            let packing = Packing { codec, level: None, min_saving: None };
            let store = session.store;
            let ends = records.ends();
            session
                .instance
                .edit(|wasm, guest| guest.call_append(wasm, store, bytes, &ends, packing))
        })
    }

    /// Makes every append so far survive a loss of power.
    ///
    /// # Errors
    ///
    /// `ReadOnly`; IO errors, after which the store refuses to be written to.
    pub fn sync(&self) -> Result<()> {
        self.with(|session| {
            let store = session.store;
            session.instance.edit(|wasm, guest| guest.call_sync(wasm, store))
        })
    }

    /// Deletes records, durably, as [`Store::delete`](crate::Store::delete)
    /// does: indices change. It is one call, for which [`Limits::time`] must
    /// be enough.
    ///
    /// # Errors
    ///
    /// `OutOfRange` before anything is changed; `ReadOnly`; `Busy` when
    /// another handle has the store open.
    pub fn delete(&self, indices: &[u64]) -> Result<()> {
        self.with(|session| {
            let store = session.store;
            session.alone(|session| {
                session.instance.edit(|wasm, guest| guest.call_delete(wasm, store, indices))
            })
        })
    }

    /// Gives the bytes of deleted records back to the file system. It is one
    /// call, as [`delete`](Self::delete); cut at any point, also by a limit, it
    /// has lost and changed nothing.
    ///
    /// # Errors
    ///
    /// `ReadOnly`, `Busy` as [`delete`](Self::delete); damage, at which it
    /// stops.
    pub fn compact(&self) -> Result<Compaction> {
        self.with(|session| {
            let store = session.store;
            let done = session.alone(|session| {
                session.instance.edit(|wasm, guest| guest.call_compact(wasm, store))
            })?;
            Ok(Compaction {
                moved_records: done.moved_records,
                moved_bytes: done.moved_bytes,
                reclaimed_bytes: done.reclaimed_bytes,
            })
        })
    }
}

impl Session {
    /// Runs a change that needs the store alone: no other handle anywhere.
    fn alone<T>(
        &mut self,
        change: impl FnOnce(&mut Self) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        if !self.is_writer() {
            return Err(CoreError::ReadOnly.into());
        }
        let Some(presence) = self.presence.take() else {
            return change(self);
        };
        let changed = presence.exclude().map_err(Failure::from).and_then(|_alone| change(self));
        self.presence = Some(presence);
        changed
    }
}

/// The id of a new store, in a format that has one.
pub(super) fn new_id(format: Format) -> zrecord_core::Result<Vec<u8>> {
    match format {
        Format::Classic => Ok(Vec::new()),
        Format::Extended => draw_id().map(Vec::from),
    }
}
