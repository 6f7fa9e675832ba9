"""Ours; and as the limit of a loader, bare gathers into as many rotating buffers."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import zrecord as zr
from gathering import aligned

from loaders import Loader, Rows, Settings, transform

PACKAGES = ("zrecord",)


def write(folder: Path, rows: Rows) -> None:
    zr.from_numpy(folder, rows, "raw")


def open_loader(folder: Path, rows: Rows, settings: Settings) -> Loader:
    datasets = [zr.DenseDataset(folder) for _ in range(settings.streams)]
    if settings.way == "bare":
        return Loader(_bare(datasets, rows.shape[1], settings))
    return _Loader(datasets, settings)


class _Loader(Loader):
    def __init__(self, datasets: list[zr.DenseDataset], settings: Settings) -> None:
        self._loader = zr.DataLoader(
            {f"stream {number}": dataset for number, dataset in enumerate(datasets)},
            settings.workers,
            settings.batch,
            settings.prefetch,
            "cyclic",
            transform=_transform if settings.transforms else None,
        )
        super().__init__(self._loader)

    def close(self) -> None:
        self._loader.close()


def _transform(batch: dict[str, Rows]) -> dict[str, Rows]:
    return {name: transform(rows) for name, rows in batch.items()}


def _bare(datasets: list[zr.DenseDataset], row_bytes: int, settings: Settings) -> Iterator[Any]:
    # One that the consumer holds, and as many as are made ahead.
    count = settings.prefetch + 1
    sampler = zr.Sampler(len(datasets[0]), settings.batch, "cyclic")
    buffers = [[aligned(settings.batch, row_bytes) for _ in datasets] for _ in range(count)]
    for buffer in itertools.cycle(buffers):
        idx = sampler.next()
        batch = {
            f"stream {number}": dataset.gather(idx, out=out)
            for number, (dataset, out) in enumerate(zip(datasets, buffer, strict=True))
        }
        yield _transform(batch) if settings.transforms else batch
