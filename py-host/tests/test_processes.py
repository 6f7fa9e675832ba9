"""Forks, pickles, threads, and interpreters that end."""

from __future__ import annotations

import os
import pickle
import sys
import threading
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zrecord as zr
from support import in_child, run_python

ROWS = np.arange(2000, dtype=np.int64).reshape(200, 10)

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
# Python 3.12 warns of forks in processes with threads, which these tests are about.
forking = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")


@pytest.fixture
def ds(path: Path) -> zr.DenseDataset:
    zr.from_numpy(path, ROWS)
    ds = zr.DenseDataset(path)
    ds[np.tile(np.arange(200), 50)]
    return ds


@needs_fork
@forking
def test_a_dataset_works_in_a_forked_child(ds: zr.DenseDataset) -> None:
    def work() -> None:
        assert np.array_equal(ds[:], ROWS)
        assert np.array_equal(ds[np.tile(np.arange(200), 50)], np.tile(ROWS, (50, 1)))
        ds.close()

    for _ in range(5):
        in_child(work)
    assert np.array_equal(ds[:], ROWS)


@needs_fork
@forking
def test_a_closed_dataset_stays_closed_in_a_child(ds: zr.DenseDataset) -> None:
    ds.close()

    def work() -> None:
        with pytest.raises(zr.ClosedError):
            ds[0]

    in_child(work)


@needs_fork
@forking
def test_a_child_does_not_hold_its_parents_locks(path: Path) -> None:
    store = zr.Zrecord(path)
    store.append(b"a", [0])
    ready, done = os.pipe(), os.pipe()
    pid = os.fork()
    if pid == 0:
        os.write(ready[1], b".")
        os.read(done[0], 1)
        os._exit(0)
    os.read(ready[0], 1)
    store.close()
    with zr.Zrecord(path) as again:
        again.append(b"b", [0])
        again.delete([0])
        assert len(again) == 1
    os.write(done[1], b".")
    assert os.waitpid(pid, 0)[1] == 0


@needs_fork
@forking
def test_a_child_may_write_once_its_parent_has_closed(path: Path) -> None:
    store = zr.Zrecord(path)
    store.append(b"a", [0])

    def refused() -> None:
        with pytest.raises(zr.BusyError):
            store.append(b"b", [0])
        assert store.read(0) == b"a"

    in_child(refused)
    copied = zr.Zrecord(path)
    store.close()

    def written() -> None:
        copied.append(b"b", [0])
        copied.close()

    in_child(written)
    assert len(copied) == 2
    assert copied.read(1) == b"b"


@needs_fork
@forking
def test_a_loader_raises_in_a_forked_child(ds: zr.DenseDataset) -> None:
    with zr.DataLoader(ds, 2, 8, transform=lambda batch: batch) as loader:
        next(loader)

        def work() -> None:
            with pytest.raises(zr.ForkedError):
                next(loader)
            loader.close()
            with zr.DataLoader(ds, 2, 8) as own:
                next(own)

        in_child(work)
        next(loader)


@needs_fork
@forking
def test_a_forked_child_ends_like_any_program(ds: zr.DenseDataset) -> None:
    code = """
import os, sys
import zrecord as zr
ds = zr.DenseDataset(sys.argv[1])
loader = zr.DataLoader(ds, 2, 8, transform=lambda batch: batch)
next(loader)
pid = os.fork()
if pid == 0:
    ds[0]
    sys.exit(0)
sys.exit(os.waitpid(pid, 0)[1])
"""
    if sys.version_info >= (3, 12):
        code = "import warnings; warnings.simplefilter('ignore')\n" + code
    for _ in range(5):
        done = run_python(code, ds.path)
        assert (done.returncode, done.stderr) == (0, "")


def total(stream: Any, index: int) -> int:
    return int(np.sum(stream[index]))


@needs_fork
@forking
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_datasets_go_to_worker_processes(ds: zr.DenseDataset, method: str) -> None:
    with ProcessPoolExecutor(2, get_context(method)) as pool:
        results = list(pool.map(total, [ds] * 20, range(20)))
    assert results == ROWS[:20].sum(1).tolist()


