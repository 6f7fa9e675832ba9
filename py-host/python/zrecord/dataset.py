"""Typed views of a store: records as arrays, indexed as NumPy indexes."""

from __future__ import annotations

import copy
import html
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from . import _index, _native
from ._dtypes import from_spec
from .errors import BufferTooSmallError, InvalidArgumentError, SchemaError
from .zrecord import Zrecord, as_destination, check_id

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["DenseDataset", "RaggedDataset", "pad"]


class _Dataset:
    """What both kinds of dataset have."""

    _kind: str

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        verify: str = "first",
        io: str = "map",
        threads: int | None = None,
    ) -> None:
        self._store = Zrecord(path, mode="r", verify=verify, io=io, threads=threads)
        self._options = (verify, io, threads)
        try:
            _, spec, shape, codec, metadata = self._schema()
        except BaseException:
            self._store.close()
            raise
        self._dtype, self._item_shape = from_spec(spec), shape
        self._codec, self._metadata = codec, metadata
        self._layout = _native.Layout(self._dtype, shape)
        self._native = self._store._native

    def _schema(self) -> _native._SchemaParts:
        schema = self._store._native.schema()
        if schema is None:
            raise SchemaError(
                f"{self.path}: the store has no schema; open it with Zrecord, "
                "or write it with from_numpy or from_iterator"
            )
        if schema[0] != self._kind:
            other = {"dense": "DenseDataset", "ragged": "RaggedDataset"}[schema[0]]
            raise SchemaError(
                f"{self.path}: the store holds {schema[0]} records, not {self._kind} ones; "
                f"open it with {other}"
            )
        return schema

    @property
    def path(self) -> Path:
        """The directory of the store."""
        return self._store.path

    @property
    def store(self) -> Zrecord:
        """The store under the dataset, opened for reading."""
        return self._store

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of one item, as it was written."""
        return self._dtype

    @property
    def item_shape(self) -> tuple[int, ...]:
        """The shape of one row; of ragged records without the leading axis."""
        return self._item_shape

    @property
    def codec(self) -> str:
        """The codec of records for which none was asked."""
        return self._codec

    @property
    def metadata(self) -> dict[Any, Any]:
        """The user's own map, as it was given to the converter; a copy."""
        return copy.deepcopy(self._metadata)

    @property
    def format(self) -> str:
        """``"extended"`` or ``"classic"``."""
        return self._store.format

    @property
    def closed(self) -> bool:
        """True after :meth:`close`."""
        return self._native.closed

    @property
    def _row_bytes(self) -> int:
        return self._layout.row_bytes

    def __len__(self) -> int:
        """The number of records; follows a writer in another process."""
        return self._native.length()

    def close(self) -> None:
        """Lets go of the store. Idempotent; arrays handed out stay valid."""
        self._store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def __reduce__(self) -> tuple[Any, ...]:
        return _reopen, (type(self), self._store._place(), *self._options)

    def _summary(self) -> dict[str, str]:
        sizes = self._item_shape if self._kind == "dense" else ("rows", *self._item_shape)
        comma = "," if len(sizes) == 1 else ""
        rows = f"({', '.join(map(str, sizes))}{comma})"
        summary = {
            "records": "closed" if self.closed else f"{len(self):,}",
            "record": f"{rows} {self._dtype}",
            "codec": self._codec,
        }
        if not self.closed:
            summary["format"] = self.format
        if self._options[0] == "never":
            summary["checksums"] = "never verified"
        return summary

    def __repr__(self) -> str:
        summary = ", ".join(f"{name} {value}" for name, value in self._summary().items())
        return f"<{type(self).__name__} {str(self.path)!r}: {summary}>"

    def _repr_html_(self) -> str:
        rows = {"path": str(self.path), **self._summary()}
        rows |= {f"metadata {key}": repr(value) for key, value in self._metadata.items()}
        cells = "".join(
            f"<tr><th>{html.escape(name)}</th><td>{html.escape(value)}</td></tr>"
            for name, value in rows.items()
        )
        return f"<table><caption>{type(self).__name__}</caption>{cells}</table>"


