//! What can go wrong, with the store it went wrong in.

use std::io;
use std::path::{Path, PathBuf};

/// The result of every operation of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why an operation failed: mostly an error of the core, with the path of the
/// store.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An operation on a store failed.
    #[error("{}: {source}", path.display())]
    Store {
        /// The store.
        path: PathBuf,
        /// What went wrong.
        source: zrecord_core::Error,
    },
    /// The handle was opened before this process was forked from another.
    #[error(
        "{}: process {opened_by} opened the store and this one was forked from it; \
         reopen the store to change it",
        path.display()
    )]
    Forked {
        /// The store.
        path: PathBuf,
        /// The process that opened the handle.
        opened_by: u32,
    },
    /// The sandbox that reads the store met a limit, or its component failed.
    #[cfg(feature = "sandbox")]
    #[error("{}: {source}", path.display())]
    Sandbox {
        /// The store.
        path: PathBuf,
        /// What went wrong.
        source: crate::sandbox::SandboxError,
    },
    /// A step of preprocessing is none, failed or was stopped.
    #[cfg(feature = "sandbox")]
    #[error("{}: {source}", path.display())]
    Step {
        /// The step's file.
        path: PathBuf,
        /// What went wrong.
        source: crate::sandbox::step::StepError,
    },
    /// The operating system refused something outside a store.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

impl Error {
    /// An error of the core in the store at `path`, for `map_err`.
    pub(crate) fn store(path: &Path) -> impl FnOnce(zrecord_core::Error) -> Self {
        move |source| Self::Store { path: path.into(), source }
    }

    /// An IO error at `path`, for `map_err`.
    pub(crate) fn io(path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { path: path.into(), source }
    }

    /// The same error of a store at another path: the one that this one is to
    /// become.
    #[cfg(feature = "sandbox")]
    pub(crate) fn renamed(self, path: &Path) -> Self {
        match self {
            Self::Store { source, .. } => Self::Store { path: path.into(), source },
            other => other,
        }
    }

    /// An error of a step in the file at `path`, for `map_err`.
    #[cfg(feature = "sandbox")]
    pub(crate) fn step(path: &Path) -> impl FnOnce(crate::sandbox::step::StepError) -> Self {
        move |source| Self::Step { path: path.into(), source }
    }

    /// The core's error, which says what kind of failure it was.
    pub fn core(&self) -> Option<&zrecord_core::Error> {
        match self {
            Self::Store { source, .. } => Some(source),
            _ => None,
        }
    }

    /// The system's error, when it was the system that refused.
    pub fn io_error(&self) -> Option<&io::Error> {
        match self {
            Self::Store { source: zrecord_core::Error::Io { source, .. }, .. }
            | Self::Io { source, .. } => Some(source),
            _ => None,
        }
    }

    /// True when the store, or the file it needs, is not there.
    pub fn is_not_found(&self) -> bool {
        self.io_error().is_some_and(|error| error.kind() == io::ErrorKind::NotFound)
    }

    /// The path of the store.
    pub fn path(&self) -> &Path {
        match self {
            Self::Store { path, .. } | Self::Forked { path, .. } | Self::Io { path, .. } => path,
            #[cfg(feature = "sandbox")]
            Self::Sandbox { path, .. } | Self::Step { path, .. } => path,
        }
    }
}
