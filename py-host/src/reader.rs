//! Reading: one call of the host per batch, without the GIL, whatever the
//! records are read through.
//!
//! Even small calls let the GIL go: a compaction in another thread holds the
//! store while it calls its progress function, which needs the GIL.

use std::sync::Arc;

use numpy::{IntoPyArray, PyArray1};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyTuple};
use zrecord_host::BufferPool;

use crate::arguments;
use crate::array;
use crate::batch::{self, Form};
use crate::destination;
use crate::errors::{self, Result};
use crate::handle::AnyHandle;
use crate::layout::Layout;
use crate::progress::Report;
use crate::records::Records;
use crate::value;

/// A row alone that is no larger is not worth memory that is recycled.
const ROW_BYTES_SMALL: usize = 64 << 10;

/// What reads records; the class that every handle derives from.
#[pyclass(frozen, subclass, weakref, module = "zrecord._native")]
pub(crate) struct Reader {
    handle: Arc<dyn AnyHandle>,
}

/// Kind, dtype, item shape, codec and metadata.
type SchemaParts<'py> =
    (&'static str, Bound<'py, PyAny>, Bound<'py, PyTuple>, &'static str, Bound<'py, PyDict>);

#[pymethods]
impl Reader {
    /// The absolute path that it was opened by.
    #[getter]
    fn path(&self) -> &str {
        self.handle.path()
    }

    #[getter]
    fn codec(&self, py: Python<'_>) -> Result<&'static str> {
        let store = self.open()?;
        Ok(py.detach(|| store.codec())?.name())
    }

    #[getter]
    fn format(&self) -> Result<&'static str> {
        Ok(self.open()?.format().name())
    }

    #[getter]
    fn id(&self) -> Result<Option<String>> {
        let id = self.open()?.id();
        Ok(id.map(|id| id.iter().map(|byte| format!("{byte:02x}")).collect()))
    }

    #[getter]
    fn generation(&self, py: Python<'_>) -> Result<u64> {
        let store = self.open()?;
        Ok(py.detach(|| store.generation())?)
    }

    #[getter]
    fn closed(&self) -> bool {
        self.handle.is_closed()
    }

    /// How many records there are.
    fn length(&self, py: Python<'_>) -> Result<u64> {
        let store = self.open()?;
        Ok(py.detach(|| store.len())?)
    }

    /// The schema, if the store is typed.
    fn schema<'py>(&self, py: Python<'py>) -> Result<Option<SchemaParts<'py>>> {
        let store = self.open()?;
        let Some(schema) = py.detach(|| store.schema())? else { return Ok(None) };
        Ok(Some((
            schema.kind().name(),
            value::to_python(py, &schema.dtype().to_value())?,
            PyTuple::new(py, schema.item_shape())?,
            schema.codec().name(),
            value::map_to_python(py, schema.metadata())?,
        )))
    }

    /// Copies records to places in `dst`.
    fn gather(
        &self,
        py: Python<'_>,
        indices: &Bound<'_, PyAny>,
        dst: &Bound<'_, PyAny>,
        offsets: &Bound<'_, PyAny>,
    ) -> Result<()> {
        let indices = arguments::indices(indices, || Ok(None))?;
        let offsets = arguments::offsets(offsets)?;
        let dst = destination::untyped(dst)?;
        let mut dst = arguments::borrow_mut(&dst)?;
        let dst = dst.as_slice_mut().map_err(PyErr::from)?;
        let store = self.open()?;
        Ok(py.detach(|| store.gather(&indices, dst, &offsets))?)
    }

    /// The lengths of records in bytes.
    fn lengths<'py>(
        &self,
        py: Python<'py>,
        indices: &Bound<'py, PyAny>,
    ) -> Result<Bound<'py, PyArray1<u32>>> {
        let indices = arguments::indices(indices, || Ok(None))?;
        let store = self.open()?;
        Ok(py.detach(|| store.lengths(&indices))?.into_pyarray(py))
    }

    /// One record.
    fn read<'py>(&self, py: Python<'py>, index: u64) -> Result<Bound<'py, PyBytes>> {
        let store = self.open()?;
        let record = py.detach(|| -> Result<Vec<u8>> {
            let len = store.lengths(&[index])?.first().copied().unwrap_or_default();
            let mut record = vec![0; len as usize];
            store.gather(&[index], &mut record, &[0])?;
            Ok(record)
        })?;
        Ok(PyBytes::new(py, &record))
    }

    /// Rows as one array.
    fn take<'py>(
        &self,
        py: Python<'py>,
        indices: &Bound<'py, PyAny>,
        layout: &Layout,
    ) -> Result<Bound<'py, PyAny>> {
        self.take_form(py, indices, layout, &Form::Dense)
    }

    /// One row: an array of the item shape, or a scalar.
    fn take_one<'py>(
        &self,
        py: Python<'py>,
        index: &Bound<'py, PyAny>,
        layout: &Layout,
    ) -> Result<Bound<'py, PyAny>> {
        let store = self.open()?;
        let index = index.extract::<i64>().map_err(|_| {
            errors::new("OutOfRangeError", format!("index {index} is out of range for any store"))
        })?;
        let row_bytes = layout.row_bytes();
        let resolved = || {
            arguments::resolve(index, || {
                store.len().map(Some).map_err(|error| errors::host_error(&error))
            })
        };
        if (1..=ROW_BYTES_SMALL).contains(&row_bytes) {
            return array::one(py, layout, |row| {
                py.detach(|| Ok(store.gather_packed(&[resolved()?], row, row_bytes as u64)?))
            });
        }
        let gathered = py.detach(|| -> Result<_> {
            let pool = BufferPool::shared();
            Ok(batch::gather(&*store, row_bytes, &Form::Dense, &[resolved()?], pool)?)
        })?;
        let row = gathered.into_python(py, layout)?;
        Ok(row.get_item(0)?)
    }

    /// Rows into the caller's memory.
    fn take_into(
        &self,
        py: Python<'_>,
        indices: &Bound<'_, PyAny>,
        out: &Bound<'_, PyAny>,
        layout: &Layout,
    ) -> Result<()> {
        let store = self.open()?;
        let vector = indices;
        let indices = arguments::indices(vector, || length(py, &*store))?;
        let bytes = destination::bytes(out, indices.len(), layout)?;
        destination::check_apart(&bytes, vector)?;
        let mut dst = arguments::borrow_mut(&bytes)?;
        let dst = dst.as_slice_mut().map_err(PyErr::from)?;
        let row_bytes = layout.row_bytes() as u64;
        Ok(py.detach(|| store.gather_packed(&indices, dst, row_bytes))?)
    }

    /// Ragged records, an array each.
    fn take_list<'py>(
        &self,
        py: Python<'py>,
        indices: &Bound<'py, PyAny>,
        layout: &Layout,
    ) -> Result<Bound<'py, PyAny>> {
        self.take_form(py, indices, layout, &Form::List)
    }

    /// The rows of ragged records, and where each record begins.
    fn take_packed<'py>(
        &self,
        py: Python<'py>,
        indices: &Bound<'py, PyAny>,
        layout: &Layout,
    ) -> Result<Bound<'py, PyAny>> {
        self.take_form(py, indices, layout, &Form::Packed)
    }

    /// Ragged records padded to one width, and their numbers of rows.
    fn take_padded<'py>(
        &self,
        py: Python<'py>,
        indices: &Bound<'py, PyAny>,
        layout: &Layout,
        max_len: Option<usize>,
        filler: Vec<u8>,
    ) -> Result<Bound<'py, PyAny>> {
        if filler.len() != layout.row_bytes() {
            return Err(errors::new("InvalidArgumentError", "the filler is no row").into());
        }
        self.take_form(py, indices, layout, &Form::Padded { width: max_len, filler })
    }

    /// How many rows ragged records have.
    fn row_counts<'py>(
        &self,
        py: Python<'py>,
        indices: &Bound<'py, PyAny>,
        layout: &Layout,
    ) -> Result<Bound<'py, PyArray1<i64>>> {
        let store = self.open()?;
        let indices = arguments::indices(indices, || length(py, &*store))?;
        let row_bytes = layout.row_bytes();
        let rows = py.detach(|| batch::row_counts(&*store, row_bytes, &indices))?;
        Ok(batch::counts(py, &rows))
    }

    fn verify(&self, py: Python<'_>, progress: Option<Py<PyAny>>) -> Result<Vec<String>> {
        let store = self.open()?;
        let mut report = Report::new(progress);
        let faults = py.detach(|| store.verify(&mut |progress| report.say(progress)))?;
        report.outcome()?;
        Ok(faults.iter().map(ToString::to_string).collect())
    }

    fn stats<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyDict>> {
        let store = self.open()?;
        let stats = py.detach(|| store.stats())?;
        let dict = PyDict::new(py);
        dict.set_item("records", stats.records)?;
        dict.set_item("live_bytes", stats.live_bytes)?;
        dict.set_item("chunk_bytes", stats.chunk_bytes)?;
        dict.set_item("reclaimable", stats.reclaimable)?;
        Ok(dict)
    }

    fn has_dictionary(&self, py: Python<'_>) -> Result<bool> {
        let store = self.open()?;
        Ok(py.detach(|| store.has_dictionary())?)
    }

    fn close(&self, py: Python<'_>) -> Result<()> {
        py.detach(|| self.handle.close())
    }

    /// Called in the child of a fork.
    fn after_fork(&self) {
        self.handle.after_fork();
    }
}

impl Reader {
    pub(crate) fn over(handle: Arc<dyn AnyHandle>) -> Self {
        Self { handle }
    }

    /// The store of this process.
    pub(crate) fn open(&self) -> Result<Arc<dyn Records>> {
        self.handle.records()
    }

    fn take_form<'py>(
        &self,
        py: Python<'py>,
        indices: &Bound<'py, PyAny>,
        layout: &Layout,
        form: &Form,
    ) -> Result<Bound<'py, PyAny>> {
        let store = self.open()?;
        let indices = arguments::indices(indices, || length(py, &*store))?;
        let row_bytes = layout.row_bytes();
        let pool = BufferPool::shared();
        let gathered = py.detach(|| batch::gather(&*store, row_bytes, form, &indices, pool))?;
        Ok(gathered.into_python(py, layout)?)
    }
}

fn length(py: Python<'_>, store: &dyn Records) -> PyResult<Option<u64>> {
    let length = py.detach(|| store.len());
    length.map(Some).map_err(|error| errors::host_error(&error))
}