class DenseDataset(_Dataset):
    """A store of records of one shape, read as an array of ``(len, *item_shape)``.

    Indexing answers as NumPy does and always copies: what it returns is
    writable and belongs to the caller. Indices past the end are an
    ``IndexError``, floats a ``TypeError``. Keys that do not begin with an index
    along the first axis (``ds[..., 0]``, ``ds[None]``) read the whole store.

    Args:
        path: the directory of the store; it must exist.
        verify, io, threads: as :class:`~zrecord.zrecord.Zrecord`.

    Raises:
        StoreNotFoundError: a ``FileNotFoundError``; nothing is ever created.
        SchemaError: a ``ValueError``; the store is untyped, or ragged.
    """

    _kind = "dense"

    @property
    def shape(self) -> tuple[int, ...]:
        """``(len, *item_shape)``."""
        return (len(self), *self._item_shape)

    def __getitem__(self, key: Any) -> Any:
        if type(key) is int:
            return self._native.take_one(key, self._layout)
        return _index.select(key, len(self), self._fetch)

    def __getitems__(self, idxs: npt.ArrayLike) -> npt.NDArray[Any]:
        """The rows of a vector of indices, ``(len(idxs), *item_shape)``, in one call."""
        return self._fetch(_index.vector(idxs))

    def _fetch(self, indices: _index.Indices) -> npt.NDArray[Any]:
        return self._native.take(indices, self._layout)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
        if copy is False:
            raise InvalidArgumentError("an array of a dataset is a copy; see view")
        return np.asarray(self._fetch(_index.every(len(self))), dtype)

    def gather(self, idx: npt.ArrayLike, out: npt.NDArray[Any] | None = None) -> npt.NDArray[Any]:
        """Returns the rows of ``idx``, ``(len(idx), *item_shape)``, in ``out`` if given.

        ``out`` must have this dtype and exactly that shape, and be writable and
        C-contiguous; with one, nothing is allocated.

        Raises:
            OutOfRangeError: an index past the end.
            ValueError: ``out`` does not fit, is read-only, or overlaps the indices.
        """
        indices = _index.vector(idx)
        if out is None:
            return self._fetch(indices)
        destination = as_destination(out, "out")
        if np.may_share_memory(indices, out) or (
            isinstance(idx, np.ndarray) and np.may_share_memory(idx, out)
        ):
            raise InvalidArgumentError("out overlaps the indices")
        expected = (len(indices), *self._item_shape)
        if out.dtype != self._dtype:
            raise InvalidArgumentError(f"out has dtype {out.dtype}, not {self._dtype}")
        if out.shape != expected:
            small = out.size < np.prod(expected, dtype=np.int64)
            error = BufferTooSmallError if small else InvalidArgumentError
            raise error(f"out has shape {out.shape}, not {expected}")
        self._native.take_into(indices, destination, self._layout)
        return out

    def view(self, start: int = 0, stop: int | None = None) -> npt.NDArray[Any]:
        """Returns records ``start..stop`` in place: read-only, nothing is copied.

        Only of extended stores whose records lie raw, in order, one behind the
        other, in one chunk; not of classic ones, which do not promise that.
        The array keeps the mapping alive, also after :meth:`close`, and makes
        delete and compact "busy" while it lives. Checksums are verified once,
        when it is made, as ``verify`` says. A file that is cut under it is
        outside the store's promise: touching it may then kill the process.

        Raises:
            UnsupportedError: the records do not lie like that.
        """
        start, stop, _ = slice(start, stop).indices(len(self))
        return self._native.view(start, max(start, stop), self._layout)

    def __iter__(self) -> Iterator[Any]:
        index = 0
        while index < len(self):
            yield self._native.take_one(index, self._layout)
            index += 1


