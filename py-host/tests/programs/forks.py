"""Forks at random moments of a process whose threads are all at work.

``python forks.py FOLDER FORKS SEED`` exits with 0 when every child, and every
tenth one's child, either worked or raised at once, whatever the fork had cut
through, and when the parent's store is whole at the end.
"""

from __future__ import annotations

import faulthandler
import os
import random
import sys
import threading
import time
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import zrecord as zr

DEADLINE = 40
"""Seconds for one child; it takes a few milliseconds."""
RECORD_LEN = 4096
ROWS = np.arange(400 * 512, dtype=np.int64).reshape(400, 512)
WORDS = [np.arange(n % 37, dtype=np.int32) for n in range(300)]


def pattern(index: int) -> int:
    """What all bytes of a record of the growing store are."""
    return index % 251


class World:
    """Everything that a process may hold open when it forks."""

    def __init__(self, folder: Path) -> None:
        zr.from_numpy(folder / "raw", ROWS, "raw")
        zr.from_numpy(folder / "zstd", ROWS, "zstd")
        zr.from_iterator(folder / "ragged", WORDS, "zstd")
        self.folder = folder
        self.raw = zr.DenseDataset(folder / "raw")
        self.zstd = zr.DenseDataset(folder / "zstd", verify="always")
        self.ragged = zr.RaggedDataset(folder / "ragged")
        self.growing = zr.Zrecord(folder / "growing", "zstd")
        self.view = self.raw.view()
        self.running = zr.DataLoader({"a": self.raw, "b": self.zstd}, 2, 32)
        self.transforming = zr.DataLoader(self.ragged, 2, 16, transform=len, mode="sequential")
        self.fresh = zr.DataLoader(self.raw, 2, 32, mode="sequential")
        self.moved = zr.DataLoader(self.zstd, 2, 40, mode="sequential")
        self.one_pass = zr.batches(self.ragged, 50)
        self.sampler = zr.Sampler(400, 16, "cyclic", 3)
        self.stop = threading.Event()
        self.go = threading.Event()
        self.threads: list[threading.Thread] = []

    def start(self) -> None:
        """One thread for each way of being inside a lock."""
        self.run(random.Random())
        work = (
            self.append,
            self.gather,
            self.run,
            self.reopen,
            self.move,
            self.verify,
            self.collect,
        )
        for number, target in enumerate(work):
            thread = threading.Thread(target=self.repeat, args=(target, random.Random(number)))
            thread.start()
            self.threads.append(thread)

    def repeat(self, work: Any, rng: random.Random) -> None:
        try:
            while not self.stop.is_set():
                self.go.wait()
                work(rng)
        except BaseException:
            faulthandler.dump_traceback(all_threads=False)
            os._exit(70)

    def append(self, rng: random.Random) -> None:
        count = rng.randrange(1, 300)
        first = len(self.growing)
        if first > 40_000:
            time.sleep(0.001)
            return
        block = np.empty((count, RECORD_LEN), np.uint8)
        block[:] = (np.arange(first, first + count) % 251)[:, None]
        self.growing.append(block, np.arange(count) * RECORD_LEN)
        if rng.random() < 0.1:
            self.growing.sync()

    def gather(self, rng: random.Random) -> None:
        picked = np.array([rng.randrange(400) for _ in range(rng.choice((8, 400)))])
        assert np.array_equal(self.raw[picked], ROWS[picked])
        assert np.array_equal(self.zstd[picked], ROWS[picked])

    def run(self, _: random.Random) -> None:
        next(self.running)
        next(self.transforming)

    def reopen(self, rng: random.Random) -> None:
        name = rng.choice(("raw", "zstd", "growing"))
        with zr.Zrecord(self.folder / name, mode="r", threads=rng.randrange(1, 4)) as store:
            assert len(store.read(0)) == RECORD_LEN if len(store) else True

    def move(self, _: random.Random) -> None:
        """The state of loaders that have not started; changes nothing in the end."""
        self.fresh.load_state_dict(self.fresh.state_dict())
        self.moved.load_state_dict({**self.moved.state_dict(), "step": 3})

    def verify(self, rng: random.Random) -> None:
        assert self.raw.store.verify() == []
        assert self.growing.stats()["records"] >= 0
        rng.shuffle(self.threads)

    def collect(self, _: random.Random) -> None:
        """Loaders that are dropped with batches made ahead."""
        with zr.DataLoader(self.raw, 2, 8, transform=lambda batch: [batch]) as loader:
            next(loader)

    def finish(self) -> None:
        self.stop.set()
        self.go.set()
        for thread in self.threads:
            thread.join()
        assert self.growing.verify() == []
        check_growing(self.growing, len(self.growing))
        self.growing.close()
        with zr.Zrecord(self.folder / "growing") as again:
            again.append(b"x", [0])


def check_growing(store: zr.Zrecord, count: int) -> None:
    picked = np.arange(max(0, count - 200), count)
    out = np.empty((len(picked), RECORD_LEN), np.uint8)
    store.gather(picked, out, np.arange(len(picked)) * RECORD_LEN)
    assert (out == (picked % 251)[:, None]).all()


