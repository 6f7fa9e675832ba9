//! The sampler: indices as NumPy arrays.

use std::sync::atomic::{AtomicU64, Ordering};

use numpy::{IntoPyArray, PyArray1};
use pyo3::prelude::*;
use zrecord_core::sampler::{Mode, SamplerOptions};

use crate::errors;

/// An endless stream of index batches.
#[pyclass(frozen, module = "zrecord._native")]
pub(crate) struct Sampler {
    inner: zrecord_core::sampler::Sampler,
    batch_size: usize,
    step: AtomicU64,
}

#[pymethods]
impl Sampler {
    #[new]
    fn new(
        length: u64,
        batch_size: u64,
        mode: u8,
        seed: u64,
        rank: u64,
        world_size: u64,
    ) -> PyResult<Self> {
        let invalid = |message: &str| errors::new("InvalidArgumentError", message);
        let mode = Mode::from_number(mode)
            .ok_or_else(|| errors::new("InvalidArgumentError", "there is no such mode"))?;
        let options = SamplerOptions { length, batch_size, mode, seed, rank, world_size };
        let inner = zrecord_core::sampler::Sampler::new(options).map_err(errors::core_error)?;
        let batch_size = usize::try_from(batch_size)
            .map_err(|_| invalid("batch_size is larger than this system can address"))?;
        Ok(Self { inner, batch_size, step: AtomicU64::new(0) })
    }

    /// The step of the batch that `next` returns.
    #[getter]
    fn step(&self) -> u64 {
        self.step.load(Ordering::Relaxed)
    }

    /// The indices of this step; moves on.
    fn next<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray1<u64>>> {
        self.at(py, self.step.fetch_add(1, Ordering::Relaxed))
    }

    /// The indices of a step.
    fn at<'py>(&self, py: Python<'py>, step: u64) -> PyResult<Bound<'py, PyArray1<u64>>> {
        Ok(self.indices(step)?.into_pyarray(py))
    }

    /// Goes to a step.
    fn seek(&self, step: u64) {
        self.step.store(step, Ordering::Relaxed);
    }
}

impl Sampler {
    fn indices(&self, step: u64) -> PyResult<Vec<u64>> {
        let mut batch = Vec::new();
        batch.try_reserve_exact(self.batch_size).map_err(|_| {
            let reason = format!("batch_size: no memory for {} indices", self.batch_size);
            errors::new("InvalidArgumentError", reason)
        })?;
        batch.resize(self.batch_size, 0);
        zrecord_host::sampler_simd::fill(&self.inner, step, &mut batch)
            .map_err(errors::core_error)?;
        Ok(batch)
    }
}
