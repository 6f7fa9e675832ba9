"""Records of an iterator: what they are, and blocks of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from .errors import SchemaError


class RecordType:
    """The dtype and row shape that all records of a ragged store share."""

    def __init__(self, dtype: np.dtype[Any], item_shape: tuple[int, ...]) -> None:
        self.dtype = dtype
        self.item_shape = item_shape

    @classmethod
    def of(cls, record: Any) -> RecordType:
        """The type of a first record."""
        array = as_array(record, 0)
        return cls(array.dtype, array.shape[1:])

    @property
    def row_bytes(self) -> int:
        """The bytes of one row."""
        return int(np.prod(self.item_shape, dtype=np.int64)) * self.dtype.itemsize

    def bytes_of(self, record: Any, position: int) -> npt.NDArray[np.uint8]:
        """The bytes of a record in C order.

        Raises:
            SchemaError: it has another dtype or row shape.
        """
        array = as_array(record, position)
        if not isinstance(record, np.ndarray) and array.dtype != self.dtype:
            # A list has no dtype of its own: any that loses nothing will do.
            if array.size == 0:
                array = np.empty((0, *self.item_shape), self.dtype)
            elif np.can_cast(array.dtype, self.dtype, "safe"):
                array = array.astype(self.dtype)
        if array.dtype != self.dtype or array.shape[1:] != self.item_shape:
            raise SchemaError(
                f"record {position} has rows of {array.shape[1:]} {array.dtype}, "
                f"not {self.item_shape} {self.dtype}"
            )
        if array.nbytes == 0:
            return np.empty(0, np.uint8)
        return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def as_array(record: Any, position: int) -> npt.NDArray[Any]:
    """One record as an array; bytes are taken as uint8."""
    if isinstance(record, bytes | bytearray | memoryview):
        return np.frombuffer(record, np.uint8)
    if isinstance(record, str):
        raise TypeError(f"record {position} is text; encode it to bytes first")
    array = np.asarray(record)
    if array.dtype.kind == "O" and not isinstance(record, np.ndarray):
        raise TypeError(f"record {position} is no array: {type(record).__name__}")
    return array


class Block:
    """Records packed one behind the other, copied as they come.

    An iterator may hand out the same array again and again with other contents.
    """

    def __init__(self, size_first: int = 1 << 16) -> None:
        self._buffer = np.empty(size_first, np.uint8)
        self._offsets: list[int] = []
        self.size = 0

    def __len__(self) -> int:
        return len(self._offsets)

    def add(self, record: npt.NDArray[np.uint8]) -> None:
        """Adds a record behind the others."""
        end = self.size + len(record)
        if end > len(self._buffer):
            grown = np.empty(max(end, 2 * len(self._buffer)), np.uint8)
            grown[: self.size] = self._buffer[: self.size]
            self._buffer = grown
        self._buffer[self.size : end] = record
        self._offsets.append(self.size)
        self.size = end

    def clear(self) -> None:
        """Forgets the records and keeps the memory."""
        self._offsets.clear()
        self.size = 0

    @property
    def bytes(self) -> npt.NDArray[np.uint8]:
        """The bytes of all records."""
        return self._buffer[: self.size]

    @property
    def offsets(self) -> npt.NDArray[np.uint64]:
        """Where each record begins."""
        return np.array(self._offsets, np.uint64)

    def records(self, picked: npt.NDArray[np.int64]) -> list[npt.NDArray[np.uint8]]:
        """Some of the records."""
        ends = [*self._offsets[1:], self.size]
        return [self._buffer[self._offsets[i] : ends[i]] for i in picked]
