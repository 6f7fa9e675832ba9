"""Nothing of a loader is left behind, however it ends."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import threading
import time
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zrecord as zr
from support import run_python

STATUS = Path("/proc/self/status")
needs_proc = pytest.mark.skipif(not STATUS.exists(), reason="counts threads in /proc")


def listed_threads() -> int:
    names = []
    for task in Path("/proc/self/task").iterdir():
        try:
            names.append((task / "comm").read_text())
        except OSError:
            continue
    return sum(name.startswith("zrecord-loader") for name in names)


def loader_threads(expected: int) -> int:
    """How many threads of loaders there are, once they are as many as expected.

    The system lists a thread for a moment after it was joined, so a count is
    only wrong if it stays wrong.
    """
    deadline = time.monotonic() + 30
    while (count := listed_threads()) != expected and time.monotonic() < deadline:
        time.sleep(0.001)
    return count


def loader_threads_after_collection() -> int:
    """How many threads are left of loaders that nothing refers to.

    Workers that still make the batches ahead hold theirs for a moment.
    """
    deadline = time.monotonic() + 30
    gc.collect()
    while (count := listed_threads()) != 0 and time.monotonic() < deadline:
        time.sleep(0.001)
        gc.collect()
    return count


@pytest.fixture
def stream(path: Path) -> zr.DenseDataset:
    zr.from_numpy(path, np.arange(1000).reshape(100, 10))
    ds = zr.DenseDataset(path)
    # Loaders that other tests have left in cycles go first.
    assert loader_threads_after_collection() == 0
    # The process's pool starts once, and stays.
    ds[np.tile(np.arange(100), 100)]
    return ds


def slow(batch: Any) -> Any:
    time.sleep(0.002)
    return batch


@needs_proc
@pytest.mark.parametrize("transform", [None, slow])
def test_close_break_and_collection_end_the_threads(
    stream: zr.DenseDataset, transform: Any
) -> None:
    loader = zr.DataLoader(stream, 4, 8, transform=transform)
    next(loader)
    assert loader_threads(4) == 4
    loader.close()
    assert loader_threads(0) == 0
    for _ in zr.DataLoader(stream, 4, 8, transform=transform):
        break
    assert loader_threads(0) == 0
    with zr.DataLoader(stream, 4, 8, transform=transform) as loader:
        next(loader)
    assert loader_threads(0) == 0
    one_pass = zr.batches(stream, 8, transform=transform)
    next(one_pass)
    del one_pass
    assert loader_threads(0) == 0
    finished = zr.batches(stream, 8, transform=transform)
    assert len(list(finished)) == 13
    assert loader_threads(0) == 0


@needs_proc
def test_a_cycle_through_the_transform_is_collected(stream: zr.DenseDataset) -> None:
    class Trainer:
        def __init__(self) -> None:
            self.loader = zr.DataLoader({"x": stream, "y": self}, 2, 8, transform=self.transform)

        def __len__(self) -> int:
            return 100

        def __getitem__(self, index: int) -> int:
            return index

        def transform(self, batch: Any) -> Any:
            return batch["y"].tolist()

    trainer = Trainer()
    assert len(next(trainer.loader)) == 8
    assert loader_threads(2) == 2
    gone = weakref.ref(trainer)
    del trainer
    assert loader_threads_after_collection() == 0
    assert gone() is None


@needs_proc
@pytest.mark.parametrize("workers", [0, 2])
def test_a_loader_that_failed_is_collected(stream: zr.DenseDataset, workers: int) -> None:
    def fail(batch: Any) -> Any:
        raise ValueError("no batch")

    for streams in (stream, {"x": stream, "y": Refusing()}):
        transform = fail if streams is stream else None
        for loader in (
            zr.DataLoader(streams, workers, 8, transform=transform),
            zr.batches(streams, 8, num_workers=workers, transform=transform),
        ):
            for _ in range(2):
                with pytest.raises(ValueError, match="no batch"):
                    next(loader)
        gone = weakref.ref(loader)
        del loader
        assert loader_threads_after_collection() == 0
        assert gone() is None


class Refusing:
    """A stream that gives no record."""

    def __len__(self) -> int:
        return 100

    def __getitem__(self, index: int) -> int:
        raise ValueError("no batch")


@needs_proc
def test_a_loader_whose_batches_hold_it_is_collected(stream: zr.DenseDataset) -> None:
    class Trainer:
        def __init__(self) -> None:
            self.loader = zr.DataLoader(stream, 2, 8, transform=self.transform)

        def transform(self, batch: Any) -> Any:
            return self, batch

    trainer = Trainer()
    assert next(trainer.loader)[0] is trainer
    gone = weakref.ref(trainer)
    del trainer
    assert loader_threads_after_collection() == 0
    assert gone() is None


@pytest.mark.parametrize(
    "drop",
    ["del loader", "loader.itself = loader; del loader; gc.collect()"],
    ids=["dropped", "collected"],
)
def test_dropping_a_loader_waits_for_no_transform(stream: zr.DenseDataset, drop: str) -> None:
    code = f"""
import gc, itertools, sys, threading
import zrecord as zr
lock = threading.Lock()
waits = threading.Event()
calls = itertools.count()
def transform(batch):
    if next(calls) > 0:
        waits.set()
        with lock:
            pass
    return batch