def uses(world: World) -> dict[str, Any]:
    """What a child may do with each thing that it has inherited."""

    def rows(ds: zr.DenseDataset) -> None:
        picked = np.random.default_rng().integers(0, 400, 64)
        assert np.array_equal(ds[picked], ROWS[picked])
        assert np.array_equal(ds[7], ROWS[7])
        assert len(ds) == 400

    def ragged() -> None:
        assert all(map(np.array_equal, world.ragged[:100], WORDS))

    def growing() -> None:
        check_growing(world.growing, len(world.growing))

    def writing() -> None:
        world.growing.append(b"never", [0])

    def fresh() -> None:
        assert np.array_equal(next(world.fresh), ROWS[:32])
        assert np.array_equal(next(world.fresh), ROWS[32:64])

    def moved() -> None:
        batch = next(world.moved)
        assert np.array_equal(batch, ROWS[:40]) or np.array_equal(batch, ROWS[120:160])

    def one_pass() -> None:
        assert all(map(np.array_equal, next(world.one_pass), WORDS))

    def own() -> None:
        with zr.DataLoader(world.zstd, 2, 400, mode="sequential", transform=list) as loader:
            assert np.array_equal(np.stack(next(loader)), ROWS)

    return {
        "raw": lambda: rows(world.raw),
        "zstd": lambda: rows(world.zstd),
        "ragged": ragged,
        "growing": growing,
        "writing": writing,
        "view": lambda: np.testing.assert_array_equal(world.view, ROWS),
        "running": lambda: next(world.running),
        "transforming": lambda: next(world.transforming),
        "fresh": fresh,
        "moved": moved,
        "one_pass": one_pass,
        "sampler": lambda: world.sampler.next(),
        "own": own,
        "closing": lambda: world.growing.close(),
        "closed": lambda: world.running.close(),
    }


MAY_RAISE: dict[str, tuple[type[Exception], ...]] = {
    "writing": (zr.BusyError,),
    "running": (zr.ForkedError, zr.ClosedError),
    "transforming": (zr.ForkedError, zr.ClosedError),
    # Only if the fork caught a thread while it was moving the loader.
    "fresh": (zr.ForkedError,),
    "moved": (zr.ForkedError,),
    "one_pass": (zr.ForkedError,),
    "growing": (zr.ClosedError,),
}
MUST_RAISE = ("writing", "running", "transforming")


def child(world: World, seed: int, generation: int) -> str:
    """Uses everything in some order; what raised, or the text of a failure."""
    rng = random.Random(seed)
    things = list(uses(world).items())
    rng.shuffle(things)
    raised = []
    closed = world.growing.closed
    for name, use in things:
        closed = closed or name == "closing"
        try:
            use()
            if name in MUST_RAISE and not (closed and name == "writing"):
                return f"{name} did not raise"
        except MAY_RAISE.get(name, ()) as error:
            raised.append(name)
            if isinstance(error, zr.ClosedError) and name == "growing" and not closed:
                return "growing was closed by nobody"
        except zr.ClosedError:
            if not (name == "writing" and closed):
                raise
    if generation == 0 and rng.random() < 0.1:
        outcome = fork(world, seed + 1, generation + 1)
        if outcome.startswith("failed"):
            return outcome
    return "ok " + " ".join(sorted(set(raised) - set(MUST_RAISE)))


def fork(world: World, seed: int, generation: int) -> str:
    """Forks a child and waits for its answer."""
    reading, writing = os.pipe()
    # Its own fork would wait for a watchdog thread that is not there.
    faulthandler.cancel_dump_traceback_later()
    pid = os.fork()
    if pid == 0:
        faulthandler.dump_traceback_later(DEADLINE, exit=True)
        try:
            answer = child(world, seed, generation)
        except BaseException as error:
            faulthandler.dump_traceback(all_threads=False)
            answer = f"{error!r}"
        os.write(writing, answer.encode())
        os._exit(0)
    os.close(writing)
    if generation == 0:
        # The processor is the child's for as long as it takes. A child must
        # not touch the event, whose lock another thread may have held.
        world.go.clear()
    with os.fdopen(reading, "rb") as pipe:
        answer = pipe.read().decode()
    status = os.waitpid(pid, 0)[1]
    if status == 0 and answer.startswith("ok"):
        return answer
    return f"failed: seed {seed}, status {status}, {answer or 'no answer: it hung or died'}"


def main() -> int:
    folder, forks, seed = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    warnings.simplefilter("ignore", DeprecationWarning)
    faulthandler.enable()
    world = World(folder)
    world.start()
    rng = random.Random(seed)
    outcomes: Counter[str] = Counter()
    for number in range(forks):
        world.go.set()
        time.sleep(rng.random() * 0.008)
        outcome = fork(world, seed * 1_000_003 + 2 * number, 0)
        if outcome.startswith("failed"):
            print(outcome, file=sys.stderr)
            os._exit(1)
        outcomes[outcome] += 1
    world.finish()
    print(f"{forks} forks, seed {seed}: {dict(outcomes)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
