//! What the chunk files hold and how much of it is dead.

use std::collections::BTreeMap;

use crate::error::{Error, Result};
use crate::format::Format;
use crate::reader::Reader;
use crate::storage::{Directory, FileName};

/// How many unused chunk numbers are looked at, at most.
const UNUSED_MAX: usize = 1 << 12;
/// Numbers below this are always looked at: compaction begins again at low
/// ones, and a cut run may have left high ones behind.
const UNUSED_NUMBERS: u32 = 1 << 8;

/// What the records of one chunk use of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// The sum of their stored bytes.
    pub live: u64,
    /// Where the last of them ends.
    pub end: u64,
}

impl Usage {
    /// Refuses records that have more bytes than their chunk, so that copying
    /// a hostile store takes no more room than it does itself.
    ///
    /// # Errors
    ///
    /// [`Error::Corrupt`].
    pub fn check_overlaps(&self, number: u32) -> Result<()> {
        if self.live <= self.end {
            return Ok(());
        }
        let Self { live, end } = self;
        let reason = format!("its records have {live} bytes but end at {end}: they overlap");
        Err(Error::corrupt(FileName::Chunk(number), reason))
    }
}

/// Every chunk that a record lies in.
pub type ChunkUsage = BTreeMap<u32, Usage>;

/// Counts of a store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// How many records there are.
    pub records: u64,
    /// The sum of their stored bytes.
    pub live_bytes: u64,
    /// The sum of their bytes as the user sees them.
    pub plain_bytes: u64,
    /// How many bytes of the chunk files are in use, dead ones included.
    pub chunk_bytes: u64,
    /// How many of these compacting gives back.
    pub reclaimable: u64,
    /// How many chunk files there are.
    pub chunks: u64,
    /// How many dictionaries there are.
    pub dictionaries: u32,
}

impl<D: Directory> Reader<D> {
    /// What every chunk that a record lies in holds. Reads the whole table.
    ///
    /// # Errors
    ///
    /// As [`Reader::scan`].
    pub fn chunk_usage(&self) -> Result<ChunkUsage> {
        let mut usage = ChunkUsage::new();
        self.scan(0..self.commit().length, |_, location| {
            if location.stored_len > 0 {
                let used = usage.entry(location.chunk).or_default();
                used.live += u64::from(location.stored_len);
                used.end = used.end.max(location.end());
            }
            Ok(())
        })?;
        Ok(usage)
    }

    /// Counts of the store. Reads the whole record table, except where an
    /// extended store has one chunk and so needs none of it.
    ///
    /// # Errors
    ///
    /// As [`Reader::scan`].
    pub fn stats(&mut self) -> Result<Stats> {
        let commit = *self.commit();
        let mut stats = Stats {
            records: commit.length,
            live_bytes: commit.live_stored,
            plain_bytes: commit.live_len,
            dictionaries: commit.dictionaries,
            ..Stats::default()
        };
        if self.format() == Format::Extended && commit.tail.chunk == 0 {
            stats.chunk_bytes = u64::from(commit.tail.offset);
            stats.chunks = u64::from(commit.tail.offset > 0);
        } else {
            let usage = self.chunk_usage()?;
            stats.chunk_bytes = self.chunk_bytes(&usage)?;
            stats.chunks = usage.len() as u64;
            stats.live_bytes = usage.values().map(|used| used.live).sum();
        }
        if self.format() == Format::Classic {
            let mut plain_bytes = 0;
            self.scan(0..commit.length, |_, location| {
                plain_bytes += u64::from(location.len);
                Ok(())
            })?;
            stats.plain_bytes = plain_bytes;
        }
        stats.reclaimable = stats.chunk_bytes.saturating_sub(stats.live_bytes);
        Ok(stats)
    }

    /// How many bytes of the chunk files are in use. A classic chunk file is
    /// sparse, so what lies behind its last record does not count.
    pub(crate) fn chunk_bytes(&mut self, usage: &ChunkUsage) -> Result<u64> {
        let tail = self.commit().tail;
        let mut bytes = u64::from(tail.offset);
        for (&number, used) in usage.iter().filter(|(number, _)| **number != tail.chunk) {
            bytes += match self.format() {
                Format::Classic => used.end,
                Format::Extended => self.chunk_size(number)?.unwrap_or(0),
            };
        }
        if self.format() == Format::Extended {
            for number in self.unused_chunks(usage) {
                bytes += self.chunk_size(number)?.unwrap_or(0);
            }
        }
        Ok(bytes)
    }

    /// Numbers of chunks that no record lies in, whose files are leftovers if
    /// they exist: names are computed, since the storage has no listing.
    pub(crate) fn unused_chunks(&self, usage: &ChunkUsage) -> Vec<u32> {
        let tail = self.commit().tail.chunk;
        let newest = usage.keys().next_back().copied().unwrap_or(0).max(tail);
        (0..=newest.saturating_add(2).max(UNUSED_NUMBERS))
            .rev()
            .filter(|number| !usage.contains_key(number) && *number != tail)
            .take(UNUSED_MAX)
            .collect()
    }
}
