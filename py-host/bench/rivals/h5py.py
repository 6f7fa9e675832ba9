"""HDF5: plain, or chunked and gzipped."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import numpy.typing as npt

from rivals import Indices, Reader, Rows, rows_per_chunk, sorted_unique

PACKAGES = ("h5py",)


def write(folder: Path, rows: Rows, codec: str, **_: Any) -> None:
    folder.mkdir()
    options: dict[str, Any] = {}
    if codec != "raw":
        options["chunks"] = (rows_per_chunk(rows.shape[1]), rows.shape[1])
        options["compression"] = "gzip"
    with h5py.File(folder / "rows.h5", "w") as file:
        file.create_dataset("rows", data=rows, **options)


def open_store(folder: Path, rows: Rows, codec: str, **_: Any) -> Reader:
    return _File(folder / "rows.h5")


class _File(Reader):
    def __init__(self, path: Path) -> None:
        self._file = h5py.File(path, "r")
        self._rows: Any = self._file["rows"]

    def gather(self, idx: Indices) -> npt.NDArray[Any]:
        unique, back = sorted_unique(idx)
        batch: npt.NDArray[Any] = self._rows[unique][back]
        return batch

    def close(self) -> None:
        self._file.close()
