"""bagz."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import bagz
import numpy.typing as npt

from rivals import Indices, Reader, Rows, joined

PACKAGES = ("bagz",)


def write(folder: Path, rows: Rows, codec: str, **_: Any) -> None:
    folder.mkdir()
    compression = bagz.CompressionNone() if codec == "raw" else bagz.CompressionZstd(3)
    writer = bagz.Writer(_name(folder), bagz.Writer.Options(compression=compression))
    for row in rows:
        writer.write(row.tobytes())
    writer.close()


def open_store(folder: Path, rows: Rows, codec: str, **_: Any) -> Reader:
    compression = bagz.CompressionNone() if codec == "raw" else bagz.CompressionZstd()
    return _File(_name(folder), bagz.Reader.Options(compression=compression), rows.shape[1])


def _name(folder: Path) -> str:
    return str(folder / "rows.bagz")


class _File(Reader):
    def __init__(self, name: str, options: Any, record_bytes: int) -> None:
        self._reader = bagz.Reader(name, options)
        self._record_bytes = record_bytes

    def gather(self, idx: Indices) -> npt.NDArray[Any]:
        return joined(self._reader.read_indices(idx), self._record_bytes)
