//! Which records of a store have passed their checksum since it was opened.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use bytemuck::allocation::zeroed_slice_box;

/// The first segment has `1 << FIRST_BITS` records, each further one as many
/// as all before it.
const FIRST_BITS: u32 = 15;
/// Records behind these are checked whenever they are read: an index is no
/// more to be believed than the size of a file, which may be all hole.
const RECORDS_MAX: u64 = 1 << 32;
const SEGMENTS: usize = (RECORDS_MAX.ilog2() - FIRST_BITS + 1) as usize;

/// One bit a record, of one generation of the store. Bits are only written
/// when they change, so that later passes over the data share nothing that is
/// written; memory is taken for the parts of the store that are read.
#[derive(Debug)]
pub(crate) struct Verified {
    segments: [OnceLock<Box<[AtomicU64]>>; SEGMENTS],
    /// How many bits are set, but for those that are not counted in yet.
    count: AtomicU64,
}

impl Default for Verified {
    fn default() -> Self {
        Self { segments: [const { OnceLock::new() }; SEGMENTS], count: AtomicU64::new(0) }
    }
}

impl Verified {
    /// Whether the record has passed.
    pub(crate) fn contains(&self, index: u64) -> bool {
        let place = Place::of(index);
        let segment = self.segments.get(place.segment).and_then(OnceLock::get);
        let word = segment.and_then(|words| words.get(place.word));
        word.is_some_and(|word| word.load(Ordering::Relaxed) & place.bit != 0)
    }

    /// Whether the first `length` records, which are all that the store has,
    /// have passed. False while some of them are not counted in.
    pub(crate) fn is_complete(&self, length: u64) -> bool {
        self.count.load(Ordering::Relaxed) >= length
    }

    /// Notes that the record has passed; whether it is news, which somebody
    /// then counts in.
    #[must_use]
    pub(crate) fn insert(&self, index: u64) -> bool {
        let place = Place::of(index);
        let Some(segment) = self.segments.get(place.segment) else { return false };
        let words = segment.get_or_init(|| {
            // Zeroed by the system, page by page, as bits are set.
            let words = place.segment_len / u64::from(u64::BITS);
            zeroed_slice_box(usize::try_from(words).unwrap_or(usize::MAX))
        });
        let Some(word) = words.get(place.word) else { return false };
        let is_unset = |word: u64| word & place.bit == 0;
        // Of two threads one is told.
        is_unset(word.load(Ordering::Relaxed))
            && is_unset(word.fetch_or(place.bit, Ordering::Relaxed))
    }

    /// Counts in records that were news: many at a time, since all threads
    /// share the count.
    pub(crate) fn count_in(&self, news: u64) {
        if news > 0 {
            self.count.fetch_add(news, Ordering::Relaxed);
        }
    }
}

/// Where the bit of a record lies.
struct Place {
    segment: usize,
    segment_len: u64,
    word: usize,
    bit: u64,
}

impl Place {
    fn of(index: u64) -> Self {
        let doublings = u64::BITS - (index >> FIRST_BITS).leading_zeros();
        let segment_start = if doublings == 0 { 0 } else { 1 << (FIRST_BITS + doublings - 1) };
        let segment_len = segment_start.max(1 << FIRST_BITS);
        let within = index - segment_start;
        Self {
            segment: doublings as usize,
            segment_len,
            word: usize::try_from(within / u64::from(u64::BITS)).unwrap_or(usize::MAX),
            bit: 1 << (within % u64::from(u64::BITS)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_record_has_a_bit_of_its_own() {
        let verified = Verified::default();
        // An interpreter takes its time.
        let spread = if cfg!(miri) { 997 } else { 7 };
        let indices = || (0..200_000).step_by(spread).chain([1 << 15, (1 << 16) - 1, 1 << 20]);
        let news = indices().filter(|index| verified.insert(*index)).count() as u64;
        let inserted: std::collections::BTreeSet<u64> = indices().collect();
        for index in (0..200_100).step_by(spread.div_ceil(7)) {
            assert_eq!(verified.contains(index), inserted.contains(&index), "{index}");
        }
        assert_eq!(news, inserted.len() as u64, "each is news once");
        assert!(!verified.is_complete(1), "none is counted in");
        verified.count_in(news);
        assert!(verified.is_complete(news) && !verified.is_complete(news + 1));
        assert!(verified.contains(1 << 20));
        assert!(!verified.contains((1 << 20) + 1));
    }

    #[test]
    #[cfg_attr(miri, ignore = "memory that is only reserved is taken there")]
    fn an_index_past_any_store_takes_no_memory() {
        let verified = Verified::default();
        for index in [u64::MAX, 1 << 40, RECORDS_MAX] {
            assert!(!verified.insert(index));
            assert!(!verified.contains(index));
        }
        assert!(verified.segments.iter().all(|segment| segment.get().is_none()));
        assert!(verified.insert(RECORDS_MAX - 1));
        assert!(verified.contains(RECORDS_MAX - 1));
    }
}
