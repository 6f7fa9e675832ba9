"""Whoever makes batches ahead: one module each.

A module has ``PACKAGES`` as a rival has; ``write(folder, rows)``, which makes
what it loads from; and ``open_loader(folder, rows, settings)``, which returns a
:class:`Loader`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Rows = npt.NDArray[np.uint8]


@dataclass(frozen=True)
class Settings:
    """What all loaders are asked for."""

    batch: int
    workers: int
    prefetch: int
    streams: int
    """How many streams a batch has; all of the same rows."""
    transforms: bool
    """Whether each batch goes through :func:`transform`."""
    way: str = ""
    """Which of the ways that a loader has."""


class Loader:
    """Batches without end."""

    def __init__(self, batches: Iterator[Any]) -> None:
        self._batches = batches

    def next(self) -> Any:
        """The next batch, in whatever form it comes."""
        return next(self._batches)

    def arrays(self, batch: Any) -> list[Rows]:
        """The rows of each stream of a batch."""
        values = list(batch.values()) if isinstance(batch, dict) else [batch]
        return [np.asarray(value) for value in values]

    def close(self) -> None:
        """Ends whatever it has begun."""


def transform(rows: Rows) -> Rows:
    """What a batch goes through: cheap, without the interpreter's lock, and undone by itself."""
    return np.invert(rows)
