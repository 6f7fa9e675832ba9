//! Arrays of NumPy as the host takes them.

use numpy::{BorrowError, Element, PyArray1, PyArrayMethods, PyReadonlyArray1, PyReadwriteArray1};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;

use crate::errors;

/// The indices of an int64 or uint64 vector, copied: other threads may change
/// the array while the store is read. Negative ones count back from the
/// length, if there is one; it is asked for when it is needed.
pub(crate) fn indices(
    array: &Bound<'_, PyAny>,
    length: impl FnOnce() -> PyResult<Option<u64>>,
) -> PyResult<Vec<u64>> {
    if let Ok(array) = array.cast::<PyArray1<u64>>() {
        return copy(array);
    }
    let Ok(array) = array.cast::<PyArray1<i64>>() else {
        return Err(PyTypeError::new_err("indices are an int64 or uint64 vector"));
    };
    let indices = copy(array)?;
    if indices.iter().all(|index| *index >= 0) {
        return Ok(indices.into_iter().map(i64::cast_unsigned).collect());
    }
    let length = length()?;
    indices.into_iter().map(|index| resolve(index, || Ok(length))).collect()
}

/// Offsets or sizes in bytes: an int64 or uint64 vector, copied.
pub(crate) fn offsets(array: &Bound<'_, PyAny>) -> PyResult<Vec<u64>> {
    if let Ok(array) = array.cast::<PyArray1<u64>>() {
        return copy(array);
    }
    let Ok(array) = array.cast::<PyArray1<i64>>() else {
        return Err(PyTypeError::new_err("offsets are an int64 or uint64 vector"));
    };
    let offsets: Result<_, _> = copy(array)?.into_iter().map(u64::try_from).collect();
    offsets.map_err(|_| errors::new("InvalidArgumentError", "an offset is negative"))
}

/// One index, of which a negative one counts back from the length.
pub(crate) fn resolve(index: i64, length: impl FnOnce() -> PyResult<Option<u64>>) -> PyResult<u64> {
    if let Ok(index) = u64::try_from(index) {
        return Ok(index);
    }
    let length = length()?;
    let resolved = length.and_then(|length| length.checked_add_signed(index));
    resolved.ok_or_else(|| {
        let of = length.map_or_else(String::new, |n| format!(" for a store of {n} records"));
        errors::new("OutOfRangeError", format!("index {index} is out of range{of}"))
    })
}

/// An array's elements, copied.
fn copy<T: Element + Copy>(array: &Bound<'_, PyArray1<T>>) -> PyResult<Vec<T>> {
    Ok(borrow(array)?.as_slice()?.to_vec())
}

/// An array to read from without the GIL.
pub(crate) fn borrow<'py, T: Element>(
    array: &Bound<'py, PyArray1<T>>,
) -> PyResult<PyReadonlyArray1<'py, T>> {
    array.try_readonly().map_err(not_ours)
}

/// An array to write to without the GIL.
pub(crate) fn borrow_mut<'py, T: Element>(
    array: &Bound<'py, PyArray1<T>>,
) -> PyResult<PyReadwriteArray1<'py, T>> {
    array.try_readwrite().map_err(not_ours)
}

fn not_ours(error: BorrowError) -> PyErr {
    let message = match error {
        BorrowError::NotWriteable => "the array to write to is read-only",
        _ => "the array cannot be used: another call is writing to it",
    };
    errors::new("InvalidArgumentError", message)
}
