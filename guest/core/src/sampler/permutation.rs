//! A keyed bijection of `0..length` that needs no memory: an unbalanced
//! Feistel network with cycle walking (Black and Rogaway, 2002).
//!
//! A position is split into `low`, its lowest `low_bits` bits, and `high`,
//! the rest, which is below `high_count`. Half-rounds add, in turn, a keyed
//! function of `low` to `high` modulo `high_count` and one of `high` to `low`
//! modulo 2^`low_bits`; each can be undone, so together they are a bijection
//! of the domain `high_count << low_bits`. That domain exceeds the length by
//! less than 2^`low_bits`, about a square root, and the few positions that
//! land beyond the length walk on.
//!
//! The keyed function is the middle of a square, `(x * factor + addend)^2`
//! with random factor and addend: two multiplications, pairwise independent
//! before the square, far from linear after it.

use super::philox::{Purpose, keys, multiply};
use super::{LANES, LOW};

/// Half-rounds. Six already pass every test at lengths from 257 on and are
/// caught at 67; eight pass everything that was tried (see `SAMPLER.md`).
const HALF_ROUNDS: usize = 8;

/// How a length is split: what of a permutation does not depend on keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Shape {
    length: u64,
    low_bits: u32,
    high_count: u64,
}

impl Shape {
    /// The split of `length`, which is at least 2 and at most 2^63.
    pub(super) fn new(length: u64) -> Self {
        let bits = u64::BITS - (length - 1).leading_zeros();
        // Half of the bits, but `high_count` must fit 32 bits.
        let low_bits = if bits == 63 { 32 } else { bits / 2 };
        Self { length, low_bits, high_count: ((length - 1) >> low_bits) + 1 }
    }
}

/// The permutation of one cycle.
pub(super) struct Permutation {
    shape: Shape,
    /// Factor and addend of each half-round.
    keys: [[u64; 2]; HALF_ROUNDS],
}

impl Permutation {
    /// The permutation of cycle `number`.
    #[inline(always)]
    pub(super) fn new(shape: Shape, seed: u64, number: u64) -> Self {
        let words = keys::<{ HALF_ROUNDS / 2 }>(seed, Purpose::Permute, number.into());
        let mut keys = [[0; 2]; HALF_ROUNDS];
        for (block, pair) in keys.as_chunks_mut::<2>().0.iter_mut().enumerate() {
            // An odd factor, so that two inputs never fall together.
            pair[0] = [words[0][block] | 1, words[1][block]];
            pair[1] = [words[2][block] | 1, words[3][block]];
        }
        Self { shape, keys }
    }

    /// Writes where `batch.len()` positions from `position` on are sent.
    #[inline(always)]
    pub(super) fn fill(&self, position: u64, batch: &mut [u64]) {
        let mut position = position;
        let (blocks, tail) = batch.as_chunks_mut::<LANES>();
        for slots in blocks {
            if self.block(position, slots) {
                self.walk(slots);
            }
            position += LANES as u64;
        }
        if !tail.is_empty() {
            // Positions past the end of the domain may come out as anything;
            // they are not copied.
            let mut spare = [0; LANES];
            self.block(position, &mut spare);
            tail.copy_from_slice(&spare[..tail.len()]);
            self.walk(tail);
        }
    }

    /// One block; true when a position has to walk on.
    #[inline(always)]
    fn block(&self, position: u64, slots: &mut [u64; LANES]) -> bool {
        for (slot, position) in slots.iter_mut().zip(position..) {
            *slot = position;
        }
        self.apply(slots);
        let mut beyond = 0;
        for &mut image in slots {
            beyond |= (self.shape.length - 1).wrapping_sub(image) >> 63;
        }
        beyond != 0
    }

    /// Walks on with whatever lies beyond the length, until nothing does.
    #[cold]
    #[inline(never)]
    fn walk(&self, slots: &mut [u64]) {
        for slot in slots {
            while *slot >= self.shape.length {
                let mut lane = [*slot];
                self.apply(&mut lane);
                [*slot] = lane;
            }
        }
    }

    /// The network, once, over every lane.
    #[inline(always)]
    fn apply<const N: usize>(&self, lanes: &mut [u64; N]) {
        let Shape { low_bits, high_count, .. } = self.shape;
        let mask = LOW >> (32 - low_bits);
        let (mut low, mut high) = ([0; N], [0; N]);
        for i in 0..N {
            low[i] = lanes[i] & mask;
            high[i] = lanes[i] >> low_bits;
        }
        for [to_high, to_low] in self.keys.as_chunks::<2>().0 {
            for i in 0..N {
                // 32 bits from the middle of the square, scaled to the count.
                let middle = square(low[i], to_high) >> 16;
                let sum = high[i] + (multiply(middle, high_count) >> 32);
                // Modulo without a comparison, which SSE2 and AVX2 lack for
                // this width: the borrow, spread over 32 bits, is the mask.
                let less = sum.wrapping_sub(high_count);
                high[i] = less.wrapping_add(high_count & (less >> 32));
            }
            for i in 0..N {
                // The top bits of the same 32.
                let middle = square(high[i], to_low) >> (48 - low_bits);
                low[i] = (low[i] + middle) & mask;
            }
        }
        for i in 0..N {
            lanes[i] = high[i] << low_bits | low[i];
        }
    }
}

/// `(x * factor + addend)^2`, of whose sum only the low 32 bits count.
#[inline(always)]
fn square(x: u64, [factor, addend]: &[u64; 2]) -> u64 {
    let sum = multiply(x, *factor) + addend;
    multiply(sum, sum)
}
