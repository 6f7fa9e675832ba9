//! Taking over a store that another writer left.

use std::collections::BTreeMap;

use super::Writer;
use crate::error::{Error, Result};
use crate::format::{Commit, Format, Tail, classic, extended};
use crate::reader::Reader;
use crate::recovery::Recovery;
use crate::storage::{Directory, File, FileName};

impl<D: Directory> Writer<D> {
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
                writer.raise_tail()?;
                writer.restore_sparse_sizes()?;
                writer.mark_everything_dirty()?;
                writer.sync_ground()?;
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

    /// loaderx maps its files at their full sparse sizes and dies of a short
    /// one, so files that were cut to their used length grow again before the
    /// first write. One that lacks used bytes is damaged and stays as it is.
    fn restore_sparse_sizes(&mut self) -> Result<()> {
        let tail = self.commit().tail;
        let mut needed = BTreeMap::from([(tail.chunk, u64::from(tail.offset))]);
        let meta_size = self.reader.meta.size().map_err(Error::io(FileName::Meta))?;
        let cut = meta_size < classic::META_SIZE || self.any_chunk_cut(tail.chunk)?;
        if !cut {
            return Ok(());
        }
        self.reader.scan_possible(0..self.commit().length, |_, location| {
            let end = needed.entry(location.chunk).or_default();
            *end = (*end).max(location.end());
            Ok(())
        })?;
        for (&number, &end) in &needed {
            // Of a chunk that is missing altogether no zeros are made: records
            // that lie in it, or say so and are damaged, go on being errors.
            let missing = (number == tail.chunk).then_some(0);
            let Some(size) = self.counted_size(number)?.or(missing) else { continue };
            if size < end {
                let reason = format!("it has {size} bytes, its records end at {end}");
                return Err(Error::corrupt(FileName::Chunk(number), reason));
            }
        }
        for &number in needed.keys() {
            match self.counted_size(number)? {
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

    /// The size of a chunk's file, if there is one in which a record can have
    /// counted: one that a loss of power left empty had been created and not
    /// yet given its size.
    fn counted_size(&mut self, number: u32) -> Result<Option<u64>> {
        Ok(self.reader.chunk_size(number)?.filter(|size| *size > 0))
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

    /// What appends stand on: names that a killed writer gave, and the size of
    /// the chunk they go on in, could be gone again under counted records.
    fn sync_ground(&mut self) -> Result<()> {
        let number = self.commit().tail.chunk;
        if self.reader.chunk_size(number)?.is_some() {
            let file = &self.reader.chunk(number)?.file;
            file.sync().map_err(Error::io(FileName::Chunk(number)))?;
        }
        self.sync_names(FileName::Meta)
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

    /// After a loss of power a classic header may be older than entries that
    /// it counts, and entries may be any that once stood there. Whatever they
    /// say, nothing that a record may lie in is overwritten, and nobody is
    /// locked out: appends go on behind the last of them whose chunk is there.
    fn raise_tail(&mut self) -> Result<()> {
        let Commit { tail, length, .. } = *self.commit();
        let mut past = BTreeMap::<u32, u64>::new();
        self.reader.scan_possible(0..length, |_, location| {
            if location.is_past(tail) {
                let end = past.entry(location.chunk).or_default();
                *end = (*end).max(location.end());
            }
            Ok(())
        })?;
        for (chunk, end) in past.into_iter().rev() {
            if self.counted_size(chunk)?.is_some() {
                // Within a chunk, so it has 32 bits.
                let offset = u32::try_from(end).unwrap_or(u32::MAX);
                self.reader.commit.tail = Tail { chunk, offset };
                return Ok(());
            }
        }
        Ok(())
    }

    /// No record of an extended store may lie past the tail: what is there
    /// would be cut off. No writer leaves such a store. An entry that no
    /// writer writes names no place, and its record lay before the tail.
    fn check_tail(&self) -> Result<()> {
        let Commit { tail, length, .. } = *self.commit();
        self.reader.scan_possible(0..length, |index, location| {
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
}