loader = zr.DataLoader(zr.DenseDataset(sys.argv[1]), 1, 8, transform=transform)
with lock:
    next(loader)
    waits.wait()
    {drop}
print("went on")
"""
    done = run_python(code, stream.path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "went on\n", "")


@needs_proc
def test_a_loader_dropped_in_its_own_worker_ends(stream: zr.DenseDataset) -> None:
    held: list[zr.DataLoader] = []

    def drop(batch: Any) -> Any:
        held.clear()
        gc.collect()
        return batch

    held.append(zr.DataLoader(stream, 2, 8, transform=drop))
    try:
        next(held[0])
    except zr.ClosedError:
        pass
    assert loader_threads(0) == 0


@needs_proc
def test_a_thousand_loaders_leave_no_memory_and_no_thread(stream: zr.DenseDataset) -> None:
    def use(count: int) -> None:
        for number in range(count):
            loader = zr.DataLoader(stream, 2, 8, transform=(None, len)[number % 2])
            next(loader)

    def resident() -> int:
        line = next(text for text in STATUS.read_text().splitlines() if text.startswith("VmRSS"))
        return int(line.split()[1]) // 1024

    use(200)
    before = resident()
    descriptors = len(os.listdir("/proc/self/fd"))
    use(1000)
    gc.collect()
    assert loader_threads(0) == 0
    assert len(os.listdir("/proc/self/fd")) == descriptors
    assert resident() - before < 24


PROGRAM = """
import sys, time, threading
import numpy as np, zrecord as zr
def transform(batch):
    time.sleep(0.005)
    return batch
ds = zr.DenseDataset(sys.argv[1])
streams = {"x": ds, "y": list(range(100))}
loader = zr.DataLoader(streams, 4, 8, transform=transform)
for step, batch in enumerate(loader):
    if step == 5:
        break
"""


@pytest.mark.parametrize(
    "ending",
    [
        "",
        "loader.close()",
        "del loader",
        "sys.exit(0)",
        "keep = [loader]; keep.append(keep)",
        "threading.Thread(target=lambda: [next(loader) for _ in range(3)]).start()",
        "other = zr.batches(streams, 3, transform=transform); next(other)",
        "import builtins; builtins.keep = (loader, batch)",
    ],
    ids=lambda code: code[:24] or "nothing",
)
def test_programs_end_cleanly_with_a_loader_open(stream: zr.DenseDataset, ending: str) -> None:
    done = run_python(PROGRAM + ending, stream.path)
    assert (done.returncode, done.stderr) == (0, "")


def test_an_exception_ends_the_program_as_usual(stream: zr.DenseDataset) -> None:
    done = run_python(PROGRAM + "raise SystemExit(3)", stream.path)
    assert (done.returncode, done.stderr) == (3, "")


@pytest.mark.skipif(sys.platform == "win32", reason="sends SIGINT")
@pytest.mark.parametrize("where", ["waiting", "transform", "inline"])
def test_ctrl_c_is_a_keyboard_interrupt(stream: zr.DenseDataset, where: str) -> None:
    workers = 0 if where == "inline" else 2
    code = f"""
import signal, sys, time
import zrecord as zr
# A parent in the background of a shell ignores Ctrl-C, and hands that down.
signal.signal(signal.SIGINT, signal.default_int_handler)
def transform(batch):
    if {where == "waiting"}:
        time.sleep(1.5)
    return batch
ds = zr.DenseDataset(sys.argv[1])
loader = zr.DataLoader(ds, {workers}, 8, transform=transform)
try:
    print("ready", flush=True)
    while True:
        next(loader)
except KeyboardInterrupt:
    next(loader)
    loader.close()
    print("interrupted", flush=True)
"""
    with subprocess.Popen(
        [sys.executable, "-c", code, str(stream.path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as program:
        try:
            assert program.stdout is not None
            assert program.stdout.readline() == "ready\n"
            time.sleep(0.3)
            program.send_signal(signal.SIGINT)
            out, err = program.communicate(timeout=20)
        finally:
            # One that did not hear would run for ever.
            program.kill()
    assert (program.returncode, out, err) == (0, "interrupted\n", "")


def test_several_threads_share_a_loader(stream: zr.DenseDataset) -> None:
    seen: list[tuple[int, ...]] = []
    lock = threading.Lock()
    with zr.DataLoader(stream, 3, 5, mode="cyclic") as loader:

        def work() -> None:
            for _ in range(20):
                batch = next(loader)
                with lock:
                    seen.append(tuple(batch[:, 0] // 10))

        threads = [threading.Thread(target=work) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    sampler = zr.Sampler(100, 5, "cyclic", 42)
    assert sorted(seen) == sorted(tuple(sampler.next().tolist()) for _ in range(120))


def test_a_waiting_thread_is_freed_by_close(stream: zr.DenseDataset) -> None:
    release = threading.Event()
    loader = zr.DataLoader(stream, 1, 8, transform=lambda batch: release.wait(20))
    outcome: list[Any] = []

    def wait() -> None:
        try:
            outcome.append(next(loader))
        except zr.ClosedError as error:
            outcome.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    time.sleep(0.1)
    closer = threading.Thread(target=loader.close)
    closer.start()
    thread.join(5)
    assert not thread.is_alive()
    assert isinstance(outcome[0], zr.ClosedError)
    release.set()
    closer.join(5)
    assert not closer.is_alive()
