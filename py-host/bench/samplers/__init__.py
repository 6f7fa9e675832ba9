"""Whoever says which records come next: one module each.

A module has ``PACKAGES`` as a rival has, and ``open_sampler(length, batch, mode)``,
which returns a :class:`Draws`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass
class Draws:
    """Batches of indices without end."""

    draw: Callable[[], Any]
    """The next batch: an array or a list of indices."""
    calls: int = 0
    """A turn that makes sense has so many calls; 0 if any number does."""
    repeats: bool = True
    """Whether one index may come twice in a cycle."""
