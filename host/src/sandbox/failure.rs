//! What ends a sandbox, as opposed to what is wrong with a store.

use std::path::Path;
use std::time::Duration;

use wasmtime::Trap;

use crate::error::Error;
use crate::sandbox::limits::Limits;

/// Why a sandbox could not be made, or can no longer be used. The process and
/// its other sandboxes are unharmed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SandboxError {
    /// The component asked for more memory than [`Limits::memory`].
    #[error("the sandbox's limit on memory was met: {limit} bytes")]
    Memory {
        /// The limit in bytes.
        limit: u64,
    },
    /// A call took longer than [`Limits::time`].
    #[error("the sandbox's limit on time was met: {} s for one call", limit.as_secs_f64())]
    Time {
        /// The limit.
        limit: Duration,
    },
    /// A call would have copied more than [`Limits::call_bytes`].
    #[error("the sandbox's limit on the bytes of one call was met: {limit} bytes")]
    CallBytes {
        /// The limit in bytes.
        limit: u64,
    },
    /// The component stopped in a way that it never should, or answered what
    /// cannot be.
    #[error("the component failed: {reason}")]
    Component {
        /// What the runtime said.
        reason: String,
    },
    /// An earlier call ended the sandbox; the store has to be opened anew.
    #[error("the sandbox has ended, reopen the store ({cause})")]
    Ended {
        /// What ended it.
        cause: Box<SandboxError>,
    },
    /// The component could not be compiled or instantiated.
    #[error("the sandbox cannot be made: {reason}")]
    Setup {
        /// What the runtime said.
        reason: String,
    },
}

impl SandboxError {
    /// What wasmtime reports when a call does not return.
    pub(crate) fn of_trap(error: &wasmtime::Error, limits: &Limits) -> Self {
        if error.downcast_ref::<Trap>() == Some(&Trap::Interrupt) {
            return Self::Time { limit: limits.time };
        }
        let reason = error.root_cause().to_string();
        // wasmtime has no type for this one.
        if reason.starts_with("too much data is being copied") {
            return Self::CallBytes { limit: limits.call_bytes };
        }
        Self::Component { reason }
    }

    /// The component answered what it never should.
    pub(crate) fn answer(reason: impl Into<String>) -> Self {
        Self::Component { reason: reason.into() }
    }

    pub(crate) fn setup(error: &wasmtime::Error) -> Self {
        Self::Setup { reason: format!("{error:#}") }
    }
}

/// Why an operation inside a sandbox failed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// As the native host would say it.
    Store(zrecord_core::Error),
    /// The sandbox, rather than the store.
    Sandbox(SandboxError),
}

impl Failure {
    /// The failure in the store at `path`, for `map_err`.
    pub(crate) fn at(path: &Path) -> impl FnOnce(Self) -> Error {
        move |failure| match failure {
            Self::Store(source) => Error::Store { path: path.into(), source },
            Self::Sandbox(source) => Error::Sandbox { path: path.into(), source },
        }
    }
}

impl From<zrecord_core::Error> for Failure {
    fn from(error: zrecord_core::Error) -> Self {
        Self::Store(error)
    }
}

impl From<SandboxError> for Failure {
    fn from(error: SandboxError) -> Self {
        Self::Sandbox(error)
    }
}
