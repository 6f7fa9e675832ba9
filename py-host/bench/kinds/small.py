"""Small things: opening, single records, the cost of one more record or batch."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from limits import Limit
from session import Session
from stands import Entry, Stand, Stands
from tables import Row, Table, duration
from timing import interleave
from worker import WorkerError, one_line
from workloads import Workload, size

MANY = 1 << 24
TINY_BYTES = 8
SINGLE = {256: 1 << 14, 12 << 10: 1 << 12}
SPREAD_BYTES = 64
COUNTS = (10**3, 10**4, 10**5, 10**6, 10**7)
COUNTS_QUICK = COUNTS[:2]
BATCH = 256
APART = 1000
BURST = 8
CHUNK_BYTES = 1 << 20


def run(session: Session) -> Iterator[Table]:
    tables = {
        "opening": opening,
        **{f"one record, {size(record_bytes)}": single for record_bytes in SINGLE},
        "cost of more records": more_records,
        "cost of a batch": batches,
    }
    for name, measure in tables.items():
        if session.settings.wants(name):
            table = Table(name, name)
            measure(session, table)
            yield table


def opening(session: Session, table: Table) -> None:
    """Few records and many."""
    table.title = "opening: memory is what an open store takes, mapped files counted"
    many = session.settings.scaled(1 << 16, MANY)
    takers, extras = [], {}
    folders = []
    for records in (1000, many):
        folder = session.new_folder("tiny")
        remote = session.make(
            "zrecord", "calls:Tiny", folder=folder, records=records, record_bytes=TINY_BYTES
        )
        remote.call("write")
        remote.call("check")
        takers.append(Stand(f"zrecord, {'many' if records == many else 'few'} records", remote))
        folders.append(folder)
    table.notes.append(f"few are 1,000 records, many are {many:,}, of {TINY_BYTES} bytes")
    samples = interleave(takers, lambda *_: None, session.settings.scaled(3, 50), 10)
    for taker in takers:
        extras[taker.label] = taker.remote.call("memory")
        samples[taker.label].extras["memory"] = extras[taker.label]
        taker.remote.drop()
    table.add(samples)
    for folder in folders:
        shutil.rmtree(folder)


def single(session: Session, table: Table) -> None:
    """``ds[i]``, and the copy that is in it."""
    record_bytes = next(n for n in SINGLE if table.name.endswith(size(n)))
    table.title = f"{table.name}: ds[i]"
    records = session.settings.scaled(256, SINGLE[record_bytes])
    rows = Workload("noisy", record_bytes, records).make(session.folder)
    takers: list[Any] = []
    for label, rival in (
        ("zrecord", "zrecord"),
        ("loaderx 0.9.4", "loaderx"),
        ("numpy memory map, copied", "numpy"),
    ):
        try:
            folder = session.folder / f"single-{rival}-{record_bytes}"
            remote = session.make(rival, "calls:Single", rival=rival, folder=folder, rows=rows)
            remote.call("check")
            takers.append(Stand(label, remote))
            if rival == "numpy":
                takers.append(Copies("the copy alone", remote))
        except WorkerError as error:
            table.skipped[label] = one_line(error)

    def payload(step: int, _: int) -> list[int]:
        drawn: list[int] = np.random.default_rng(step).integers(0, records, BATCH).tolist()
        return drawn

    table.add(interleave(takers, payload, session.settings.scaled(3, 100), 2))
    ours, copy = table.find("zrecord"), table.find("the copy alone")
    if ours is not None and copy is not None:
        table.rows.append(Row("zrecord, above the copy", ours.seconds - copy.seconds))


class Copies(Stand):
    """The copies that the contender of this process would have to make."""

    def turn(self, payload: Any) -> list[float]:
        seconds: list[float] = self.remote.call("turn_of_copies", payload)
        return seconds


def more_records(session: Session, table: Table) -> None:
    """The same batches out of stores of more and more records."""
    table.title = f"{table.name}: {BATCH} of {APART:,} warm records that lie far apart"
    counts = COUNTS_QUICK if session.settings.quick else COUNTS
    opened = []
    for count in counts:
        rows = Workload("noisy", SPREAD_BYTES, count).make(session.folder)
        stands = Stands(session, table, rows, BATCH)
        entry = Entry(f"zrecord, {count:,} records", "zrecord", way="out")
        stands.add([entry])
        stands.add_limit(f"limit: copy, {count:,} records", "copy", stands.folder / entry.store)
        opened.append(stands)
    takers = [Drawn(taker, len(s.rows)) for s in opened for taker in s.takers]
    samples = interleave(
        takers,
        lambda step, _: [BURST * step + i for i in range(BURST)],
        session.settings.scaled(3, 100),
        5,
    )
    table.add(samples)
    for row in table.rows:
        table.notes.append(f"{row.label}: {duration(row.seconds / BATCH)} a record")
    for stands in opened:
        stands.close()


@dataclass
class Drawn:
    """Batches out of few records that lie far apart, however many there are.

    So the records are warm whatever their number, and what is seen is the cost
    of finding them; that of the machine's own tables is in the limit too.
    """

    taker: Stand | Limit
    records: int

    @property
    def label(self) -> str:
        return self.taker.label

    def turn(self, seeds: list[int]) -> list[float]:
        apart = np.linspace(0, self.records - 1, APART).astype(np.int64)
        drawn = (np.random.default_rng(seed).integers(0, APART, BATCH) for seed in seeds)
        return self.taker.turn([apart[picked] for picked in drawn])


def batches(session: Session, table: Table) -> None:
    """Batches so small that they are nothing but overhead."""
    table.title = f"{table.name}: one record of {SPREAD_BYTES} bytes from each chunk"
    takers = []
    for chunks in (1, 2, 4):
        label = f"zrecord, {chunks} chunk{'s' if chunks > 1 else ''}"
        try:
            folder = session.new_folder("chunked")
            session.program.ask(
                "chunked",
                path=str(folder),
                record_bytes=SPREAD_BYTES,
                records=chunks * CHUNK_BYTES // SPREAD_BYTES,
                chunk_bytes=CHUNK_BYTES,
            )
            remote = session.make("zrecord", "calls:Chunks", folder=folder, chunks=chunks)
            remote.call("check")
            takers.append(Stand(label, remote))
        except WorkerError as error:
            table.skipped[label] = one_line(error)
    table.add(interleave(takers, lambda *_: None, session.settings.scaled(3, 100), 2))
