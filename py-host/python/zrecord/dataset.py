"""Typed views of a store: records as arrays, indexed as NumPy indexes."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from . import _datasets
from .errors import InvalidArgumentError
from .zrecord import Zrecord

__all__ = ["DenseDataset", "RaggedDataset", "pad"]


class _Dataset(_datasets.Dataset):
    """A dataset over a store that this process reads itself."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        verify: str = "first",
        io: str = "map",
        threads: int | None = None,
    ) -> None:
        self._store = Zrecord(path, mode="r", verify=verify, io=io, threads=threads)
        self._adopt(self._store, verify=verify, io=io, threads=threads)

    @property
    def store(self) -> Zrecord:
        """The store under the dataset, opened for reading."""
        return self._store


@_datasets.natively
class DenseDataset(_Dataset, _datasets.DenseRecords):
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
        return self._store._native.view(start, max(start, stop), self._layout)


@_datasets.natively
class RaggedDataset(_Dataset, _datasets.RaggedRecords):
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
