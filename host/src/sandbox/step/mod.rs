//! Preprocessing inside a sandbox: a component of the world
//! `zrecord:step/preprocess`, which somebody else may have written, makes the
//! records of a new store out of those of another.
//!
//! Batches are cut by the lengths of the input's records alone, and results
//! are appended in their order, so the output does not depend on how many
//! instances are at work. It is written beside its place and takes it at the
//! end: a run that is killed leaves nothing that opens.
//!
//! | module | holds |
//! | --- | --- |
//! | `program` | the user's file, made a component that imports nothing |
//! | `instance` | one step at work |
//! | `job` | the batches, and the instances that process them |
//! | `output` | the store that is written |
//! | `watch` | how far a run is, and whether it goes on |
//! | `failure` | [`StepError`] |

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use zrecord_core::Error as CoreError;
use zrecord_core::codec::{Codec, Preset};
use zrecord_core::format::Format;
use zrecord_core::writer::Progress;

use crate::error::{Error, Result};
use crate::options::{Mode, OpenOptions};
use crate::pool;
use crate::prefetch::{PrefetchError, PrefetchOptions, Prefetcher};
use crate::sandbox::limits::Limits;
use crate::store::Store;
use crate::successor::{self, Successor};

#[allow(unsafe_code, reason = "generated: how wasmtime lays out values of the contract")]
mod bindings;
mod failure;
mod instance;
mod job;
mod output;
mod program;
mod watch;

pub use failure::StepError;
use job::Job;
use output::Output;
use program::Program;
use watch::{INTERVAL, Watch};

/// How a step is run.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct StepOptions {
    /// What the step is configured by: JSON, by custom.
    pub config: String,
    /// What one instance may use. Its memory has to hold a batch, about a
    /// mebibyte or one record, and what the step makes of it.
    pub limits: Limits,
    /// How many instances work at once; as many as the process has processors
    /// to use unless set.
    pub instances: Option<usize>,
    /// The format of the new store, its zstd level and the share that a record
    /// must save: see [`OpenOptions`].
    pub format: Option<Format>,
    /// The codec of the new store: that of the input unless set, with `zstd`
    /// in the place of `zstd_dict`, for which there is no dictionary yet.
    pub codec: Option<Codec>,
    /// As in [`OpenOptions`].
    pub level: Option<i32>,
    /// As in [`OpenOptions`].
    pub preset: Option<Preset>,
    /// As in [`OpenOptions`].
    pub min_saving: Option<f64>,
    /// Set by anyone, it ends the run within moments, whatever the step is
    /// doing, with [`StepError::Stopped`].
    pub stop: Arc<AtomicBool>,
}

impl Default for StepOptions {
    fn default() -> Self {
        Self {
            config: String::new(),
            limits: Limits::new(),
            instances: None,
            format: None,
            codec: None,
            level: None,
            preset: None,
            min_saving: None,
            stop: Arc::default(),
        }
    }
}

/// What a step has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct StepReport {
    /// How many records went in.
    pub inputs: u64,
    /// How many of them made no record.
    pub dropped: u64,
    /// How many records came out.
    pub outputs: u64,
}

/// Runs the step in the file `step` over the store at `from`, and writes what
/// it makes into a new store at `to`. Progress counts input records, and is
/// told twenty times a second at least, but not while the step is compiled.
///
/// The file is a component, or a core module that carries the bindings'
/// metadata, as every build for `wasm32-unknown-unknown` does. It may import
/// nothing. With the same file, configuration and input the output is the same
/// to the byte, whatever the number of instances; its id too follows from
/// these.
///
/// # Errors
///
/// `AlreadyExists` when there is anything at `to`, `InvalidArgument` when that
/// lies in `from`; errors of the input; [`Error::Step`] when the file is no
/// step, when it refuses the schema or the configuration, when it fails for a
/// record, when its answer does not add up, or when it meets a limit; errors
/// of the output. Nothing is left behind then.
pub fn run_step(
    step: impl AsRef<Path>,
    from: impl AsRef<Path>,
    to: impl AsRef<Path>,
    options: &StepOptions,
    progress: &mut dyn FnMut(Progress),
) -> Result<StepReport> {
    let (step, from, to) = (step.as_ref(), from.as_ref(), to.as_ref());
    if to.symlink_metadata().is_ok() {
        return Err(Error::store(to)(CoreError::AlreadyExists));
    }
    let input = Store::open(from)?;
    successor::check_outside(from, to)?;
    let instances = match options.instances {
        Some(instances) => instances.max(1),
        None => pool::thread_count(None).map_err(Error::store(from))?,
    };
    let program = Program::load(step).map_err(Error::step(step))?;
    let total = input.len()?;
    let mut watch = Watch::new(progress, &options.stop, step, total);
    watch.say(0)?;
    let job = Job::prepare(program, input, options, &mut watch)?;
    let id = job.output_id(options, &mut watch)?;
    let successor = Successor::begin(to, false)?;
    let output = Output::create(successor.path(), to, &job, options, id)?;
    let batches = job.batches();
    let made = Prefetcher::new(
        PrefetchOptions {
            workers: instances,
            prefetch: instances + 1,
            first_step: 0,
            end_step: batches,
        },
        move |batch| job.process(batch),
    );
    let mut report = StepReport::default();
    loop {
        watch.say(report.inputs)?;
        match made.next_timeout(INTERVAL) {
            Ok(Some(processed)) => output.append(&processed, &mut report)?,
            Ok(None) => {}
            Err(PrefetchError::Ended) => break,
            Err(error) => {
                made.close();
                return Err(failure::of_batch(error, step));
            }
        }
    }
    output.close()?;
    successor.publish()?;
    Ok(report)
}

/// How the output is opened.
fn output_options(options: &StepOptions, codec: Codec, id: [u8; 16]) -> OpenOptions {
    OpenOptions {
        mode: Mode::Create,
        codec,
        format: options.format,
        level: options.level,
        preset: options.preset,
        min_saving: options.min_saving,
        id: Some(id),
        ..OpenOptions::new()
    }
}
