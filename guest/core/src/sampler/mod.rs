//! Which records come next: a pure function of `(seed, step)`.
//!
//! A [`Sampler`] is a handful of numbers and no state. [`Sampler::fill`]
//! writes the batch of any step in time that depends on the batch alone, so
//! step 2^40 costs what step 0 costs, a loader resumes from a step number, and
//! every rank computes its own part without hearing of the others.
//! [`Cursor`] adds the obvious `next` and `seek`.
//!
//! | file | holds |
//! | --- | --- |
//! | `sequential` | positions in order, modulo the length |
//! | `iid` | unbiased draws with replacement |
//! | `cyclic` | a fresh permutation per cycle: cycle arithmetic and short lengths |
//! | `permutation` | the stateless bijection behind `cyclic` |
//! | `philox` | the counter-based generator behind all of it |
//!
//! The algorithm is specified in `SAMPLER.md` and frozen by
//! `tests/vectors/sampler.json`: what a seed and a step give is part of the
//! format, since a run resumes with it.
//!
//! **Speed.** The inner loops run over blocks of `LANES` `u64`s that each
//! hold a 32-bit value, whatever the length, and use nothing but 32-bit
//! products, additions, shifts and exclusive ors. One text so becomes vector
//! code where that pays (AVX2, in part wasm SIMD) and plain 64-bit code where
//! the compiler finds that faster (SSE2, NEON). They are `#[inline(always)]`,
//! so that the host can compile [`Sampler::fill_inline`] once more under
//! `#[target_feature]`.

mod cursor;
mod cyclic;
mod iid;
mod mode;
mod permutation;
mod philox;
mod sequential;

#[cfg(test)]
mod reference;
#[cfg(test)]
mod statistics;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod vectors;

pub use cursor::Cursor;
pub use mode::Mode;

use crate::{Error, Result};
use cyclic::Cycles;
use iid::Range;

/// The largest length: 2^63.
pub const LENGTH_MAX: u64 = 1 << 63;

/// Indices that the inner loops compute side by side: four AVX2 registers,
/// enough independent work to hide the latency of a multiplication.
pub(crate) const LANES: usize = 16;

/// The low 32 bits of a lane.
const LOW: u64 = 0xffff_ffff;

/// What a [`Sampler`] is made from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SamplerOptions {
    /// How many records there are; indices are `0..length`, at most 2^63.
    pub length: u64,
    /// Indices per batch and rank.
    pub batch_size: u64,
    /// The order.
    pub mode: Mode,
    /// What distinguishes one random order from another; any value is as good
    /// as any other.
    pub seed: u64,
    /// Which part of the global batch this sampler writes.
    pub rank: u64,
    /// How many ranks share the global batch; 1 when there is only one.
    pub world_size: u64,
}

/// Writes the indices of any batch: a pure function of `(seed, step)`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Sampler {
    options: SamplerOptions,
    global_batch: u64,
    /// Where this rank's part begins in the global batch.
    part: u64,
    order: Order,
}

/// The mode, with what only it needs.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Order {
    Sequential,
    Iid(Range),
    Cyclic(Cycles),
}

impl Sampler {
    /// A sampler for `options`.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`], naming the option and what to do, when
    /// there is nothing to draw from or nothing to draw, when the rank is not
    /// below the world size, when the global batch does not fit 64 bits, and
    /// in cyclic mode when it is larger than the length.
    pub fn new(options: SamplerOptions) -> Result<Self> {
        let SamplerOptions { length, batch_size, rank, world_size, .. } = options;
        if length == 0 {
            return invalid(
                "length",
                "it is 0, so there is nothing to sample; append records first",
            );
        }
        if length > LENGTH_MAX {
            return invalid("length", format!("{length} is above the limit of 2^63"));
        }
        if batch_size == 0 {
            return invalid("batch_size", "it is 0; give at least 1");
        }
        if world_size == 0 {
            return invalid(
                "world_size",
                "it is 0; give the number of ranks, 1 for a single process",
            );
        }
        if rank >= world_size {
            let reason = format!(
                "{rank} is not below the world size {world_size}; ranks count from 0 to {}",
                world_size - 1
            );
            return invalid("rank", reason);
        }
        let Some(global_batch) = batch_size.checked_mul(world_size) else {
            let reason = format!(
                "{batch_size} times the world size {world_size} does not fit 64 bits; \
                 give a smaller batch"
            );
            return invalid("batch_size", reason);
        };
        let order = match options.mode {
            Mode::Sequential => Order::Sequential,
            Mode::Iid => Order::Iid(Range::new(length)),
            Mode::Cyclic if global_batch > length => {
                let reason = format!(
                    "a cyclic batch repeats no index, but {batch_size} for each of {world_size} \
                     ranks are {global_batch} indices of {length}; give at most {}, or use iid",
                    length / world_size
                );
                return invalid("batch_size", reason);
            }
            Mode::Cyclic => Order::Cyclic(Cycles::new(length, global_batch)),
        };
        Ok(Self { options, global_batch, part: rank * batch_size, order })
    }

