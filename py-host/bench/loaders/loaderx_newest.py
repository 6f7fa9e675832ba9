"""loaderx's newest release, out of a folder of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import rivals.loaderx_newest
from loaderx import Allocator
from loaderx import Loader as TheirLoader
from loaderx.sampler import Sampler
from loaderx.zrecord import DenseStore

from loaders import Loader, Rows, Settings, transform

PACKAGES = ("loaderx",)


def write(folder: Path, rows: Rows) -> None:
    rivals.loaderx_newest.write(folder, rows, "raw")


def open_loader(folder: Path, rows: Rows, settings: Settings) -> Loader:
    return _Loader(folder, settings)


class _Loader(Loader):
    def __init__(self, folder: Path, settings: Settings) -> None:
        self._stores = [DenseStore(folder) for _ in range(settings.streams)]
        self._allocator = Allocator("cpu")
        views = [store.bind(self._allocator) for store in self._stores]
        options = {"transform": _transform} if settings.transforms else {}
        self._loader = TheirLoader(
            {f"stream {number}": [view] for number, view in enumerate(views)},
            Sampler(len(views[0]), settings.batch, Sampler.Mode.CYCLIC),
            workers=settings.workers,
            prefetch=settings.prefetch,
            **options,
        )
        super().__init__(iter(self._loader))

    def arrays(self, batch: Any) -> list[Rows]:
        return [_rows(value) for value in batch[0].values()]

    def close(self) -> None:
        self._loader.close()


def _transform(shards: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{name: transform(_rows(value)) for name, value in shard.items()} for shard in shards]


def _rows(value: Any) -> Rows:
    rows: Any = np.from_dlpack(value)
    return np.asarray(rows, np.uint8)
