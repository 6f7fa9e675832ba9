//! A store that takes the place of another one once it is whole.

use std::ffi::OsString;
use std::sync::{Mutex, PoisonError};

use pyo3::prelude::*;

use crate::errors::{self, Result};

/// A directory beside a store's place, which it takes when it is published.
#[pyclass(frozen, module = "zrecord._native")]
pub(crate) struct Successor {
    path: OsString,
    /// `None` once it was published or discarded.
    inner: Mutex<Option<zrecord_host::Successor>>,
}

impl Successor {
    fn take(&self) -> Option<zrecord_host::Successor> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

#[pymethods]
impl Successor {
    /// Makes the directory; with `replaces`, a store may be in the place by
    /// the end.
    #[new]
    fn new(py: Python<'_>, place: String, replaces: bool) -> Result<Self> {
        let begun = py.detach(|| zrecord_host::Successor::begin(&place, replaces))?;
        Ok(Self { path: begun.path().into(), inner: Mutex::new(Some(begun)) })
    }

    /// Where the new store is to be written.
    #[getter]
    fn path(&self) -> OsString {
        self.path.clone()
    }

    /// Takes the place, durably; the store in it is closed by now.
    fn publish(&self, py: Python<'_>) -> Result<()> {
        let begun = self.take();
        let begun = begun.ok_or_else(|| errors::new("ClosedError", "it is published already"))?;
        Ok(py.detach(|| begun.publish())?)
    }

    /// Removes the directory; nothing happens once it has taken the place.
    fn discard(&self, py: Python<'_>) {
        py.detach(|| drop(self.take()));
    }
}
