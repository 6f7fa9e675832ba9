//! Giving dead bytes back: live records of chunks with holes are copied into
//! new chunks, and the old files go once nothing refers to them.

use std::collections::BTreeSet;

use super::Writer;
use super::table::NewTable;
use crate::error::{Error, Result};
use crate::format::{CHUNK_SIZE_MAX, Format, RecordLocation, Tail};
use crate::storage::{Directory, File, FileName};
use crate::usage::ChunkUsage;

/// How many bytes of records are gathered before they are written.
const BUFFER_SIZE: usize = 8 << 20;
/// Files of unused chunks are looked for below this number at least: all there
/// are in the classic format.
const SWEPT_NUMBERS: u32 = 1 << 12;

/// How far an operation is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// What is done, in the operation's unit: bytes when compacting,
    /// converting and appending, records when verifying.
    pub done: u64,
    /// What there is to do, in the same unit.
    pub total: u64,
}

/// What a compaction did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Compaction {
    /// How many records were copied.
    pub moved_records: u64,
    /// Their stored bytes.
    pub moved_bytes: u64,
    /// How many bytes were given back to the file system.
    pub reclaimed_bytes: u64,
}

impl<D: Directory> Writer<D> {
    /// Gives dead bytes back to the file system, and restores index order in
    /// the chunks it rewrites. Checks every record that it copies and stops at
    /// damage. Cut at any point, it has lost and changed nothing, and running
    /// it again finishes it. Needs free space of about one chunk.
    ///
    /// # Errors
    ///
    /// [`Error::Checksum`] or [`Error::CorruptRecord`] for a damaged record,
    /// IO errors; what was swapped in before stays.
    pub fn compact(&mut self, progress: &mut dyn FnMut(Progress)) -> Result<Compaction> {
        self.check_settled()?;
        self.sync()?;
        let mut usage = self.reader.chunk_usage()?;
        let before = self.reader.chunk_bytes(&usage)?;
        self.remove_leftovers()?;
        self.remove_unused_chunks(&usage)?;
        let mut moving = self.chunks_to_move(&usage)?;
        let total =
            moving.iter().filter_map(|number| usage.get(number)).map(|used| used.live).sum();
        let mut numbers = self.plan_numbers(&usage, &moving, total);
        let mut compaction = Compaction::default();
        while moving.iter().any(|number| usage.contains_key(number)) {
            let tail = self.commit().tail.chunk;
            let number = numbers.next(&usage, tail)?;
            // An emptied chunk's number may come round again.
            moving.remove(&number);
            let staying = usage.iter().rfind(|(number, _)| !moving.contains(number));
            let staying = staying.map(|(&chunk, used)| (chunk, used.end));
            let round = self.copy_round(number, &moving, staying, &mut |bytes| {
                progress(Progress { done: compaction.moved_bytes + bytes, total });
            });
            let round = match round {
                Ok(round) => round,
                Err(error) => {
                    self.abandon_round(number);
                    return Err(error);
                }
            };
            compaction.moved_records += round.records;
            compaction.moved_bytes += round.bytes;
            let emptied = std::mem::replace(&mut usage, self.reader.chunk_usage()?);
            self.remove_emptied(emptied.keys().chain([&tail]), &usage)?;
        }
        self.trim(&usage)?;
        // Removals are durable as well, or the files would come back.
        self.sync_names(FileName::Meta)?;
        let after = self.reader.chunk_bytes(&usage)?;
        compaction.reclaimed_bytes = before.saturating_sub(after);
        Ok(compaction)
    }

    /// Chunks whose records go elsewhere: those with holes and, when numbers
    /// near the limit are in use, every chunk whose number is higher than
    /// their count makes necessary. There are free numbers below for those.
    ///
    /// A chunk that lacks bytes of its records is damage, at which it stops:
    /// appends might otherwise go on behind bytes that are not there.
    fn chunks_to_move(&mut self, usage: &ChunkUsage) -> Result<BTreeSet<u32>> {
        let near_limit = self.is_near_limit(usage);
        let count = u32::try_from(usage.len()).unwrap_or(u32::MAX);
        let mut moving = BTreeSet::new();
        for (&number, used) in usage {
            used.check_overlaps(number)?;
            let size = self.reader.chunk_size(number)?.unwrap_or(0);
            if size < used.end {
                let reason = format!("it has {size} bytes, its records end at {}", used.end);
                return Err(Error::corrupt(FileName::Chunk(number), reason));
            }
            if used.live < used.end || (near_limit && number > count) {
                moving.insert(number);
            }
        }
        Ok(moving)
    }

    /// Whether the last quarter of the chunk numbers is in use.
    fn is_near_limit(&self, usage: &ChunkUsage) -> bool {
        let highest = usage.keys().next_back().copied().unwrap_or(0).max(self.commit().tail.chunk);
        highest >= self.chunks_max - self.chunks_max / 4
    }

