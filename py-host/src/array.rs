//! NumPy arrays over memory that Rust owns: the one file with `unsafe`.
//!
//! # Invariants
//!
//! Of a [`Memory`], on which every block below rests:
//!
//! 1. `start..start + len` stays valid, and where it is, while `owner` lives.
//! 2. Once it is in a `Memory`, no Rust code touches it until `owner` dies; of
//!    a view, the host's guard may replace bytes of a file that was cut by
//!    zeros.
//! 3. An array over it holds a reference to `owner`, lies inside it, and has a
//!    dtype without pointers, for which any bytes are a value.
//!
//! An array over the memory of another one holds a reference to that one, has
//! the same bytes, and is writable where it is.
#![allow(unsafe_code, reason = "arrays are made over memory that the owner keeps alive")]

use std::ffi::c_int;
use std::ops::{Deref, Range};
use std::ptr;
use std::slice;

use numpy::npyffi::{self, NpyTypes, PY_ARRAY_API, npy_intp};
use numpy::{
    PyArray1, PyArrayDescr, PyArrayDescrMethods, PyUntypedArray, PyUntypedArrayMethods,
    dtype as dtype_of,
};
use pyo3::exceptions::{PyMemoryError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use zrecord_host::Buffer;

use crate::layout::Layout;

/// What keeps the memory of arrays alive; dies with the last of them.
#[pyclass(frozen, module = "zrecord._native")]
struct Owner {
    _memory: Box<dyn Send + Sync>,
}

/// Memory that arrays can be made over, any number of them.
pub(crate) struct Memory<'py> {
    owner: Bound<'py, Owner>,
    start: *mut u8,
    len: usize,
    is_writable: bool,
}

impl<'py> Memory<'py> {
    /// The bytes of a buffer, which go back to its pool with the last array.
    pub(crate) fn writable(py: Python<'py>, mut buffer: Buffer) -> PyResult<Self> {
        // A buffer's bytes are on the heap: moving it does not move them.
        let (start, len) = (buffer.as_mut_ptr(), buffer.len());
        let owner = Bound::new(py, Owner { _memory: Box::new(buffer) })?;
        Ok(Self { owner, start, len, is_writable: true })
    }

    /// Bytes that must not be written, such as a mapping's.
    pub(crate) fn read_only<T>(py: Python<'py>, memory: T) -> PyResult<Self>
    where
        T: Deref<Target = [u8]> + Send + Sync + 'static,
    {
        let memory = Box::new(memory);
        let bytes: &[u8] = &memory;
        let (start, len) = (bytes.as_ptr().cast_mut(), bytes.len());
        let owner = Bound::new(py, Owner { _memory: memory })?;
        Ok(Self { owner, start, len, is_writable: false })
    }

    pub(crate) fn py(&self) -> Python<'py> {
        self.owner.py()
    }

    /// An array over all of it: `leading`, then the layout's item shape.
    pub(crate) fn array(&self, layout: &Layout, leading: &[usize]) -> PyResult<Bound<'py, PyAny>> {
        self.part(0..self.len, layout, leading)
    }

    /// An array over a range of bytes, which its shape must fill exactly.
    pub(crate) fn part(
        &self,
        range: Range<usize>,
        layout: &Layout,
        leading: &[usize],
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = self.owner.py();
        let count = leading.iter().try_fold(layout.row_bytes(), |size, n| size.checked_mul(*n));
        if range.end > self.len || count != range.end.checked_sub(range.start) {
            let message = format!("{count:?} bytes of array over {range:?} of {}", self.len);
            return Err(PyValueError::new_err(message));
        }
        let shape = leading.iter().chain(layout.item_shape()).copied();
        if range.is_empty() {
            // NumPy widens a type of no bytes, so it allocates such arrays itself.
            return layout.zeros(py, shape.collect());
        }
        let shape: Vec<npy_intp> =
            shape.map(npy_intp::try_from).collect::<Result<_, _>>().map_err(|_| too_large())?;
        let flags = if self.is_writable { npyffi::NPY_ARRAY_WRITEABLE } else { 0 };
        // SAFETY: the range lies inside the memory, by the check above.
        let start = unsafe { self.start.add(range.start) };
        let array = from_parts(py, layout.descr(py), shape, start, flags)?;
        keep_alive(&array, self.owner.clone().into_any())?;
        Ok(array)
    }
}

/// A new array of the layout's item shape, or a scalar, whose bytes `fill`
/// writes: NumPy allocates it, which is cheaper for a small one than sharing.
pub(crate) fn one<'py, E: From<PyErr>>(
    py: Python<'py>,
    layout: &Layout,
    fill: impl FnOnce(&mut [u8]) -> Result<(), E>,
) -> Result<Bound<'py, PyAny>, E> {
    let array = zeros(py, layout)?;
    // SAFETY: a live array; read with the GIL.
    let start = unsafe { (*fields(&array)).data };
    // SAFETY: the array is new, has these bytes, which are zeros, in one run,
    // and nobody else knows of it before this function returns.
    fill(unsafe { slice::from_raw_parts_mut(start.cast(), layout.row_bytes()) })?;
    match layout.item_shape() {
        [] => Ok(array.get_item(PyTuple::empty(py))?),
        _ => Ok(array.into_any()),
    }
}

