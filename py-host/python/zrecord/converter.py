"""Stores out of arrays and iterators."""

from __future__ import annotations

import itertools
import operator
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from . import _native
from ._conversion import Conversion, spread, train
from ._dtypes import from_spec, to_spec
from ._records import Block, RecordType
from .errors import InvalidArgumentError, SchemaError

__all__ = ["from_iterator", "from_numpy"]

DICT_MIN: Final[int] = _native.DICT_MIN
"""The smallest dictionary that is asked for unless told otherwise, in bytes."""
DICT_MAX: Final[int] = _native.DICT_MAX
"""The largest one."""
DICT_MAX_SAMPLES: Final = 8192
"""How many records a dictionary is trained on, at most."""
DICT_SAMPLE_BYTES_MAX: Final = 64 << 20
"""And how many bytes of them."""
WRITE_CHUNK_BYTES: Final = 64 << 20
"""How many bytes are packed at a time."""

_SCHEMA_KEYS = {"kind", "dtype", "item_shape", "format", "version", "codec"}


def from_numpy(
    path: str | os.PathLike[str],
    array: npt.NDArray[Any],
    codec: str = "zstd",
    chunk_bytes: int = WRITE_CHUNK_BYTES,
    dict_size: int | None = None,
    schema: Mapping[str, Any] | None = None,
    *,
    if_exists: str = "append",
    format: str | None = None,
    level: int | None = None,
    preset: str | None = None,
    min_saving: float | None = None,
    progress: Callable[[int, int | None], object] | None = None,
    commit_every: int | None = None,
    metadata: Mapping[str, Any] | None = None,
) -> int:
    """Writes one record per slice of ``array`` along axis 0; returns how many.

    Streams in blocks, so a memory-mapped array is never read whole. All
    records are committed at the end: an exception or a kill half way adds none.

    Args:
        path: the directory of the store.
        array: at least one axis; any dtype but object.
        codec: ``raw``, ``zstd`` or ``zstd_dict``. The last trains a dictionary
            on a sample spread over the whole array, if the store has none yet.
        chunk_bytes: the size of a block in bytes.
        dict_size: the most bytes of the dictionary; a hundredth of the sample,
            8 KiB to 1 MiB, unless given.
        schema: ``dtype`` and ``item_shape`` to read the rows as, of the same
            size as they have; other keys are kept as metadata.
        if_exists: ``"append"`` to an existing store, ``"error"``, or
            ``"replace"`` it once the new one is whole, which nobody else may
            have open then. Killed half way, that leaves a hidden ``.NAME.*.new``
            beside the store, which the next replacement or conversion removes.
        format, level, preset, min_saving: as :class:`~zrecord.zrecord.Zrecord`.
        progress: called with ``(records so far, all)`` after each block.
        commit_every: commit whenever that many records were added.
        metadata: a map to keep in the schema of a new store.

    Raises:
        TypeError: ``array`` is no array.
        ValueError: it has no axis, or rows that are too long, or that are not
            those of the existing store. Nothing was written.
        UnsupportedError: a dtype that cannot be stored. Nothing was written.
    """
    if not isinstance(array, np.ndarray):
        raise TypeError(f"from_numpy expects a NumPy array, not {type(array).__name__}")
    if isinstance(array, np.ma.MaskedArray):
        raise TypeError("a masked array would lose its mask; pass array.filled(...)")
    if array.ndim == 0:
        raise InvalidArgumentError("the array has no axis to take records along")
    _check_chunk_bytes(chunk_bytes)
    conversion = Conversion(
        path,
        codec,
        if_exists=if_exists,
        format=format,
        level=level,
        preset=preset,
        min_saving=min_saving,
        commit_every=commit_every,
    )
    dtype, item_shape, extra = _dense_schema(array, schema, metadata)
    row_bytes = array.dtype.itemsize * int(np.prod(array.shape[1:], dtype=np.int64))
    conversion.check_row(row_bytes, "a row")
    step = max(1, chunk_bytes // max(row_bytes, 1))
    if commit_every is not None:
        step = min(step, commit_every)
    try:
        conversion.begin("dense", dtype, item_shape, extra)
        if codec == "zstd_dict" and row_bytes > 0 and len(array) > 0:
            count = min(DICT_MAX_SAMPLES, DICT_SAMPLE_BYTES_MAX // row_bytes)
            picked = spread(len(array), count)
            train(conversion, [_bytes(array[i : i + 1]) for i in picked], dict_size)
        for start in range(0, len(array), step):
            block = array[start : start + step]
            offsets = np.arange(len(block), dtype=np.uint64) * np.uint64(row_bytes)
            conversion.append(_bytes(block), offsets)
            if progress is not None:
                progress(start + len(block), len(array))
        conversion.finish()
    except BaseException:
        conversion.abort()
        raise
    return len(array)


def from_iterator(
    path: str | os.PathLike[str],
    source: Iterable[Any],
    codec: str = "zstd",
    chunk_bytes: int = WRITE_CHUNK_BYTES,
    dict_size: int | None = None,
    schema: Mapping[str, Any] | None = None,
    *,
    if_exists: str = "append",
    format: str | None = None,
    level: int | None = None,
    preset: str | None = None,
    min_saving: float | None = None,
    progress: Callable[[int, int | None], object] | None = None,
    commit_every: int | None = None,
    metadata: Mapping[str, Any] | None = None,
) -> int:
    """Writes one ragged record per item of ``source``; returns how many.

    A record is an array of ``(rows, *item_shape)``; dtype and item shape are
    those of the existing store, of ``schema``, or of the first record, and
    every later record must have them. ``bytes`` are arrays of uint8. An
    exception out of ``source`` leaves the store as it was.

    Args:
        path: the directory of the store.
        source: any iterable, read once.
        codec, chunk_bytes, dict_size, if_exists, format, level, preset, min_saving,
            commit_every, metadata: as :func:`from_numpy`; a dictionary is
            trained on the first block.
        schema: ``dtype`` and ``item_shape``, which an empty source needs.
        progress: called with ``(records so far, all if known)`` after each block.

    Raises:
        SchemaError: a ``ValueError``; a record of another dtype or row shape,
            named by its position. Nothing was added.
        ValueError: an empty source, and nothing says what its records are.
    """
    _check_chunk_bytes(chunk_bytes)
    conversion = Conversion(
        path,
        codec,
        if_exists=if_exists,
        format=format,
        level=level,
        preset=preset,
        min_saving=min_saving,
        commit_every=commit_every,
    )
    total = operator.length_hint(source) or None
    items = iter(source)
    record_type, items, extra = _ragged_schema(conversion, items, schema, metadata)
    if record_type.row_bytes == 0:
        raise SchemaError("rows of zero bytes cannot be counted; use from_numpy")
    writer = _BlockWriter(conversion, chunk_bytes, dict_size, progress, total)
    try:
        conversion.begin("ragged", record_type.dtype, record_type.item_shape, extra)
        for position, item in enumerate(items):
            record = record_type.bytes_of(item, position)
            conversion.check_row(len(record), f"record {position}")
            writer.add(record)
        writer.flush()
        conversion.finish()
    except BaseException:
        conversion.abort()
        raise
    return writer.written


class _BlockWriter:
    """Collects records and appends them block by block."""

    def __init__(
        self,
        conversion: Conversion,
        chunk_bytes: int,
        dict_size: int | None,
        progress: Callable[[int, int | None], object] | None,
        total: int | None,
    ) -> None:
        self._conversion = conversion
        self._chunk_bytes = chunk_bytes
        self._records_max = conversion.commit_every
        self._dict_size = dict_size
        self._progress = progress
        self._total = total
        self._block = Block()
        self._is_first = True
        self.written = 0

    def add(self, record: npt.NDArray[np.uint8]) -> None:
        self._block.add(record)
        if self._block.size >= self._chunk_bytes or len(self._block) == self._records_max:
            self.flush()

    def flush(self) -> None:
        if len(self._block) == 0:
            return
        if self._is_first and self._conversion.codec == "zstd_dict":
            picked = self._block.records(spread(len(self._block), DICT_MAX_SAMPLES))
            train(self._conversion, [record for record in picked if len(record)], self._dict_size)
        self._is_first = False
        self._conversion.append(self._block.bytes, self._block.offsets)
        self.written += len(self._block)
        self._block.clear()
        if self._progress is not None:
            self._progress(self.written, self._total)


def _check_chunk_bytes(chunk_bytes: int) -> None:
    if chunk_bytes < 1:
        raise InvalidArgumentError(f"chunk_bytes is {chunk_bytes}, not at least 1")


def _bytes(block: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
    if block.nbytes == 0:
        return np.empty(0, np.uint8)
    return np.ascontiguousarray(block).reshape(-1).view(np.uint8)


def _extra(
    schema: Mapping[str, Any] | None, metadata: Mapping[str, Any] | None, kind: str
) -> dict[Any, Any]:
    given = dict(schema or {})
    if given.get("kind", kind) != kind:
        raise SchemaError(f"the schema's kind is {given['kind']!r}, this converter's is {kind!r}")
    kept = {key: value for key, value in given.items() if key not in _SCHEMA_KEYS}
    return {**kept, **(metadata or {})}


def _dtype_of(value: Any) -> np.dtype[Any]:
    try:
        found: np.dtype[Any] = np.dtype(value)
    except TypeError:
        if not isinstance(value, str):
            raise
        return from_spec(value)
    return found


def _dense_schema(
    array: npt.NDArray[Any],
    schema: Mapping[str, Any] | None,
    metadata: Mapping[str, Any] | None,
) -> tuple[np.dtype[Any], tuple[int, ...], dict[Any, Any]]:
    to_spec(array.dtype)
    extra = _extra(schema, metadata, "dense")
    given = schema or {}
    dtype = _dtype_of(given["dtype"]) if "dtype" in given else array.dtype
    item_shape = tuple(int(size) for size in given.get("item_shape", array.shape[1:]))
    ours = array.dtype.itemsize * int(np.prod(array.shape[1:], dtype=np.int64))
    theirs = dtype.itemsize * int(np.prod(item_shape, dtype=np.int64))
    if ours != theirs:
        raise SchemaError(
            f"the schema's rows are {item_shape} {dtype}, {theirs} bytes; the array's are "
            f"{array.shape[1:]} {array.dtype}, {ours} bytes"
        )
    return dtype, item_shape, extra


def _ragged_schema(
    conversion: Conversion,
    items: Iterator[Any],
    schema: Mapping[str, Any] | None,
    metadata: Mapping[str, Any] | None,
) -> tuple[RecordType, Iterator[Any], dict[Any, Any]]:
    extra = _extra(schema, metadata, "ragged")
    given = schema or {}
    if "dtype" in given:
        shape = tuple(int(size) for size in given.get("item_shape", ()))
        return RecordType(_dtype_of(given["dtype"]), shape), items, extra
    existing = conversion.record_type()
    if existing is not None:
        return existing, items, extra
    for first in items:
        record_type = RecordType.of(first)
        to_spec(record_type.dtype)
        return record_type, itertools.chain([first], items), extra
    raise InvalidArgumentError(
        "the source is empty and nothing says what its records are; "
        "pass schema={'dtype': ..., 'item_shape': ...}"
    )