    /// Numbers for the chunks that `total` bytes are copied into.
    fn plan_numbers(&self, usage: &ChunkUsage, moving: &BTreeSet<u32>, total: u64) -> Numbers {
        let wanted = match self.is_near_limit(usage) {
            true => 1,
            false => {
                u32::try_from(total / self.chunk_size_max).unwrap_or(u32::MAX).saturating_add(1)
            }
        };
        let tail = self.commit().tail.chunk;
        let avoided: BTreeSet<u32> = usage.keys().chain(moving).chain([&tail]).copied().collect();
        Numbers { next: lowest_run(&avoided, wanted), avoided, limit: self.chunks_max }
    }

    /// Copies records from the chunks `moving` into chunk `number` until it is
    /// full or none is left, and swaps in a table that says so. `staying` is
    /// the highest chunk in use that does not move, and where it ends.
    fn copy_round(
        &mut self,
        number: u32,
        moving: &BTreeSet<u32>,
        staying: Option<(u32, u64)>,
        progress: &mut dyn FnMut(u64),
    ) -> Result<Round> {
        self.create_chunk(number)?;
        let mut round = Round::new(number);
        let mut table = self.begin_table()?;
        let mut block = Vec::new();
        let format = self.format();
        let entry_size = usize::try_from(format.entry_size()).unwrap_or(usize::MAX);
        for (first, count) in crate::reader::blocks(0..self.commit().length) {
            self.reader.entries(first, count, &mut block)?;
            for (index, entry) in (first..).zip(block.chunks_exact(entry_size)) {
                let location = format.decode_entry(entry, index)?;
                self.copy_record(index, location, moving, &mut round, &mut table)?;
            }
            progress(round.bytes);
        }
        self.flush_round(&mut round)?;
        let name = FileName::Chunk(number);
        self.reader.chunk(number)?.file.sync().map_err(Error::io(name))?;
        self.reader.directory.sync().map_err(Error::io(name))?;
        let done = !round.full;
        let filled = Tail { chunk: number, offset: round.offset };
        // No chunk in use may lie past the tail, or the next chunk that an
        // append begins would be one of them. Until everything has moved, that
        // may be the old tail.
        let highest = match staying {
            Some((chunk, end)) if chunk > number => {
                Tail { chunk, offset: u32::try_from(end).unwrap_or(u32::MAX) }
            }
            _ => filled,
        };
        self.finish_table(table, |commit| {
            if done {
                commit.tail = highest;
            } else if number > commit.tail.chunk {
                commit.tail = filled;
            }
        })?;
        Ok(round)
    }

    fn copy_record(
        &mut self,
        index: u64,
        location: RecordLocation,
        moving: &BTreeSet<u32>,
        round: &mut Round,
        table: &mut NewTable<D::File>,
    ) -> Result<()> {
        if !moving.contains(&location.chunk) || round.full {
            return table.push(&location);
        }
        let end = u64::from(round.offset) + u64::from(location.stored_len);
        if end > CHUNK_SIZE_MAX.min(self.chunk_size_max) && round.offset > 0 {
            round.full = true;
            return table.push(&location);
        }
        self.reader.read_stored(index, &location, &mut round.stored)?;
        // Before its only other copy goes. The classic format has no checksum,
        // so only what lengths and the frame's head reveal can be checked.
        location.check(index, &round.stored)?;
        location.check_frame(index, &round.stored)?;
        round.buffer.extend_from_slice(&round.stored);
        table.push(&RecordLocation { chunk: round.chunk, offset: round.offset, ..location })?;
        round.offset += location.stored_len;
        round.records += 1;
        round.bytes += u64::from(location.stored_len);
        if round.buffer.len() >= BUFFER_SIZE { self.flush_round(round) } else { Ok(()) }
    }

    fn flush_round(&mut self, round: &mut Round) -> Result<()> {
        let name = FileName::Chunk(round.chunk);
        let file = &self.reader.chunk(round.chunk)?.file;
        file.write(&round.buffer, round.written).map_err(Error::io(name))?;
        round.written += round.buffer.len() as u64;
        round.buffer.clear();
        Ok(())
    }

    /// Nothing refers to what a failed round wrote, unless its table was
    /// swapped in: then the handle is poisoned and everything stays.
    fn abandon_round(&mut self, number: u32) {
        if self.poisoned {
            return;
        }
        self.abandon_table();
        self.reader.chunks.remove(&number);
        // Left behind, it is removed by the next compaction.
        let _ = self.reader.directory.remove(FileName::Chunk(number));
    }

    /// Removes what cut operations left behind.
    fn remove_leftovers(&mut self) -> Result<()> {
        for name in self.reader.leftovers()? {
            if !matches!(name, FileName::Chunk(_)) {
                self.reader.directory.remove(name).map_err(Error::io(name))?;
            }
        }
        Ok(())
    }

