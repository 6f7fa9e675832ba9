"""Descriptors, mappings and threads: bounded while open, given back by close."""

from __future__ import annotations

import gc
import itertools
import os
import sys
from pathlib import Path

import numpy as np
import pytest
import zrecord as zr
from support import run_python

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="counts in /proc")

ROWS = np.arange(2000, dtype=np.int64).reshape(200, 10)


def descriptors(path: Path) -> int:
    """How many descriptors of this process lie in a directory, or are it."""
    count = 0
    for entry in os.listdir("/proc/self/fd"):
        try:
            target = os.readlink(f"/proc/self/fd/{entry}")
        except OSError:
            continue
        count += target.removesuffix(" (deleted)").startswith(str(path))
    return count


def mappings(path: Path) -> int:
    """How many mappings of this process are of files in a directory."""
    return sum(str(path) in line for line in Path("/proc/self/maps").read_text().splitlines())


def held(path: Path) -> tuple[int, int]:
    return descriptors(path), mappings(path)


@pytest.mark.parametrize("codec", ["raw", "zstd"])
@pytest.mark.parametrize("io", ["map", "pread"])
def test_thousands_of_opened_stores_leave_nothing(path: Path, codec: str, io: str) -> None:
    zr.from_numpy(path, ROWS, codec)

    def use(count: int) -> None:
        for number in range(count):
            dense = zr.DenseDataset(path, io=io)
            assert dense[number % 200, 3] == ROWS[number % 200, 3]
            if number % 2:
                dense.close()
            if number % 50 == 0:
                with zr.Zrecord(path) as store:
                    store._native.lock_writer()

    use(10)
    gc.collect()
    assert held(path) == (0, 0)
    before = len(os.listdir("/proc/self/fd"))
    use(1000)
    gc.collect()
    assert held(path) == (0, 0)
    assert len(os.listdir("/proc/self/fd")) == before


def test_what_one_store_holds_is_bounded_and_goes_with_close(path: Path) -> None:
    zr.from_numpy(path, ROWS, "raw")
    dense = zr.DenseDataset(path)
    for _ in range(100):
        dense[:]
    # The directory for its lock, the table for two readers, and the chunk.
    assert held(path) == (4, 2)
    with zr.DataLoader(dense, 2, 8) as loader:
        for _ in range(100):
            next(loader)
        assert held(path) == (4, 2)
        dense.close()
        assert held(path) == (0, 0)
        with pytest.raises(zr.ClosedError):
            list(itertools.islice(loader, 100))


def test_a_view_keeps_its_map_and_its_lock_and_no_more(path: Path) -> None:
    zr.from_numpy(path, ROWS, "raw")
    dense = zr.DenseDataset(path)
    views = [dense.view(number, number + 5) for number in range(20)]
    dense.close()
    assert held(path)[1] <= 2 * len(views)
    with zr.Zrecord(path) as store, pytest.raises(zr.BusyError):
        store.delete([0])
    del views[1:]
    gc.collect()
    assert held(path)[1] <= 2
    assert np.array_equal(views[0], ROWS[:5])
    inside = views[0][2:4, 1]
    views.clear()
    gc.collect()
    # A slice of it keeps it as well.
    assert held(path)[1] > 0
    assert np.array_equal(inside, ROWS[2:4, 1])
    del inside
    gc.collect()
    assert held(path) == (0, 0)
    with zr.Zrecord(path) as store:
        store.delete([0])


def test_a_batch_outlives_its_store_and_holds_no_file(path: Path) -> None:
    zr.from_numpy(path, np.tile(ROWS, (10, 1)), "zstd")
    dense = zr.DenseDataset(path)
    loader = zr.DataLoader(dense, 2, 500, mode="sequential")
    batches = [dense[:], dense[5], *(next(loader) for _ in range(3))]
    loader.close()
    dense.close()
    del loader, dense
    gc.collect()
    assert held(path) == (0, 0)
    assert np.array_equal(batches[0][:200], ROWS)
    assert np.array_equal(batches[2][:200], ROWS)


def test_running_out_of_descriptors_is_an_oserror_that_passes(path: Path) -> None:
    code = """
import errno, os, resource, sys
import numpy as np, zrecord as zr
rows = np.arange(2000).reshape(200, 10)
zr.from_numpy(sys.argv[1], rows, "raw")
unread = zr.DenseDataset(sys.argv[1])
resource.setrlimit(resource.RLIMIT_NOFILE, (64, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
opened = []
def refused(use):
    try:
        use()
    except zr.ZrecordError as error:
        assert isinstance(error, OSError) and error.errno == errno.EMFILE, repr(error)
        assert "Too many open files" in str(error) and sys.argv[1] in str(error), error
        return True
    return False
while not refused(lambda: opened.append(zr.DenseDataset(sys.argv[1]))):
    assert len(opened) < 64
spare = [os.open(os.devnull, os.O_RDONLY) for _ in range(64 - len(os.listdir("/proc/self/fd")) + 1)]
assert refused(lambda: unread[:])
assert refused(lambda: zr.Zrecord(sys.argv[1] + "-new"))
assert refused(lambda: zr.from_numpy(sys.argv[1], rows))
assert refused(lambda: next(zr.DataLoader(unread, 0, 8)))
assert refused(lambda: next(zr.DataLoader(unread, 2, 8)))
for descriptor in spare:
    os.close(descriptor)
assert np.array_equal(unread[:], rows)
for dense in opened:
    dense.close()
opened.clear()
assert zr.from_numpy(sys.argv[1], rows) == 200
assert len(zr.Zrecord(sys.argv[1] + "-new")) == 0
assert unread.store.verify() == [] and len(unread) == 400
"""
    done = run_python(code, path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
