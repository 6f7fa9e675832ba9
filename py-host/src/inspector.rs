//! The inspector: a page that looks into one store, served by threads of the
//! host, which need no Python.

use pyo3::prelude::*;
use zrecord_host::InspectorOptions;

use crate::errors::Result;

/// Serves until it is dropped.
#[pyclass(frozen, module = "zrecord._native")]
pub(crate) struct Inspector(zrecord_host::Inspector);

#[pymethods]
impl Inspector {
    #[new]
    fn new(path: &str, port: u16, record: u64) -> Result<Self> {
        let mut options = InspectorOptions::default();
        options.port = port;
        options.record = record;
        Ok(Self(zrecord_host::Inspector::start(path, &options)?))
    }

    /// What to tell a person: the address, and how to reach it from elsewhere.
    #[getter]
    fn invitation(&self) -> String {
        self.0.invitation()
    }

    /// False when no browser could be started.
    fn open_browser(&self, py: Python<'_>) -> bool {
        py.detach(|| self.0.open_browser()).is_ok()
    }
}
