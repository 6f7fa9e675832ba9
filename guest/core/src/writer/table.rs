//! Writing a new table beside the old one and swapping it in: how delete and
//! compact commit.

use super::{Writer, durable};
use crate::error::{Error, Result};
use crate::format::{Commit, Format, RecordLocation, classic, extended};
use crate::reader::{Identity, read_exact, to_usize};
use crate::storage::{Directory, File, FileName};

/// How many bytes of entries are gathered before they are written.
const BLOCK_SIZE: usize = 1 << 20;

/// The next `meta.zr`, being written as `meta.zr.new`.
pub(super) struct NewTable<F> {
    meta: F,
    format: Format,
    block: Vec<u8>,
    block_offset: u64,
    commit: Commit,
    stride: Stride,
}

impl<F: File> NewTable<F> {
    /// Adds the next record.
    pub(super) fn push(&mut self, location: &RecordLocation) -> Result<()> {
        self.format.encode_entry(location, &mut self.block);
        self.commit.live_stored += u64::from(location.stored_len);
        self.commit.live_len += u64::from(location.len);
        self.stride.see(self.commit.length, location);
        self.commit.length += 1;
        if self.block.len() >= BLOCK_SIZE { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<()> {
        self.meta.write(&self.block, self.block_offset).map_err(Error::io(FileName::MetaNew))?;
        self.block_offset += self.block.len() as u64;
        self.block.clear();
        Ok(())
    }
}

/// Whether records pushed one by one keep the promise of a stride.
#[derive(Default)]
struct Stride {
    first: Option<RecordLocation>,
    broken: bool,
}

impl Stride {
    fn see(&mut self, index: u64, location: &RecordLocation) {
        let first = *self.first.get_or_insert(*location);
        self.broken |= !location.is_strided(first.chunk, first.len, index);
    }

    fn value(&self) -> u32 {
        match self.first {
            Some(first) if !self.broken => first.len,
            _ => 0,
        }
    }
}

impl<D: Directory> Writer<D> {
    /// Begins the next table, with no records. It must be finished or dropped
    /// with [`abandon_table`](Self::abandon_table).
    pub(super) fn begin_table(&self) -> Result<NewTable<D::File>> {
        let meta = self
            .reader
            .directory
            .create(FileName::MetaNew)
            .map_err(Error::io(FileName::MetaNew))?;
        Ok(NewTable {
            meta,
            format: self.format(),
            block: Vec::with_capacity(BLOCK_SIZE + 64),
            block_offset: self.format().entry_offset(0),
            commit: Commit { length: 0, live_stored: 0, live_len: 0, ..*self.commit() },
            stride: Stride::default(),
        })
    }

    /// Makes the new table the store's, durably. `change` may adjust what the
    /// table itself does not say: the tail, the generation.
    pub(super) fn finish_table(
        &mut self,
        mut table: NewTable<D::File>,
        change: impl FnOnce(&mut Commit),
    ) -> Result<()> {
        table.flush()?;
        let mut commit = Commit { stride: table.stride.value(), ..table.commit };
        change(&mut commit);
        let commit = durable(commit);
        let identity = *self.reader.identity();
        let page = match identity {
            Identity::Classic => None,
            Identity::Extended(_) => {
                let mut page = vec![0; to_usize(extended::PAGE_SIZE)];
                read_exact(&self.reader.meta, FileName::Meta, &mut page, 0)?;
                Some(page)
            }
        };
        let header = header(&identity, &commit, page);
        table.meta.write(&header, 0).map_err(Error::io(FileName::MetaNew))?;
        if self.format() == Format::Classic {
            table.meta.set_size(classic::META_SIZE).map_err(Error::io(FileName::MetaNew))?;
        }
        self.rename_meta(&table.meta)?;
        self.reader.meta = table.meta;
        // Both slots were synced with the table.
        self.lone_slot = None;
        self.reader.commit = match identity {
            Identity::Extended(_) => commit,
            Identity::Classic => Commit { stride: 0, live_stored: 0, live_len: 0, ..commit },
        };
        // From the rename on, only a synced directory says which of the two
        // tables the disk holds.
        let result = self.reader.directory.sync().map_err(Error::io(FileName::Meta));
        self.poisoned = result.is_err();
        if result.is_ok() {
            self.forget_unsynced();
        }
        result
    }

    /// Removes a table that will not be finished.
    pub(super) fn abandon_table(&self) {
        // Left behind, it means nothing, and the next one replaces it.
        let _ = self.reader.directory.remove(FileName::MetaNew);
    }

    /// Syncs `meta.zr.new` and renames it over `meta.zr`.
    pub(super) fn rename_meta(&self, meta: &D::File) -> Result<()> {
        meta.sync().map_err(Error::io(FileName::MetaNew))?;
        let renamed = self.reader.directory.rename(FileName::MetaNew, FileName::Meta);
        renamed.map_err(Error::io(FileName::Meta))
    }
}

/// The whole header of a store: `page` is its page 0, or none for a new one.
pub(super) fn header(identity: &Identity, commit: &Commit, page: Option<Vec<u8>>) -> Vec<u8> {
    match identity {
        Identity::Classic => classic::encode_header(commit),
        Identity::Extended(id) => {
            let page_size = to_usize(extended::PAGE_SIZE);
            let mut bytes = page.unwrap_or_else(|| extended::encode_identity(id));
            bytes.resize(page_size, 0);
            let slot = extended::encode_slot(commit, id);
            for page in 2..=3 {
                bytes.extend_from_slice(&slot);
                bytes.resize(page * page_size, 0);
            }
            bytes
        }
    }
}
