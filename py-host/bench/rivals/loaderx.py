"""loaderx 0.9.4."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import loaderx.converter
import loaderx.dataset
import loaderx.zrecord
import numpy as np
import numpy.typing as npt

from rivals import Indices, Reader, Rows

PACKAGES = ("loaderx",)


def write(folder: Path, rows: Rows, codec: str, **_: Any) -> None:
    loaderx.converter.from_numpy(str(folder), np.asarray(rows), codec)


def open(folder: Path, rows: Rows, codec: str, **_: Any) -> Reader:
    return _Store(str(folder), rows.shape[1])


class _Store(Reader):
    def __init__(self, folder: str, record_bytes: int) -> None:
        self._dataset = loaderx.dataset.DenseDataset(folder)
        self._store = loaderx.zrecord.Zrecord(folder)
        self._record_bytes = np.uint64(record_bytes)
        self._offsets = np.empty(0, np.uint64)

    def gather(self, idx: Indices) -> npt.NDArray[Any]:
        return self._dataset[idx]

    def into(self, idx: Indices, out: Rows) -> None:
        if len(self._offsets) != len(idx):
            self._offsets = np.arange(len(idx), dtype=np.uint64) * self._record_bytes
        self._store.gather(idx, out, self._offsets)

    def close(self) -> None:
        self._dataset.close()
        self._store.close()
