"""What ``records[key]`` means: NumPy's rules, for records that are fetched.

A key is split into the records to fetch along axis 0 and what is left to do
with the rows that came. The second part is handed to NumPy itself, with the
first axis renumbered to the fetched rows, so it answers as NumPy does.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from .errors import OutOfRangeError

Indices: TypeAlias = npt.NDArray[np.int64] | npt.NDArray[np.uint64]
_INT64, _UINT64 = np.dtype(np.int64), np.dtype(np.uint64)

Fetch: TypeAlias = Callable[[Indices], npt.NDArray[Any]]


def select(key: Any, length: int, fetch: Fetch) -> Any:
    """Returns ``records[key]`` for an array of ``length`` rows behind ``fetch``.

    ``fetch`` takes an int64 or uint64 vector of indices, of which negative
    ones count from the end, and returns their rows along axis 0.

    Raises:
        IndexError: past the end, or a mask of the wrong length.
        TypeError: a float, text, or something else that is no index.
    """
    if isinstance(key, tuple) and not key:
        return fetch(every(length))
    first, *rest = key if isinstance(key, tuple) else (key,)
    if is_integer(first):
        row = fetch(scalar(first))
        return row[(0, *rest)]
    if isinstance(first, slice):
        rows = fetch(spread(first, length))
        return rows[(slice(None), *rest)] if rest else rows
    array = None if first is None or first is Ellipsis else as_array(first)
    if array is None or array.ndim == 0 or (array.dtype == bool and array.ndim > 1):
        # Axis 0 is not the first to be indexed: let NumPy sort it out.
        return fetch(every(length))[key]
    if array.dtype == bool:
        rows, shape = fetch(masked(array, length)), (-1,)
    else:
        rows, shape = fetch(vector(array)), array.shape
    if not rest:
        return rows if array.ndim == 1 else rows.reshape(shape + rows.shape[1:])
    return rows[(np.arange(len(rows)).reshape(shape), *rest)]


def flat(key: Any, length: int) -> Indices | int:
    """Returns the records that ``key`` names, along one axis: an index, or a vector.

    Raises:
        IndexError, TypeError: as :func:`select`; a key of several axes is a
            ``TypeError``.
    """
    if is_integer(key):
        return operator.index(key)
    if isinstance(key, slice):
        return spread(key, length)
    if key is Ellipsis or (isinstance(key, tuple) and not key):
        return every(length)
    if key is None or isinstance(key, tuple):
        raise TypeError("ragged records have one axis: an index, a slice, a mask or a list")
    array = as_array(key)
    if array.ndim != 1:
        raise TypeError(f"ragged records have one axis; the index has {array.ndim}")
    return masked(array, length) if array.dtype == bool else vector(array)


def is_integer(key: Any) -> bool:
    """True for what NumPy takes as one index: not a bool, not an array of any length."""
    if type(key) is int:
        return True
    if isinstance(key, bool | np.bool_ | list | tuple | slice):
        return False
    if isinstance(key, np.ndarray):
        return key.ndim == 0 and key.dtype.kind in "iu"
    return hasattr(key, "__index__") and getattr(key, "ndim", 0) == 0


def scalar(key: Any) -> Indices:
    """One index as a vector."""
    index = operator.index(key)
    if not -(2**63) <= index < 2**63:
        raise OutOfRangeError(f"index {index} is out of range for any store")
    return np.array([index], np.int64)


def every(length: int) -> Indices:
    """All indices in order."""
    return np.arange(length, dtype=np.int64)


def spread(key: slice, length: int) -> Indices:
    """The indices of a slice."""
    return np.arange(*key.indices(length), dtype=np.int64)


def masked(mask: npt.NDArray[np.bool_], length: int) -> Indices:
    """The indices at which a mask is true."""
    if len(mask) != length:
        raise IndexError(f"a mask of {len(mask)} for {length} records")
    indices: npt.NDArray[np.int64] = np.flatnonzero(mask).astype(np.int64, copy=False)
    return indices


def as_array(key: Any) -> npt.NDArray[Any]:
    """A list or array of integers or bools, of any shape.

    Raises:
        TypeError: it holds something else.
    """
    if isinstance(key, str | bytes):
        raise TypeError(f"records are indexed by integers, not {type(key).__name__}")
    try:
        array = np.asarray(key)
    except ValueError as error:
        raise TypeError(f"no index: {error}") from error
    if array.size == 0 and not isinstance(key, np.ndarray):
        # An empty list has no dtype of its own.
        return array.astype(np.int64)
    if array.dtype.kind == "O" and array.size and all(map(is_integer, array.flat)):
        raise OutOfRangeError("an index is out of range for any store")
    if array.dtype.kind not in "iub":
        raise TypeError(
            f"records are indexed by integers or bools, not {array.dtype}; "
            "cast the indices first if that is meant"
        )
    return array


def vector(indices: Any) -> Indices:
    """Integers of any dtype and shape as a contiguous int64 or uint64 vector."""
    if type(indices) is np.ndarray and indices.ndim == 1:
        dtype = indices.dtype
        # By far the most common.
        if (dtype is _INT64 or dtype is _UINT64) and indices.flags.c_contiguous:
            return indices
    if not (isinstance(indices, np.ndarray) and indices.dtype.kind in "iu"):
        indices = as_array(indices)
        if indices.dtype == bool:
            raise TypeError("bools are a mask, not indices; use numpy.flatnonzero")
    if indices.dtype.kind == "u" and indices.itemsize == 8:
        return np.ascontiguousarray(indices, np.uint64).reshape(-1)
    return np.ascontiguousarray(indices, np.int64).reshape(-1)
