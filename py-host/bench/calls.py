"""Small things of ours, many times in one turn, in a contender's process."""

from __future__ import annotations

import functools
import importlib
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import memory
import numpy as np
import zrecord as zr
from gathering import aligned
from rivals import Rows, offsets

CALLS = 256


def mean(calls: list[Callable[[], object]]) -> list[float]:
    """The seconds of a call, as the mean of all of them."""
    started = time.perf_counter()
    for call in calls:
        call()
    return [(time.perf_counter() - started) / len(calls)]


class Tiny:
    """A store of many tiny records, which is opened again and again."""

    def __init__(self, folder: Path, records: int, record_bytes: int) -> None:
        self._folder, self._records = folder, records
        self._record_bytes = record_bytes
        self._grown = 0

    def write(self) -> None:
        """Its records hold their indices."""
        rows = np.arange(self._records, dtype="<u8")[:, None].view(np.uint8)
        zr.from_numpy(self._folder, rows[:, : self._record_bytes], "raw")

    def check(self) -> None:
        """The last record is right."""
        with zr.DenseDataset(self._folder) as dataset:
            last = np.array([self._records - 1], "<u8").view(np.uint8)[: self._record_bytes]
            if len(dataset) != self._records or not np.array_equal(dataset[-1], last):
                raise ValueError("the last record is wrong")

    def turn(self, _: object) -> list[float]:
        """The seconds of opening."""
        before = memory.resident()
        started = time.perf_counter()
        dataset = zr.DenseDataset(self._folder)
        elapsed = time.perf_counter() - started
        self._grown = max(self._grown, memory.resident() - before)
        dataset.close()
        return [elapsed]

    def memory(self) -> float:
        """What an open store has taken in memory, mapped files counted."""
        return self._grown


class Single:
    """One record after the other: ``ds[i]``."""

    def __init__(self, rival: str, folder: Path, rows: Path) -> None:
        module: Any = importlib.import_module(f"rivals.{rival}")
        self._rows: Rows = np.load(rows)
        if not folder.exists():
            module.write(folder, self._rows, "raw")
        packages = {"zrecord": "zrecord.dataset", "loaderx": "loaderx.dataset"}
        if rival in packages:
            dataset = importlib.import_module(packages[rival]).DenseDataset
            self._items: Any = dataset(str(folder))
        else:
            self._items = np.load(folder / "rows.npy", mmap_mode="r")
        self._copies = rival not in packages

    def check(self) -> None:
        for index in range(min(1000, len(self._rows))):
            if not np.array_equal(self._items[index], self._rows[index]):
                raise ValueError(f"record {index} is wrong")

    def turn(self, indices: list[int]) -> list[float]:
        """The seconds of a record."""
        items = self._items
        started = time.perf_counter()
        if self._copies:
            for index in indices:
                items[index].copy()
        else:
            for index in indices:
                items[index]
        return [(time.perf_counter() - started) / len(indices)]

    def turn_of_copies(self, indices: list[int]) -> list[float]:
        """The seconds of copying a record that is at hand into memory that is."""
        records = [self._rows[index] for index in indices]
        out = aligned(1, self._rows.shape[1])[0]
        return mean([functools.partial(np.copyto, out, record) for record in records])


class Chunks:
    """A raw store in several chunks, and batches of one record from each."""

    def __init__(self, folder: Path, chunks: int) -> None:
        self._store = zr.Zrecord(folder, mode="r")
        records = len(self._store)
        self._idx = np.arange(chunks) * (records // chunks)
        self._record_bytes = int(self._store._native.lengths(self._idx)[0])
        self._out = np.zeros((chunks, self._record_bytes), np.uint8)
        self._offsets = offsets(chunks, self._record_bytes)
        found = len(list(folder.glob("[0-9]*.zr")))
        if found != chunks:
            raise ValueError(f"the store has {found} chunks")

    def check(self) -> None:
        self._store.gather(self._idx, self._out, self._offsets)
        if not bool((self._out == 0x5A).all()):
            raise ValueError("wrong bytes")

    def turn(self, _: object) -> list[float]:
        """The seconds of a batch."""
        store, idx, out, places = self._store, self._idx, self._out, self._offsets
        return mean([lambda: store.gather(idx, out, places)] * CALLS)