    /// Removes the files of those chunks that a round has emptied, and of a
    /// tail that was empty before. The tail's stays, since appends continue in
    /// it.
    fn remove_emptied<'a>(
        &mut self,
        before: impl Iterator<Item = &'a u32>,
        after: &ChunkUsage,
    ) -> Result<()> {
        let tail = self.commit().tail.chunk;
        for &number in before.filter(|number| !after.contains_key(number)) {
            if number != tail && self.reader.chunk_size(number)?.is_some() {
                self.remove_chunk(number)?;
            }
        }
        Ok(())
    }

    /// Removes chunk files that no record lies in, but for the tail's. Cut
    /// runs may have left some at any number that they had emptied.
    fn remove_unused_chunks(&mut self, usage: &ChunkUsage) -> Result<()> {
        let tail = self.commit().tail.chunk;
        let mut numbers: BTreeSet<u32> = self.reader.unused_chunks(usage).into_iter().collect();
        numbers.extend(0..self.chunks_max.min(SWEPT_NUMBERS));
        for number in numbers {
            let used = usage.contains_key(&number) || number == tail;
            if !used && self.reader.chunk_size(number)?.is_some() {
                self.remove_chunk(number)?;
            }
        }
        Ok(())
    }

    fn remove_chunk(&mut self, number: u32) -> Result<()> {
        let name = FileName::Chunk(number);
        self.reader.chunks.remove(&number);
        self.dirty_chunks.remove(&number);
        self.new_chunks.remove(&number);
        self.reader.directory.remove(name).map_err(Error::io(name))
    }

    /// Cuts dead bytes behind the last record of each chunk. For the tail
    /// chunk that needs a commit first.
    fn trim(&mut self, usage: &ChunkUsage) -> Result<()> {
        let tail = self.commit().tail;
        let end = usage.get(&tail.chunk).map_or(0, |used| used.end);
        if end < u64::from(tail.offset) {
            let offset = u32::try_from(end).unwrap_or(tail.offset);
            self.move_tail(Tail { chunk: tail.chunk, offset })?;
        }
        for (&number, used) in usage {
            self.trim_chunk(number, used.end)?;
        }
        if !usage.contains_key(&tail.chunk) {
            self.trim_chunk(tail.chunk, 0)?;
        }
        Ok(())
    }

    /// A tail that goes back is a new table in the classic format, whose
    /// header is not written atomically with anything else; an extended store
    /// commits it in a slot.
    fn move_tail(&mut self, tail: Tail) -> Result<()> {
        match self.format() {
            Format::Extended => self.commit_change(|commit| commit.tail = tail),
            Format::Classic => {
                let mut table = self.begin_table()?;
                self.reader.scan(0..self.commit().length, |_, location| table.push(&location))?;
                self.finish_table(table, |commit| commit.tail = tail)
            }
        }
    }

    fn trim_chunk(&mut self, number: u32, end: u64) -> Result<()> {
        let name = FileName::Chunk(number);
        let Some(size) = self.reader.chunk_size(number)? else { return Ok(()) };
        if size > end {
            self.reader.chunk(number)?.file.set_size(end).map_err(Error::io(name))?;
        }
        match self.format() {
            Format::Extended => Ok(()),
            // loaderx expects its full size back, now sparse behind the end.
            Format::Classic => self.grow_sparse(number),
        }
    }
}

/// The numbers of the chunks that a compaction fills: rising, so that records
/// in index order may keep a stride, and as low as possible, so that numbers do
/// not creep up from one compaction to the next.
struct Numbers {
    next: u32,
    /// In use when it began.
    avoided: BTreeSet<u32>,
    limit: u32,
}

impl Numbers {
    /// The next number: not one in use, nor the tail's, where a cut run goes
    /// on appending. Those of chunks that were emptied come last.
    fn next(&mut self, usage: &ChunkUsage, tail: u32) -> Result<u32> {
        let in_use = |number: &u32| usage.contains_key(number) || *number == tail;
        let rising = (self.next..self.limit)
            .find(|number| !in_use(number) && !self.avoided.contains(number));
        let number = rising.or_else(|| (0..self.limit).find(|number| !in_use(number)));
        let number = number.ok_or_else(|| {
            let limit = self.limit;
            Error::Full {
                reason: format!("compacting needs one more chunk, its {limit} are in use"),
            }
        })?;
        self.next = number.saturating_add(1);
        Ok(number)
    }
}

/// Where the lowest run of `wanted` free numbers begins.
fn lowest_run(in_use: &BTreeSet<u32>, wanted: u32) -> u32 {
    let mut start = 0;
    for &number in in_use {
        if number - start >= wanted {
            break;
        }
        start = number.saturating_add(1);
    }
    start
}

/// One new chunk being filled.
struct Round {
    chunk: u32,
    offset: u32,
    full: bool,
    records: u64,
    bytes: u64,
    buffer: Vec<u8>,
    written: u64,
    stored: Vec<u8>,
}

impl Round {
    fn new(chunk: u32) -> Self {
        Self {
            chunk,
            offset: 0,
            full: false,
            records: 0,
            bytes: 0,
            buffer: Vec::with_capacity(BUFFER_SIZE),
            written: 0,
            stored: Vec::new(),
        }
    }
}
