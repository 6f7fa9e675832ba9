"""The main job of Zrecord on real data, from one command.

Writes the handwritten digits, tiles of two photographs and the source text of
the Python standard library into stores with each codec, checks every record
that comes back, trains a classifier from the loader, stops it half way and
resumes it. Exits with an error as soon as a claim does not hold.

Run by ``cargo xtask demo``; by hand: ``python demo.py [--out FOLDER]``.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import time
from pathlib import Path

import sources
import stores
import training
import zrecord as zr
from report import Claims, table, thousands

HEADINGS = (
    *("dataset", "codec", "records", "plain KB", "stored KB", "ratio"),
    *("write MB/s", "gather MB/s"),
)
MARK = "made-by-demo.txt"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default="zrecord-demo", help="where the stores go")
    folder: Path = parser.parse_args().out
    started = time.perf_counter()
    claims = Claims()
    if not make_empty(folder):
        print(f"{folder} exists and this demo did not make it; name another --out", file=sys.stderr)
        return 2

    print(f"zrecord {zr.__version__}, stores in {folder}\n")
    write_every_store(folder, claims)
    training.demonstrate(folder / "training", claims)
    farewell(folder)
    print(f"\n{claims.held} claims checked, all hold; {time.perf_counter() - started:.0f} s.")
    return 0


def make_empty(folder: Path) -> bool:
    """Make ``folder``, anew if an earlier demo made it; false if somebody else did."""
    if folder.exists():
        if not (folder / MARK).exists():
            return False
        shutil.rmtree(folder)
    folder.mkdir(parents=True)
    (folder / MARK).write_text("Stores of the Zrecord demo; safe to delete.\n")
    return True


def write_every_store(folder: Path, claims: Claims) -> None:
    """Write each dataset with each codec, check it, and print what it took."""
    rows: list[tuple[str, ...]] = []
    datasets = (sources.digits(), sources.photographs(), sources.standard_library())
    for dataset in datasets:
        print(f"{dataset.name}: {dataset.description}")
    print()
    for dataset in datasets:
        for codec in ("raw", "zstd", "zstd_dict"):
            name = f"{dataset.name}-{codec}"
            result = stores.write_and_measure(folder / name, dataset, codec)
            claims.check(result.identical, f"{name}: every record reads back bit for bit")
            numbers = (
                thousands(result.records),
                thousands(result.plain_bytes / 1e3),
                thousands(result.stored_bytes / 1e3),
                f"{result.plain_bytes / result.stored_bytes:.2f}",
                thousands(result.write_mb_per_second),
                thousands(result.gather_mb_per_second),
            )
            rows.append((dataset.name, codec, *numbers))
    print()
    print(table(HEADINGS, rows, left=2))
    print()
    print("Plain is what the records hold; stored is every file of the store, which has a")
    print("header of 12 KB and 24 bytes of table for each record. Gathers are batches of 256")
    print("random records from memory (the page cache) into NumPy arrays.")
    print()


def farewell(folder: Path) -> None:
    """Say where everything is and what to try next."""
    example = folder / "photographs-zstd"
    print()
    print("Try next:")
    print(f"  cargo run --release -p zrecord-host --bin zrecord -- inspect {example}")
    print(f"  cargo run --release -p zrecord-host --bin zrecord -- verify {example}")
    print(f"  .venv/bin/python -c \"import zrecord as zr; print(zr.DenseDataset('{example}'))\"")


if __name__ == "__main__":
    sys.exit(main())
