//! Placing records and committing them.

use std::hash::Hasher;

use twox_hash::XxHash3_64;

use super::{UNSYNCED_BYTES_MAX, Writer};
use crate::codec::pack::PackedRecord;
use crate::error::{Error, Result};
use crate::format::{Commit, Format, RecordLocation, Tail, classic, extended};
use crate::reader::{Identity, to_usize};
use crate::storage::{Directory, File, FileName};

/// Packed records whose stored bytes lie one behind the other in memory, so
/// that adjacent records go out in one write.
#[derive(Clone, Copy, Debug)]
pub struct Segment<'a> {
    /// The stored bytes of all records.
    pub bytes: &'a [u8],
    /// What each record is, in order.
    pub records: &'a [PackedRecord],
}

/// Records that are written but do not count yet.
#[derive(Clone)]
pub(super) struct Staged {
    /// The store as it will be.
    commit: Commit,
    /// Over the entries `durable_length..commit.length`.
    unsynced: XxHash3_64,
    bytes: u64,
}

/// What was staged at some time.
pub struct Savepoint(Option<Staged>);

/// Where records go, before anything is written.
struct Placement {
    entries: Vec<u8>,
    /// Stretches of a segment that lie together in a chunk.
    runs: Vec<Run>,
    stored_bytes: u64,
    commit: Commit,
}

struct Run {
    segment: usize,
    start: usize,
    end: usize,
    chunk: u32,
    offset: u32,
}

