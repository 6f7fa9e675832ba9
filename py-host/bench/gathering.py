"""Random batches of one store, in its contender's process."""

from __future__ import annotations

import gc
import importlib
import time
from pathlib import Path
from typing import Any

import memory
import numpy as np
import numpy.typing as npt
from rivals import Indices, Reader, Rows

PAGE = 4096
ALIGNMENT = 64
BADLY_ALIGNED = 16
"""Where ``malloc`` puts large arrays: so many bytes behind the begin of a page."""
TURN_SECONDS = 0.1
"""A turn ends after this, with its batch at least."""


class Gathering:
    """A store of one rival: written, opened, asked for batches.

    ``way`` is ``new`` for a batch in an array of its own, ``out`` for one in the
    caller's memory, ``out+16`` for one in memory that is badly aligned.
    """

    def __init__(
        self,
        rival: str,
        folder: Path,
        rows: Path,
        codec: str,
        way: str,
        batch: int,
        options: dict[str, Any],
    ) -> None:
        self._rival: Any = importlib.import_module(f"rivals.{rival}")
        self.folder, self._codec, self._options = folder, codec, options
        self._rows: Rows = np.load(rows, mmap_mode="r")
        self._way, self._batch = way, batch
        self._reader: Reader | None = None
        self._out: Rows | None = None
        self._held = 0

    def write(self) -> None:
        """Makes the store, unless another contender of this rival has."""
        if not self.folder.exists():
            self._rival.write(self.folder, self._rows, self._codec, **self._options)

    def begin(self, idx: Indices) -> float:
        """The seconds of opening the store and of the first batch."""
        gc.collect()
        self._held = memory.held()
        if self._way != "new":
            # Also where another process has just read the store: warm memory.
            self._out = aligned(self._batch, self._rows.shape[1], self._way == "out+16")
        started = time.perf_counter()
        self._open()
        batch = self._gather(idx)
        elapsed = time.perf_counter() - started
        self._compare(batch, idx)
        return elapsed

    def check(self, batches: list[Indices]) -> None:
        """Compares batches with the rows that were written."""
        for idx in batches:
            if self._out is not None:
                self._out.fill(0xA5)
            self._compare(self._gather(idx), idx)

    def turn(self, batches: list[Indices]) -> list[float]:
        """The seconds of each batch."""
        seconds: list[float] = []
        deadline = time.perf_counter() + TURN_SECONDS
        for idx in batches:
            started = time.perf_counter()
            batch = self._gather(idx)
            ended = time.perf_counter()
            del batch
            seconds.append(ended - started)
            if ended > deadline:
                break
        return seconds

    def memory(self) -> float:
        """The bytes of its own that it has taken since it was opened."""
        return max(0, memory.held() - self._held)

    def close(self) -> None:
        if self._reader is not None:
            self._reader.close()
        self._reader = self._out = None

    def reopen(self) -> None:
        """Closes the store and opens it anew."""
        assert self._reader is not None
        self._reader.close()
        self._open()

    def _open(self) -> None:
        self._reader = self._rival.open_store(self.folder, self._rows, self._codec, **self._options)

    def _gather(self, idx: Indices) -> npt.NDArray[Any]:
        assert self._reader is not None
        if self._out is None:
            return self._reader.gather(idx)
        out = self._out if len(idx) == len(self._out) else self._out[: len(idx)]
        self._reader.into(idx, out)
        return out

    def _compare(self, batch: npt.NDArray[Any], idx: Indices) -> None:
        if not np.array_equal(batch, self._rows[idx]):
            raise ValueError(f"wrong rows for {idx[:3].tolist()}...")


def aligned(rows: int, row_bytes: int, badly: bool = False) -> Rows:
    """Memory for a batch that begins at a page, or a little behind one."""
    size = rows * row_bytes
    block = np.zeros(size + 2 * PAGE, np.uint8)
    start = -block.ctypes.data % PAGE + (BADLY_ALIGNED if badly else 0)
    return block[start : start + size].reshape(rows, row_bytes)
