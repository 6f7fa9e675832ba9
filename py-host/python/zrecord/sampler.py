"""Which records come next: a pure function of ``(seed, step)``."""

from __future__ import annotations

import enum
from collections.abc import Iterator
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from . import _native
from ._settings import unsigned
from .errors import InvalidArgumentError

__all__ = ["Mode", "Sampler"]


class Mode(enum.IntEnum):
    """How a sampler walks over the records."""

    SEQUENTIAL = 0
    """In order, round and round."""
    IID = 1
    """Uniformly, with replacement."""
    CYCLIC = 2
    """Without replacement: each cycle walks a fresh permutation, in full batches."""


def as_mode(mode: int | str) -> Mode:
    """Returns the mode of that number or name, in any case."""
    try:
        return Mode[mode.upper()] if isinstance(mode, str) else Mode(mode)
    except (KeyError, ValueError):
        names = ", ".join(f"{m.value} or {m.name.lower()!r}" for m in Mode)
        raise InvalidArgumentError(f"mode is {mode!r}; it is {names}") from None


SamplerMode: TypeAlias = Mode
"""The same, where ``Sampler.Mode`` would be meant."""


class Sampler:
    """An endless stream of index batches, with constant-time access to any step.

    Args:
        length: the number of records, at least 1.
        batch_size: indices per batch and rank.
        mode: a :class:`Mode`, its number or its name.
        seed: any number of 64 bits.
        rank: which part of each global batch is ours.
        world_size: how many ranks share a global batch of
            ``batch_size * world_size`` indices.

    Raises:
        InvalidArgumentError: a ``ValueError``; an argument out of its range, or
            a cyclic global batch larger than ``length``.

    Safe to use from any number of threads: each ``next`` takes another step.
    """

    Mode = Mode

    def __init__(
        self,
        length: int,
        batch_size: int,
        mode: int | str,
        seed: int = 42,
        *,
        rank: int = 0,
        world_size: int = 1,
    ) -> None:
        unsigned(length=length, batch_size=batch_size, seed=seed, rank=rank, world_size=world_size)
        self._args = (length, batch_size, as_mode(mode), seed, rank, world_size)
        self._native = _native.Sampler(
            length, batch_size, int(as_mode(mode)), seed, rank, world_size
        )

    @property
    def length(self) -> int:
        """The number of records."""
        return self._args[0]

    @property
    def batch_size(self) -> int:
        """Indices per batch and rank."""
        return self._args[1]

    @property
    def mode(self) -> SamplerMode:
        """How it walks over the records."""
        return self._args[2]

    @property
    def seed(self) -> int:
        """The seed."""
        return self._args[3]

    @property
    def rank(self) -> int:
        """Which part of each global batch is ours."""
        return self._args[4]

    @property
    def world_size(self) -> int:
        """How many ranks share a global batch."""
        return self._args[5]

    @property
    def step(self) -> int:
        """The step of the batch that ``next`` returns."""
        return self._native.step

    def next(self) -> npt.NDArray[np.uint64]:
        """Returns the indices of this step, ``(batch_size,)`` uint64, and moves on."""
        return self._native.next()

    def at(self, step: int) -> npt.NDArray[np.uint64]:
        """Returns the indices of ``step``, ``(batch_size,)`` uint64; the position stays."""
        unsigned(step=step)
        return self._native.at(step)

    def seek(self, step: int) -> None:
        """Goes to ``step``, counted from 0, in constant time."""
        unsigned(step=step)
        self._native.seek(step)

    def __iter__(self) -> Iterator[npt.NDArray[np.uint64]]:
        return self

    def __next__(self) -> npt.NDArray[np.uint64]:
        return self._native.next()

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore, (*self._args, self.step)

    def __repr__(self) -> str:
        length, batch_size, mode, seed, rank, world_size = self._args
        ranks = f", rank={rank}, world_size={world_size}" if world_size != 1 else ""
        return (
            f"Sampler(length={length}, batch_size={batch_size}, mode={mode.name.lower()!r}, "
            f"seed={seed}{ranks}) at step {self.step}"
        )


def _restore(
    length: int, batch_size: int, mode: int, seed: int, rank: int, world_size: int, step: int
) -> Sampler:
    sampler = Sampler(length, batch_size, mode, seed, rank=rank, world_size=world_size)
    sampler.seek(step)
    return sampler
