"""Forks: whatever was open before one works in the child, or raises at once."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zrecord as zr
from support import in_child, run_python

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork"),
    # Python 3.12 warns of forks in processes with threads, which these tests are about.
    pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning"),
]

ROWS = np.arange(2000, dtype=np.int64).reshape(200, 10)
WORDS = [np.arange(n % 11, dtype=np.int16) for n in range(200)]
PROGRAMS = Path(__file__).parent / "programs"


@pytest.fixture
def dense(path: Path) -> zr.DenseDataset:
    zr.from_numpy(path / "dense", ROWS, "raw")
    return zr.DenseDataset(path / "dense")


@pytest.fixture
def ragged(path: Path) -> zr.RaggedDataset:
    zr.from_iterator(path / "ragged", WORDS)
    return zr.RaggedDataset(path / "ragged")


def test_a_child_neither_makes_a_store_nor_takes_another_for_its_own(path: Path) -> None:
    store = zr.Zrecord(path / "store")
    store.append(b"onetwo", [0, 3])

    uses: list[Callable[[], object]] = [lambda: len(store), lambda: store.append(b"three", [0])]

    def refuse() -> None:
        for use in uses:
            with pytest.raises(zr.StoreNotFoundError):
                use()

    (path / "store").rename(path / "moved")
    in_child(refuse)
    assert not (path / "store").exists()
    zr.Zrecord(path / "store").close()
    in_child(refuse)
    with zr.Zrecord(path / "store") as other:
        assert len(other) == 0


def test_every_handle_is_used_in_a_child_and_its_child(
    path: Path, dense: zr.DenseDataset, ragged: zr.RaggedDataset
) -> None:
    store = zr.Zrecord(path / "bytes")
    store.append(b"onetwothree", [0, 3, 6])
    view, sampler = dense.view(), zr.Sampler(200, 8, "cyclic", 1)
    drawn = sampler.at(0)

    def work() -> None:
        assert np.array_equal(dense[:], ROWS)
        assert np.array_equal(dense.gather([5, 5]), ROWS[[5, 5]])
        assert np.array_equal(dense.view(3, 7), ROWS[3:7])
        assert np.array_equal(view, ROWS)
        assert all(map(np.array_equal, ragged[:], WORDS))
        step = sampler.step
        assert np.array_equal(sampler.next(), sampler.at(step))
        assert (store.read(1), len(store), store.stats()["records"]) == (b"two", 3, 3)
        assert store.verify() == []
        with pytest.raises(zr.BusyError):
            store.append(b"four", [0])
        with pytest.raises(zr.BusyError):
            store.delete([0])

    def both() -> None:
        work()
        in_child(work)
        work()

    in_child(both)
    in_child(lambda: in_child(work))
    assert store.append(b"four", [0]) == 3
    assert np.array_equal(sampler.next(), drawn)


@pytest.mark.parametrize("transform", [None, list])
def test_a_loader_that_had_not_started_works_in_a_child(
    dense: zr.DenseDataset, ragged: zr.RaggedDataset, transform: Any
) -> None:
    streams = {"x": dense, "y": ragged}
    loader = zr.DataLoader(streams, 2, 8, mode="sequential", with_indices="at")
    moved = zr.DataLoader(dense, 2, 8, mode="sequential", transform=transform)
    moved.load_state_dict({**moved.state_dict(), "step": 3})
    one_pass = zr.batches(dense, 50, transform=transform)

    def work() -> None:
        for step in range(3):
            batch = next(loader)
            rows = slice(8 * step, 8 * step + 8)
            assert np.array_equal(batch["x"], ROWS[rows])
            assert all(map(np.array_equal, batch["y"], WORDS[rows]))
        assert loader.state_dict()["step"] == 3
        assert np.array_equal(np.stack(next(moved)), ROWS[24:32])
        assert np.array_equal(np.concatenate(list(one_pass)), ROWS)
        with pytest.raises(StopIteration):
            next(one_pass)
        dense.close()
        with pytest.raises(zr.ClosedError):
            list(loader)
        for each in (loader, moved, one_pass):
            each.close()

    in_child(work)
    in_child(lambda: in_child(work))
    work_in_parent = [next(loader)["at"].tolist(), next(moved)[0][0], len(next(one_pass))]
    assert work_in_parent == [list(range(8)), 240, 50]


def test_a_loader_that_runs_raises_in_a_child_whatever_is_asked(dense: zr.DenseDataset) -> None:
    loaders = [zr.DataLoader(dense, workers, 8) for workers in (0, 2)]
    one_pass = zr.batches(dense, 8)
    for each in (*loaders, one_pass):
        next(each)
    state = loaders[0].state_dict()

    def work() -> None:
        for loader in loaders:
            for use in (
                lambda loader=loader: next(loader),
                lambda loader=loader: loader.state_dict(),
                lambda loader=loader: loader.load_state_dict(state),
                lambda loader=loader: loader.step,
            ):
                with pytest.raises(zr.ForkedError, match="fork"):
                    use()
            assert loader.closed
            repr(loader)
            loader.close()
        with pytest.raises(zr.ForkedError):
            next(one_pass)
        one_pass.close()
        resumed = zr.DataLoader(dense, 2, 8)
        resumed.load_state_dict(state)
        assert resumed.step == 1
        next(resumed)

    in_child(work)
    for each in (*loaders, one_pass):
        next(each)


def test_a_loader_whose_dataset_nobody_else_has_gives_its_locks_up(
    path: Path, dense: zr.DenseDataset
) -> None:
    dense.close()
    loader = zr.DataLoader(zr.DenseDataset(path / "dense"), 2, 8)
    ready, done = os.pipe(), os.pipe()
    pid = os.fork()
    if pid == 0:
        os.write(ready[1], b".")
        os.read(done[0], 1)
        os._exit(0)
    os.read(ready[0], 1)
    del loader
    with zr.Zrecord(path / "dense") as store:
        store.delete([0])
    os.write(done[1], b".")
    assert os.waitpid(pid, 0)[1] == 0


def test_a_view_is_the_childs_too(path: Path, dense: zr.DenseDataset) -> None:
    view = dense.view()
    ready, done = os.pipe(), os.pipe()
    pid = os.fork()
    if pid == 0:
        os.write(ready[1], b".")
        os.read(done[0], 1)
        # What the parent has compacted since is another file.
        os._exit(0 if np.array_equal(view, ROWS) else 1)
    os.read(ready[0], 1)
    dense.close()
    with zr.Zrecord(path / "dense") as store:
        with pytest.raises(zr.BusyError):
            store.delete([0])
        del view
        store.delete(np.arange(100))
        store.compact()
        store.append(bytes(80 * 300), np.arange(300) * 80)
    os.write(done[1], b".")
    assert os.waitpid(pid, 0)[1] == 0


@pytest.mark.parametrize("ending", ["os._exit(0)", "sys.exit(0)", "pass", "1 / 0", "os.abort()"])
def test_however_a_child_ends_its_parents_locks_and_records_stay(path: Path, ending: str) -> None:
    code = f"""
