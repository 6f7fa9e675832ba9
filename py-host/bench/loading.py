"""Batches of one loader, in its contender's process."""

from __future__ import annotations

import gc
import importlib
import time
from pathlib import Path
from typing import Any

import memory
import numpy as np
from loaders import Loader, Settings, transform
from rivals import Rows
from workloads import stamps

CHECKED_BATCHES = 16
BATCHES = 64
TURN_SECONDS = 0.25


class Loading:
    """A loader: opened, checked, asked for batches."""

    def __init__(self, loader: str, folder: Path, rows: Path, settings: dict[str, Any]) -> None:
        self._module: Any = importlib.import_module(f"loaders.{loader}")
        self._folder = folder
        self._rows: Rows = np.load(rows, mmap_mode="r")
        self._settings = Settings(**settings)
        self._loader: Loader | None = None
        self._held = 0

    def write(self) -> None:
        """Makes what it loads from, unless it is there."""
        if not self._folder.exists():
            self._module.write(self._folder, self._rows)

    def begin(self) -> float:
        """The seconds of opening it and of its first batch."""
        gc.collect()
        self._held = memory.held()
        started = time.perf_counter()
        self._loader = self._module.open_loader(self._folder, self._rows, self._settings)
        self._loader.next()
        return time.perf_counter() - started

    def check(self) -> None:
        """Compares batches with the rows that were written."""
        assert self._loader is not None
        for _ in range(CHECKED_BATCHES):
            arrays = self._loader.arrays(self._loader.next())
            if len(arrays) != self._settings.streams:
                raise ValueError(f"{len(arrays)} streams came")
            for rows in arrays:
                self._compare(transform(rows) if self._settings.transforms else rows)

    def _compare(self, rows: Rows) -> None:
        if rows.shape != (self._settings.batch, self._rows.shape[1]):
            raise ValueError(f"a batch has the shape {rows.shape}")
        idx = stamps(rows)
        if idx.max() >= len(self._rows) or not np.array_equal(rows, self._rows[idx]):
            raise ValueError("wrong rows")

    def memory(self) -> float:
        """The bytes that it has taken since it was opened, in this process."""
        return max(0, memory.held() - self._held)

    def turn(self, _: object) -> list[float]:
        """The seconds of a batch, as the mean of many.

        What was made ahead before this turn is taken first and not counted.
        """
        assert self._loader is not None
        following = self._loader.next
        for _ahead in range(2 * (self._settings.prefetch + self._settings.workers)):
            following()
        started = time.perf_counter()
        count, elapsed = 0, 0.0
        while count < BATCHES and elapsed < TURN_SECONDS:
            following()
            count += 1
            elapsed = time.perf_counter() - started
        return [elapsed / count]

    def close(self) -> None:
        if self._loader is not None:
            self._loader.close()
        self._loader = None
