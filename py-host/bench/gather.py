"""Random gathers, timed beside loaderx 0.9.4 and NumPy on a memory map.

Every contestant first gives its answer, which is compared with the plain
array; only then are all of them timed, in turn, round after round, so that a
change of the machine's mood meets them all. Medians are printed. Nothing is
asserted about speed: this is a benchmark, not a test.

Run by ``cargo xtask bench``; it refuses a debug build.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

import numpy as np
from contestants import Workload, contestants
from machine import describe, require_release_build
from timing import check_answers, interleave, print_table

CODECS = ("raw", "zstd")


def main() -> int:
    arguments = parse()
    require_release_build()
    print(describe())
    print(
        f"\n{arguments.batch} random records of {arguments.record_bytes:,} bytes a batch, "
        f"{arguments.records:,} records, {arguments.rounds} rounds, warm page cache"
    )
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        for name, make in (("noisy", noisy), ("smooth", smooth)):
            rows = make(arguments.records, arguments.record_bytes)
            for codec in CODECS:
                workload = Workload(Path(folder) / f"{name}-{codec}", rows, codec, arguments.batch)
                with contestants(workload) as (entrants, ratio):
                    check_answers(entrants, workload)
                    medians = interleave(entrants, workload, arguments.rounds)
                title = f"{name} data, {codec}, ratio {ratio:.2f}"
                print_table(title, medians, workload.batch_bytes)
    return 0


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Time random gathers beside loaderx and NumPy.")
    parser.add_argument("--records", type=int, default=8192, help="records in each store")
    parser.add_argument("--record-bytes", type=int, default=12 << 10, help="bytes of a record")
    parser.add_argument("--batch", type=int, default=256, help="records in a batch")
    parser.add_argument("--rounds", type=int, default=200, help="batches per contestant")
    parser.add_argument("--folder", type=Path, default=None, help="where stores are made")
    return parser.parse_args()


def noisy(records: int, record_bytes: int) -> np.ndarray:
    """Data that zstd hardly shrinks, by a ratio of 1.08: Gaussian noise."""
    noise = np.random.default_rng(1).normal(128, 38, (records, record_bytes))
    return noise.clip(0, 255).astype(np.uint8)


def smooth(records: int, record_bytes: int) -> np.ndarray:
    """Data that zstd shrinks ninefold: a slow random walk."""
    rng = np.random.default_rng(2)
    moves = rng.random((records, record_bytes), dtype=np.float32) < 0.053
    ups = rng.integers(0, 2, (records, record_bytes), dtype=np.int8) * np.int8(2) - np.int8(1)
    return np.cumsum(moves * ups, axis=1, dtype=np.int8).view(np.uint8)


if __name__ == "__main__":
    sys.exit(main())
