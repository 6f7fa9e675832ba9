//! Cycles without replacement: batches never straddle two of them.

use super::permutation::{Permutation, Shape};
use super::philox::{Purpose, Stream};
use super::to_usize;

/// Up to this length a cycle is shuffled, exactly and in bounded time; the
/// network of [`Permutation`] needs a little room to mix.
pub(super) const SHUFFLED_LENGTH_MAX: u64 = 128;

/// The cycles of one length and global batch.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Cycles {
    length: u64,
    global_batch: u64,
    batches: u64,
    /// `None` for the short lengths that are shuffled.
    shape: Option<Shape>,
}

impl Cycles {
    /// Cycles over `length` indices in global batches of at most that many.
    pub(super) fn new(length: u64, global_batch: u64) -> Self {
        let shape = (length > SHUFFLED_LENGTH_MAX).then(|| Shape::new(length));
        Self { length, global_batch, batches: length / global_batch, shape }
    }

    /// Batches in a cycle.
    pub(super) fn batches(&self) -> u64 {
        self.batches
    }

    /// Writes the part of step `step` that begins at `part` in its global
    /// batch.
    #[inline(always)]
    pub(super) fn fill(&self, seed: u64, step: u64, part: u64, batch: &mut [u64]) {
        let cycle = step / self.batches;
        let position = step % self.batches * self.global_batch + part;
        match self.shape {
            Some(shape) => Permutation::new(shape, seed, cycle).fill(position, batch),
            None => self.shuffle(seed, cycle, position, batch),
        }
    }

    /// Fisher and Yates' shuffle of the whole cycle, of which `batch` is a
    /// part.
    fn shuffle(&self, seed: u64, cycle: u64, position: u64, batch: &mut [u64]) {
        let mut order = [0; to_usize(SHUFFLED_LENGTH_MAX)];
        for (slot, index) in order.iter_mut().zip(0..) {
            *slot = index;
        }
        let stream = Stream::new(seed, Purpose::Shuffle, cycle.into());
        for last in (1..self.length).rev() {
            let chosen = stream.draw(last, last + 1);
            order.swap(to_usize(last), to_usize(chosen));
        }
        let start = to_usize(position);
        batch.copy_from_slice(&order[start..start + batch.len()]);
    }
}
