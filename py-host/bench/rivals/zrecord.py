"""Ours."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy.typing as npt
import zrecord as zr

from rivals import Indices, Reader, Rows

PACKAGES = ("zrecord",)


def write(
    folder: Path,
    rows: Rows,
    codec: str,
    *,
    format: str = "extended",
    min_saving: float | None = None,
    **_: Any,
) -> None:
    zr.from_numpy(folder, rows, codec, format=format, min_saving=min_saving)


def open(
    folder: Path, rows: Rows, codec: str, *, verify: str = "first", io: str = "map", **_: Any
) -> Reader:
    return _Dataset(zr.DenseDataset(folder, verify=verify, io=io))


class _Dataset(Reader):
    def __init__(self, dataset: zr.DenseDataset) -> None:
        self._dataset = dataset

    def gather(self, idx: Indices) -> npt.NDArray[Any]:
        return self._dataset.gather(idx)

    def into(self, idx: Indices, out: Rows) -> None:
        self._dataset.gather(idx, out=out)

    def close(self) -> None:
        self._dataset.close()
