"""Blosc2's NDArray on disk."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import blosc2
import numpy.typing as npt

from rivals import Indices, Reader, Rows, rows_per_chunk, sorted_unique

PACKAGES = ("blosc2",)


def write(folder: Path, rows: Rows, codec: str, **_: Any) -> None:
    folder.mkdir()
    shape = (rows_per_chunk(rows.shape[1]), rows.shape[1])
    parameters: dict[str, Any] = {"clevel": 0, "nthreads": 1}
    if codec != "raw":
        parameters = {"codec": blosc2.Codec.ZSTD, "clevel": 3, "nthreads": 1}
    blosc2.asarray(
        rows, urlpath=str(folder / "rows.b2nd"), chunks=shape, blocks=shape, cparams=parameters
    )


def open_store(folder: Path, rows: Rows, codec: str, **_: Any) -> Reader:
    return _Array(blosc2.open(str(folder / "rows.b2nd"), mode="r"))


class _Array(Reader):
    def __init__(self, array: Any) -> None:
        self._array = array

    def gather(self, idx: Indices) -> npt.NDArray[Any]:
        unique, back = sorted_unique(idx)
        batch: npt.NDArray[Any] = self._array[unique][back]
        return batch
