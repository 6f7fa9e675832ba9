//! Progress of long operations, told to Python.

use pyo3::prelude::*;
use zrecord_core::writer::Progress;

use crate::errors::Result;

/// Calls a Python function with progress, and keeps what it raises.
pub(crate) struct Report {
    function: Option<Py<PyAny>>,
    raised: Option<PyErr>,
}

impl Report {
    pub(crate) fn new(function: Option<Py<PyAny>>) -> Self {
        Self { function, raised: None }
    }

    pub(crate) fn say(&mut self, progress: Progress) {
        let Some(function) = &self.function else { return };
        let called =
            Python::attach(|py| function.call1(py, (progress.done, progress.total)).map(drop));
        if let Err(error) = called {
            // The work goes on; it is told at the end.
            self.function = None;
            self.raised = Some(error);
        }
    }

    /// Looks for a signal such as Ctrl-C; whether anything was raised by now.
    #[cfg(feature = "sandbox")]
    pub(crate) fn has_raised(&mut self) -> bool {
        if self.raised.is_none() {
            self.raised = Python::attach(|py| py.check_signals()).err();
        }
        self.raised.is_some()
    }

    pub(crate) fn outcome(self) -> Result<()> {
        self.raised.map_or(Ok(()), |error| Err(error.into()))
    }
}