impl<D: Directory> Writer<D> {
    /// Appends records and commits them, with whatever was staged before; not
    /// synced. Returns the index of the first.
    ///
    /// # Errors
    ///
    /// [`Error::TooLarge`], [`Error::Full`] and [`Error::SchemaMismatch`]
    /// before anything is written; [`Error::Io`] after which the store is as
    /// it was.
    pub fn append(&mut self, segments: &[Segment<'_>]) -> Result<u64> {
        let before = self.savepoint();
        let appended = self.stage(segments).and_then(|first| {
            self.commit_staged()?;
            Ok(first)
        });
        if appended.is_err() {
            self.roll_back(before);
        }
        appended
    }

    /// What is staged now, for [`roll_back`](Self::roll_back).
    pub fn savepoint(&self) -> Savepoint {
        Savepoint(self.staged.clone())
    }

    /// Takes back what was staged since, if nothing was committed since.
    pub fn roll_back(&mut self, savepoint: Savepoint) {
        let base = savepoint.0.as_ref().map_or(*self.commit(), |staged| staged.commit);
        if self.staged.as_ref().is_some_and(|staged| staged.commit != base) {
            self.cut_to(&base);
        }
        self.staged = savepoint.0;
    }

    /// Writes records past the end of the store, where nobody sees them until
    /// [`commit_staged`](Self::commit_staged). Returns the index that the
    /// first will have.
    ///
    /// # Errors
    ///
    /// As [`append`](Self::append); what was staged before stays staged.
    pub fn stage(&mut self, segments: &[Segment<'_>]) -> Result<u64> {
        self.check_writable()?;
        let base = self.staged.as_ref().map_or(*self.commit(), |staged| staged.commit);
        let records = segments.iter().flat_map(|segment| segment.records);
        self.check_lens(records.map(|record| u64::from(record.len)))?;
        let placement = self.place(base, segments)?;
        if placement.commit.length == base.length {
            return Ok(base.length);
        }
        if let Err(error) = self.write_placed(&base, segments, &placement) {
            self.cut_to(&base);
            return Err(error);
        }
        let staged = self.staged.get_or_insert_with(|| Staged {
            commit: base,
            unsynced: self.unsynced.clone(),
            bytes: 0,
        });
        staged.commit = placement.commit;
        staged.unsynced.write(&placement.entries);
        staged.bytes += placement.stored_bytes;
        Ok(base.length)
    }

    /// Makes staged records count, all at once.
    ///
    /// # Errors
    ///
    /// [`Error::Io`]; then the records are still staged.
    pub fn commit_staged(&mut self) -> Result<()> {
        let Some(staged) = self.staged.take() else { return Ok(()) };
        let mut commit = Commit { sequence: self.commit().sequence + 1, ..staged.commit };
        match self.format() {
            Format::Extended => commit.unsynced_hash = staged.unsynced.finish(),
            // A classic header holds none of these.
            Format::Classic => (commit.stride, commit.live_stored, commit.live_len) = (0, 0, 0),
        }
        if let Err(error) = self.write_commit(&commit) {
            self.staged = Some(staged);
            return Err(error);
        }
        self.reader.commit = commit;
        self.unsynced = staged.unsynced;
        self.unsynced_bytes += staged.bytes;
        self.new_chunks.clear();
        self.dirty = true;
        if self.unsynced_bytes >= UNSYNCED_BYTES_MAX {
            // The records are committed whether or not this works; if it does
            // not, every later change says so.
            let _ = self.sync();
        }
        Ok(())
    }

    /// Takes staged records back.
    pub fn discard_staged(&mut self) {
        if self.staged.take().is_some() {
            let commit = *self.commit();
            self.cut_to(&commit);
        }
    }

    /// Refuses what needs no packing to be refused: the lengths of records, in
    /// bytes, that are to be appended.
    ///
    /// # Errors
    ///
    /// [`Error::TooLarge`], [`Error::SchemaMismatch`], [`Error::Full`], and
    /// [`Error::Unsupported`] for an empty record in a classic store.
    pub fn check_lens(&self, lens: impl Iterator<Item = u64>) -> Result<()> {
        let schema = self.reader.schema()?;
        let limit = self.format().record_len_max();
        let mut index = 0;
        for len in lens {
            if len > limit {
                return Err(Error::TooLarge { index, len, limit });
            }
            if len == 0 && self.format() == Format::Classic {
                let what = format!(
                    "record {index} of the batch is empty, which a classic store cannot hold"
                );
                return Err(Error::Unsupported { what });
            }
            if let Some(schema) = &schema {
                schema.check_record_len(len).map_err(|reason| Error::SchemaMismatch {
                    reason: format!("record {index} of the batch: {reason}"),
                })?;
            }
            index += 1;
        }
        let base = self.staged.as_ref().map_or(*self.commit(), |staged| staged.commit);
        let limit = self.format().length_max();
        if base.length.saturating_add(index) > limit {
            let length = base.length;
            let reason = format!("{length} records and {index} more, the limit is {limit}");
            return Err(Error::Full { reason });
        }
        Ok(())
    }

    /// Gives every record a place behind the tail.
    fn place(&self, base: Commit, segments: &[Segment<'_>]) -> Result<Placement> {
        let format = self.format();
        let mut commit = base;
        let mut first_chunk = self.first_chunk(&base)?;
        let count: usize = segments.iter().map(|segment| segment.records.len()).sum();
        let mut entries = Vec::with_capacity(count * to_usize(format.entry_size()));
        let mut runs: Vec<Run> = Vec::new();
        let mut stored_bytes = 0;
        for (number, segment) in segments.iter().enumerate() {
            let mut position = 0;
            for record in segment.records {
                let end = position + to_usize(u64::from(record.stored_len));
                let location = self.locate(&mut commit, &mut first_chunk, record)?;
                format.encode_entry(&location, &mut entries);
                match runs.last_mut() {
                    Some(run) if run.segment == number && run.chunk == location.chunk => {
                        run.end = end;
                    }
                    _ => runs.push(Run {
                        segment: number,
                        start: position,
                        end,
                        chunk: location.chunk,
                        offset: location.offset,
                    }),
                }
                position = end;
            }
            debug_assert_eq!(position, segment.bytes.len());
            stored_bytes += segment.bytes.len() as u64;
        }
        runs.retain(|run| run.start < run.end);
        Ok(Placement { entries, runs, stored_bytes, commit })
    }

    /// The chunk of the first record, where a stride depends on it.
    fn first_chunk(&self, base: &Commit) -> Result<u32> {
        if base.length == 0 || base.stride == 0 {
            return Ok(base.tail.chunk);
        }
        // Written, though perhaps only staged.
        let mut entry = Vec::new();
        self.reader.entries(0, 1, &mut entry)?;
        Ok(self.format().decode_entry(&entry, 0)?.chunk)
    }

    /// The next record's place; moves the commit's tail behind it.
    fn locate(
        &self,
        commit: &mut Commit,
        first_chunk: &mut u32,
        record: &PackedRecord,
    ) -> Result<RecordLocation> {
        let stored_len = record.stored_len;
        let end = u64::from(commit.tail.offset) + u64::from(stored_len);
        if end > self.chunk_size_max && commit.tail.offset > 0 {
            let limit = self.chunks_max;
            let chunk = commit.tail.chunk.saturating_add(1);
            if chunk >= limit {
                let reason = format!("its {limit} chunks are used; compacting may help");
                return Err(Error::Full { reason });
            }
            commit.tail = Tail { chunk, offset: 0 };
        }
        let location = record.at(commit.tail.chunk, commit.tail.offset, self.format());
        if commit.length == 0 {
            *first_chunk = location.chunk;
        }
        commit.stride = next_stride(commit, *first_chunk, &location);
        commit.tail.offset += stored_len;
        commit.length += 1;
        // A forged header may say anything; `verify` compares the sums.
        commit.live_stored = commit.live_stored.wrapping_add(u64::from(stored_len));
        commit.live_len = commit.live_len.wrapping_add(u64::from(record.len));
        Ok(location)
    }

    fn write_placed(
        &mut self,
        base: &Commit,
        segments: &[Segment<'_>],
        placement: &Placement,
    ) -> Result<()> {
        let tail = base.tail;
        for run in &placement.runs {
            let name = FileName::Chunk(run.chunk);
            if run.offset == 0 && (run.chunk != tail.chunk || tail.offset == 0) {
                self.begin_chunk(run.chunk, run.chunk == tail.chunk)?;
            }
            let bytes = &segments[run.segment].bytes[run.start..run.end];
            let file = &self.reader.chunk(run.chunk)?.file;
            file.write(bytes, u64::from(run.offset)).map_err(Error::io(name))?;
            self.dirty_chunks.insert(run.chunk);
        }
        let offset = self.format().entry_offset(base.length);
        self.write_meta(FileName::Meta, &placement.entries, offset)
    }

    /// A chunk file is made when its first byte is written.
    fn begin_chunk(&mut self, number: u32, is_tail: bool) -> Result<()> {
        match (self.format(), self.reader.chunk_size(number)?) {
            // The first chunk of a classic store was made with it.
            (Format::Classic, Some(_)) if is_tail => Ok(()),
            _ => {
                self.create_chunk(number)?;
                self.new_chunks.insert(number);
                Ok(())
            }
        }
    }

    /// The write that makes staged records count.
    fn write_commit(&mut self, commit: &Commit) -> Result<()> {
        match *self.reader.identity() {
            Identity::Extended(id) => {
                self.guard_lone_slot(commit.sequence)?;
                let slot = extended::encode_slot(commit, &id);
                self.write_meta(FileName::Meta, &slot, extended::slot_offset(commit.sequence))
            }
            Identity::Classic => {
                let header = classic::encode_header(commit);
                let changed = &header[classic::COMMIT_OFFSET..];
                self.write_meta(FileName::Meta, changed, classic::COMMIT_OFFSET as u64)
            }
        }
    }

    /// Takes back what was written past `commit`, which is none before the
    /// last one on disk. What cannot be taken back means nothing to a reader
    /// and is overwritten by the next append.
    fn cut_to(&mut self, commit: &Commit) {
        if self.format() == Format::Classic {
            return;
        }
        let _ = self.reader.meta.set_size(Format::Extended.entry_offset(commit.length));
        // Only what this handle has begun since: no other file is its to remove.
        let behind = commit.tail.chunk.saturating_add(1);
        for number in self.new_chunks.split_off(&behind) {
            self.reader.chunks.remove(&number);
            self.dirty_chunks.remove(&number);
            let _ = self.reader.directory.remove(FileName::Chunk(number));
        }
        let _ = self.cut_chunk(commit.tail);
    }
}

/// Whether the stride's promise holds with one more record: 0 if not.
fn next_stride(commit: &Commit, first_chunk: u32, next: &RecordLocation) -> u32 {
    let promised = commit.length == 0 || commit.stride == next.len;
    let kept = promised && next.is_strided(first_chunk, next.len, commit.length);
    if kept { next.len } else { 0 }
}
