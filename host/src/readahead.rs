//! Reading ahead: what a batch needs from a disk is asked for at once.
//!
//! A page of a map that is not in memory is read when it is touched, and the
//! thread waits: a batch from a cold store would be one wait after the other.
//! So a few records of each batch are probed. Where one is missing, all of the
//! batch is asked for before any of it is copied, and the disk has many
//! requests to work on. Where batches follow each other through a file the
//! system does it better: what it reads ahead by itself it reads in larger
//! pieces. So then it is told that the map is not read at random, and when the
//! scan is over, that it is.

use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

use zrecord_core::storage::Span;

use crate::gather::to_usize;
use crate::mapping::Mapping;

/// Records of a batch that are probed after batches that were all there: a
/// probe is a call of the system, and costs a few tenths of a microsecond.
const PROBES_WARM: usize = 1;
/// And after one that was not.
const PROBES_COLD: usize = 8;
/// After so many batches that were all there the last one that was not is
/// forgotten.
const PATIENCE: u32 = 32;
/// While batches are all there, so many bytes are gathered from one batch that
/// is probed to the next: the probe would be a good part of a short one's time.
const BYTES_PER_PROBE: usize = 512 << 10;
/// A batch counts as so many at least, so that one of eight is probed.
const BATCH_BYTES_MIN: usize = BYTES_PER_PROBE / 8;
/// A batch of one record that is shorter is read in a few waits anyway.
const ALONE_MIN: usize = 32 << 10;

/// Linux takes one request for at most as much as it reads ahead by itself,
/// 128 KiB unless set otherwise, and drops the rest.
const REQUEST_BYTES_MAX: u64 = 128 << 10;
/// Records that lie this close are asked for in one request: the pages between
/// cost less than another call.
const GAP_MAX: u64 = 4096;

/// Records that follow each other are a scan after so many.
const SCAN_RECORDS_MIN: u64 = 3;
/// Several threads that share a scan are apart by so many batches at most.
const SCAN_BATCHES_APART: u64 = 4;

/// A stretch of one of several maps, by the number of the map.
pub(crate) type Stretch = (usize, Span);

/// A batch, as reading ahead sees it.
pub(crate) trait Stored {
    /// How many records it has.
    fn count(&self) -> usize;

    /// Where the one at a position lies; `None` where it is read without a map.
    fn stretch(&self, position: usize) -> Option<Stretch>;

    /// Whether a byte is in memory.
    fn is_cached(&self, map: usize, offset: u64) -> bool;

    /// The map of that number.
    fn mapping(&self, map: usize) -> Option<&Mapping>;

    /// All of them.
    fn mappings(&self) -> impl Iterator<Item = &Mapping>;
}

/// What is known of the batches from some files of late. Only hints rest on it,
/// so threads may get into each other's way here.
#[derive(Debug)]
pub(crate) struct Readahead {
    /// How many more batches are probed closely.
    patience: AtomicU32,
    /// Bytes that were gathered since the last probe.
    unprobed: AtomicUsize,
    scan: Scan,
}

/// Batches that follow each other through a file.
#[derive(Debug, Default)]
struct Scan {
    /// Where the last batch ended.
    end: AtomicU64,
    /// How many records have followed each other.
    records: AtomicU64,
}

impl Default for Readahead {
    /// The first batch is probed.
    fn default() -> Self {
        Self {
            patience: AtomicU32::new(0),
            unprobed: AtomicUsize::new(BYTES_PER_PROBE),
            scan: Scan::default(),
        }
    }
}

impl Readahead {
    /// Asks the system for a batch, if it lies on disk only, and does not wait
    /// for it; or has the system read ahead by itself, if it is part of a scan.
    pub(crate) fn ask_for(&self, batch: &impl Stored) {
        let Some((_, first)) = (0..batch.count()).find_map(|position| batch.stretch(position))
        else {
            return;
        };
        let run = run_of(batch);
        let is_scan = run.is_some_and(|run| self.scan.goes_on(run, batch.count() as u64));
        batch.mappings().for_each(|mapping| mapping.expect_scan(is_scan));
        if is_scan {
            return;
        }
        let is_cached = |position: usize| {
            let stretch = batch.stretch(position);
            stretch.is_none_or(|(map, span)| batch.is_cached(map, span.offset))
        };
        if self.is_due(batch.count(), to_usize(first.len), is_cached) {
            let stretches = (0..batch.count()).filter_map(|position| batch.stretch(position));
            ask(batch, stretches.collect());
        }
    }

