"""Random gathers out of a warm page cache."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from limits import Indices
from session import Session
from stands import CHECKED_BATCHES, Entry, Stands
from tables import Table
from timing import interleave
from workloads import DIGITS, Workload

BATCH = 256
BURST = 32
"""Batches in a turn, so that most follow one of the same contender, whose code
and page tables are in the cache again by then."""
LIMIT_COPY = "limit: copy on all cores"
LIMIT_DECODE = "limit: libzstd on all cores"

RECORDS = {256: 1 << 18, 1 << 10: 1 << 16, 12 << 10: 1 << 13, 150 << 10: 1 << 10}
"""How many of each size: together more than most caches hold."""
RECORDS_QUICK = 512
RECORDS_DICT = 2048
"""Level 19 takes its time."""


@dataclass(frozen=True)
class Case:
    """One table: rows, and how they are stored."""

    workload: Workload
    codec: str
    is_wide: bool
    """With the rivals that are far behind."""

    @property
    def name(self) -> str:
        return f"{self.codec} gather, {self.workload.name}"


def run(session: Session) -> Iterator[Table]:
    for case in cases(session):
        if session.settings.wants(case.name):
            yield measure(session, case)


def cases(session: Session) -> Iterator[Case]:
    """Those that targets speak of; with ``--full`` all combinations."""
    full, quick = session.settings.full, session.settings.quick
    for record_bytes, records in RECORDS.items():
        for data in ("noisy", "structured", "smooth"):
            count = RECORDS_QUICK if quick else records
            workload = Workload(data, record_bytes, count)
            is_middle = record_bytes == 12 << 10
            if full or data == "noisy":
                yield Case(workload, "raw", full or is_middle)
            if full or is_middle:
                yield Case(workload, "zstd", full or data == "smooth")
            if full or (is_middle and data != "noisy"):
                fewer = Workload(data, record_bytes, min(count, RECORDS_DICT))
                yield Case(fewer, "zstd_dict", False)
    digits = Workload("digits", 64, DIGITS)
    for codec in ("raw", "zstd", "zstd_dict"):
        yield Case(digits, codec, full)


def measure(session: Session, case: Case) -> Table:
    """Everybody on one array of rows and one codec, in turn."""
    workload = case.workload
    title = f"{case.name}: {BATCH} of {workload.records:,} records a batch"
    table = Table(case.name, title, bytes=BATCH * workload.record_bytes)
    stands = Stands(session, table, workload.make(session.folder), BATCH)
    try:
        stands.add(entries(case))
        ours = stands.folder / OURS[case.codec].store
        if case.codec == "raw":
            stands.add_limit(LIMIT_COPY, "copy", ours)
        else:
            stands.add_limit(LIMIT_DECODE, "decode", ours)

        def payload(step: int, taker: int) -> list[Indices]:
            # Each turn has batches of its own: those that read one file would
            # else find in the cache what the one before them has just fetched.
            first = CHECKED_BATCHES + (step * len(stands.takers) + taker) * BURST
            return [stands.indices(first + i) for i in range(BURST)]

        samples = interleave(
            stands.takers,
            payload,
            session.settings.scaled(3, 40),
            session.settings.scaled(1, 10) / 10,
        )
        for label, extras in stands.extras.items():
            samples[label].extras.update(extras)
        table.add(samples)
    finally:
        stands.close()
    return table


OURS = {
    "raw": Entry("zrecord, out", "zrecord", "raw", "out"),
    # Really compressed, also where that saves little.
    "zstd": Entry("zrecord, out", "zrecord", "zstd", "out", {"min_saving": 0}),
    "zstd_dict": Entry("zrecord, out", "zrecord", "zstd_dict", "out", {"min_saving": 0}),
}


def entries(case: Case) -> list[Entry]:
    """Who takes part."""
    found = [*ours(case), *loaderx(case.codec)]
    if case.codec == "raw":
        found += numpy_ways()
        found.append(Entry("lmdb, out", "lmdb", "raw", "out"))
    if case.is_wide and case.codec != "zstd_dict":
        found += far_behind(case.codec)
    return found


def ours(case: Case) -> list[Entry]:
    codec = case.codec
    basic = OURS[codec]

    def variant(label: str, way: str = "out", **options: object) -> Entry:
        return Entry(f"zrecord, {label}", "zrecord", codec, way, {**basic.options, **options})

    found = [
        basic,
        variant("new", "new"),
        variant("verify never, out", verify="never"),
        variant("verify always, out", verify="always"),
        variant("classic, out", format="classic"),
    ]
    if codec == "raw":
        found.insert(2, variant("out at page + 16", "out+16"))
    elif case.workload.data == "noisy":
        found.append(Entry("zrecord, default min_saving, out", "zrecord", codec, "out"))
    return found


def loaderx(codec: str) -> list[Entry]:
    return [
        Entry("loaderx 0.9.4, out", "loaderx", codec, "out"),
        Entry("loaderx 0.9.4, new", "loaderx", codec, "new"),
        Entry("loaderx newest, new", "loaderx_newest", codec, "new"),
    ]


def numpy_ways() -> list[Entry]:
    return [
        Entry("numpy take clip, out", "numpy", "raw", "out"),
        Entry("numpy take, out", "numpy", "raw", "out", {"how": "raise"}),
        Entry("numpy take clip, new", "numpy", "raw", "new"),
        Entry("numpy fancy, new", "numpy", "raw", "new", {"how": "fancy"}),
    ]


def far_behind(codec: str) -> list[Entry]:
    hdf5 = "hdf5" if codec == "raw" else "hdf5 gzip"
    found = [
        Entry("array_record, new", "array_record", codec),
        Entry("bagz, new", "bagz", codec),
        Entry("tensorstore, new", "tensorstore", codec),
        Entry(f"{hdf5}, new", "h5py", codec),
        Entry("zarr, new", "zarr", codec),
        Entry("blosc2, new", "blosc2", codec),
    ]
    # Lance chooses compression itself, and for such values has none.
    return found + ([Entry("lance, new", "lance")] if codec == "raw" else [])
