//! Creating a store.

use std::io;

use super::{Writer, table};
use crate::error::{Error, Result};
use crate::format::{Commit, Format, classic, extended};
use crate::reader::{Identity, Reader, to_usize};
use crate::storage::{Access, Directory, File, FileName};

/// How many chunk numbers are looked at before a store is created. There is no
/// listing; chunks are numbered from the lowest free number on, so a store with
/// records has one of the first unless much of it was deleted and compacted.
const CHUNKS_LOOKED_AT: u32 = 64;

impl<D: Directory> Writer<D> {
    /// Creates a store in an existing directory. It exists once its `meta.zr`
    /// is renamed into place: a cut creation leaves nothing that looks like a
    /// store or stands in the way of creating it again.
    ///
    /// # Errors
    ///
    /// [`Error::AlreadyExists`]; [`Error::NotAStore`] when there are files
    /// of a store whose `meta.zr` is missing; IO errors.
    pub fn create(directory: D, identity: Identity) -> Result<Self> {
        match directory.open(FileName::Meta, Access::Read) {
            Ok(_) => return Err(Error::AlreadyExists),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(Error::io(FileName::Meta)(error)),
        }
        check_nothing_there(&directory)?;
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
}

/// Files whose table is missing, or that a copy has not brought yet, are no
/// files to write over. What a cut creation leaves is `meta.zr.new` and, in the
/// classic format, an empty `0.zr`.
fn check_nothing_there<D: Directory>(directory: &D) -> Result<()> {
    let chunks = (0..CHUNKS_LOOKED_AT).map(FileName::Chunk);
    for name in [FileName::Schema, FileName::Dictionary(0)].into_iter().chain(chunks) {
        let file = match directory.open(name, Access::Read) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(Error::io(name)(error)),
        };
        if !is_of_cut_creation(name, &file).map_err(Error::io(name))? {
            let reason = format!(
                "{name} belongs to a store whose meta.zr is missing; put it back, or remove the \
                 files of that store"
            );
            return Err(Error::NotAStore { reason });
        }
    }
    Ok(())
}

/// Whether a cut creation may have left this file. A chunk of an extended
/// store is as long as its records, so it is none when it has any bytes, zeros
/// or not. A classic one is sparse: there its first record tells.
fn is_of_cut_creation(name: FileName, file: &impl File) -> io::Result<bool> {
    match (name, file.size()?) {
        (FileName::Chunk(_), 0) => Ok(true),
        (FileName::Chunk(0), classic::CHUNK_FILE_SIZE) => {
            // Zeros throughout mean no record, or one of nothing but zeros
            // that has the greatest length a classic record may have.
            let mut head = vec![0; to_usize(classic::RECORD_LEN_MAX)];
            let read = file.read(&mut head, 0)?;
            Ok(head[..read].iter().all(|byte| *byte == 0))
        }
        _ => Ok(false),
    }
}
