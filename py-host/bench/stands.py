"""Stores of the contenders, opened, checked and ready for their turns."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from limits import Indices, Limit
from session import Session
from tables import Table
from worker import Remote, WorkerError, one_line

CHECKED_BATCHES = 8


@dataclass(frozen=True)
class Entry:
    """A way of asking a store of a rival for batches."""

    label: str
    rival: str
    codec: str = "raw"
    way: str = "new"
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def store(self) -> str:
        """Entries with one name here share one store."""
        written = {key: self.options[key] for key in WRITTEN if key in self.options}
        parts = [self.rival, self.codec, *(f"{key}={value}" for key, value in written.items())]
        return " ".join(parts)


WRITTEN = ("format", "min_saving")
"""The options that a store is written with."""


@dataclass
class Stand:
    """An entry that is open."""

    label: str
    remote: Remote

    def turn(self, payload: Any) -> list[float]:
        seconds: list[float] = self.remote.call("turn", payload)
        return seconds

    def close(self) -> None:
        self.remote.call("close")
        self.remote.drop()


class Stands:
    """Everybody who gathers from one array of rows."""

    def __init__(
        self,
        session: Session,
        table: Table,
        rows: Path,
        batch: int,
        kind: str = "gathering:Gathering",
        arguments: Callable[[Entry], dict[str, Any]] = lambda _: {},
    ) -> None:
        """``kind`` is what is made in the processes, with these arguments more."""
        self._session = session
        self._kind, self._arguments = kind, arguments
        self.table = table
        self.rows_path = rows
        self.rows: npt.NDArray[np.uint8] = np.load(rows, mmap_mode="r")
        self.batch = batch
        self.folder = session.new_folder("stores")
        self.folder.mkdir()
        self.takers: list[Stand | Limit] = []
        self.extras: dict[str, dict[str, float]] = {}

    def indices(self, step: int) -> Indices:
        """A batch of them, by number."""
        return np.random.default_rng(step).integers(0, len(self.rows), self.batch)

    def add(self, entries: Sequence[Entry]) -> None:
        """Writes, opens and checks the stores; who fails is named in the table."""
        for entry in entries:
            try:
                self._add(entry)
            except WorkerError as error:
                self.table.skipped[entry.label] = one_line(error)

    def _add(self, entry: Entry) -> None:
        folder = self.folder / entry.store
        remote = self._session.make(
            entry.rival,
            self._kind,
            **self._arguments(entry),
            rival=entry.rival,
            folder=folder,
            rows=self.rows_path,
            codec=entry.codec,
            way=entry.way,
            batch=self.batch,
            options=entry.options,
        )
        remote.call("write")
        first = remote.call("begin", self.indices(0))
        remote.call("check", [self.indices(step) for step in range(CHECKED_BATCHES)])
        if entry.options.get("verify", "first") == "first" and entry.rival == "zrecord":
            # Every record once, so that none is verified while others are timed.
            remote.call("check", batches_of_all(len(self.rows), self.batch))
        memory = remote.call("memory")
        self.extras[entry.label] = {"first": first, "memory": memory, "disk": disk(folder)}
        self.takers.append(Stand(entry.label, remote))

    def add_limit(self, label: str, kind: str, path: Path, **fields: Any) -> None:
        """Opens and checks a limit; ``path`` is a store, or a file of rows."""
        try:
            limit = Limit(self._session.program, label, self.rows)
            limit.open(kind, path, self.batch, **fields)
            limit.check([self.indices(step) for step in range(CHECKED_BATCHES)])
            self.takers.append(limit)
        except WorkerError as error:
            self.table.skipped[label] = one_line(error)

    def close(self) -> None:
        """Closes all, and removes their stores."""
        for taker in self.takers:
            try:
                taker.close()
            except WorkerError as error:
                # It had failed, and the table says so already.
                self.table.skipped.setdefault(taker.label, one_line(error))
        shutil.rmtree(self.folder)


def batches_of_all(rows: int, batch: int) -> list[Indices]:
    """Every row once, in order; the last batch may be short."""
    return [np.arange(start, min(start + batch, rows)) for start in range(0, rows, batch)]


def disk(folder: Path) -> float:
    """The bytes that a folder takes on disk, where the system tells."""
    sizes = (file.stat() for file in folder.rglob("*") if file.is_file())
    return sum(getattr(size, "st_blocks", size.st_size / 512) * 512 for size in sizes)
