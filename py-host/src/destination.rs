//! Memory of the caller's, which rows are written to.

use std::iter;
use std::ops::Range;

use numpy::{
    Element, PyArray1, PyArrayDescrMethods, PyArrayMethods, PyUntypedArray, PyUntypedArrayMethods,
};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::array;
use crate::errors;
use crate::layout::Layout;

/// The bytes of `dst`, any array that is one run of bytes.
///
/// # Errors
///
/// `TypeError` for what is no array, `InvalidArgumentError` for one that cannot
/// be written to or is no such run.
pub(crate) fn untyped<'py>(dst: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyArray1<u8>>> {
    let dst = writable(dst, "dst")?;
    let invalid = |reason| Err(errors::new("InvalidArgumentError", reason));
    if !dst.is_c_contiguous() {
        return invalid("dst must be C-contiguous");
    }
    if dst.dtype().has_object() {
        return invalid("dst holds Python objects, not bytes");
    }
    array::bytes_of(dst)
}

/// An array that may be written to.
fn writable<'a, 'py>(
    argument: &'a Bound<'py, PyAny>,
    name: &str,
) -> PyResult<&'a Bound<'py, PyUntypedArray>> {
    let Ok(array) = argument.cast::<PyUntypedArray>() else {
        let found = argument.get_type().name()?;
        return Err(PyTypeError::new_err(format!("{name} must be a NumPy array, not {found}")));
    };
    if !array::is_writable(array) {
        return Err(errors::new("InvalidArgumentError", format!("{name} is read-only")));
    }
    Ok(array)
}

/// The bytes of `out`, an array of exactly `count` rows.
///
/// # Errors
///
/// `TypeError` for what is no array, `BufferTooSmallError` for one of fewer
/// elements, `InvalidArgumentError` for all else that does not fit.
pub(crate) fn bytes<'py>(
    out: &Bound<'py, PyAny>,
    count: usize,
    layout: &Layout,
) -> PyResult<Bound<'py, PyArray1<u8>>> {
    let py = out.py();
    let out = writable(out, "out")?;
    let invalid = |reason| Err(errors::new("InvalidArgumentError", reason));
    let (dtype, wanted) = (out.dtype(), layout.descr(py));
    if !dtype.is_equiv_to(&wanted) {
        return invalid(format!("out has dtype {dtype}, not {wanted}"));
    }
    let expected = || iter::once(count).chain(layout.item_shape().iter().copied());
    if !out.shape().iter().copied().eq(expected()) {
        let size = expected().try_fold(1_usize, usize::checked_mul);
        let is_small = size.is_none_or(|size| out.len() < size);
        let kind = if is_small { "BufferTooSmallError" } else { "InvalidArgumentError" };
        let (found, expected) = (PyTuple::new(py, out.shape())?, expected().collect::<Vec<_>>());
        let expected = PyTuple::new(py, expected)?;
        return Err(errors::new(kind, format!("out has shape {found}, not {expected}")));
    }
    if !out.is_c_contiguous() {
        return invalid("out must be C-contiguous".into());
    }
    array::bytes_of(out)
}

/// Refuses a destination that shares memory with the indices, an int64 or
/// uint64 vector: they would be gone when the rows are there.
pub(crate) fn check_apart(
    bytes: &Bound<'_, PyArray1<u8>>,
    indices: &Bound<'_, PyAny>,
) -> PyResult<()> {
    let indices = match indices.cast::<PyArray1<i64>>() {
        Ok(indices) => addresses(indices),
        Err(_) => addresses(indices.cast::<PyArray1<u64>>()?),
    };
    let bytes = addresses(bytes);
    if bytes.start < indices.end && indices.start < bytes.end {
        return Err(errors::new("InvalidArgumentError", "out overlaps the indices"));
    }
    Ok(())
}

/// Where a contiguous vector lies.
fn addresses<T: Element>(vector: &Bound<'_, PyArray1<T>>) -> Range<usize> {
    let start = vector.data().addr();
    start..start + vector.len() * size_of::<T>()
}
