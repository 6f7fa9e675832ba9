"""Which records come next."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from session import Session
from stands import Stand
from tables import Table
from timing import interleave
from worker import WorkerError, one_line

BATCHES = (256, 1024, 8192)
LENGTHS = (10**6, 10**9)
PERMUTATION_MAX = 10**7
"""A permutation of more indices takes gigabytes and minutes."""


@dataclass(frozen=True)
class Entry:
    label: str
    contender: str
    mode: str
    newest: bool = False
    length_max: int = LENGTHS[-1]


ENTRIES = (
    Entry("zrecord iid", "zrecord", "iid"),
    Entry("zrecord cyclic", "zrecord", "cyclic"),
    Entry("zrecord sequential", "zrecord", "sequential"),
    Entry("numpy randint", "numpy", "randint"),
    Entry("numpy integers", "numpy", "integers"),
    Entry("numpy permutation in slices", "numpy", "permutation", length_max=PERMUTATION_MAX),
    Entry("loaderx 0.9.4 iid", "loaderx", "iid"),
    Entry("loaderx 0.9.4 cyclic", "loaderx", "cyclic"),
    Entry("loaderx newest iid", "loaderx", "iid", newest=True),
    Entry("loaderx newest cyclic", "loaderx", "cyclic", newest=True),
    Entry("torch RandomSampler iid", "torch", "iid"),
    Entry("torch RandomSampler", "torch", "cyclic", length_max=PERMUTATION_MAX),
)


def run(session: Session) -> Iterator[Table]:
    for length in LENGTHS:
        for batch in BATCHES:
            name = f"sampler, {batch} of {length:,}"
            if session.settings.wants(name):
                yield measure(session, name, length, batch)


def measure(session: Session, name: str, length: int, batch: int) -> Table:
    table = Table(name, f"{name}: a batch of indices")
    stands = []
    for entry in ENTRIES:
        try:
            stands.append(_open(session, entry, length, batch))
        except WorkerError as error:
            table.skipped[entry.label] = one_line(error)
    settings = session.settings
    rounds, seconds = settings.scaled(3, 30), settings.scaled(1, 10) / 10
    table.add(interleave(stands, lambda *_: None, rounds, seconds))
    for stand in stands:
        stand.close()
    return table


def _open(session: Session, entry: Entry, length: int, batch: int) -> Stand:
    if length > entry.length_max and not session.settings.full:
        raise WorkerError(f"{length:,} indices take gigabytes and minutes: --full")
    remote = session.make(
        f"{entry.contender}_newest" if entry.newest else entry.contender,
        "sampling:Sampling",
        contender=entry.contender,
        length=length,
        batch=batch,
        mode=entry.mode,
    )
    remote.call("check")
    return Stand(entry.label, remote)