import os, resource, sys, warnings
import numpy as np, zrecord as zr
warnings.simplefilter("ignore", DeprecationWarning)
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
zr.from_numpy(sys.argv[1], np.arange(2000).reshape(200, 10), "raw")
ds, store = zr.DenseDataset(sys.argv[1]), zr.Zrecord(sys.argv[1] + "-bytes")
store.append(b"abc", [0, 1, 2])
view, fresh = ds.view(), zr.DataLoader(ds, 2, 8)
running = zr.DataLoader(ds, 2, 8, transform=lambda batch: batch)
next(running)
pid = os.fork()
if pid == 0:
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    next(fresh), ds[:], view.sum(), store.read(0), len(store)
    {ending}
    sys.exit(0)
os.waitpid(pid, 0)
with zr.Zrecord(sys.argv[1] + "-bytes") as other:
    for refused in (lambda: other.append(b"x", [0]), lambda: other.delete([0])):
        try:
            refused()
        except zr.BusyError:
            continue
        raise SystemExit("the lock is gone")
assert store.append(b"d", [0]) == 3
store.close()
next(running), next(fresh)
assert ds.store.verify() == [] and int(view.sum()) == 1999000
with zr.Zrecord(sys.argv[1] + "-bytes") as store:
    assert b"".join(map(store.read, range(4))) == b"abcd"
    store.delete([0])
"""
    done = run_python(code, path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_child_forked_in_a_transform_or_in_progress_is_as_any_other(path: Path) -> None:
    code = """
import faulthandler, os, sys, warnings
import numpy as np, zrecord as zr
warnings.simplefilter("ignore", DeprecationWarning)
rows = np.arange(2000).reshape(200, 10)
zr.from_numpy(sys.argv[1], rows, "raw")
ds = zr.DenseDataset(sys.argv[1])
codes = []
def fork(use):
    pid = os.fork()
    if pid == 0:
        faulthandler.dump_traceback_later(60, exit=True)
        os._exit(use())
    codes.append(os.waitpid(pid, 0)[1])
def inside():
    assert np.array_equal(ds[:], rows)
    try:
        next(loader)
    except zr.ForkedError:
        return 0
    return 1
def transform(batch):
    fork(inside)
    return batch
loader = zr.DataLoader(ds, 1, 8, transform=transform, prefetch_size=1)
[next(loader) for _ in range(5)]
loader.close()
ds.close()
store = zr.Zrecord(sys.argv[1])
store.delete(np.arange(0, 200, 2))
def busy():
    try:
        store.read(0)
    except zr.BusyError:
        return 0
    return 1
called = []
def progress(done, total):
    if not called:
        called.append(done)
        fork(busy)
store.compact(progress)
assert called and set(codes) == {0}, (called, codes)
assert store.verify() == []
"""
    done = run_python(code, path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize("forks", [30, pytest.param(600, marks=pytest.mark.slow)])
@pytest.mark.timeout(1800)
def test_forks_at_random_moments_of_a_busy_process(tmp_path: Path, forks: int) -> None:
    seed = 1
    program = [sys.executable, str(PROGRAMS / "forks.py"), str(tmp_path), str(forks), str(seed)]
    done = subprocess.run(program, capture_output=True, text=True, timeout=1800, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"{forks} forks, seed {seed}: ")
