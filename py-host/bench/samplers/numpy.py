"""NumPy's generators."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from samplers import Draws

PACKAGES = ("numpy",)


def open_sampler(length: int, batch: int, mode: str) -> Draws:
    if mode == "randint":
        return Draws(lambda: np.random.randint(0, length, batch))
    generator = np.random.default_rng(1)
    if mode == "integers":
        return Draws(lambda: generator.integers(0, length, batch))
    permutation = _Permutation(generator, length, batch)
    return Draws(permutation.draw, permutation.batches, repeats=False)


class _Permutation:
    """Slices of a permutation, which is made anew for each cycle."""

    def __init__(self, generator: np.random.Generator, length: int, batch: int) -> None:
        self.batches = length // batch
        self._generator, self._length, self._batch = generator, length, batch
        self._indices = np.empty(0, np.int64)
        self._position = self.batches

    def draw(self) -> npt.NDArray[np.int64]:
        if self._position == self.batches:
            self._indices = self._generator.permutation(self._length)
            self._position = 0
        start = self._position * self._batch
        self._position += 1
        return self._indices[start : start + self._batch]
