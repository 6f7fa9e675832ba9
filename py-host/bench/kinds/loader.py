"""Batches made ahead, end to end."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from session import Session
from stands import Stand
from tables import Table
from timing import Samples, interleave
from worker import WorkerError, one_line
from workloads import Workload

BATCH = 256
WORKERS = 4
PREFETCH = 4
RECORD_BYTES = 12 << 10
RECORDS = 1 << 13
LIMIT = "limit: bare gather"


@dataclass(frozen=True)
class Entry:
    label: str
    loader: str
    way: str = ""


ENTRIES = (
    Entry("zrecord", "zrecord"),
    Entry(LIMIT, "zrecord", "bare"),
    Entry("loaderx 0.9.4", "loaderx"),
    Entry("loaderx newest", "loaderx_newest"),
    Entry("grain, threads", "grain", "threads"),
    Entry("grain, processes", "grain", "processes"),
    Entry("torch over zrecord", "torch", "zrecord"),
    Entry("torch over a memory map", "torch", "map"),
    Entry("litdata", "litdata"),
    Entry("mosaicml-streaming", "streaming"),
)

CASES = (
    ("loader, 12 KiB", 1, False),
    ("loader, 12 KiB, transform", 1, True),
    ("loader, 12 KiB, 4 streams", 4, False),
)


def run(session: Session) -> Iterator[Table]:
    records = session.settings.scaled(1024, RECORDS)
    rows = Workload("noisy", RECORD_BYTES, records).make(session.folder)
    for name, streams, transforms in CASES:
        if session.settings.wants(name):
            settings = {
                "batch": BATCH,
                "workers": WORKERS,
                "prefetch": PREFETCH,
                "streams": streams,
                "transforms": transforms,
            }
            yield measure(session, name, rows, settings)


def measure(session: Session, name: str, rows: Path, settings: dict[str, Any]) -> Table:
    title = f"{name}: batches of {BATCH}, {WORKERS} workers, prefetch {PREFETCH}"
    size = BATCH * RECORD_BYTES * int(settings["streams"])
    table = Table(name, title, bytes=size)
    folder = session.new_folder("loaded")
    folder.mkdir()
    stands: list[Stand] = []
    extras: dict[str, dict[str, float]] = {}
    for entry in ENTRIES:
        try:
            stand, extras[entry.label] = _open(session, entry, folder, rows, settings)
            stands.append(stand)
        except WorkerError as error:
            table.skipped[entry.label] = one_line(error)
    scaled = session.settings.scaled
    samples = interleave(stands, lambda *_: None, scaled(2, 20), scaled(1, 10))
    _add(table, samples, extras)
    # Some leave threads and processes behind when they are closed.
    session.end_workers()
    shutil.rmtree(folder)
    return table


def _open(
    session: Session, entry: Entry, folder: Path, rows: Path, settings: dict[str, Any]
) -> tuple[Stand, dict[str, float]]:
    remote = session.make(
        entry.loader,
        "loading:Loading",
        entry.label,
        loader=entry.loader,
        folder=folder / entry.loader,
        rows=rows,
        settings={**settings, "way": entry.way},
    )
    remote.call("write")
    first = remote.call("begin")
    remote.call("check")
    return Stand(entry.label, remote), {"first": first, "memory": remote.call("memory")}


def _add(table: Table, samples: dict[str, Samples], extras: dict[str, dict[str, float]]) -> None:
    for label, mine in samples.items():
        mine.extras.update(extras[label])
    table.add(samples)
