"""Writing rows that are in memory: speed, size, memory."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from limits import npy_offset
from session import Session
from stands import disk
from tables import Row, Table
from timing import interleave
from worker import Remote, WorkerError, one_line
from workloads import Workload

LIMIT = "limit: libzstd on all cores"
RECORD_BYTES = 12 << 10
RECORDS = {"raw": 1 << 13, "zstd": 1 << 13, "zstd_dict": 1 << 10}
LEVELS = {"zstd": 3, "zstd_dict": 15}
"""What ours takes unless told otherwise."""


@dataclass(frozen=True)
class Entry:
    """A way of writing."""

    label: str
    rival: str
    options: dict[str, Any] = field(default_factory=dict)


@dataclass
class Writer:
    """A way of writing that is ready, in a process of its own."""

    label: str
    remote: Remote
    session: Session
    extras: dict[str, float] = field(default_factory=dict)

    def turn(self, _: object) -> list[float]:
        folder = self.session.new_folder("written")
        try:
            seconds: list[float] = self.remote.call("turn", folder)
            self.extras = {"memory": self.remote.call("peak"), "disk": disk(folder)}
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        return seconds

    def check(self) -> None:
        """Writes once and reads everything back."""
        folder = self.session.new_folder("checked")
        try:
            self.remote.call("turn", folder)
            self.remote.call("check", folder)
        finally:
            shutil.rmtree(folder, ignore_errors=True)


@dataclass
class Encoder:
    """The limit: libzstd encodes, and nothing is written."""

    label: str
    session: Session
    rows: Path
    level: int
    dictionary: Path | None
    extras: dict[str, float] = field(default_factory=dict)

    def turn(self, _: object) -> list[float]:
        answer = self.session.program.ask(
            "encode",
            path=str(self.rows),
            offset=npy_offset(self.rows),
            record_bytes=RECORD_BYTES,
            level=self.level,
            dictionary=None if self.dictionary is None else str(self.dictionary),
        )
        self.extras = {"disk": answer["stored"]}
        return [answer["ns"] / 1e9]


def run(session: Session) -> Iterator[Table]:
    for codec, data, sync in CASES:
        name = f"{codec} append{' + fsync' if sync else ''}, 12 KiB, {data}"
        if session.settings.wants(name):
            yield measure(session, name, codec, data, sync)


CASES = (
    ("raw", "noisy", False),
    ("raw", "noisy", True),
    ("zstd", "noisy", False),
    ("zstd", "smooth", False),
    ("zstd_dict", "structured", False),
    ("zstd_dict", "smooth", False),
)


def measure(session: Session, name: str, codec: str, data: str, sync: bool) -> Table:
    records = session.settings.scaled(256, RECORDS[codec])
    workload = Workload(data, RECORD_BYTES, records)
    rows = workload.make(session.folder)
    size = records * RECORD_BYTES
    table = Table(name, f"{name}: {records:,} records, memory is the peak of writing", bytes=size)
    takers: list[Writer | Encoder] = []
    for entry in ENTRIES[codec]:
        # LMDB and loaderx's newest release have no such sync of their own.
        if sync and entry.rival not in SYNCING:
            continue
        try:
            takers.append(_open(session, entry, rows, codec, sync))
        except WorkerError as error:
            table.skipped[entry.label] = one_line(error)
    if codec != "raw":
        try:
            takers.append(_limit(session, rows, codec))
        except WorkerError as error:
            table.skipped[LIMIT] = one_line(error)
    rounds = session.settings.scaled(1, 3 if codec == "zstd_dict" else 7)
    samples = interleave(takers, lambda *_: None, rounds, session.settings.scaled(1, 10))
    for taker in takers:
        samples[taker.label].extras.update(taker.extras)
    table.add(samples)
    session.end_workers()
    if codec == "zstd_dict":
        table.rows += within(table.rows)
        table.notes.append("the dictionary is trained before, but for from_numpy")
    return table


SYNCING = ("zrecord", "loaderx", "numpy")


def _open(session: Session, entry: Entry, rows: Path, codec: str, sync: bool) -> Writer:
    untyped = codec == "zstd_dict" and not entry.options.get("typed")
    template = {"template": session.new_folder("trained")} if untyped else {}
    remote = session.make(
        entry.rival,
        "writing:Writing",
        entry.label,
        rival=entry.rival,
        rows=rows,
        codec=codec,
        sync=sync,
        options={**entry.options, **template},
    )
    writer = Writer(entry.label, remote, session)
    writer.check()
    return writer


def _limit(session: Session, rows: Path, codec: str) -> Encoder:
    encoder = Encoder(LIMIT, session, rows, LEVELS[codec], None)
    if codec == "zstd_dict":
        # That of ours.
        template = session.new_folder("dictionary")
        session.make(
            "zrecord",
            "writing:Writing",
            "dictionary",
            rival="zrecord",
            rows=rows,
            codec=codec,
            sync=False,
            options={"template": template},
        )
        encoder.dictionary = next(template.glob("dict*.zr"))
    # Asked once, so that a program which is not there is noticed now.
    encoder.turn(None)
    return encoder


def within(rows: Sequence[Row]) -> list[Row]:
    """The fastest of ours whose stores are hardly larger than loaderx's."""
    found = []
    theirs = [row.measures["disk"] for row in rows if row.label == "loaderx 0.9.4"]
    for percent in (6, 1) if theirs else ():
        able = [
            row
            for row in rows
            if row.label.startswith("zrecord")
            and "from_numpy" not in row.label
            and row.measures["disk"] <= theirs[0] * (1 + percent / 100)
        ]
        if able:
            best = min(able, key=lambda row: row.seconds)
            label = f"zrecord, within {percent} % of loaderx's size"
            found.append(Row(label, best.seconds, dict(best.measures)))
    return found


RIVALS = [
    Entry("array_record", "array_record"),
    Entry("bagz", "bagz"),
    Entry("tensorstore", "tensorstore"),
    Entry("hdf5", "h5py"),
    Entry("zarr", "zarr"),
    Entry("blosc2", "blosc2"),
]
TYPED = {"typed": True}

ENTRIES: dict[str, list[Entry]] = {
    "raw": [
        Entry("zrecord", "zrecord"),
        Entry("zrecord from_numpy, synced", "zrecord", TYPED),
        Entry("loaderx 0.9.4", "loaderx"),
        Entry("loaderx newest", "loaderx_newest"),
        Entry("np.save", "numpy"),
        Entry("lmdb", "lmdb"),
        Entry("lance", "lance"),
        *RIVALS,
    ],
    "zstd": [
        Entry("zrecord", "zrecord", {"min_saving": 0}),
        Entry("zrecord, default min_saving", "zrecord"),
        Entry("loaderx 0.9.4", "loaderx"),
        Entry("loaderx newest", "loaderx_newest"),
        *RIVALS,
    ],
    "zstd_dict": [
        Entry("zrecord", "zrecord"),
        *(
            Entry(f"zrecord, level {level}", "zrecord", {"level": level})
            for level in (3, 9, 12, 19)
        ),
        Entry(
            "zrecord, level 3, dictionary of 32 KiB",
            "zrecord",
            {"level": 3, "dict_size": 32 << 10},
        ),
        Entry("loaderx 0.9.4", "loaderx"),
        Entry("loaderx newest", "loaderx_newest"),
        Entry("zrecord from_numpy, trained and synced", "zrecord", TYPED),
        Entry("loaderx 0.9.4 from_numpy, trained and synced", "loaderx", TYPED),
    ],
}
