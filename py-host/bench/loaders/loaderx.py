"""loaderx 0.9.4."""

from __future__ import annotations

from pathlib import Path

import loaderx.converter
import numpy as np
from loaderx.dataloader import DataLoader
from loaderx.dataset import DenseDataset

from loaders import Loader, Rows, Settings, transform

PACKAGES = ("loaderx",)
CYCLIC = 2


def write(folder: Path, rows: Rows) -> None:
    loaderx.converter.from_numpy(str(folder), np.asarray(rows), "raw")


def open_loader(folder: Path, rows: Rows, settings: Settings) -> Loader:
    return _Loader(str(folder), settings)


class _Loader(Loader):
    def __init__(self, folder: str, settings: Settings) -> None:
        streams = {f"stream {number}": DenseDataset(folder) for number in range(settings.streams)}
        options = {"transform": _transform} if settings.transforms else {}
        self._loader = DataLoader(
            streams, settings.workers, settings.batch, settings.prefetch, CYCLIC, **options
        )
        super().__init__(iter(self._loader))

    def close(self) -> None:
        self._loader.close()


def _transform(batch: dict[str, Rows]) -> dict[str, Rows]:
    return {name: transform(rows) for name, rows in batch.items()}