    /// Whether to ask for a batch of `count` records, the first of which has
    /// `len` bytes. `is_cached` probes the record at a position.
    fn is_due(&self, count: usize, len: usize, mut is_cached: impl FnMut(usize) -> bool) -> bool {
        if count == 0 || (count == 1 && len < ALONE_MIN) {
            return false;
        }
        let patience = self.patience.load(Ordering::Relaxed);
        if patience == 0 && !self.is_probed(count.saturating_mul(len)) {
            return false;
        }
        let probes = if patience == 0 { PROBES_WARM } else { PROBES_COLD.min(count) };
        // The last one too: of a scan the system may have read the beginning.
        let is_missing = (1..=probes).any(|probe| !is_cached(count * probe / probes - 1));
        if is_missing {
            self.patience.store(PATIENCE, Ordering::Relaxed);
        } else if patience > 0 {
            self.patience.store(patience - 1, Ordering::Relaxed);
        }
        is_missing
    }

    /// Whether a batch of so many bytes is probed, after others that were all
    /// there. Several threads may miscount, which does no harm.
    fn is_probed(&self, bytes: usize) -> bool {
        if bytes >= BYTES_PER_PROBE {
            return true;
        }
        let unprobed = self.unprobed.load(Ordering::Relaxed);
        let is_probed = unprobed >= BYTES_PER_PROBE;
        let before = if is_probed { 0 } else { unprobed };
        self.unprobed.store(before + bytes.max(BATCH_BYTES_MIN), Ordering::Relaxed);
        is_probed
    }
}

impl Scan {
    /// Whether a batch of `count` records that lie in `run` is part of a scan.
    fn goes_on(&self, run: Span, count: u64) -> bool {
        let before = self.end.load(Ordering::Relaxed);
        self.end.store(run.offset + run.len, Ordering::Relaxed);
        // Records alone are in order, or the same one again would be a scan.
        let apart = if count > 1 { SCAN_BATCHES_APART * run.len } else { 0 };
        let follows =
            (before.saturating_sub(apart)..=before + apart + GAP_MAX).contains(&run.offset);
        let records = if follows { self.records.load(Ordering::Relaxed) } else { 0 };
        self.records.store(records.saturating_add(count), Ordering::Relaxed);
        records > 0 && records.saturating_add(count) >= SCAN_RECORDS_MIN
    }
}

/// What a batch takes of a file, if its records lie one behind the other.
fn run_of(batch: &impl Stored) -> Option<Span> {
    let (map, mut run) = batch.stretch(0)?;
    for position in 1..batch.count() {
        let (other, span) = batch.stretch(position)?;
        let end = run.offset + run.len;
        if other != map || span.offset < end || span.offset > end + GAP_MAX {
            return None;
        }
        run.len = span.offset + span.len - run.offset;
    }
    Some(run)
}

/// Asks the system for stretches of a batch's maps.
fn ask(batch: &impl Stored, stretches: Vec<Stretch>) {
    for (map, span) in requests(stretches) {
        if let Some(mapping) = batch.mapping(map) {
            mapping.will_need(to_usize(span.offset), to_usize(span.len));
        }
    }
}

/// In the order of the disk, those that lie close joined, and none too long.
fn requests(mut stretches: Vec<Stretch>) -> Vec<Stretch> {
    stretches.sort_unstable_by_key(|(number, span)| (*number, span.offset));
    let mut requests: Vec<Stretch> = Vec::with_capacity(stretches.len());
    for (number, span) in stretches {
        let end = span.offset.saturating_add(span.len);
        match requests.last_mut() {
            Some((last, before))
                if *last == number && span.offset <= before.offset + before.len + GAP_MAX =>
            {
                before.len = before.len.max(end - before.offset);
            }
            _ => requests.push((number, span)),
        }
    }
    requests.into_iter().flat_map(cut).collect()
}

