//! Errors of the host as the classes of `zrecord.errors`.

use std::fmt;
use std::io;
use std::sync::Arc;

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyModule;
use zrecord_core::storage::FileName;

use crate::batch::GatherError;
use crate::shelf::{Shelf, Ticket};

/// An error on its way to Python.
pub(crate) enum Failure {
    Host(zrecord_host::Error),
    Gather(GatherError),
    Python(PyErr),
}

/// The result of what calls the host.
pub(crate) type Result<T, E = Failure> = std::result::Result<T, E>;

impl From<zrecord_host::Error> for Failure {
    fn from(error: zrecord_host::Error) -> Self {
        Self::Host(error)
    }
}

impl From<PyErr> for Failure {
    fn from(error: PyErr) -> Self {
        Self::Python(error)
    }
}

impl From<Failure> for PyErr {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Host(error) => host_error(&error),
            Failure::Gather(error) => error.to_python(),
            Failure::Python(error) => error,
        }
    }
}

/// The exception of an error of the host, a new one each time.
pub(crate) fn host_error(error: &zrecord_host::Error) -> PyErr {
    use zrecord_core::Error as Core;
    if let Some(source) = error.io_error() {
        let is_store = match error.core() {
            Some(Core::Io { file, .. }) => *file == FileName::Meta,
            _ => true,
        };
        let kind = match source.kind() {
            io::ErrorKind::NotFound if is_store => "StoreNotFoundError",
            _ => "StorageError",
        };
        return os_error(kind, source.raw_os_error(), error.to_string());
    }
    #[cfg(feature = "sandbox")]
    match error {
        zrecord_host::Error::Sandbox { .. } => return new("SandboxError", error.to_string()),
        zrecord_host::Error::Step { source, .. } => return step_error(source, error.to_string()),
        _ => {}
    }
    let kind = match error.core() {
        Some(Core::NotAStore { .. }) => "NotAStoreError",
        Some(Core::AlreadyExists) => {
            return os_error("StoreExistsError", None, error.to_string());
        }
        Some(Core::Unsupported { .. }) => "UnsupportedError",
        Some(Core::Corrupt { .. } | Core::CorruptRecord { .. } | Core::Checksum { .. }) => {
            "CorruptError"
        }
        Some(Core::OutOfRange { .. }) => "OutOfRangeError",
        Some(Core::TooLarge { .. }) => "TooLargeError",
        Some(Core::Full { .. }) => "FullError",
        Some(Core::Busy { .. }) => "BusyError",
        Some(Core::BufferTooSmall { .. }) => "BufferTooSmallError",
        Some(Core::InvalidArgument { .. }) => "InvalidArgumentError",
        Some(Core::SchemaMismatch { .. }) => "SchemaError",
        Some(Core::Training { .. }) => "TrainingError",
        Some(Core::ReadOnly) => "ReadOnlyError",
        Some(Core::Closed) => "ClosedError",
        Some(Core::Poisoned) => "PoisonedError",
        _ if matches!(error, zrecord_host::Error::Forked { .. }) => "ForkedError",
        _ => "ZrecordError",
    };
    new(kind, error.to_string())
}

/// The exception of an error of a step, with the records that it is about.
#[cfg(feature = "sandbox")]
fn step_error(source: &zrecord_host::sandbox::step::StepError, message: String) -> PyErr {
    use zrecord_host::sandbox::step::StepError;
    let (index, records) = match source {
        StepError::File { os_error: number, .. } => {
            return os_error("StorageError", *number, message);
        }
        StepError::Record { index, .. } => (Some(*index), None),
        StepError::Batch { first, last, .. } | StepError::Sandbox { first, last, .. } => {
            (None, Some((*first, *last)))
        }
        _ => (None, None),
    };
    Python::attach(|py| {
        let made = classes(py)
            .and_then(|module| module.getattr("_step_error"))
            .and_then(|make| make.call1((message, index, records)));
        made.map_or_else(|error| error, PyErr::from_value)
    })
}

/// The exception of an error of the core, such as the sampler's.
pub(crate) fn core_error(error: zrecord_core::Error) -> PyErr {
    let kind = match error {
        zrecord_core::Error::OutOfRange { .. } => "OutOfRangeError",
        _ => "InvalidArgumentError",
    };
    new(kind, error.to_string())
}

/// An exception of the class of that name in `zrecord.errors`.
pub(crate) fn new(kind: &str, message: impl Into<String>) -> PyErr {
    let message = message.into();
    Python::attach(|py| match classes(py).and_then(|module| module.getattr(kind)) {
        Ok(class) => match class.call1((&message,)) {
            Ok(value) => PyErr::from_value(value),
            Err(error) => error,
        },
        Err(_) => PyRuntimeError::new_err(message),
    })
}

fn os_error(kind: &str, number: Option<i32>, message: String) -> PyErr {
    // Python shows the number itself.
    let text = match message.rfind(" (os error ") {
        Some(end) => &message[..end],
        None => &message,
    };
    Python::attach(|py| {
        let made = classes(py)
            .and_then(|module| module.getattr("_os_error"))
            .and_then(|make| make.call1((kind, number, text)));
        made.map_or_else(|error| error, PyErr::from_value)
    })
}

fn classes(py: Python<'_>) -> PyResult<&Bound<'_, PyModule>> {
    static MODULE: PyOnceLock<Py<PyModule>> = PyOnceLock::new();
    let module = MODULE.get_or_try_init(py, || py.import("zrecord.errors").map(Bound::unbind))?;
    Ok(module.bind(py))
}

/// An exception that a worker has met and that is raised again by every later
/// call, with the traceback that it had.
#[derive(Debug)]
pub(crate) struct PythonFailure {
    error: Ticket,
    traceback: Option<Ticket>,
}

impl PythonFailure {
    /// Kept on the shelf of the loader that is to raise it.
    pub(crate) fn new(py: Python<'_>, error: PyErr, shelf: &Arc<Shelf>) -> Self {
        let traceback = error.traceback(py);
        let traceback = traceback.map(|found| shelf.put(py, found.into_any().unbind()));
        Self { error: shelf.put(py, error.into_value(py).into_any()), traceback }
    }

    /// On its way to the caller at once: no loader keeps it.
    pub(crate) fn passing(error: PyErr) -> Self {
        Python::attach(|py| Self::new(py, error, &Arc::default()))
    }

    /// The exception, as it was at first.
    pub(crate) fn raise_again(&self, py: Python<'_>) -> PyErr {
        self.try_raise_again(py).unwrap_or_else(|error| error)
    }

    fn try_raise_again(&self, py: Python<'_>) -> PyResult<PyErr> {
        let error = PyErr::from_value(self.error.object(py)?.into_bound(py));
        let traceback = match &self.traceback {
            Some(traceback) => Some(traceback.object(py)?.into_bound(py).cast_into()?),
            None => None,
        };
        error.set_traceback(py, traceback);
        Ok(error)
    }
}

impl fmt::Display for PythonFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a Python exception")
    }
}

impl std::error::Error for PythonFailure {}

/// Says in the notes of an exception which batch it was.
pub(crate) fn note_step(py: Python<'_>, error: &PyErr, step: u64) {
    let value = error.value(py);
    let note = format!("raised while the batch of step {step} was made");
    if value.call_method1("add_note", (&note,)).is_err() {
        // Python 3.10 has no notes; whoever looks finds them all the same.
        let _ = value.setattr("__notes__", vec![note]);
    }
}
