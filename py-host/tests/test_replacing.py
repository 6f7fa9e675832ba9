"""Stores that take the place of others: whole, alone, and also when killed."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import zrecord as zr

posix = pytest.mark.skipif(sys.platform == "win32", reason="needs flock and SIGKILL")

KILLS = 20

REPLACE = """
import sys
import numpy as np, zrecord as zr
path, first = sys.argv[1], int(sys.argv[2])
say = lambda *words: print(*words, flush=True)
for number in range(first, first + 1000):
    say("begin", number)
    rows = np.full((60, 500), number)
    zr.from_numpy(path, rows, "raw", chunk_bytes=50_000, if_exists="replace", progress=say)
    say("done", number)
"""


def hidden(path: Path) -> list[str]:
    return sorted(found.name for found in path.parent.iterdir() if found.name.startswith("."))


@posix
def test_a_killed_replacement_leaves_one_store_or_the_other(path: Path) -> None:
    seeded = random.Random(1)
    zr.from_numpy(path, np.zeros((60, 500), np.int64))
    newest = 0
    left = 0
    for _ in range(KILLS):
        arguments = [sys.executable, "-c", REPLACE, str(path), str(newest + 1)]
        with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) as child:
            assert child.stdout is not None
            # It says seven lines or so for each replacement.
            said = [child.stdout.readline() for _ in range(seeded.randint(1, 14))]
            time.sleep(2 ** seeded.uniform(-14, -6))
            child.kill()
            said += child.stdout.readlines()
        assert child.returncode == -9
        begun = [int(line.split()[1]) for line in said if line.startswith("begin")]
        done = [int(line.split()[1]) for line in said if line.startswith("done")]
        with zr.DenseDataset(path) as ds:
            rows = ds[:]
            assert ds._store.verify() == []
        newest = int(rows[0, 0])
        assert (rows == newest).all()
        assert newest in {(done or [begun[0] - 1])[-1], begun[-1]}
        left += len(hidden(path))
        assert len(hidden(path)) <= 1
    assert left > 0, "no kill has left anything; the last assertion shows nothing"
    zr.from_numpy(path, np.arange(3), if_exists="replace")
    assert hidden(path) == []


@posix
def test_the_next_conversion_removes_what_a_killed_one_left(path: Path) -> None:
    zr.from_numpy(path, np.arange(3))
    code = f"""
import os, signal, sys
import numpy as np, zrecord as zr
kill = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
zr.from_numpy({str(path)!r}, np.arange(9), chunk_bytes=8, if_exists="replace", progress=kill)
"""
    assert subprocess.run([sys.executable, "-c", code]).returncode == -9
    assert len(hidden(path)) == 1
    # One that is under way is left alone.
    seen = []

    def look(*_: object) -> None:
        seen.append(hidden(path))

    zr.from_numpy(path, np.arange(4), if_exists="replace", progress=look)
    assert [len(names) for names in seen] == [1]
    assert hidden(path) == []
    with zr.DenseDataset(path) as ds:
        assert ds[:].tolist() == [0, 1, 2, 3]


@posix
def test_a_store_that_is_open_is_not_replaced(path: Path) -> None:
    zr.from_numpy(path, np.arange(3))
    with zr.DenseDataset(path) as ds:
        with pytest.raises(zr.BusyError):
            zr.from_numpy(path, np.arange(4), if_exists="replace")
        assert ds[:].tolist() == [0, 1, 2]
    assert hidden(path) == []
    zr.from_numpy(path, np.arange(4), if_exists="replace")


@posix
def test_a_child_of_a_replacing_process_takes_nothing_away(path: Path) -> None:
    zr.from_numpy(path, np.arange(3))
    code = f"""
import os, sys, warnings
warnings.simplefilter("ignore")
import numpy as np, zrecord as zr

def fork(done, total):
    pid = os.fork()
    if pid == 0:
        sys.exit(7)
    os.waitpid(pid, 0)

for how in ("replace", "append"):
    path = {str(path)!r} + ("" if how == "replace" else "-new")
    zr.from_numpy(path, np.arange(9), chunk_bytes=24, if_exists=how, progress=fork)
    with zr.DenseDataset(path) as ds:
        assert ds[:].tolist() == list(range(9)), ds[:]
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert hidden(path) == []
