"""Whoever keeps records: one module each, named as the package it uses.

A module has ``PACKAGES``, the names under which its packages are installed;
``write(folder, rows, codec, **options)``, which makes a new store of it; and
``open(folder, rows, codec, **options)``, which returns a :class:`Reader`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Indices = npt.NDArray[np.int64]
Rows = npt.NDArray[np.uint8]


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


def joined(records: list[bytes], record_bytes: int) -> Rows:
    """Records that came as bytes, as the rows of a batch."""
    return np.frombuffer(b"".join(records), np.uint8).reshape(-1, record_bytes)


def sorted_unique(idx: Indices) -> tuple[Indices, Indices]:
    """For those that take indices only in order, each once: these, and the way back."""
    return np.unique(idx, return_inverse=True)


def rows_per_chunk(record_bytes: int) -> int:
    """For those that read whole chunks: as few rows as fill a page."""
    return max(1, 4096 // record_bytes)
