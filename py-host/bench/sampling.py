"""Batches of indices, in their contender's process."""

from __future__ import annotations

import importlib
import time

import numpy as np

CALLS_CHECKED = 64
TURN_SECONDS = 0.02


class Sampling:
    """A sampler of one contender."""

    def __init__(self, contender: str, length: int, batch: int, mode: str) -> None:
        module = importlib.import_module(f"samplers.{contender}")
        self._length, self._batch = length, batch
        self._draws = module.open_sampler(length, batch, mode)
        self._calls = self._draws.calls

    def check(self) -> None:
        """Looks at batches: their size, their range, and that none repeats."""
        calls = min(CALLS_CHECKED, self._length // self._batch)
        batches = [np.array(self._draws.draw()) for _ in range(calls)]
        if any(len(batch) != self._batch for batch in batches):
            raise ValueError("a batch has another size")
        drawn = np.concatenate(batches)
        if int(drawn.min()) < 0 or int(drawn.max()) >= self._length:
            raise ValueError(f"an index is not below {self._length}")
        if not self._draws.repeats and len(np.unique(drawn)) != len(drawn):
            raise ValueError("an index came twice in a cycle")

    def turn(self, _: object) -> list[float]:
        """The seconds of a batch: the mean of as many as fill a turn."""
        calls: int = self._calls or self._fitting_calls()
        draw = self._draws.draw
        started = time.perf_counter()
        for _call in range(calls):
            draw()
        return [(time.perf_counter() - started) / calls]

    def close(self) -> None:
        """Nothing is open."""

    def _fitting_calls(self) -> int:
        calls, elapsed = 1, 0.0
        while elapsed < TURN_SECONDS / 4:
            calls *= 2
            started = time.perf_counter()
            for _call in range(calls):
                self._draws.draw()
            elapsed = time.perf_counter() - started
        fitting = max(1, int(calls * TURN_SECONDS / elapsed))
        self._calls = fitting
        return fitting
