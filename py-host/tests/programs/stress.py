"""Every call at once from many threads, while others close what they use.

``python stress.py FOLDER ROUNDS SEED`` exits with 0 when all calls gave right
bytes or a documented error, and every store held at the end exactly what the
calls that returned had made of it.
"""

from __future__ import annotations

import contextlib
import faulthandler
import gc
import os
import random
import sys
import threading
import time
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import zrecord as zr

DEADLINE = 120
"""Seconds for one round; it takes a few hundredths of one."""
WIDTH = 96
ROW_BYTES = WIDTH * 8


def rows(first: int, count: int) -> npt.NDArray[np.int64]:
    """Rows of one number each, so that a row tells of itself whether it is whole."""
    return np.repeat(np.arange(first, first + count, dtype=np.int64), WIDTH).reshape(count, WIDTH)


def check(found: npt.NDArray[Any]) -> None:
    assert (found == found[:, :1]).all(), "a torn row"


class Round:
    """One store, the threads that use it, and a moment at which all is closed."""

    def __init__(self, path: Path, seed: int, outcomes: Counter[str]) -> None:
        self.rng = random.Random(seed)
        self.path = path
        self.outcomes = outcomes
        self.codec = self.rng.choice(("raw", "zstd"))
        self.shares = self.rng.random() < 0.5
        store_format = self.rng.choice(("extended", "classic"))
        zr.from_numpy(path, rows(0, 200), self.codec, format=store_format)
        self.store = zr.Zrecord(path, threads=self.rng.choice((1, 2, 3)))
        self.dataset = zr.DenseDataset(path) if self.shares else None
        self.loaders: list[Any] = []
        if self.dataset is not None:
            transform = self.rng.choice((None, lambda batch: batch))
            self.loaders.append(zr.DataLoader(self.dataset, 2, 16, transform=transform))
            self.loaders.append(zr.batches(self.dataset, 16, num_workers=1))
        self.lock = threading.Lock()
        self.expected = 200
        self.kept: list[Any] = []
        self.stop = threading.Event()

    def count(self, change: int) -> None:
        with self.lock:
            self.expected += change

    def append(self, rng: random.Random) -> None:
        number = rng.choice((1, 7, 400))
        block = rows(rng.randrange(1 << 40), number)
        self.store.append(block, np.arange(number) * ROW_BYTES)
        self.count(number)

    def gather(self, rng: random.Random) -> None:
        number = rng.choice((3, 600))
        picked = np.array([rng.randrange(len(self.store)) for _ in range(number)])
        out = np.empty((number, WIDTH), np.int64)
        self.store.gather(picked, out, np.arange(number) * ROW_BYTES)
        check(out)
        assert (self.store.lengths(picked[:2]) == ROW_BYTES).all()

    def look(self, rng: random.Random) -> None:
        stats = self.store.stats()
        assert stats["reclaimable"] == stats["chunk_bytes"] - stats["live_bytes"]
        repr(self.store)
        assert len(self.store.read(rng.randrange(100))) == ROW_BYTES
        if rng.random() < 0.1:
            assert self.store.verify() == []
        self.store.sync()

    def delete(self, rng: random.Random) -> None:
        picked = {rng.randrange(150) for _ in range(rng.randrange(1, 20))}
        if len(self.store) > 300:
            self.store.delete(sorted(picked))
            self.count(-len(picked))
        if rng.random() < 0.5:
            self.store.compact(rng.choice((None, lambda done, total: None)))

    def read(self, rng: random.Random) -> None:
        assert self.dataset is not None
        picked = np.array([rng.randrange(150) for _ in range(rng.choice((2, 900)))])
        found = self.dataset[picked]
        check(found)
        check(self.dataset.gather(picked, np.empty_like(found)))
        with self.lock:
            self.kept = [*self.kept[-20:], found]

    def view(self, rng: random.Random) -> None:
        assert self.dataset is not None
        try:
            found = self.dataset.view(0, rng.randrange(1, 150))
        except zr.UnsupportedError:
            time.sleep(0.001)
            return
        check(found)
        with self.lock:
            self.kept = [*self.kept[-20:], found]

    def load(self, rng: random.Random) -> None:
        for loader in self.loaders:
            with contextlib.suppress(StopIteration):
                check(next(loader))
        if rng.random() < 0.2:
            self.loaders[0].load_state_dict(self.loaders[0].state_dict())

    def collect(self, _: random.Random) -> None:
        gc.collect()
        with self.lock:
            self.kept = self.kept[5:]

    def repeat(self, work: Callable[[random.Random], None], seed: int) -> None:
        rng = random.Random(seed)
        while not self.stop.is_set():
            try:
                work(rng)
                outcome = "done"
            except (zr.ClosedError, zr.BusyError, zr.OutOfRangeError) as error:
                outcome = type(error).__name__
            except BaseException:
                faulthandler.dump_traceback(all_threads=False)
                os._exit(70)
            with self.lock:
                self.outcomes[f"{work.__name__}: {outcome}"] += 1
            if outcome == "ClosedError":
                return

    def run(self) -> None:
        works = [self.append, self.append, self.gather, self.gather, self.look, self.collect]
        works += [self.read, self.view, self.load, self.load] if self.shares else [self.delete]
        threads = [
            threading.Thread(target=self.repeat, args=(work, self.rng.random())) for work in works
        ]
        things = [self.store, *([self.dataset] if self.dataset is not None else []), *self.loaders]
        closers = [threading.Thread(target=thing.close) for thing in things * 2]
        self.rng.shuffle(closers)
        for thread in threads:
            thread.start()
        time.sleep(self.rng.random() * 0.05)
        for closer in closers:
            closer.start()
            if self.rng.random() < 0.5:
                time.sleep(self.rng.random() * 0.005)
        for thread in closers:
            thread.join()
        self.stop.set()
        for thread in threads:
            thread.join()
        self.finish()

    def finish(self) -> None:
        for array in self.kept:
            check(array)
        self.kept.clear()
        with zr.Zrecord(self.path) as store:
            assert len(store) == self.expected, (len(store), self.expected)
            assert store.verify() == []
        with zr.DenseDataset(self.path) as dataset:
            check(dataset[:])


def main() -> int:
    folder, rounds, seed = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    faulthandler.enable()
    sys.setswitchinterval(0.0005)
    warnings.filterwarnings("ignore", "resuming a loader: the streams have grown")
    outcomes: Counter[str] = Counter()
    for number in range(rounds):
        faulthandler.dump_traceback_later(DEADLINE, exit=True)
        path = folder / str(number)
        Round(path, seed * 1_000_003 + number, outcomes).run()
        for file in path.iterdir():
            file.unlink()
    faulthandler.cancel_dump_traceback_later()
    print(f"{rounds} rounds, seed {seed}: {dict(sorted(outcomes.items()))}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
