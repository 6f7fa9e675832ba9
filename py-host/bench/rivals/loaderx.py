"""loaderx 0.9.4."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import loaderx.converter
import loaderx.dataset
import numpy as np
import numpy.typing as npt
from loaderx.zrecord import Zrecord

from rivals import Indices, Reader, Rows, Untyped, blocks, train

PACKAGES = ("loaderx",)
DICTIONARY = "dict.zr"


def write(folder: Path, rows: Rows, codec: str, **_: Any) -> None:
    loaderx.converter.from_numpy(str(folder), np.asarray(rows), codec)


def prepare(template: Path, rows: Rows, *, dict_size: int | None = None, **_: Any) -> None:
    store = Zrecord(str(template), "zstd_dict")
    train(store, rows, dict_size)
    store.close()


def create(folder: Path, codec: str, *, template: Path | None = None, **_: Any) -> Any:
    if template is not None:
        folder.mkdir()
        shutil.copy(template / DICTIONARY, folder)
    return Zrecord(str(folder), codec)


def append(store: Any, rows: Rows, sync: bool) -> None:
    for block, offsets in blocks(rows):
        store.append(block, offsets)
    if sync:
        store.sync()


def open_store(folder: Path, rows: Rows, codec: str, *, typed: bool = True, **_: Any) -> Reader:
    untyped = Untyped(Zrecord(str(folder)), rows.shape[1])
    return _Typed(str(folder), untyped) if typed else untyped


class _Typed(Reader):
    def __init__(self, folder: str, untyped: Untyped) -> None:
        self._dataset = loaderx.dataset.DenseDataset(folder)
        self._untyped = untyped

    def gather(self, idx: Indices) -> npt.NDArray[Any]:
        batch: npt.NDArray[Any] = self._dataset[idx]
        return batch

    def into(self, idx: Indices, out: Rows) -> None:
        self._untyped.into(idx, out)

    def close(self) -> None:
        self._dataset.close()
        self._untyped.close()
