//! The sandbox: stores read inside of it, and steps of preprocessing run.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use pyo3::prelude::*;
use zrecord_host::sandbox::Limits;
use zrecord_host::sandbox::step::{self, StepOptions};

use crate::attach;
use crate::errors::{self, Result};
use crate::handle::Handle;
use crate::progress::Report;
use crate::reader::Reader;
use crate::store::{codec_of, format_of, preset_of};

/// A handle of a store that is read inside of a sandbox.
#[pyclass(frozen, extends = Reader, module = "zrecord._native")]
pub(crate) struct Sandbox;

#[pymethods]
impl Sandbox {
    #[new]
    fn new(
        path: String,
        memory: Option<u64>,
        time: Option<f64>,
        call_bytes: Option<u64>,
    ) -> Result<PyClassInitializer<Self>> {
        let limits = limits(memory, time, call_bytes)?;
        let opened = attach::away_from_forks(|| zrecord_host::Sandbox::open(&path, limits))?;
        let reader = Reader::over(Arc::new(Handle::new(path, opened)));
        Ok(PyClassInitializer::from(reader).add_subclass(Self))
    }
}

/// Runs a step; returns how many records went in, made none and came out.
/// Ctrl-C, and what `progress` raises, end it.
#[pyfunction]
#[expect(clippy::too_many_arguments, reason = "named in Python, where it is called from")]
pub(crate) fn run_step(
    py: Python<'_>,
    step: String,
    source: String,
    destination: String,
    config: String,
    memory: Option<u64>,
    time: Option<f64>,
    call_bytes: Option<u64>,
    instances: Option<usize>,
    codec: Option<&str>,
    format: Option<&str>,
    level: Option<i32>,
    preset: Option<&str>,
    min_saving: Option<f64>,
    progress: Option<Py<PyAny>>,
) -> Result<(u64, u64, u64)> {
    let mut options = StepOptions::default();
    options.config = config;
    options.limits = limits(memory, time, call_bytes)?;
    options.instances = instances;
    options.codec = codec.map(codec_of).transpose()?;
    options.format = format.map(format_of).transpose()?;
    options.level = level;
    options.preset = preset.map(preset_of).transpose()?;
    options.min_saving = min_saving;
    let mut report = Report::new(progress);
    let mut say = |progress| {
        report.say(progress);
        if report.has_raised() {
            options.stop.store(true, Ordering::Relaxed);
        }
    };
    let made = py.detach(|| step::run_step(step, source, destination, &options, &mut say));
    report.outcome()?;
    let made = made?;
    Ok((made.inputs, made.dropped, made.outputs))
}

/// Those of the host where none is given; the time is in seconds.
fn limits(memory: Option<u64>, time: Option<f64>, call_bytes: Option<u64>) -> Result<Limits> {
    let mut limits = Limits::new();
    limits.memory = memory.unwrap_or(limits.memory);
    limits.call_bytes = call_bytes.unwrap_or(limits.call_bytes);
    if let Some(seconds) = time {
        limits.time = Duration::try_from_secs_f64(seconds).map_err(|error| {
            errors::new("InvalidArgumentError", format!("time is {seconds:?} s: {error}"))
        })?;
    }
    Ok(limits)
}
