"""Everything at once, closed at any moment: documented errors, right bytes, no crash."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import zrecord as zr
from support import run_python

PROGRAMS = Path(__file__).parent / "programs"


@pytest.mark.parametrize("rounds", [25, pytest.param(1000, marks=pytest.mark.slow)])
@pytest.mark.timeout(3600)
def test_calls_from_many_threads_while_all_is_closed(tmp_path: Path, rounds: int) -> None:
    seed = 1
    program = [sys.executable, str(PROGRAMS / "stress.py"), str(tmp_path), str(rounds), str(seed)]
    done = subprocess.run(program, capture_output=True, text=True, timeout=3600, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"{rounds} rounds, seed {seed}: ")
    # A round that closes before anything has begun would show nothing.
    for seen in ("append: done", "gather: done", "delete: done", "load: done", "view: done"):
        assert seen in done.stdout
    assert "gather: ClosedError" in done.stdout


@pytest.mark.parametrize(
    "call",
    [
        "ds[np.arange(200)]",
        "store.append(block, np.arange(256) * 4096)",
        "next(loader)",
        "len(store)",
        "ds.store.verify()",
        "ds.view()",
    ],
)
def test_the_interpreter_ends_beside_threads_that_are_in_calls(path: Path, call: str) -> None:
    code = f"""
import sys, threading, time
import numpy as np, zrecord as zr
zr.from_numpy(sys.argv[1], np.arange(200_000).reshape(200, 1000), "raw")
ds = zr.DenseDataset(sys.argv[1])
store = zr.Zrecord(sys.argv[1] + "-bytes")
loader = zr.DataLoader(ds, 2, 64, transform=lambda batch: batch)
block = np.zeros(1 << 20, np.uint8)
calls = []
def repeat():
    try:
        while True:
            {call}
            calls.append(1)
    except zr.ClosedError:
        pass
for _ in range(3):
    threading.Thread(target=repeat, daemon=True).start()
while len(calls) < 3:
    time.sleep(0.001)
"""
    for _ in range(2):
        done = run_python(code, path)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
        for name in (path, path.with_name("store-bytes")):
            with zr.Zrecord(name) as store:
                assert store.verify() == []
            for file in name.iterdir():
                file.unlink()
