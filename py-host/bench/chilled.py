"""Batches of a store that is cold, in its contender's process."""

from __future__ import annotations

from typing import Any

from gathering import Gathering
from pagecache import release_mappings
from rivals import Indices


class Chilled(Gathering):
    """As :class:`Gathering`, but lets go of mapped pages after each turn."""

    def __init__(self, anew: bool, **arguments: Any) -> None:
        """``anew`` opens the store anew for each turn: its first pass, always."""
        super().__init__(**arguments)
        self._anew = anew

    def check(self, batches: list[Indices]) -> None:
        super().check(batches)
        self.release()

    def turn(self, batches: list[Indices]) -> list[float]:
        if self._anew:
            self.reopen()
        try:
            return super().turn(batches)
        finally:
            self.release()

    def release(self) -> None:
        """Makes it possible to drop the store's pages."""
        release_mappings(self.folder)
