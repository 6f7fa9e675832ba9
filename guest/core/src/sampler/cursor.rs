//! A sampler and the step it has come to.

use super::Sampler;
use crate::Result;

/// A [`Sampler`] that remembers its step: the only state there is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Cursor {
    sampler: Sampler,
    step: u64,
}

impl Cursor {
    /// A cursor at step 0 of `sampler`.
    pub fn new(sampler: Sampler) -> Self {
        Self { sampler, step: 0 }
    }

    /// Writes the batch of the current step and moves on to the next one
    /// (from the last step, 2^64 - 1, to step 0).
    ///
    /// # Errors
    ///
    /// As [`Sampler::fill`]; the cursor stays where it was.
    pub fn next(&mut self, batch: &mut [u64]) -> Result<()> {
        self.sampler.fill(self.step, batch)?;
        self.step = self.step.wrapping_add(1);
        Ok(())
    }

    /// Makes `step` the next one to be written; any step costs the same.
    pub fn seek(&mut self, step: u64) {
        self.step = step;
    }

    /// The step that [`next`](Self::next) will write.
    pub fn step(&self) -> u64 {
        self.step
    }

    /// The sampler.
    pub fn sampler(&self) -> &Sampler {
        &self.sampler
    }
}
