"""Ours."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy.typing as npt
import zrecord as zr

from rivals import Indices, Reader, Rows, Untyped, blocks, train

PACKAGES = ("zrecord",)


def write(
    folder: Path,
    rows: Rows,
    codec: str,
    *,
    format: str = "extended",
    min_saving: float | None = None,
    level: int | None = None,
    dict_size: int | None = None,
    **_: Any,
) -> None:
    zr.from_numpy(
        folder,
        rows,
        codec,
        dict_size=dict_size,
        format=format,
        level=level,
        min_saving=min_saving,
    )


def prepare(template: Path, rows: Rows, *, dict_size: int | None = None, **_: Any) -> None:
    with zr.Zrecord(template, "zstd_dict", mode="x") as store:
        train(store, rows, dict_size)


def create(
    folder: Path,
    codec: str,
    *,
    min_saving: float | None = None,
    level: int | None = None,
    template: Path | None = None,
    **_: Any,
) -> zr.Zrecord:
    if template is not None:
        shutil.copytree(template, folder)
    return zr.Zrecord(folder, codec, mode="a", level=level, min_saving=min_saving)


def append(store: zr.Zrecord, rows: Rows, sync: bool) -> None:
    for block, offsets in blocks(rows):
        store.append(block, offsets)
    if sync:
        store.sync()


def open_store(
    folder: Path,
    rows: Rows,
    codec: str,
    *,
    verify: str = "first",
    io: str = "map",
    typed: bool = True,
    **_: Any,
) -> Reader:
    if not typed:
        return Untyped(zr.Zrecord(folder, mode="r"), rows.shape[1])
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
