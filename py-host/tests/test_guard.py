"""What a process survives when a mapped file is cut, beside other handlers."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import zrecord as zr
from support import run_python

pytestmark = pytest.mark.skipif(not hasattr(signal, "SIGBUS"), reason="needs SIGBUS")

OPEN = """
import faulthandler, mmap, os, signal, sys
import numpy as np
import zrecord as zr

faulthandler.disable()
if "before" in sys.argv:
    faulthandler.enable()
ds = zr.DenseDataset(sys.argv[1])
view = ds.view(0, 100)
if "after" in sys.argv:
    faulthandler.enable()
"""

CUT = """
os.truncate(os.path.join(sys.argv[1], "0.zr"), 8192)
assert not view[20:].any()
for _ in range(2):
    try:
        ds[:]
    except zr.CorruptError as error:
        assert "0.zr" in str(error), error
    else:
        sys.exit("a file that was cut is read")
assert len(ds) == 100
"""

FOREIGN = """
with open(os.path.join(sys.argv[1], "other"), "w+b") as file:
    file.write(bytes(8192))
    file.flush()
    mapped = mmap.mmap(file.fileno(), 8192)
    file.truncate(0)
    print("reading", flush=True)
    print(mapped[4096])
"""

FAULTHANDLERS = ["none", "before", "after"]


@pytest.fixture
def store(path: Path) -> Path:
    rows = np.arange(1, 102_401, dtype=np.int64).reshape(100, 1024)
    zr.from_numpy(path, rows, codec="raw")
    return path


@pytest.mark.parametrize("faulthandler", FAULTHANDLERS)
def test_a_file_that_is_cut_gives_an_error(store: Path, faulthandler: str) -> None:
    done = run_python(OPEN + CUT, store, faulthandler)
    assert done.returncode == 0, done.stderr
    # One that was enabled later is asked first, and says so.
    assert ("Bus error" in done.stderr) == (faulthandler == "after")


@pytest.mark.parametrize("faulthandler", FAULTHANDLERS)
def test_without_the_guard_it_ends_the_process(
    store: Path, faulthandler: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ZRECORD_SIGBUS", "0")
    done = run_python(OPEN + CUT, store, faulthandler)
    assert done.returncode == -signal.SIGBUS, done.stderr


@pytest.mark.parametrize("faulthandler", FAULTHANDLERS)
def test_the_fault_of_another_ends_the_process(store: Path, faulthandler: str) -> None:
    done = run_python(OPEN + FOREIGN, store, faulthandler)
    assert done.returncode == -signal.SIGBUS, done.stderr
    assert done.stdout == "reading\n"
    assert ("Fatal Python error: Bus error" in done.stderr) == (faulthandler != "none")


def test_a_handler_that_was_there_before_is_called_for_what_is_sent(store: Path) -> None:
    code = """
import os, signal, sys
import zrecord as zr

seen = []
signal.signal(signal.SIGBUS, lambda number, frame: seen.append(number))
ds = zr.DenseDataset(sys.argv[1])
ds[0]
print("ready", flush=True)
sys.stdin.readline()
assert seen == [signal.SIGBUS], seen
"""
    with subprocess.Popen(
        [sys.executable, "-c", code, store], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        assert child.stdout.readline() == b"ready\n"
        os.kill(child.pid, signal.SIGBUS)
        child.stdin.write(b"\n")
        child.stdin.close()
        assert child.wait(60) == 0


def test_a_signal_that_another_process_sends_ends_it(store: Path) -> None:
    code = OPEN + "print('ready', flush=True)\nsys.stdin.readline()\n"
    with subprocess.Popen(
        [sys.executable, "-c", code, store], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"ready\n"
        os.kill(child.pid, signal.SIGBUS)
        assert child.wait(60) == -signal.SIGBUS


def test_a_signal_sent_to_itself_ends_it_when_it_is_meant(store: Path) -> None:
    done = run_python(OPEN + "for _ in range(100): os.kill(os.getpid(), signal.SIGBUS)\n", store)
    assert done.returncode == -signal.SIGBUS, done.stderr
