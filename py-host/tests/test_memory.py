"""Converters stream: memory is a few blocks, however large the array."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from support import run_python

CODE = """
import resource, sys, threading
import numpy as np, zrecord as zr
source, target, codec, kind = sys.argv[1:]
array = np.load(source, mmap_mode="r")

def anonymous():
    # Pages of the mapped array are the system's to keep or drop.
    with open("/proc/self/status") as status:
        fields = dict(line.split(":") for line in status)
    return int(fields["RssAnon"].split()[0]) >> 10

peak, before = 0, anonymous()
def look(done, total):
    global peak
    peak = max(peak, anonymous())
stop = threading.Event()
def watch():
    while not stop.wait(0.005):
        look(0, 0)
watcher = threading.Thread(target=watch)
watcher.start()
if kind == "array":
    zr.from_numpy(target, array, codec, level=1)
else:
    zr.from_iterator(target, iter(array), codec, level=1)
stop.set()
watcher.join()
with zr.Zrecord(target, mode="r") as store:
    assert len(store) == len(array)
print(peak - before)
"""


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("codec", ["raw", "zstd", "zstd_dict"])
@pytest.mark.parametrize("kind", ["array", "iterator"])
def test_converting_two_gibibytes_takes_less_than_300_mebibytes(
    tmp_path: Path, codec: str, kind: str
) -> None:
    size = 2 << 30 if codec == "raw" and kind == "array" else 512 << 20
    rows = size >> 14
    # A sparse file: it takes no disk.
    source = tmp_path / "array.npy"
    header = np.lib.format.open_memmap(source, "w+", np.uint8, (rows, 1 << 14))
    header[:: max(1, rows // 512)] = 1
    del header
    done = run_python(CODE, source, tmp_path / "store", codec, kind, timeout=500)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 300
