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

    pub(crate) fn outcome(self) -> Result<()> {
        self.raised.map_or(Ok(()), |error| Err(error.into()))
    }
}
