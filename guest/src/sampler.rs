//! The interface `sampler`.

use zrecord_core::Error as CoreError;
use zrecord_core::memory;
use zrecord_core::sampler as core;

use crate::Component;
use crate::bindings::exports::zrecord::store::sampler::{
    self, Error, Guest, GuestSampler, Mode, Options,
};

/// The most indices of one call.
const INDICES_MAX: u64 = 1 << 24;

/// A sampler, which is a handful of numbers.
pub(crate) struct Sampler(core::Sampler);

impl Guest for Component {
    type Sampler = Sampler;
}

impl GuestSampler for Sampler {
    fn create(options: Options) -> Result<sampler::Sampler, Error> {
        let sampler = core::Sampler::new(core::SamplerOptions {
            length: options.length,
            batch_size: options.batch_size,
            mode: match options.mode {
                Mode::Sequential => core::Mode::Sequential,
                Mode::Iid => core::Mode::Iid,
                Mode::Cyclic => core::Mode::Cyclic,
            },
            seed: options.seed,
            rank: options.rank,
            world_size: options.world_size,
        });
        Ok(sampler::Sampler::new(Self(sampler?)))
    }

    fn batches(&self, first_step: u64, count: u64) -> Result<Vec<u64>, Error> {
        let batch_size = self.0.batch_size();
        let indices = batch_size.checked_mul(count).filter(|indices| *indices <= INDICES_MAX);
        let indices = indices.and_then(|indices| usize::try_from(indices).ok());
        let Some(indices) = indices else { return Err(Error::TooLarge) };
        if count == 0 {
            return Ok(Vec::new());
        }
        let Some(last) = first_step.checked_add(count - 1) else {
            let reason = format!("{count} steps from {first_step} on are more than 2^64");
            return Err(Error::InvalidArgument(reason));
        };
        let mut batches: Vec<u64> = memory::with_room(indices).map_err(no_memory)?;
        batches.resize(indices, 0);
        let size = usize::try_from(batch_size).map_err(|_| Error::TooLarge)?;
        for (step, batch) in (first_step..=last).zip(batches.chunks_exact_mut(size)) {
            self.0.fill(step, batch)?;
        }
        Ok(batches)
    }

    fn batches_per_cycle(&self) -> Option<u64> {
        self.0.batches_per_cycle()
    }
}

impl From<CoreError> for Error {
    fn from(error: CoreError) -> Self {
        match error {
            error @ CoreError::InvalidArgument { .. } => Self::InvalidArgument(error.to_string()),
            error => Self::Other(Some(error.to_string())),
        }
    }
}

fn no_memory(error: std::io::Error) -> Error {
    Error::Other(Some(error.to_string()))
}