    /// Writes this rank's part of the batch of `step` into `batch`.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] when `batch` is not `batch_size` long;
    /// nothing is written then.
    pub fn fill(&self, step: u64, batch: &mut [u64]) -> Result<()> {
        self.fill_inline(step, batch)
    }

    /// [`fill`](Self::fill), compiled into the caller, and so for the CPU
    /// features that the caller has switched on. Everybody else wants `fill`,
    /// which is smaller.
    ///
    /// # Errors
    ///
    /// As [`fill`](Self::fill).
    #[inline(always)]
    pub fn fill_inline(&self, step: u64, batch: &mut [u64]) -> Result<()> {
        if batch.len() as u64 != self.options.batch_size {
            return self.wrong_size(batch.len());
        }
        let SamplerOptions { length, seed, .. } = self.options;
        match &self.order {
            Order::Sequential => sequential::fill(self.position(step), length, batch),
            Order::Iid(range) => iid::fill(seed, self.position(step), *range, batch),
            Order::Cyclic(cycles) => cycles.fill(seed, step, self.part, batch),
        }
        Ok(())
    }

    /// Where this rank's part of `step` begins in the endless global order.
    /// It cannot overflow: `step` and the global batch are below 2^64.
    #[inline(always)]
    fn position(&self, step: u64) -> u128 {
        u128::from(step) * u128::from(self.global_batch) + u128::from(self.part)
    }

    #[cold]
    fn wrong_size(&self, len: usize) -> Result<()> {
        let expected = self.options.batch_size;
        invalid("batch", format!("it has room for {len} indices; a batch has {expected}"))
    }

    /// What this sampler was made from.
    pub fn options(&self) -> SamplerOptions {
        self.options
    }

    /// How many records there are.
    pub fn length(&self) -> u64 {
        self.options.length
    }

    /// Indices per batch and rank.
    pub fn batch_size(&self) -> u64 {
        self.options.batch_size
    }

    /// Indices per step over all ranks: the batch size times the world size.
    pub fn global_batch(&self) -> u64 {
        self.global_batch
    }

    /// The order.
    pub fn mode(&self) -> Mode {
        self.options.mode
    }

    /// The seed.
    pub fn seed(&self) -> u64 {
        self.options.seed
    }

    /// Which part of the global batch this sampler writes.
    pub fn rank(&self) -> u64 {
        self.options.rank
    }

    /// How many ranks share the global batch.
    pub fn world_size(&self) -> u64 {
        self.options.world_size
    }

    /// Steps in a cycle, after which every index has come once but for the
    /// `length % global_batch` that the cycle dropped; `None` unless cyclic.
    pub fn batches_per_cycle(&self) -> Option<u64> {
        match &self.order {
            Order::Cyclic(cycles) => Some(cycles.batches()),
            Order::Sequential | Order::Iid(_) => None,
        }
    }
}

fn invalid<T>(argument: &'static str, reason: impl Into<String>) -> Result<T> {
    Err(Error::InvalidArgument { argument, reason: reason.into() })
}

/// A number below a slice's length as an index into it.
#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "callers pass numbers below a slice's length")]
const fn to_usize(number: u64) -> usize {
    number as usize
}

/// The low 64 bits of `number`.
#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "the low half is what is asked for")]
fn low64(number: u128) -> u64 {
    number as u64
}
