//! The batch of a step: which records, gathered from every stream.

use std::collections::BTreeMap;
use std::sync::Arc;

use zrecord_core::Error as CoreError;
use zrecord_core::sampler::{Mode as SamplerMode, Sampler, SamplerOptions};

use super::batch::Batch;
use super::error::{BoxError, Cause, LoaderError};
use super::state::{LoaderState, STATE_VERSION, StreamState};
use super::stream::Streams;
use crate::buffer::{BufferPool, BufferPoolOptions};
use crate::sampler_simd;

/// Batches by step: what the workers of a loader call, usable without one.
///
/// A pure function of the step for as long as the stores' records stay.
pub struct BatchSource {
    streams: Streams,
    /// What the streams were when this was made; a delete while it runs does
    /// not change it, so that a resumed loader notices.
    identities: BTreeMap<String, StreamState>,
    order: Order,
    pool: BufferPool,
}

/// Which records make up a step.
enum Order {
    Sampled { sampler: Sampler, options: SamplerOptions },
    Once(Pass),
}

impl Order {
    fn sampled(options: SamplerOptions) -> zrecord_core::Result<Self> {
        Ok(Self::Sampled { sampler: Sampler::new(options)?, options })
    }
}

/// Each record once, in order, cut into batches and those into ranks' parts.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pass {
    /// Records that are passed over, from the first on.
    length: u64,
    batch_size: u64,
    global_batch: u64,
    rank: u64,
}

impl Pass {
    pub(super) fn new(
        length: u64,
        batch_size: u64,
        rank: u64,
        world_size: u64,
        drop_last: bool,
    ) -> Result<Self, LoaderError> {
        if batch_size == 0 {
            return Err(LoaderError::options("batch_size", "must be at least 1"));
        }
        if rank >= world_size {
            let reason = format!("must be below world_size, which is {world_size}; is {rank}");
            return Err(LoaderError::options("rank", reason));
        }
        let Some(global_batch) = batch_size.checked_mul(world_size) else {
            let reason = format!("{batch_size} on each of {world_size} ranks is too large");
            return Err(LoaderError::options("batch_size", reason));
        };
        let cut = if drop_last { length % global_batch } else { 0 };
        Ok(Self { length: length - cut, batch_size, global_batch, rank })
    }

    /// The batches of every rank.
    pub(super) fn steps(&self) -> u64 {
        self.length.div_ceil(self.global_batch)
    }

    fn indices(&self, step: u64) -> Vec<u64> {
        let start = step.saturating_mul(self.global_batch);
        let start = start.saturating_add(self.rank * self.batch_size).min(self.length);
        let end = start.saturating_add(self.batch_size).min(self.length);
        (start..end).collect()
    }
}

impl BatchSource {
    /// Batches that a sampler chooses, without end. The length of the streams
    /// is fixed now, though they may grow.
    ///
    /// # Errors
    ///
    /// [`LoaderError`]: streams of unequal lengths, or options that do not fit.
    pub fn sampled(
        streams: Streams,
        batch_size: u64,
        mode: SamplerMode,
        seed: u64,
        rank: u64,
        world_size: u64,
    ) -> Result<Self, LoaderError> {
        let length = streams.common_length()?;
        let options = SamplerOptions { length, batch_size, mode, seed, rank, world_size };
        Self::new(streams, Order::sampled(options)?)
    }

    pub(super) fn once(
        streams: Streams,
        plan: impl FnOnce(u64) -> Result<Pass, LoaderError>,
    ) -> Result<(Self, Pass), LoaderError> {
        let pass = plan(streams.common_length()?)?;
        Ok((Self::new(streams, Order::Once(pass))?, pass))
    }

    fn new(streams: Streams, order: Order) -> Result<Self, LoaderError> {
        let mut identities = BTreeMap::new();
        for (name, stream) in streams.iter() {
            let identity = stream.identity().map_err(|source| LoaderError::stream(name, source))?;
            identities.insert(name.to_string(), identity);
        }
        Ok(Self { streams, identities, order, pool: BufferPool::default() })
    }

