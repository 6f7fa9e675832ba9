"""Gathers of data that is on disk alone."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from limits import Indices, Limit, npy_offset
from pagecache import Dropper
from session import Session
from stands import Entry, Stand, Stands, batches_of_all
from tables import Table
from timing import interleave
from workloads import Workload

BATCH = 256
BURST = 8
RECORD_BYTES = 12 << 10
RECORDS = 1 << 15
READERS = 16
LIMIT = f"limit: pread, {READERS} threads"
FIRST_PASS = "zrecord, first pass"

RANDOM = (
    Entry("zrecord", "zrecord", way="out"),
    Entry(FIRST_PASS, "zrecord", way="out"),
    Entry("zrecord, pread", "zrecord", way="out", options={"io": "pread"}),
    Entry("numpy fancy", "numpy", options={"how": "fancy"}),
    Entry("numpy take clip", "numpy", way="out"),
    Entry("loaderx 0.9.4", "loaderx", way="out"),
    Entry("lmdb", "lmdb", way="out"),
)
SEQUENTIAL = (
    *RANDOM[:3],
    Entry("numpy slices", "numpy", way="out", options={"how": "slice"}),
    *RANDOM[5:],
)


@dataclass
class Cold:
    """A contender whose files are made cold before each of its turns."""

    taker: Stand | Limit
    folder: Path
    dropper: Dropper
    is_scan: bool

    @property
    def label(self) -> str:
        return self.taker.label

    def turn(self, payload: Any) -> list[float]:
        self.dropper.drop(file for file in self.folder.rglob("*") if file.is_file())
        seconds = self.taker.turn(payload)
        # Who reads ahead waits for few of the batches, and long.
        return [sum(seconds) / len(seconds)] if self.is_scan else seconds


def run(session: Session) -> Iterator[Table]:
    for order in ("random", "sequential"):
        name = f"cold {order} gather, 12 KiB"
        if session.settings.wants(name):
            yield measure(session, name, order)


def measure(session: Session, name: str, order: str) -> Table:
    records = session.settings.scaled(1024, RECORDS)
    title = f"{name}: {BATCH} of {records:,} records a batch"
    table = Table(name, title, bytes=BATCH * RECORD_BYTES)
    if sys.platform != "linux":
        table.skipped["everybody"] = "the page cache can be dropped on Linux alone"
        return table
    rows = Workload("noisy", RECORD_BYTES, records).make(session.folder)
    dropper = Dropper(session.settings.drop)
    stands = Stands(
        session,
        table,
        rows,
        BATCH,
        "chilled:Chilled",
        lambda entry: {"anew": entry.label == FIRST_PASS},
    )
    try:
        stands.add(RANDOM if order == "random" else SEQUENTIAL)
        file = stands.folder / "numpy raw" / "rows.npy"
        if file.exists():
            stands.add_limit(LIMIT, "read", file, offset=npy_offset(file), threads=READERS)
        is_scan = order == "sequential"
        takers = [Cold(taker, stands.folder, dropper, is_scan) for taker in stands.takers]
        everything = batches_of_all(records // BATCH * BATCH, BATCH)

        def payload(step: int, _: int) -> list[Indices]:
            if order == "random":
                return [stands.indices(BURST * step + i) for i in range(BURST)]
            start = BURST * step % len(everything)
            return everything[start : start + BURST]

        rounds, seconds = session.settings.scaled(1, 7), session.settings.scaled(1, 15)
        samples = interleave(takers, payload, rounds, seconds)
        for label, extras in stands.extras.items():
            samples[label].extras["memory"] = extras["memory"]
        table.add(samples)
        table.notes.append(dropper.text)
        if is_scan:
            table.notes.append(f"the mean of {BURST} batches, one behind the other")
    finally:
        stands.close()
    return table
