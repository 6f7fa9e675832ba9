//! The counter-based generator: Philox, the one of Salmon et al. (2011).
//!
//! Two widths of it. Philox4x32 with ten rounds, keyed by the 64-bit seed,
//! turns the number of a stream (which 2^32 positions, which cycle) into the
//! keys of that stream: 128 bits in and out, so that neighbouring seeds,
//! steps and cycles have nothing in common. Philox2x32 with seven rounds, the
//! least that passes BigCrush, then makes the 64-bit word of each position.

use super::LOW;

/// What a stream is for, so that no two uses share keys.
#[derive(Clone, Copy)]
pub(super) enum Purpose {
    /// The words of independent draws; one stream for each 2^32 positions.
    Draw = 1,
    /// The words of a short cycle's shuffle; one stream a cycle.
    Shuffle = 2,
    /// The keys of a long cycle's permutation; one stream a cycle.
    Permute = 3,
}

/// The product of the low halves, in full.
#[inline(always)]
pub(super) fn multiply(x: u64, y: u64) -> u64 {
    (x & LOW) * (y & LOW)
}

/// The keys of stream `number`, of which the low 96 bits count: `BLOCKS` times
/// four 32-bit words, word by word.
#[inline(always)]
pub(super) fn keys<const BLOCKS: usize>(
    seed: u64,
    purpose: Purpose,
    number: u128,
) -> [[u64; BLOCKS]; 4] {
    let word = |shift: u32| super::low64(number >> shift) & LOW;
    let mut counter = [[word(0); BLOCKS], [word(32); BLOCKS], [word(64); BLOCKS], [0; BLOCKS]];
    for (slot, block) in counter[3].iter_mut().zip(0..) {
        *slot = (purpose as u64) << 8 | block;
    }
    philox4x32(seed, counter)
}

/// Philox4x32-10, `N` blocks side by side.
#[inline(always)]
fn philox4x32<const N: usize>(key: u64, counter: [[u64; N]; 4]) -> [[u64; N]; 4] {
    let [mut a, mut b, mut c, mut d] = counter;
    let (mut key_0, mut key_1) = (key & LOW, key >> 32);
    for _ in 0..10 {
        for i in 0..N {
            let p = multiply(0xd251_1f53, a[i]);
            let q = multiply(0xcd9e_8d57, c[i]);
            a[i] = (q >> 32) ^ b[i] ^ key_0;
            b[i] = q & LOW;
            c[i] = (p >> 32) ^ d[i] ^ key_1;
            d[i] = p & LOW;
        }
        key_0 = key_0.wrapping_add(0x9e37_79b9) & LOW;
        key_1 = key_1.wrapping_add(0xbb67_ae85) & LOW;
    }
    [a, b, c, d]
}

/// Philox2x32-7 in place: the counters go in, the words come out, the first
/// one in `x`. Upper halves are never read and hold garbage afterwards.
#[inline(always)]
fn philox2x32<const N: usize>(key: u64, x: &mut [u64; N], y: &mut [u64; N]) {
    let mut key = key;
    for _ in 0..7 {
        for i in 0..N {
            let p = multiply(0xd256_d193, x[i]);
            x[i] = (p >> 32) ^ key ^ y[i];
            y[i] = p;
        }
        key = key.wrapping_add(0x9e37_79b9) & LOW;
    }
}

/// 2^32 random words of 64 bits, each at a position and each to be drawn again
/// as often as it is rejected.
#[derive(Clone, Copy)]
pub(super) struct Stream {
    key: u64,
    origin: u64,
}

impl Stream {
    /// Stream `number` of `purpose`.
    #[inline(always)]
    pub(super) fn new(seed: u64, purpose: Purpose, number: u128) -> Self {
        let [[key], [origin], _, _] = keys::<1>(seed, purpose, number);
        Self { key, origin }
    }

    /// The words of `N` positions from `position` on, as high and low halves
    /// whose own upper halves are garbage.
    #[inline(always)]
    pub(super) fn words<const N: usize>(&self, position: u64, retry: u64) -> [[u64; N]; 2] {
        let (mut x, mut y) = ([0; N], [self.origin.wrapping_add(retry); N]);
        for (slot, position) in x.iter_mut().zip(position..) {
            *slot = position;
        }
        philox2x32(self.key, &mut x, &mut y);
        [x, y]
    }

    /// A number below `length`, without bias: Lemire's multiplication with
    /// rejection. What it gives depends on `position` and `length` alone.
    #[inline]
    pub(super) fn draw(&self, position: u64, length: u64) -> u64 {
        let mut retry = 0;
        loop {
            let [[high], [low]] = self.words::<1>(position, retry);
            let word = high << 32 | low & LOW;
            let product = u128::from(word) * u128::from(length);
            let fraction = super::low64(product);
            // 2^64 mod length, the number of fractions too many, is below
            // the length, so the division is hardly ever needed.
            if fraction >= length || fraction >= length.wrapping_neg() % length {
                return super::low64(product >> 64);
            }
            retry += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The known answers that the authors of Philox publish with Random123.
    #[test]
    fn philox_gives_the_published_answers() {
        let four = |key: [u64; 2], counter: [u64; 4]| {
            philox4x32::<1>(key[1] << 32 | key[0], counter.map(|word| [word])).map(|[word]| word)
        };
        assert_eq!(four([0; 2], [0; 4]), [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]);
        assert_eq!(four([LOW; 2], [LOW; 4]), [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]);
        let pi = [0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344];
        let answer = [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1];
        assert_eq!(four([0xa409_3822, 0x299f_31d0], pi), answer);

        let two = |key: u64, x: u64, y: u64| {
            let (mut x, mut y) = ([x], [y]);
            philox2x32(key, &mut x, &mut y);
            [x[0] & LOW, y[0] & LOW]
        };
        assert_eq!(two(0, 0, 0), [0x257a_3673, 0xcd26_be2a]);
        assert_eq!(two(LOW, LOW, LOW), [0xab30_2c4d, 0x3dc9_d239]);
        assert_eq!(two(0x1319_8a2e, 0x243f_6a88, 0x85a3_08d3), [0xbedb_be6b, 0xe4c7_70b3]);
    }
}
