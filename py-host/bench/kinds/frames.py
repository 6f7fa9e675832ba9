"""Frames by libzstd's other parameters: what they save, and how fast they decode.

Real data of five kinds, each record by itself, on one thread. No target speaks
of it: it is what a preset for fast decoding would be chosen by.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from limits import Limit
from session import Session
from tables import Table
from timing import interleave
from worker import WorkerError, one_line
from workloads import DIGITS, Workload, size

BATCH = 256
RECORD_BYTES = 12 << 10
RECORDS = 1 << 11
DATA = ("digits", "photos", "source", "tokens", "features")
MIN_SAVING = 0.05
"""As in our stores."""

RECIPES: dict[str, dict[str, Any]] = {
    "zrecord's default: level 3": {"level": 3},
    'preset="decode": level 9, literals as they are': {"level": 9, "plain_literals": True},
    "stored raw": {"level": 1, "min_saving": 1.1},
    **{f"level {level}": {"level": level} for level in (-7, -3, -1, 1, 6, 9, 12, 19)},
    **{
        f"level {level}, literals as they are": {"level": level, "plain_literals": True}
        for level in (1, 3, 19)
    },
    **{
        f"level {level}, matches of 6 or more": {"level": level, "min_match": 6}
        for level in (3, 9)
    },
    "level 9, both": {"level": 9, "plain_literals": True, "min_match": 6},
    **{
        f"level {level}, dictionary of {size(length)}": {
            "level": level,
            "dictionary_bytes": length,
        }
        for level, length in ((3, 16 << 10), (19, 16 << 10), (19, 110 << 10))
    },
    "level 19, dictionary of 16 KiB, literals as they are": {
        "level": 19,
        "dictionary_bytes": 16 << 10,
        "plain_literals": True,
    },
}


def run(session: Session) -> Iterator[Table]:
    for data in DATA:
        name = f"frames, {data}"
        if session.settings.wants(name):
            yield measure(session, name, data)


def measure(session: Session, name: str, data: str) -> Table:
    records = session.settings.scaled(BATCH, RECORDS)
    workload = Workload("digits", 64, DIGITS)
    if data != "digits":
        workload = Workload(data, RECORD_BYTES, records)
    path = workload.make(session.folder)
    rows = np.load(path, mmap_mode="r")
    table = Table(name, "", bytes=BATCH * workload.record_bytes)
    table.title = f"{name}: {len(rows):,} records of {workload.record_bytes:,} bytes"
    table.notes.append(f"{rows.nbytes / 1e6:.4g} MB before; disk is what they are stored in")

    def indices(step: int) -> Any:
        return np.random.default_rng(step).integers(0, len(rows), BATCH)

    takers, stored = [], {}
    for label, recipe in RECIPES.items():
        limit = Limit(session.program, label, rows)
        try:
            stored[label] = limit.encode(path, BATCH, {"min_saving": MIN_SAVING, **recipe})
            limit.check([indices(step) for step in range(4)])
            takers.append(limit)
        except WorkerError as error:
            table.skipped[label] = one_line(error)
    rounds = session.settings.scaled(2, 40)
    samples = interleave(takers, lambda step, _: [indices(100 + step)], rounds, 1)
    for label, disk in stored.items():
        samples[label].extras["disk"] = disk
    table.add(samples)
    for taker in takers:
        taker.close()
    return table
