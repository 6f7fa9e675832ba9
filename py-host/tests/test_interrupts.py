"""Ctrl-C is never lost, and a call that it comes into is whole or was not."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import zrecord as zr

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="sends SIGINT")

PROGRAM = """
import os, signal, sys, threading
import numpy as np, zrecord as zr
# A parent in the background of a shell ignores Ctrl-C, and hands that down.
signal.signal(signal.SIGINT, signal.default_int_handler)
path = sys.argv[1]
noise = np.random.default_rng(1).integers(0, 9, 12 << 20, np.uint8)
offsets = np.arange(0, len(noise), 4096)
{setup}
print("ready", flush=True)
try:
    while True:
        {call}
except KeyboardInterrupt:
    print("interrupted", flush=True)
{check}
print("whole", flush=True)
"""
READING = """
with zr.Zrecord(path, threads=1) as store:
    store.append(noise, offsets)
store = zr.Zrecord(path, mode="r", verify="always", threads=1)
everything = np.arange(len(store))
out = np.empty(len(noise), np.uint8)
"""
CALLS = {
    "append": (
        "store = zr.Zrecord(path, level=6, threads=1)",
        "store.append(noise[: 4 << 20], offsets[:1024])",
        "assert len(store) % 1024 == 0 and store.verify() == []",
    ),
    "gather": (
        READING,
        "store.gather(everything, out, offsets)",
        "store.gather(everything, out, offsets); assert np.array_equal(out, noise)",
    ),
    "verify": (READING, "store.verify()", "assert store.verify() == []"),
    "compact": (
        "store = zr.Zrecord(path, 'raw')\nstore.append(noise, offsets)",
        "store.delete([0]); store.compact()",
        "assert store.verify() == []; store.close(); assert zr.Zrecord(path).verify() == []",
    ),
    "convert": (
        "rows = noise.reshape(-1, 4096)",
        "zr.from_numpy(path, rows, level=6, chunk_bytes=1 << 20)",
        "assert not os.path.exists(path) or len(zr.DenseDataset(path)) % len(rows) == 0",
    ),
    "convert an iterator": (
        "rows = noise.reshape(-1, 4096)",
        "zr.from_iterator(path, rows, 'zstd_dict', level=6, chunk_bytes=1 << 20)",
        "assert not os.path.exists(path) or len(zr.RaggedDataset(path)) % len(rows) == 0",
    ),
    "train": (
        "store = zr.Zrecord(path)",
        "store.train_dict(noise[: 4 << 20], np.full(1024, 4096), 1 << 17)",
        "assert store.verify() == []",
    ),
    "sync": (
        "store = zr.Zrecord(path, 'raw')",
        "store.append(noise[:8 << 20], offsets[:2048]); store.sync()",
        "assert len(store) % 2048 == 0 and store.verify() == []",
    ),
    "dataset": (
        "zr.from_numpy(path, noise.reshape(-1, 4096)); ds = zr.DenseDataset(path)",
        "ds[:]",
        "assert np.array_equal(ds[:], noise.reshape(-1, 4096))",
    ),
    "loader": (
        "zr.from_numpy(path, noise.reshape(-1, 4096)); ds = zr.DenseDataset(path)\n"
        "loader = zr.DataLoader(ds, 2, 2048, mode='sequential')",
        "next(loader)",
        "step = loader.step; assert np.array_equal(next(loader), "
        "ds[np.arange(2048 * step, 2048 * step + 2048) % len(ds)]); loader.close()",
    ),
}


@pytest.mark.parametrize("name", CALLS)
def test_ctrl_c_in_a_long_call_is_a_keyboard_interrupt(path: Path, name: str) -> None:
    setup, call, check = CALLS[name]
    code = PROGRAM.format(setup=setup, call=call, check=check)
    with subprocess.Popen(
        [sys.executable, "-X", "faulthandler", "-c", code, str(path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as program:
        try:
            assert program.stdout is not None
            assert program.stdout.readline() == "ready\n"
            time.sleep(0.2)
            program.send_signal(signal.SIGINT)
            out, err = program.communicate(timeout=100)
        finally:
            # One that did not hear would run for ever.
            program.kill()
    assert (program.returncode, out, err) == (0, "interrupted\nwhole\n", "")
    assert not list(path.parent.glob(f".{path.name}.*"))
    if path.exists():
        with zr.Zrecord(path) as store:
            assert store.verify() == []
