"""torch's ``DataLoader``, over our dataset and over a memory map."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
import zrecord as zr
from torch.utils.data import DataLoader, Dataset

from loaders import Loader, Rows, Settings, transform

PACKAGES = ("torch",)


def write(folder: Path, rows: Rows) -> None:
    folder.mkdir()
    zr.from_numpy(folder / "zrecord", rows, "raw")
    np.save(folder / "rows.npy", rows)


def open_loader(folder: Path, rows: Rows, settings: Settings) -> Loader:
    dataset: Any = _Mapped(folder / "rows.npy")
    collate: Any = None
    if settings.way == "zrecord":
        dataset, collate = zr.DenseDataset(folder / "zrecord"), torch.from_numpy
    loader = DataLoader(
        _Streams(dataset, settings) if settings.streams > 1 or settings.transforms else dataset,
        settings.batch,
        shuffle=True,
        num_workers=settings.workers,
        prefetch_factor=settings.prefetch,
        persistent_workers=True,
        drop_last=True,
        collate_fn=_collate if settings.streams > 1 or settings.transforms else collate,
    )
    return Loader(_endless(loader))


def _endless(loader: Any) -> Iterator[Any]:
    while True:
        yield from loader


class _Mapped(Dataset[Any]):  # type: ignore[misc]
    def __init__(self, path: Path) -> None:
        self._rows: Rows = np.load(path, mmap_mode="r")

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, index: int) -> Any:
        # Copied, since a tensor over read-only memory is not allowed.
        return np.array(self._rows[index])


class _Streams(Dataset[Any]):  # type: ignore[misc]
    """Batches of several streams, or transformed, made in one call."""

    def __init__(self, dataset: Any, settings: Settings) -> None:
        self._dataset, self._settings = dataset, settings

    def __len__(self) -> int:
        return len(self._dataset)

    def __getitems__(self, idx: list[int]) -> dict[str, Rows]:
        batch = {f"stream {n}": self._rows(idx) for n in range(self._settings.streams)}
        if not self._settings.transforms:
            return batch
        return {name: transform(rows) for name, rows in batch.items()}

    def _rows(self, idx: list[int]) -> Rows:
        if hasattr(self._dataset, "__getitems__"):
            rows: Rows = self._dataset.__getitems__(idx)
            return rows
        return np.stack([self._dataset[index] for index in idx])


def _collate(batch: dict[str, Rows]) -> dict[str, Any]:
    return {name: torch.from_numpy(rows) for name, rows in batch.items()}
