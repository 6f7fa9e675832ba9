//! What can go wrong with a step.

use std::path::Path;
use std::sync::Arc;

use crate::error::Error;
use crate::prefetch::PrefetchError;
use crate::sandbox::failure::SandboxError;

/// Why a step could not be run, or not to its end. Nothing was written then.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StepError {
    /// The file cannot be read.
    #[error("{}", plain(reason))]
    File {
        /// What the system said.
        reason: String,
        /// Its number for it.
        os_error: Option<i32>,
    },
    /// The file is no WebAssembly, or none that could be a component.
    #[error("it is no step: {}", plain(reason))]
    Invalid {
        /// What is wrong with it.
        reason: String,
    },
    /// The file imports something; a step is given nothing.
    #[error("it imports {}, and a step may import nothing{}", plain(&names.join(", ")), hint(names))]
    Imports {
        /// The names of the imports.
        names: Vec<String>,
    },
    /// The file is a component of another world.
    #[error(
        "it does not export zrecord:step/transform@0.1.0, which a step does: {}",
        plain(reason)
    )]
    World {
        /// What is missing or different.
        reason: String,
    },
    /// The step does not take the input's schema or the configuration.
    #[error("the step refuses to begin: {}", plain(reason))]
    Refused {
        /// What it said.
        reason: String,
    },
    /// The step failed for one record.
    #[error("record {index}: {}", plain(reason))]
    Record {
        /// The record's index in the input.
        index: u64,
        /// What the step said.
        reason: String,
    },
    /// The step failed, or what it answered does not add up.
    #[error("records {first} to {last}: {}", plain(reason))]
    Batch {
        /// The index of the first record of the batch.
        first: u64,
        /// That of the last.
        last: u64,
        /// What is wrong.
        reason: String,
    },
    /// An instance met a limit, or stopped as it never should.
    #[error("records {first} to {last}: {source}")]
    Sandbox {
        /// The index of the first record of the batch.
        first: u64,
        /// That of the last.
        last: u64,
        /// What stopped it.
        source: SandboxError,
    },
    /// An instance could not be made, or was stopped before its first batch.
    #[error("{0}")]
    Setup(SandboxError),
    /// The run was ended from outside: see
    /// [`StepOptions::stop`](super::StepOptions::stop).
    #[error("the run was stopped")]
    Stopped,
}

/// Longer texts are cut, in characters.
const TEXT_MAX: usize = 500;

/// What a file or a step has said, as a part of one line: it may be of any
/// length and hold anything, also what a terminal would obey.
fn plain(text: &str) -> String {
    let mut plain = String::new();
    for letter in text.chars().take(TEXT_MAX) {
        match letter {
            '"' | '\'' | '\\' => plain.push(letter),
            letter => plain.extend(letter.escape_debug()),
        }
    }
    if text.chars().nth(TEXT_MAX).is_some() {
        plain.push_str("...");
    }
    plain
}

/// What to do about imports of WASI, the one that everybody meets.
fn hint(names: &[String]) -> &'static str {
    if names.iter().any(|name| name.starts_with("wasi")) {
        "; build it without WASI: cargo build --release --target wasm32-unknown-unknown"
    } else {
        ""
    }
}

/// What a worker could not do.
#[derive(Clone, Debug, thiserror::Error)]
pub(super) enum BatchError {
    #[error(transparent)]
    Step(StepError),
    /// Shared, since a prefetcher repeats its errors.
    #[error("{0}")]
    Input(Arc<Error>),
}

impl From<StepError> for BatchError {
    fn from(error: StepError) -> Self {
        Self::Step(error)
    }
}

impl From<Error> for BatchError {
    fn from(error: Error) -> Self {
        Self::Input(Arc::new(error))
    }
}

/// The error of the run of which a batch failed.
pub(super) fn of_batch(error: PrefetchError<BatchError>, step: &Path) -> Error {
    let reason = match error {
        PrefetchError::Failed { cause: BatchError::Step(source), .. } => {
            return Error::step(step)(source);
        }
        PrefetchError::Failed { cause: BatchError::Input(error), .. } => {
            // The prefetcher, which is closed, has let go of its own.
            match Arc::try_unwrap(error) {
                Ok(error) => return error,
                Err(error) => error.to_string(),
            }
        }
        other => other.to_string(),
    };
    Error::step(step)(StepError::Invalid { reason })
}
