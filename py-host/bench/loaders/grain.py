"""Grain over a memory map, with threads or with processes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import grain
import numpy as np

from loaders import Loader, Rows, Settings, transform

PACKAGES = ("grain",)


def write(folder: Path, rows: Rows) -> None:
    folder.mkdir()
    np.save(folder / "rows.npy", rows)


def open_loader(folder: Path, rows: Rows, settings: Settings) -> Loader:
    source = _Source(folder / "rows.npy", settings.streams)
    dataset = grain.MapDataset.source(source).shuffle(seed=1).repeat().batch(settings.batch)
    if settings.transforms:
        dataset = dataset.map(_transform)
    by_processes = settings.way == "processes"
    read = grain.ReadOptions(1 if by_processes else settings.workers, settings.prefetch)
    ahead = dataset.to_iter_dataset(read)
    if by_processes:
        options = grain.MultiprocessingOptions(settings.workers, settings.prefetch)
        ahead = ahead.mp_prefetch(options)
    return Loader(iter(ahead))


class _Source:
    """Rows by index; sent to other processes by its path."""

    def __init__(self, path: Path, streams: int) -> None:
        self._path, self._streams = path, streams
        self._rows: Rows = np.load(path, mmap_mode="r")

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, index: int) -> dict[str, Rows]:
        row = np.asarray(self._rows[index])
        return {f"stream {number}": row for number in range(self._streams)}

    def __reduce__(self) -> tuple[Any, ...]:
        return _Source, (self._path, self._streams)


def _transform(batch: dict[str, Rows]) -> dict[str, Rows]:
    return {name: transform(rows) for name, rows in batch.items()}