    /// Keeps the buffers of `batches` dropped batches for the next ones.
    #[must_use]
    pub(super) fn recycling(mut self, batches: usize) -> Self {
        let idle_count_max = batches.saturating_mul(self.streams.iter().len());
        // As many bytes as were in use at once anyway.
        self.pool =
            BufferPool::new(BufferPoolOptions { idle_count_max, idle_bytes_max: usize::MAX });
        self
    }

    /// The same, drawn from the first `length` records.
    pub(super) fn with_length(&self, length: u64) -> Result<Self, LoaderError> {
        let order = match self.order {
            Order::Sampled { options, .. } => Order::sampled(SamplerOptions { length, ..options })?,
            Order::Once(pass) => Order::Once(Pass { length, ..pass }),
        };
        let (streams, identities) = (self.streams.clone(), self.identities.clone());
        Ok(Self { streams, identities, order, pool: self.pool.clone() })
    }

    /// How many records are drawn from.
    pub fn length(&self) -> u64 {
        match &self.order {
            Order::Sampled { options, .. } => options.length,
            Order::Once(pass) => pass.length,
        }
    }

    /// How many records every stream has now, at least.
    pub(super) fn available(&self) -> Result<u64, LoaderError> {
        self.streams.available()
    }

    /// The state of a loader that has delivered `step` batches.
    pub(super) fn state(&self, step: u64) -> LoaderState {
        let (seed, mode, global_batch) = match &self.order {
            Order::Sampled { options, .. } => {
                (options.seed, options.mode, options.batch_size * options.world_size)
            }
            Order::Once(pass) => (0, SamplerMode::Sequential, pass.global_batch),
        };
        let length = self.length();
        let own = |(name, stream): (&String, &StreamState)| {
            (name.clone(), stream.clone().with_length(length))
        };
        let streams = self.identities.iter().map(own).collect();
        LoaderState { version: STATE_VERSION, seed, step, global_batch, length, mode, streams }
    }

    /// Where the streams' buffers come from, and go back to.
    pub fn pool(&self) -> &BufferPool {
        &self.pool
    }

    /// The batch of `step`.
    ///
    /// # Errors
    ///
    /// [`LoaderError::Gather`], and `Sample` for a batch that no memory holds.
    pub fn batch(&self, step: u64) -> Result<Batch, LoaderError> {
        self.gather(step).map_err(|cause| LoaderError::at_step(step, cause))
    }

    pub(super) fn gather(&self, step: u64) -> Result<Batch, Cause> {
        let indices =
            self.indices(step).map_err(|source| Cause::Sample { source: Arc::new(source) })?;
        let mut columns = Vec::with_capacity(self.streams.iter().len());
        for (name, stream) in self.streams.iter() {
            let column = stream.gather(&indices, &self.pool).map_err(|source: BoxError| {
                Cause::Gather { stream: Arc::clone(name), source: source.into() }
            })?;
            columns.push((Arc::clone(name), column));
        }
        Ok(Batch { step, indices, columns })
    }

    fn indices(&self, step: u64) -> zrecord_core::Result<Vec<u64>> {
        match &self.order {
            Order::Sampled { sampler, options } => {
                let mut indices = zeroed_indices(options.batch_size)?;
                sampler_simd::fill(sampler, step, &mut indices)?;
                Ok(indices)
            }
            Order::Once(pass) => Ok(pass.indices(step)),
        }
    }
}

/// Room for a batch's indices, or an error for a batch that no memory holds.
fn zeroed_indices(batch_size: u64) -> zrecord_core::Result<Vec<u64>> {
    let too_large = || CoreError::InvalidArgument {
        argument: "batch_size",
        reason: format!("there is no memory for the indices of {batch_size} records"),
    };
    let count = usize::try_from(batch_size).map_err(|_| too_large())?;
    bytemuck::allocation::try_zeroed_vec(count).map_err(|()| too_large())
}
