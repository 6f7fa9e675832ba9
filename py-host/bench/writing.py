"""Writing one store after another, in its contender's process."""

from __future__ import annotations

import importlib
import os
import time
from pathlib import Path
from typing import Any

import memory
import numpy as np


class Writing:
    """A way of writing rows that are in memory.

    Typed, a rival's ``write`` does it. Untyped, its ``append(store, rows, sync)``
    does, to the new store that its ``create(folder, codec, **options)`` has
    returned before; where it has none, again ``write``, and its files are synced
    one by one. With a ``template``, its ``prepare`` trains a dictionary into that
    before anything is timed.
    """

    def __init__(
        self, rival: str, rows: Path, codec: str, sync: bool, options: dict[str, Any]
    ) -> None:
        self._rival: Any = importlib.import_module(f"rivals.{rival}")
        self._rows = np.load(rows)
        self._codec, self._sync = codec, sync
        self._options = {"typed": False, **options}
        template = self._options.get("template")
        if template is not None:
            self._rival.prepare(rows=self._rows, **options)
        self._peak = 0

    def turn(self, folder: Path) -> list[float]:
        """The seconds of writing all rows into ``folder``, which is new."""
        memory.forget_peak()
        before = memory.resident()
        appends = not self._options["typed"] and hasattr(self._rival, "append")
        store = self._rival.create(folder, self._codec, **self._options) if appends else None
        started = time.perf_counter()
        if appends:
            self._rival.append(store, self._rows, self._sync)
        else:
            self._write(folder)
        elapsed = time.perf_counter() - started
        self._peak = max(self._peak, memory.peak() - before)
        if store is not None:
            store.close()
        return [elapsed]

    def _write(self, folder: Path) -> None:
        self._rival.write(folder, self._rows, self._codec, **self._options)
        if self._sync:
            sync_files(folder)

    def check(self, folder: Path) -> None:
        """Reads back what was written."""
        reader = self._rival.open_store(folder, self._rows, self._codec, **self._options)
        for start in range(0, len(self._rows), 256):
            idx = np.arange(start, min(start + 256, len(self._rows)))
            if not np.array_equal(reader.gather(idx), self._rows[idx]):
                raise ValueError(f"wrong rows among those from {start} on")
        reader.close()

    def peak(self) -> float:
        """The most bytes that a write took beside the rows."""
        return self._peak


def sync_files(folder: Path) -> None:
    """Makes a folder's files durable, and their names."""
    for path in [*folder.rglob("*"), folder]:
        descriptor = os.open(path, os.O_RDONLY)
        os.fsync(descriptor)
        os.close(descriptor)
