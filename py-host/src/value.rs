//! MessagePack values as Python's, and back.

use pyo3::exceptions::{PyOverflowError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyDict, PyFloat, PyInt, PyList, PyNone, PyString, PyTuple};
use rmpv::Value;

/// Deeper than any schema may be; the core has the exact limit.
const DEPTH_MAX: usize = 100;

/// What a schema holds for a Python value. Tuples become lists.
pub(crate) fn from_python(value: &Bound<'_, PyAny>) -> PyResult<Value> {
    from_nested(value, 0)
}

fn from_nested(value: &Bound<'_, PyAny>, depth: usize) -> PyResult<Value> {
    if depth > DEPTH_MAX {
        return Err(PyValueError::new_err("metadata nested too deeply, or without end"));
    }
    if value.is_none() {
        return Ok(Value::Nil);
    }
    if let Ok(value) = value.cast::<PyBool>() {
        return Ok(value.is_true().into());
    }
    if let Ok(value) = value.cast::<PyInt>() {
        if let Ok(value) = value.extract::<i64>() {
            return Ok(value.into());
        }
        let value: PyResult<u64> = value.extract();
        return value.map(Value::from).map_err(|_| {
            PyOverflowError::new_err("metadata hold integers of 64 bits; keep larger ones as text")
        });
    }
    if let Ok(value) = value.cast::<PyFloat>() {
        return Ok(value.extract::<f64>()?.into());
    }
    if let Ok(value) = value.cast::<PyString>() {
        return Ok(value.extract::<String>()?.into());
    }
    if let Ok(value) = value.cast::<PyBytes>() {
        return Ok(Value::Binary(value.as_bytes().to_vec()));
    }
    if let Ok(value) = value.cast::<PyDict>() {
        let pair =
            |(key, value)| Ok((from_nested(&key, depth + 1)?, from_nested(&value, depth + 1)?));
        return Ok(Value::Map(value.iter().map(pair).collect::<PyResult<_>>()?));
    }
    if value.is_instance_of::<PyList>() || value.is_instance_of::<PyTuple>() {
        let items = value.try_iter()?.map(|item| from_nested(&item?, depth + 1));
        return Ok(Value::Array(items.collect::<PyResult<_>>()?));
    }
    let message = format!(
        "metadata hold None, bools, numbers, text, bytes, lists and dicts, not {}",
        value.get_type().name()?
    );
    Err(PyTypeError::new_err(message))
}

/// A value of a schema as Python's.
pub(crate) fn to_python<'py>(py: Python<'py>, value: &Value) -> PyResult<Bound<'py, PyAny>> {
    Ok(match value {
        Value::Nil => PyNone::get(py).to_owned().into_any(),
        Value::Boolean(value) => PyBool::new(py, *value).to_owned().into_any(),
        Value::Integer(value) => match value.as_u64() {
            Some(value) => value.into_pyobject(py)?.into_any(),
            None => value.as_i64().into_pyobject(py)?.into_any(),
        },
        Value::F32(value) => f64::from(*value).into_pyobject(py)?.into_any(),
        Value::F64(value) => value.into_pyobject(py)?.into_any(),
        Value::String(text) => text.as_str().into_pyobject(py)?.into_any(),
        Value::Binary(bytes) => PyBytes::new(py, bytes).into_any(),
        Value::Array(items) => {
            let items = items.iter().map(|item| to_python(py, item));
            PyList::new(py, items.collect::<PyResult<Vec<_>>>()?)?.into_any()
        }
        Value::Map(pairs) => map_to_python(py, pairs)?.into_any(),
        Value::Ext(kind, bytes) => (*kind, PyBytes::new(py, bytes)).into_pyobject(py)?.into_any(),
    })
}

/// A map as a dict. A key that Python cannot hash becomes its text.
pub(crate) fn map_to_python<'py>(
    py: Python<'py>,
    pairs: &[(Value, Value)],
) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    for (key, value) in pairs {
        let found = to_python(py, key)?;
        let found = if found.hash().is_ok() { found } else { found.str()?.into_any() };
        dict.set_item(found, to_python(py, value)?)?;
    }
    Ok(dict)
}
