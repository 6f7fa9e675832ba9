//! What a row is to NumPy.

use numpy::{PyArrayDescr, PyArrayDescrMethods, PyUntypedArray};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyTuple;

/// A dtype and a shape, and the bytes they take.
#[pyclass(frozen, module = "zrecord._native")]
pub(crate) struct Layout {
    descr: Py<PyArrayDescr>,
    item_shape: Vec<usize>,
    row_bytes: usize,
}

#[pymethods]
impl Layout {
    #[new]
    fn new(dtype: Bound<'_, PyArrayDescr>, item_shape: Vec<usize>) -> PyResult<Self> {
        // Arrays are made over stored bytes, so a pointer among them is out of
        // the question, whatever Python has checked before.
        let has_pointers: bool = dtype.getattr("hasobject")?.extract()?;
        if has_pointers || dtype.has_subarray() || dtype.kind() == b'T' {
            return Err(PyValueError::new_err(format!("the dtype {dtype} cannot be stored")));
        }
        let row_bytes = match item_shape.contains(&0) {
            true => Some(0),
            false => item_shape.iter().try_fold(dtype.itemsize(), |size, n| size.checked_mul(*n)),
        };
        let Some(row_bytes) = row_bytes else {
            return Err(PyValueError::new_err("a row larger than this system can address"));
        };
        Ok(Self { descr: dtype.unbind(), item_shape, row_bytes })
    }

    /// The bytes of a row.
    #[getter]
    pub(crate) fn row_bytes(&self) -> usize {
        self.row_bytes
    }
}

impl Layout {
    pub(crate) fn descr<'py>(&self, py: Python<'py>) -> Bound<'py, PyArrayDescr> {
        self.descr.bind(py).clone()
    }

    pub(crate) fn item_shape(&self) -> &[usize] {
        &self.item_shape
    }

    /// An array of zeros with memory of its own.
    pub(crate) fn zeros<'py>(
        &self,
        py: Python<'py>,
        shape: Vec<usize>,
    ) -> PyResult<Bound<'py, PyAny>> {
        static ZEROS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        let zeros = ZEROS.import(py, "numpy", "zeros")?;
        let array = zeros.call1((PyTuple::new(py, shape)?, self.descr(py)))?;
        Ok(array.cast_into::<PyUntypedArray>()?.into_any())
    }
}