def test_pickling_reopens_by_path(path: Path, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    zr.from_numpy("store", ROWS, metadata={"a": 1})
    zr.from_iterator("ragged", [ROWS[0], ROWS[1, :3]])
    dense = zr.DenseDataset("store", verify="always", io="pread")
    ragged, store = zr.RaggedDataset("ragged"), zr.Zrecord("store", mode="r")
    pickled = pickle.dumps([dense, ragged, store])
    monkeypatch.chdir("/")
    dense_again, ragged_again, store_again = pickle.loads(pickled)
    assert np.array_equal(dense_again[:], ROWS)
    assert dense_again.metadata == {"a": 1}
    assert dense_again._options == {"verify": "always", "io": "pread", "threads": None}
    assert np.array_equal(ragged_again[1], ROWS[1, :3])
    assert store_again.mode == "r"
    assert len(store_again) == 200
    for handle in (dense, ragged, store):
        handle.close()
    assert np.array_equal(dense_again[5], ROWS[5])


def test_threads_gather_and_append_at_once(path: Path) -> None:
    errors: list[BaseException] = []
    with zr.Zrecord(path, "raw") as store:
        store.append(np.zeros(64, np.uint8), [0])

        def append(number: int) -> None:
            block = np.full(64 * 10, number, np.uint8)
            for _ in range(20):
                first = store.append(block, np.arange(10) * 64)
                out = np.zeros(640, np.uint8)
                store.gather(np.arange(first, first + 10), out, np.arange(10) * 64)
                assert np.array_equal(out, block)

        def read() -> None:
            for _ in range(50):
                count = len(store)
                out = np.zeros(64 * count, np.uint8)
                store.gather(np.arange(count), out, np.arange(count) * 64)
                rows = out.reshape(count, 64)
                assert (rows == rows[:, :1]).all()

        with ThreadPoolExecutor(6) as pool:
            jobs = [pool.submit(append, n) for n in range(1, 4)]
            jobs += [pool.submit(read) for _ in range(3)]
            errors += [error for job in jobs if (error := job.exception())]
        assert not errors
        assert len(store) == 601
        assert store.verify() == []


def test_closing_beside_gathers_is_an_error_not_a_crash(ds: zr.DenseDataset) -> None:
    started = threading.Barrier(5)
    outcomes: list[str] = []

    def hammer() -> None:
        started.wait()
        try:
            while True:
                assert np.array_equal(ds[np.arange(200)], ROWS)
        except zr.ClosedError:
            outcomes.append("closed")

    threads = [threading.Thread(target=hammer) for _ in range(4)]
    for thread in threads:
        thread.start()
    started.wait()
    ds.close()
    for thread in threads:
        thread.join()
    assert outcomes == ["closed"] * 4


def test_the_gil_is_let_go(path: Path) -> None:
    rows = np.random.default_rng(0).integers(0, 9, (200, 1 << 16), np.uint8)
    zr.from_numpy(path, rows)
    ds = zr.DenseDataset(path, threads=1)
    ticks = 0
    stop = threading.Event()

    def tick() -> None:
        nonlocal ticks
        while not stop.is_set():
            ticks += 1

    # Nobody takes the lock from a thread that keeps it, for this long.
    sys.setswitchinterval(1)
    try:
        thread = threading.Thread(target=tick)
        thread.start()
        before = ticks
        ds[np.arange(200)]
        assert ticks > before
    finally:
        stop.set()
        sys.setswitchinterval(0.005)
        thread.join()


def test_one_out_is_not_written_by_two_threads(ds: zr.DenseDataset) -> None:
    out = np.zeros((200, 10), np.int64)
    outcomes: set[type] = set()

    def hammer() -> None:
        for _ in range(200):
            try:
                ds.gather(np.arange(200), out)
                outcomes.add(int)
            except ValueError as error:
                outcomes.add(type(error))

    with ThreadPoolExecutor(4) as pool:
        for job in [pool.submit(hammer) for _ in range(4)]:
            job.result()
    assert int in outcomes
    assert np.array_equal(out, ROWS)


def test_programs_end_cleanly_with_stores_open(ds: zr.DenseDataset) -> None:
    code = """
import sys
import numpy as np, zrecord as zr
stores = [zr.DenseDataset(sys.argv[1]) for _ in range(3)]
for ds in stores:
    ds[np.tile(np.arange(200), 50)]
writer = zr.Zrecord(sys.argv[1] + "-new")
writer.append(np.zeros(1 << 20, np.uint8), np.arange(1000))
"""
    for number in range(5):
        done = run_python(code.replace("-new", f"-{number}"), ds.path)
        assert (done.returncode, done.stderr) == (0, "")
        with zr.Zrecord(f"{ds.path}-{number}", mode="r") as store:
            assert len(store) == 1000


@pytest.mark.skipif(sys.platform != "linux", reason="counts threads in /proc")
@pytest.mark.parametrize("threads", [1, 3])
def test_the_environment_says_how_many_threads(
    ds: zr.DenseDataset, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ZRECORD_THREADS", str(threads))
    code = """
import os, sys
import numpy as np, zrecord as zr
before = len(os.listdir("/proc/self/task"))
ds = zr.DenseDataset(sys.argv[1])
for _ in range(20):
    ds[np.tile(np.arange(200), 500)]
print(len(os.listdir("/proc/self/task")) - before)
"""
    done = run_python(code, ds.path)
    assert done.stderr == ""
    # The caller's thread works too.
    assert threads - 1 <= int(done.stdout) <= threads


def test_read_only_directories_are_read(ds: zr.DenseDataset) -> None:
    ds.close()
    names = sorted(os.listdir(ds.path))
    ds.path.chmod(0o500)
    try:
        with zr.DenseDataset(ds.path) as again:
            assert np.array_equal(again[:], ROWS)
        assert sorted(os.listdir(ds.path)) == names
    finally:
        ds.path.chmod(0o700)
