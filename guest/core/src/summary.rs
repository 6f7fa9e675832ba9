//! What a range of records comes to, by the record table alone.

use std::ops::Range;

use crate::codec::Codec;
use crate::error::Result;
use crate::format::RecordLocation;
use crate::reader::Reader;
use crate::storage::Directory;

/// How many classes of lengths there are: one for 0, one for each highest bit.
pub const LENS: usize = 33;
/// How many classes of ratios there are: eight for each of ten doublings, and
/// one for all above.
pub const RATIOS: usize = 81;

/// Steps of the ratio within one doubling, each a factor of 2^(1/8).
const STEPS: usize = 8;
/// How many binary digits of a step's bound are kept.
const BOUND_DIGITS: u32 = 64;
/// 2^(i/8) for i from 1 to 7, times 2^64, rounded up. Integers, since every
/// machine must put a record into the same class.
const BOUNDS: [u128; STEPS - 1] = [
    0x1_172b_83c7_d517_adce,
    0x1_306f_e0a3_1b71_52df,
    0x1_4bfd_ad53_62a2_71d5,
    0x1_6a09_e667_f3bc_c909,
    0x1_8ace_5422_aa0d_b5bb,
    0x1_ae89_f995_ad3a_d5e9,
    0x1_d581_8dcf_ba48_725e,
];

/// Counts of a range of records. Those of neighbouring ranges, added, are those
/// of both.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// How many records were looked at.
    pub records: u64,
    /// The sum of their stored bytes.
    pub stored_bytes: u64,
    /// The sum of their bytes as the user sees them.
    pub plain_bytes: u64,
    /// How many use each codec, by its number.
    pub codecs: [u64; Codec::ALL.len()],
    /// How many have which length: position 0 is length 0, position `b` holds
    /// 2^(b-1) up to 2^b - 1.
    pub lens: [u64; LENS],
    /// How many have which ratio of plain to stored bytes: position `i` holds
    /// 2^(i/8) up to 2^((i+1)/8), the last one also what is above. What is
    /// stored raw, and empty records, are at 0.
    pub ratios: [u64; RATIOS],
}

impl Default for Summary {
    fn default() -> Self {
        Self {
            records: 0,
            stored_bytes: 0,
            plain_bytes: 0,
            codecs: [0; Codec::ALL.len()],
            lens: [0; LENS],
            ratios: [0; RATIOS],
        }
    }
}

impl Summary {
    /// Adds the counts of another range.
    pub fn merge(&mut self, other: &Self) {
        let add = |sum: &mut u64, part: &u64| *sum = sum.saturating_add(*part);
        add(&mut self.records, &other.records);
        add(&mut self.stored_bytes, &other.stored_bytes);
        add(&mut self.plain_bytes, &other.plain_bytes);
        let add_all = |sums: &mut [u64], parts: &[u64]| {
            sums.iter_mut().zip(parts).for_each(|(sum, part)| add(sum, part));
        };
        add_all(&mut self.codecs, &other.codecs);
        add_all(&mut self.lens, &other.lens);
        add_all(&mut self.ratios, &other.ratios);
    }

    fn count(&mut self, location: &RecordLocation) {
        let RecordLocation { stored_len, len, codec, .. } = *location;
        self.records += 1;
        self.stored_bytes += u64::from(stored_len);
        self.plain_bytes += u64::from(len);
        self.codecs[usize::from(codec.number())] += 1;
        self.lens[len_class(len)] += 1;
        self.ratios[ratio_class(stored_len, len)] += 1;
    }
}

impl<D: Directory> Reader<D> {
    /// Counts records `range`, as far as there are any. Work comes in ranges so
    /// that a caller can show progress and stop.
    ///
    /// # Errors
    ///
    /// As [`Reader::scan`].
    pub fn summarise(&self, range: Range<u64>) -> Result<Summary> {
        let mut summary = Summary::default();
        let length = self.commit().length;
        self.scan(range.start.min(length)..range.end.min(length), |_, location| {
            summary.count(&location);
            Ok(())
        })?;
        Ok(summary)
    }
}

fn len_class(len: u32) -> usize {
    len.checked_ilog2().map_or(0, |bit| bit as usize + 1)
}

fn ratio_class(stored_len: u32, len: u32) -> usize {
    // A record is stored compressed only where that makes it shorter, and the
    // stored bytes of one that is not empty are not none.
    if stored_len == 0 || stored_len >= len {
        return 0;
    }
    let doublings = (len / stored_len).ilog2();
    let (base, len) = (u128::from(stored_len) << doublings, u128::from(len) << BOUND_DIGITS);
    let steps = BOUNDS.iter().take_while(|bound| len >= base * **bound).count();
    (doublings as usize * STEPS + steps).min(RATIOS - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_length_is_classed_by_its_bits() {
        for (len, class) in [(0, 0), (1, 1), (2, 2), (3, 2), (4, 3), (1023, 10), (1024, 11)] {
            assert_eq!(len_class(len), class, "{len}");
        }
        assert_eq!(len_class(u32::MAX), LENS - 1);
    }

    #[test]
    fn a_ratio_is_classed_by_eighths_of_a_doubling() {
        for (stored_len, len, class) in [
            (0, 0, 0),
            (7, 7, 0),
            (1000, 1090, 0),
            (1000, 1091, 1),
            (1000, 1414, 3),
            (1000, 1415, 4),
            (1000, 1999, 7),
            (1000, 2000, 8),
            (1, 1023, 79),
            (1, 1024, 80),
            (1, u32::MAX, 80),
            (u32::MAX / 2, u32::MAX, 8),
            (u32::MAX - 1, u32::MAX, 0),
        ] {
            assert_eq!(ratio_class(stored_len, len), class, "{len} in {stored_len}");
        }
    }

    #[test]
    fn bounds_are_eighth_powers_of_two() {
        for (position, bound) in (1..).zip(BOUNDS) {
            let exact = 2_f64.powf(f64::from(position) / 8.0);
            #[expect(clippy::cast_precision_loss, reason = "compared to 14 digits")]
            let found = bound as f64 / 2_f64.powi(64);
            assert!((found / exact - 1.0).abs() < 1e-14, "{position}");
        }
    }
}
