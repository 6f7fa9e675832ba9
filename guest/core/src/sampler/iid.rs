//! Independent draws: every position of the global order has a word of its
//! own, whatever the step, the batch size and the world size.

use super::philox::{Purpose, Stream, multiply};
use super::{LANES, LOW, low64, to_usize};

/// Positions of one [`Stream`].
const STREAM: u64 = 1 << 32;

/// What to draw from: the indices `0..length`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Range {
    length: u64,
    /// The length needs more than 32 bits. Stored rather than compared where
    /// it matters: a compiler that has seen the comparison drops the masks by
    /// which it would recognise a 32-bit multiplication.
    wide: bool,
}

impl Range {
    pub(super) fn new(length: u64) -> Self {
        Self { length, wide: length > LOW }
    }
}

/// Writes the draws of `batch.len()` positions from `position` on.
#[inline(always)]
pub(super) fn fill(seed: u64, position: u128, range: Range, batch: &mut [u64]) {
    let mut number = position >> 32;
    let mut start = low64(position) & LOW;
    let mut rest = batch;
    while !rest.is_empty() {
        let count = (rest.len() as u64).min(STREAM - start);
        let (part, after) = rest.split_at_mut(to_usize(count));
        let stream = Stream::new(seed, Purpose::Draw, number);
        // Two loops rather than one that asks each time: sharing a loop, the
        // two kinds of block share registers and lose a third of their speed.
        if range.wide {
            fill_part::<true>(&stream, start, range.length, part);
        } else {
            fill_part::<false>(&stream, start, range.length, part);
        }
        rest = after;
        number += 1;
        start = 0;
    }
}

/// The part of a batch that lies in one stream, block by block, the last one
/// through a spare.
#[inline(always)]
fn fill_part<const WIDE: bool>(stream: &Stream, start: u64, length: u64, part: &mut [u64]) {
    let mut position = start;
    let (blocks, tail) = part.as_chunks_mut::<LANES>();
    for slots in blocks {
        if draw_block::<WIDE>(stream, position, length, slots) {
            reject(stream, position, length, slots);
        }
        position += LANES as u64;
    }
    if !tail.is_empty() {
        let mut spare = [0; LANES];
        if draw_block::<WIDE>(stream, position, length, &mut spare) {
            reject(stream, position, length, &mut spare);
        }
        tail.copy_from_slice(&spare[..tail.len()]);
    }
}

/// One block, as if no word were ever rejected; true when one may have to be.
#[inline(always)]
fn draw_block<const WIDE: bool>(
    stream: &Stream,
    start: u64,
    length: u64,
    slots: &mut [u64; LANES],
) -> bool {
    let [high, low] = stream.words::<LANES>(start, 0);
    let mut suspect = 0;
    for i in 0..LANES {
        if WIDE {
            let word = high[i] << 32 | low[i] & LOW;
            let product = u128::from(word) * u128::from(length);
            slots[i] = low64(product >> 64);
            suspect |= u64::from(low64(product) < length);
        } else {
            // The 96-bit product in two multiplications.
            let product = multiply(high[i], length) + (multiply(low[i], length) >> 32);
            slots[i] = product >> 32;
            // A rejected fraction is below the length and so below 2^32: its
            // upper half, here the lower one, is 0 and the subtraction
            // borrows.
            suspect |= (product & LOW).wrapping_sub(1) >> 63;
        }
    }
    suspect != 0
}

/// Draws a block again, one by one, with the rejection that the fast form
/// lacks. Below a length of 2^32 hardly anyone ever comes here; near 2^63
/// everyone does.
#[cold]
#[inline(never)]
fn reject(stream: &Stream, start: u64, length: u64, slots: &mut [u64; LANES]) {
    for (slot, position) in slots.iter_mut().zip(start..) {
        *slot = stream.draw(position, length);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_drawn_one_by_one_is_what_is_drawn_in_blocks() {
        let stream = Stream::new(3, Purpose::Draw, 0);
        let (mut fast, mut slow) = ([0; LANES], [0; LANES]);
        for length in [1, 2, 1000, LOW] {
            assert!(!draw_block::<false>(&stream, 7, length, &mut fast));
            reject(&stream, 7, length, &mut slow);
            assert_eq!(fast, slow);
        }
        // A quarter of the words is rejected at this length: the fast form must
        // notice, and be right wherever it need not.
        assert!(draw_block::<true>(&stream, 7, 6 << 60, &mut fast));
        reject(&stream, 7, 6 << 60, &mut slow);
        assert!(fast != slow && fast.iter().zip(&slow).any(|(a, b)| a == b));
    }
}