fn zeros<'py>(py: Python<'py>, layout: &Layout) -> PyResult<Bound<'py, PyUntypedArray>> {
    let shape = layout.item_shape().iter().map(|size| npy_intp::try_from(*size));
    let mut shape: Vec<npy_intp> = shape.collect::<Result<_, _>>().map_err(|_| too_large())?;
    let dimensions = c_int::try_from(shape.len()).map_err(|_| too_large())?;
    let descr = layout.descr(py).into_dtype_ptr();
    // SAFETY: `descr` is an owned reference, which the call takes over, and
    // `shape` has `dimensions` sizes.
    let array = unsafe { PY_ARRAY_API.PyArray_Zeros(py, dimensions, shape.as_mut_ptr(), descr, 0) };
    // SAFETY: an owned reference, or null with an exception set.
    let array = unsafe { Bound::from_owned_ptr_or_err(py, array) }?;
    Ok(array.cast_into()?)
}

/// The bytes of an array as a vector over the same memory, as writable as it is.
///
/// # Errors
///
/// `ValueError` when they are not one behind the other, or hold pointers.
pub(crate) fn bytes_of<'py>(
    array: &Bound<'py, PyUntypedArray>,
) -> PyResult<Bound<'py, PyArray1<u8>>> {
    let (py, dtype) = (array.py(), array.dtype());
    if let Ok(bytes) = array.cast::<PyArray1<u8>>()
        && bytes.is_c_contiguous()
    {
        return Ok(bytes.clone());
    }
    if !array.is_c_contiguous() || dtype.has_object() {
        return Err(PyValueError::new_err("an array that is no run of bytes"));
    }
    let len = npy_intp::try_from(array.len() * dtype.itemsize()).map_err(|_| too_large())?;
    // SAFETY: a live array; read with the GIL, so that nobody changes it.
    let start = unsafe { (*fields(array)).data };
    let flags = if is_writable(array) { npyffi::NPY_ARRAY_WRITEABLE } else { 0 };
    let bytes = from_parts(py, dtype_of::<u8>(py), vec![len], start.cast(), flags)?;
    keep_alive(&bytes, array.clone().into_any())?;
    Ok(bytes.cast_into()?)
}

/// Whether an array may be written to.
pub(crate) fn is_writable(array: &Bound<'_, PyUntypedArray>) -> bool {
    // SAFETY: as in `bytes_of`.
    let flags = unsafe { (*fields(array)).flags };
    flags & npyffi::NPY_ARRAY_WRITEABLE != 0
}

/// Where an array keeps what it is: valid while the array lives.
fn fields(array: &Bound<'_, PyUntypedArray>) -> *const npyffi::PyArrayObject_fields {
    // SAFETY: a live array; the place of its fields alone is computed.
    unsafe { npyffi::_PyArray_GET_ITEM_DATA(array.as_array_ptr()) }
}

/// Has a new array hold whatever its memory belongs to.
fn keep_alive<'py>(array: &Bound<'py, PyAny>, owner: Bound<'py, PyAny>) -> PyResult<()> {
    let py = array.py();
    // SAFETY: `array` is a new array without a base, and `owner` an owned
    // reference that the call takes over, also when it fails.
    let status =
        unsafe { PY_ARRAY_API.PyArray_SetBaseObject(py, array.as_ptr().cast(), owner.into_ptr()) };
    if status < 0 { Err(PyErr::fetch(py)) } else { Ok(()) }
}

/// A new C-contiguous array over memory that it does not own yet.
fn from_parts<'py>(
    py: Python<'py>,
    descr: Bound<'py, PyArrayDescr>,
    mut shape: Vec<npy_intp>,
    start: *mut u8,
    flags: c_int,
) -> PyResult<Bound<'py, PyAny>> {
    let dimensions = c_int::try_from(shape.len()).map_err(|_| too_large())?;
    // SAFETY: asks for a pointer that NumPy never changes once it is imported.
    let array_type = unsafe { npyffi::get_type_object(py, NpyTypes::PyArray_Type) };
    // SAFETY: `descr` is an owned reference, which the call takes over; `shape`
    // has `dimensions` sizes; `start` is valid for the bytes that the shape and
    // the dtype need (the caller's check; invariant 3, or the other array's).
    let array = unsafe {
        PY_ARRAY_API.PyArray_NewFromDescr(
            py,
            array_type,
            descr.into_dtype_ptr(),
            dimensions,
            shape.as_mut_ptr(),
            ptr::null_mut(),
            start.cast(),
            flags,
            ptr::null_mut(),
        )
    };
    // SAFETY: an owned reference, or null with an exception set.
    unsafe { Bound::from_owned_ptr_or_err(py, array) }
}

fn too_large() -> PyErr {
    PyMemoryError::new_err("the array would be larger than this system can address")
}