fn cut((number, span): Stretch) -> impl Iterator<Item = Stretch> {
    let step = to_usize(REQUEST_BYTES_MAX);
    (0..span.len).step_by(step).map(move |start| {
        let len = REQUEST_BYTES_MAX.min(span.len - start);
        (number, Span { offset: span.offset + start, len })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stretch(number: usize, offset: u64, len: u64) -> Stretch {
        (number, Span { offset, len })
    }

    #[test]
    fn close_stretches_are_joined_and_long_ones_cut() {
        let page = GAP_MAX;
        let asked = vec![
            stretch(1, 0, 10),
            stretch(0, 20 * page, page),
            stretch(0, 3 * page, 5),
            // Twice the same, one within another, and one a page behind.
            stretch(0, 20 * page, page),
            stretch(0, 20 * page + 1, 1),
            stretch(0, 22 * page, 7),
            stretch(2, 7, 2 * REQUEST_BYTES_MAX + 1),
        ];
        let expected = [
            stretch(0, 3 * page, 5),
            stretch(0, 20 * page, 2 * page + 7),
            stretch(1, 0, 10),
            stretch(2, 7, REQUEST_BYTES_MAX),
            stretch(2, 7 + REQUEST_BYTES_MAX, REQUEST_BYTES_MAX),
            stretch(2, 7 + 2 * REQUEST_BYTES_MAX, 1),
        ];
        assert_eq!(requests(asked), expected);
        assert_eq!(requests(vec![stretch(0, 5, 0)]), []);
    }

    #[test]
    fn a_missing_record_makes_it_look_closer_for_a_while() {
        let readahead = Readahead::default();
        let probes = |missing: &[usize]| {
            let mut probed = Vec::new();
            let is_due = readahead.is_due(256, BYTES_PER_PROBE / 256, |position| {
                probed.push(position);
                !missing.contains(&position)
            });
            (is_due, probed)
        };
        assert_eq!(probes(&[0, 31]), (false, vec![255]));
        assert_eq!(probes(&[255]), (true, vec![255]));
        for _ in 0..PATIENCE {
            assert_eq!(probes(&[]).1, [31, 63, 95, 127, 159, 191, 223, 255]);
        }
        assert_eq!(probes(&[]), (false, vec![255]));
        assert_eq!(probes(&[255]), (true, vec![255]));
        assert_eq!(probes(&[31]), (true, vec![31]), "one that is missing is enough");
    }

    #[test]
    fn of_short_batches_that_were_there_few_are_probed() {
        let readahead = Readahead::default();
        let probed = |len| {
            let mut is_probed = false;
            readahead.is_due(256, len, |_| {
                is_probed = true;
                true
            });
            is_probed
        };
        let of = |len| (0..16).map(|_| u8::from(probed(len))).collect::<Vec<_>>();
        let every_eighth = [1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!(of(1), every_eighth);
        assert_eq!(of(BYTES_PER_PROBE / 512), [1, 0].repeat(8));
        assert_eq!(of(BYTES_PER_PROBE / 256), [1].repeat(16));
    }

    #[test]
    fn a_short_record_alone_is_not_probed() {
        let readahead = Readahead::default();
        let probe = |count, len| readahead.is_due(count, len, |_| false);
        assert!(!probe(0, ALONE_MIN));
        assert!(!probe(1, ALONE_MIN - 1));
        assert!(probe(1, ALONE_MIN));
        assert!(probe(2, 1));
    }

    #[test]
    fn batches_that_follow_each_other_are_a_scan() {
        let scan = Scan::default();
        let goes_on = |start: u64| scan.goes_on(Span { offset: start << 20, len: 1 << 20 }, 256);
        // Of the first nothing is known yet.
        assert_eq!([100, 101, 102, 103].map(goes_on), [false, true, true, true]);
        // Another begins elsewhere; threads take turns out of order.
        assert_eq!([500, 501, 503, 502].map(goes_on), [false, true, true, true]);
        assert_eq!([40, 900, 30].map(goes_on), [false; 3]);
    }

    #[test]
    fn single_records_are_a_scan_once_some_have_followed_each_other() {
        let scan = Scan::default();
        let goes_on = |index: u64| scan.goes_on(Span { offset: index * 5_000, len: 5_000 }, 1);
        assert_eq!([70, 500, 30, 400].map(goes_on), [false; 4]);
        assert_eq!([10, 11, 12, 13].map(goes_on), [false, false, true, true]);
        assert_eq!([90, 91].map(goes_on), [false; 2]);
        assert_eq!([7; 5].map(goes_on), [false; 5]);
    }
}
