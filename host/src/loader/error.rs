//! Why there is no next batch, or no loader.

use std::error::Error as StdError;
use std::io;
use std::sync::Arc;

use zrecord_core::Error as CoreError;

use super::state::StateError;
use crate::prefetch::PrefetchError;

/// An error of any kind, as a stream or a transform returns it.
pub type BoxError = Box<dyn StdError + Send + Sync>;
/// The same, to be returned more than once.
pub type SharedError = Arc<dyn StdError + Send + Sync>;

/// Why there is no next batch, or no loader. Cheap to clone: a loader returns
/// the error it stopped at again and again.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum LoaderError {
    /// Nothing to draw from.
    #[error("a loader needs at least one stream")]
    NoStreams,
    /// Two streams of one name.
    #[error("there are two streams named {stream:?}")]
    DuplicateStream {
        /// The name.
        stream: Arc<str>,
    },
    /// Streams are gathered at the same indices, so they must be of one length.
    #[error(
        "streams must have one length: {stream:?} has {length} records, {other_stream:?} \
         has {other_length}"
    )]
    UnequalLengths {
        /// The first stream.
        stream: Arc<str>,
        /// Its length in records.
        length: u64,
        /// The first stream of another length.
        other_stream: Arc<str>,
        /// That length in records.
        other_length: u64,
    },
    /// Length, batch size, mode, rank and world size do not go together.
    #[error("{source}")]
    Options {
        /// What does not fit.
        source: Arc<CoreError>,
    },
    /// A stream does not say how long it is, or what it is.
    #[error("stream {stream:?}: {source}")]
    Stream {
        /// The stream.
        stream: Arc<str>,
        /// What it says.
        source: SharedError,
    },
    /// The saved state belongs to another loader.
    #[error("{source}")]
    State {
        /// How they differ.
        #[from]
        source: StateError,
    },
    /// The sampler could not say which records come.
    #[error("step {step}: {source}")]
    Sample {
        /// The batch's step.
        step: u64,
        /// What it says.
        source: Arc<CoreError>,
    },
    /// A stream could not gather a batch.
    #[error("step {step}, stream {stream:?}: {source}")]
    Gather {
        /// The batch's step.
        step: u64,
        /// The stream.
        stream: Arc<str>,
        /// What went wrong.
        source: SharedError,
    },
    /// The transform failed.
    #[error("step {step}, transform: {source}")]
    Transform {
        /// The batch's step.
        step: u64,
        /// What it returned.
        source: SharedError,
    },
    /// A stream or the transform panicked.
    #[error("step {step} panicked: {message}")]
    Panicked {
        /// The batch's step.
        step: u64,
        /// What the panic said.
        message: Arc<str>,
    },
    /// The finite pass is over.
    #[error("the pass is over: its last batch was delivered")]
    Ended,
    /// The loader was closed.
    #[error("the loader is closed")]
    Closed,
    /// This process is a fork of the one whose threads the loader has.
    #[error("the loader belongs to process {owner}, which forked: make one in this process")]
    Forked {
        /// The process that has the threads.
        owner: u32,
    },
    /// The transform asked its own loader for a batch.
    #[error("a transform cannot take a batch from its own loader: it would wait for itself")]
    Reentrant,
    /// The system gave no thread.
    #[error("no worker thread could be started: {source}")]
    Spawn {
        /// What the system said.
        source: Arc<io::Error>,
    },
}

/// Why a step failed, as the workers know it.
#[derive(Debug, Clone)]
pub(super) enum Cause {
    Sample { source: Arc<CoreError> },
    Gather { stream: Arc<str>, source: SharedError },
    Transform { source: SharedError },
}

impl LoaderError {
    pub(super) fn stream(stream: &Arc<str>, source: BoxError) -> Self {
        Self::Stream { stream: Arc::clone(stream), source: source.into() }
    }

    pub(super) fn at_step(step: u64, cause: Cause) -> Self {
        match cause {
            Cause::Sample { source } => Self::Sample { step, source },
            Cause::Gather { stream, source } => Self::Gather { step, stream, source },
            Cause::Transform { source } => Self::Transform { step, source },
        }
    }

    pub(super) fn options(argument: &'static str, reason: impl Into<String>) -> Self {
        CoreError::InvalidArgument { argument, reason: reason.into() }.into()
    }

    /// The step at which the loader stopped, if it was a step that failed.
    pub fn step(&self) -> Option<u64> {
        match self {
            Self::Sample { step, .. }
            | Self::Gather { step, .. }
            | Self::Transform { step, .. }
            | Self::Panicked { step, .. } => Some(*step),
            _ => None,
        }
    }
}

impl From<CoreError> for LoaderError {
    fn from(source: CoreError) -> Self {
        Self::Options { source: Arc::new(source) }
    }
}

impl From<PrefetchError<Cause>> for LoaderError {
    fn from(error: PrefetchError<Cause>) -> Self {
        match error {
            PrefetchError::Failed { step, cause } => Self::at_step(step, cause),
            PrefetchError::Panicked { step, message } => Self::Panicked { step, message },
            PrefetchError::Ended => Self::Ended,
            PrefetchError::Closed => Self::Closed,
            PrefetchError::Forked { owner } => Self::Forked { owner },
            PrefetchError::Reentrant => Self::Reentrant,
            PrefetchError::Spawn { cause } => Self::Spawn { source: cause },
        }
    }
}
