"""Whoever keeps records: one module each, named as the package it uses.

A module has ``PACKAGES``, the names under which its packages are installed;
``write(folder, rows, codec, **options)``, which makes a new store of it; and
``open_store(folder, rows, codec, **options)``, which returns a :class:`Reader`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

Indices = npt.NDArray[np.int64]
Rows = npt.NDArray[np.uint8]

BLOCK_BYTES = 64 << 20
SAMPLES = 8192
SAMPLE_BYTES = 64 << 20


class Reader:
    """Random batches of a store that is open."""

    def gather(self, idx: Indices) -> npt.NDArray[Any]:
        """The rows of ``idx``, in an array of its own."""
        raise NotImplementedError

    def into(self, idx: Indices, out: Rows) -> None:
        """The rows of ``idx``, in the caller's memory."""
        raise NotImplementedError

    def close(self) -> None:
        """Lets go of the store."""


class Untyped(Reader):
    """A store of loaderx's interface, which ours has too, by its own methods."""

    def __init__(self, store: Any, record_bytes: int) -> None:
        self._store = store
        self._record_bytes = record_bytes
        self._offsets = np.empty(0, np.uint64)

    def gather(self, idx: Indices) -> npt.NDArray[Any]:
        out = np.empty((len(idx), self._record_bytes), np.uint8)
        self.into(idx, out)
        return out

    def into(self, idx: Indices, out: Rows) -> None:
        if len(self._offsets) != len(idx):
            self._offsets = offsets(len(idx), self._record_bytes)
        self._store.gather(idx, out, self._offsets)

    def close(self) -> None:
        self._store.close()


def blocks(rows: Rows) -> Iterator[tuple[Rows, npt.NDArray[np.uint64]]]:
    """Rows in blocks as a converter takes them, and where each row begins."""
    step = max(1, BLOCK_BYTES // rows.shape[1])
    for start in range(0, len(rows), step):
        block = rows[start : start + step]
        yield block, offsets(len(block), rows.shape[1])


def offsets(count: int, record_bytes: int) -> npt.NDArray[np.uint64]:
    """Where each of some records begins that lie one behind the other."""
    return np.arange(count, dtype=np.uint64) * np.uint64(record_bytes)


def train(store: Any, rows: Rows, dict_size: int | None) -> None:
    """Trains a dictionary as both converters do: on rows spread over all."""
    count = min(len(rows), SAMPLES, SAMPLE_BYTES // rows.shape[1])
    samples = rows[np.unique(np.linspace(0, len(rows) - 1, count).astype(np.int64))]
    sizes = np.full(len(samples), rows.shape[1], np.uint64)
    store.train_dict(samples, sizes, dict_size or min(max(samples.size // 100, 8 << 10), 1 << 20))


def joined(records: list[bytes], record_bytes: int) -> Rows:
    """Records that came as bytes, as the rows of a batch."""
    return np.frombuffer(b"".join(records), np.uint8).reshape(-1, record_bytes)


def sorted_unique(idx: Indices) -> tuple[Indices, Indices]:
    """For those that take indices only in order, each once: these, and the way back."""
    return np.unique(idx, return_inverse=True)


def rows_per_chunk(record_bytes: int) -> int:
    """For those that read whole chunks: as few rows as fill a page."""
    return max(1, 4096 // record_bytes)
