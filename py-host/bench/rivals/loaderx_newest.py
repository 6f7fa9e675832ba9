"""loaderx's newest release, out of a folder of its own."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from loaderx import Allocator
from loaderx.zrecord import DenseStore, DenseWriter, train_dict

from rivals import Indices, Reader, Rows

PACKAGES = ("loaderx",)
BLOCK_BYTES = 64 << 20
SAMPLE_ROWS = 8192
"""Its dictionary is trained on a store that is there, here one of so many rows."""


def prepare(template: Path, rows: Rows, **_: Any) -> None:
    template.write_bytes(_dictionary(template, rows))


def write(folder: Path, rows: Rows, codec: str, *, template: Path | None = None, **_: Any) -> None:
    if template is not None:
        dictionary: bytes | None = template.read_bytes()
    else:
        dictionary = _dictionary(folder, rows) if codec == "zstd_dict" else None
    step = max(1, BLOCK_BYTES // rows.shape[1])
    with DenseWriter(
        folder, np.uint8, rows.shape[1:], codec=codec, dict_bytes=dictionary
    ) as writer:
        for start in range(0, len(rows), step):
            # It takes no array that is read-only.
            writer.append(np.array(rows[start : start + step]))


def _dictionary(folder: Path, rows: Rows) -> bytes:
    sample = folder.with_name(folder.name + "-sample")
    write(sample, rows[:: max(1, len(rows) // SAMPLE_ROWS)], "raw")
    with DenseStore(sample) as store, Allocator("cpu") as allocator:
        trained: bytes = train_dict(store.bind(allocator))
    shutil.rmtree(sample)
    return trained


def open_store(folder: Path, rows: Rows, codec: str, **_: Any) -> Reader:
    return _View(folder)


class _View(Reader):
    def __init__(self, folder: Path) -> None:
        self._store = DenseStore(folder)
        self._allocator = Allocator("cpu")
        self._view = self._store.bind(self._allocator)

    def gather(self, idx: Indices) -> npt.NDArray[Any]:
        batch: npt.NDArray[Any] = np.from_dlpack(self._view.__getitems__(idx))
        return batch

    def close(self) -> None:
        self._store.close()
        self._allocator.close()