class RaggedDataset(_Dataset):
    """A store of records of any number of rows, read as a list of arrays.

    ``ds[i]`` is an array of ``(rows, *item_shape)``; slices, masks and index
    vectors give a list of them. All are copies and writable; the arrays of one
    list share one buffer.

    Args:
        path: the directory of the store; it must exist.
        verify, io, threads: as :class:`~zrecord.zrecord.Zrecord`.

    Raises:
        StoreNotFoundError: a ``FileNotFoundError``; nothing is ever created.
        SchemaError: a ``ValueError``; the store is untyped, or dense.
    """

    _kind = "ragged"

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, tuple) and key and _index.is_integer(key[0]):
            return self[key[0]][key[1:]]
        indices = _index.flat(key, len(self))
        if isinstance(indices, int):
            return self._native.take_list(_index.scalar(indices), self._layout)[0]
        return self._native.take_list(indices, self._layout)

    def __getitems__(self, idxs: npt.ArrayLike) -> list[npt.NDArray[Any]]:
        """The records of a vector of indices, in one call."""
        return self._native.take_list(_index.vector(idxs), self._layout)

    def row_counts(self, idx: npt.ArrayLike | None = None) -> npt.NDArray[np.int64]:
        """Returns the number of rows of each record, ``(len(idx),)`` int64."""
        indices = _index.every(len(self)) if idx is None else _index.vector(idx)
        return self._native.row_counts(indices, self._layout)

    def packed(self, idx: npt.ArrayLike) -> tuple[npt.NDArray[Any], npt.NDArray[np.int64]]:
        """Returns ``(values, offsets)``: all rows one behind the other, and where
        each record begins and ends.

        ``values`` is ``(rows of all, *item_shape)``, ``offsets`` is
        ``(len(idx) + 1,)`` int64; record ``i`` is ``values[offsets[i]:offsets[i + 1]]``.
        """
        return self._native.take_packed(_index.vector(idx), self._layout)

    def padded(
        self, idx: npt.ArrayLike, max_len: int | None = None, pad_value: Any = 0
    ) -> tuple[npt.NDArray[Any], npt.NDArray[np.int64]]:
        """Returns ``(padded, lengths)`` as :func:`pad`, read in one call.

        Raises:
            ValueError: a record has more than ``max_len`` rows.
        """
        filler = self._filler(pad_value)
        return self._native.take_padded(_index.vector(idx), self._layout, max_len, filler)

    def _filler(self, pad_value: Any) -> bytes:
        return np.full(self._item_shape, pad_value, self._dtype).tobytes()

    def __iter__(self) -> Iterator[npt.NDArray[Any]]:
        index = 0
        while index < len(self):
            yield self[index]
            index += 1


def _reopen(
    cls: type[_Dataset],
    place: tuple[Path, str | None],
    verify: str,
    io: str,
    threads: int | None,
) -> _Dataset:
    dataset = cls(place[0], verify=verify, io=io, threads=threads)
    check_id(dataset.store, place[1])
    return dataset


def pad(
    records: Sequence[npt.NDArray[Any]], max_len: int | None = None, pad_value: Any = 0
) -> tuple[npt.NDArray[Any], npt.NDArray[np.int64]]:
    """Returns ``(padded, lengths)`` of a list of records.

    ``padded`` is ``(len(records), max_len, *item_shape)`` of the records' dtype,
    ``lengths`` ``(len(records),)`` int64 the number of rows of each; the rest of
    ``padded`` is ``pad_value``. ``max_len`` is that of the longest unless given.

    Raises:
        ValueError: no records, records of different item shapes or dtypes, or a
            record of more than ``max_len`` rows.
    """
    if len(records) == 0:
        raise InvalidArgumentError("pad needs at least one record")
    arrays = [np.asarray(record) for record in records]
    dtype, item_shape = arrays[0].dtype, arrays[0].shape[1:]
    for position, array in enumerate(arrays):
        if array.ndim == 0 or array.shape[1:] != item_shape or array.dtype != dtype:
            raise InvalidArgumentError(
                f"record {position} is {array.shape} {array.dtype}, the first one has rows of "
                f"{item_shape} {dtype}"
            )
    lengths = np.array([len(array) for array in arrays], np.int64)
    longest = int(lengths.max())
    width = longest if max_len is None else max_len
    if longest > width:
        raise InvalidArgumentError(f"a record has {longest} rows, over max_len={max_len}")
    padded = np.full((len(arrays), width, *item_shape), pad_value, dtype)
    for row, array in zip(padded, arrays, strict=True):
        row[: len(array)] = array
    return padded, lengths
