"""LMDB: a key for each index, one transaction for all."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import lmdb
import numpy as np
import numpy.typing as npt

from rivals import Indices, Reader, Rows

PACKAGES = ("lmdb",)
BLOCK = 1 << 14
KEY = struct.Struct(">Q")


def write(folder: Path, rows: Rows, codec: str, *, sync: bool = False, **_: Any) -> None:
    size = 4 * rows.nbytes + (64 << 20)
    with lmdb.open(str(folder), map_size=size, sync=sync, readahead=False) as environment:
        for start in range(0, len(rows), BLOCK):
            block = enumerate(rows[start : start + BLOCK], start)
            with environment.begin(write=True) as transaction:
                transaction.cursor().putmulti(
                    ((KEY.pack(index), row.data) for index, row in block), append=True
                )


def open_store(folder: Path, rows: Rows, codec: str, **_: Any) -> Reader:
    return _Environment(str(folder), rows.shape[1])


class _Environment(Reader):
    def __init__(self, folder: str, record_bytes: int) -> None:
        self._environment = lmdb.open(folder, readonly=True, lock=False, readahead=False)
        # Values are lent where they lie in the map.
        self._transaction = self._environment.begin(buffers=True)
        self._record_bytes = record_bytes

    def gather(self, idx: Indices) -> npt.NDArray[Any]:
        out = np.empty((len(idx), self._record_bytes), np.uint8)
        self.into(idx, out)
        return out

    def into(self, idx: Indices, out: Rows) -> None:
        get, key, size = self._transaction.get, KEY.pack, self._record_bytes
        flat = out.data.cast("B")
        for position, index in enumerate(idx.tolist()):
            flat[position * size : (position + 1) * size] = get(key(index))

    def close(self) -> None:
        self._transaction.abort()
        self._environment.close()
