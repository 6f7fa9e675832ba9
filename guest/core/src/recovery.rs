//! What a store holds after a writer died: decided in memory, by reading.
//!
//! Committed bytes are never overwritten, so the newest commit whose records
//! are all there is the state. After a killed process that is the newest slot;
//! after a loss of power it may be an older one, and at worst what the last
//! sync covered, which the disk has promised to hold.

use std::hash::Hasher;

use twox_hash::XxHash3_64;

use crate::error::{Error, Result};
use crate::format::{Commit, Format, Tail, extended};
use crate::reader::{Identity, Reader, blocks, newest_first, read_slots};
use crate::storage::{Directory, File, FileName};

/// What a recovery did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recovery {
    /// True when the store had not been closed cleanly: a writer makes the
    /// outcome durable and both commit slots whole.
    pub unclean: bool,
    /// How many records were counted by the newest commit.
    pub counted: u64,
    /// How many of them were kept.
    pub kept: u64,
}

/// Whether two slots rest on the same sync. A slot that rests on an older one
/// may lack what was made durable since: writes of the slots between may have
/// been lost.
fn same_sync(a: &Commit, b: &Commit) -> bool {
    let synced = |commit: &Commit| Commit {
        sequence: 0,
        length: 0,
        unsynced_hash: 0,
        live_stored: 0,
        live_len: 0,
        tail: commit.durable_tail,
        stride: 0,
        ..*commit
    };
    synced(a) == synced(b)
}

impl<D: Directory> Reader<D> {
    /// Brings the commit to what can be trusted when no writer is at work.
    /// Writes nothing; quick when the store was closed cleanly.
    ///
    /// # Errors
    ///
    /// IO errors, and [`Error::Corrupt`] when even the synced part is not
    /// there.
    pub fn recover(&mut self) -> Result<Recovery> {
        let Identity::Extended(id) = *self.identity() else {
            let length = self.commit.length;
            return Ok(Recovery { unclean: false, counted: length, kept: length });
        };
        let slots: Vec<Commit> = newest_first(read_slots(&self.meta, &id)?).collect();
        let Some(&newest) = slots.first() else { return Ok(Recovery::default()) };
        if newest.is_clean() {
            self.commit = newest;
            // A torn slot is mended by the next writer.
            let unclean = slots.len() < 2;
            return Ok(Recovery { unclean, counted: newest.length, kept: newest.length });
        }
        let mut recovered = None;
        for slot in slots {
            if same_sync(&slot, &newest) && self.holds(&slot)? {
                recovered = Some(slot);
                break;
            }
        }
        let kept = match recovered {
            Some(slot) => slot,
            None => self.cut_to_durable(&newest)?,
        };
        // What was counted and is no longer there may be numbered anew.
        let cut = u64::from(kept.length < newest.length);
        let generation = newest.generation.wrapping_add(cut);
        // A writer commits the outcome by the next number: it must not go over
        // the slot that it came from, of which a kill might leave half.
        let skipped = u64::from(kept.sequence != newest.sequence);
        let sequence = newest.sequence.wrapping_add(skipped);
        self.commit = Commit { generation, sequence, ..kept };
        Ok(Recovery { unclean: true, counted: newest.length, kept: kept.length })
    }

    /// Whether every record that a slot counts beyond the synced ones is there
    /// and intact.
    fn holds(&mut self, slot: &Commit) -> Result<bool> {
        let size = self.meta.size().map_err(Error::io(FileName::Meta))?;
        if size < Format::Extended.entry_offset(slot.length) {
            return Ok(false);
        }
        let mut hasher = XxHash3_64::new();
        let mut entries = Vec::new();
        let mut tail = slot.durable_tail;
        for (first, count) in blocks(slot.durable_length..slot.length) {
            self.entries(first, count, &mut entries)?;
            hasher.write(&entries);
            match self.check_records(first, &entries, &mut tail) {
                Ok(()) => {}
                Err(error) if error.is_corruption() => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        Ok(hasher.finish() == slot.unsynced_hash)
    }

    /// Appended records lie one behind the other, from `tail` on. Forged ones
    /// that share bytes could have them read any number of times.
    fn check_records(&mut self, first: u64, entries: &[u8], tail: &mut Tail) -> Result<()> {
        let mut stored = Vec::new();
        for (index, entry) in (first..).zip(entries.chunks_exact(extended::ENTRY_SIZE)) {
            let location = Format::Extended.decode_entry(entry, index)?;
            let place = Tail { chunk: location.chunk, offset: location.offset };
            if place < *tail {
                return Err(location.corrupt(index, "it begins before the end of the one before"));
            }
            // Within a chunk, so it has 32 bits.
            let end = u32::try_from(location.end()).unwrap_or(u32::MAX);
            *tail = Tail { offset: end, ..place };
            self.read_stored(index, &location, &mut stored)?;
            location.check(index, &stored)?;
        }
        Ok(())
    }

    /// The state at the last sync, with the sums that only its table knows.
    fn cut_to_durable(&mut self, slot: &Commit) -> Result<Commit> {
        let mut commit = Commit {
            length: slot.durable_length,
            tail: slot.durable_tail,
            unsynced_hash: extended::EMPTY_HASH,
            stride: if slot.durable_length == 0 { 0 } else { slot.stride },
            live_stored: 0,
            live_len: 0,
            ..*slot
        };
        let (mut live_stored, mut live_len) = (0, 0);
        self.scan(0..commit.length, |_, location| {
            live_stored += u64::from(location.stored_len);
            live_len += u64::from(location.len);
            Ok(())
        })?;
        (commit.live_stored, commit.live_len) = (live_stored, live_len);
        Ok(commit)
    }
}
