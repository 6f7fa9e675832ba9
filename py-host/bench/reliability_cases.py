"""What one process does in a reliability test, with either package.

``python reliability_cases.py PACKAGE CASE FOLDER SEED`` prints what came of the
case as its last line: ``right`` when every answer was right, ``refused: ...``
when the package said what was wrong, and ``WRONG: ...`` when it gave wrong bytes
or lost records without a word. To crash and to hang is left to the package.

Both packages have the same names, so each case is written once.
"""

from __future__ import annotations

import importlib
import os
import random
import struct
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

PACKAGE = sys.argv[1]
CASE = sys.argv[2]
FOLDER = Path(sys.argv[3])
SEED = int(sys.argv[4])

converter, dataloader, dataset, store_module = (
    importlib.import_module(f"{PACKAGE}.{name}")
    for name in ("converter", "dataloader", "dataset", "zrecord")
)

RECORD_LEN = 64 << 10
RECORDS = 300
ROWS = np.arange(2000 * 64, dtype=np.int32).reshape(2000, 64)


def record(number: int) -> bytes:
    return struct.pack("<Q", number) * (RECORD_LEN // 8)


def open_store(folder: Path = FOLDER, codec: str = "raw") -> Any:
    # Ours writes loaderx's format, so that both are asked about the same bytes.
    if PACKAGE == "zrecord" and not (folder / "meta.zr").exists():
        return store_module.Zrecord(str(folder), codec, format=FORMAT)
    return store_module.Zrecord(str(folder), codec)


FORMAT = os.environ.get("RELIABILITY_FORMAT", "classic")


def write_rows(codec: str = "raw") -> None:
    options = {"format": FORMAT} if PACKAGE == "zrecord" else {}
    converter.from_numpy(str(FOLDER), ROWS, codec, **options)


def compare(found: Any, wanted: Any, what: str) -> str:
    return "right" if np.array_equal(found, wanted) else f"WRONG: {what}"


# Killed while compacting.


def make_compactable() -> str:
    with open_store() as store:
        block = b"".join(map(record, range(RECORDS)))
        store.append(np.frombuffer(block, np.uint8), np.arange(RECORDS) * RECORD_LEN)
        store.delete(np.array(deleted()))
    return "right"


def deleted() -> list[int]:
    return sorted(random.Random(SEED).sample(range(RECORDS), RECORDS // 2))


def remaining() -> list[int]:
    left = list(range(RECORDS))
    for index in reversed(deleted()):
        last = left.pop()
        if index < len(left):
            left[index] = last
    return left


def compact() -> str:
    with open_store() as store:
        print("ready", flush=True)
        started = time.perf_counter()
        store.compact()
        print(time.perf_counter() - started, flush=True)
    return "right"


def check_compacted() -> str:
    """As it was left, and once the compaction was run again."""
    damaged = []
    for again in (False, True):
        with open_store() as store:
            if again:
                store.compact()
            numbers = remaining()
            if len(store) != len(numbers):
                return f"WRONG: {len(store)} records, not {len(numbers)}"
            found = np.empty((len(numbers), RECORD_LEN), np.uint8)
            store.gather(np.arange(len(numbers)), found, np.arange(len(numbers)) * RECORD_LEN)
            wanted = np.array(numbers, np.uint64)[:, None]
            damaged.append(int((found.view(np.uint64) != wanted).any(1).sum()))
    return "right" if damaged == [0, 0] else f"WRONG: {max(damaged)} records damaged"


# Two writers.


def write_beside() -> str:
    written = 0
    for number in range(100):
        while True:
            try:
                with open_store() as store:
                    block = np.full(20 * 64, SEED, np.uint8)
                    store.append(block, np.arange(20) * 64)
                written += 20
                break
            except Exception as error:
                # Only ours has this, and says that nothing was written.
                if type(error).__name__ != "BusyError":
                    raise
                time.sleep(0.001 * (1 + number % 3))
    return f"right {written}"


def count_written() -> str:
    with open_store() as store:
        length = len(store)
        found = np.empty((length, 64), np.uint8)
        store.gather(np.arange(length), found, np.arange(length) * 64)
    torn = int((found != found[:, :1]).any(1).sum())
    if length == 4000 and torn == 0:
        return "right"
    return f"WRONG: {4000 - length} of 4000 records lost, {torn} torn"


# Forks.


def after_fork(use: Callable[[], str]) -> str:
    pid = os.fork()
    if pid == 0:
        try:
            answer = use()
        except Exception as error:
            answer = f"refused: {error}"
        os._exit({"right": 0, "refu": 1}.get(answer[:4].rstrip(), 2) if answer != "right" else 0)
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            code = os.waitstatus_to_exitcode(status)
            return {0: "right", 1: "refused: an error"}.get(code, f"WRONG: child gave {code}")
        time.sleep(0.01)
    os.kill(pid, 9)
    os.waitpid(pid, 0)
    return "WRONG: the child hangs"


def gather_after_fork() -> str:
    write_rows("zstd")
    ds = dataset.DenseDataset(str(FOLDER))
    picked = np.random.default_rng(SEED).integers(0, 2000, 1500)
    ds[picked]
    return after_fork(lambda: compare(ds[picked], ROWS[picked], "other bytes"))


def load_after_fork() -> str:
    write_rows("zstd")
    ds = dataset.DenseDataset(str(FOLDER))
    loader = dataloader.DataLoader({"x": ds}, 2, 256)
    next(loader)

    def use() -> str:
        # What the parent had made ahead comes first.
        for _ in range(20):
            next(loader)
        return "right"

    answer = after_fork(use)
    loader.close()
    return answer


# Damaged files.


def prepare_damage() -> None:
    with open_store() as store:
        block = b"".join(map(record, range(40)))
        store.append(np.frombuffer(block, np.uint8), np.arange(40) * RECORD_LEN)


def read_damaged() -> str:
    # Ours can be told that there must be a store; loaderx makes one, empty.
    options = {"mode": "r"} if PACKAGE == "zrecord" else {}
    with store_module.Zrecord(str(FOLDER), "raw", **options) as store:
        length = len(store)
        if length < 40:
            return f"WRONG: opened with {length} of 40 records"
        # One more than there are, where the header counts more.
        count = min(length, 41)
        found = np.full((count, RECORD_LEN), 0xEE, np.uint8)
        store.gather(np.arange(count), found, np.arange(count) * RECORD_LEN)
    wanted = np.arange(40, dtype=np.uint64)[:, None]
    wrong = int((found[:40].view(np.uint64) != wanted).any(1).sum())
    if wrong > 0:
        return f"WRONG: {wrong} of 40 records, no error"
    return "right" if count == 40 else "WRONG: a record that was never written"


def patch(name: str, offset: int, data: bytes) -> None:
    with (FOLDER / name).open("r+b") as file:
        file.seek(offset)
        file.write(data)


ENTRY = 16 + 5 * 16
"""Where the table of loaderx's format has record 5."""
DAMAGES: dict[str, Callable[[], object]] = {
    "a chunk cut in half": lambda: os.truncate(FOLDER / "0.zr", 20 * RECORD_LEN),
    "a chunk cut to nothing": lambda: os.truncate(FOLDER / "0.zr", 0),
    "a chunk deleted": lambda: (FOLDER / "0.zr").unlink(),
    "an empty table": lambda: os.truncate(FOLDER / "meta.zr", 0),
    "a table cut in its header": lambda: os.truncate(FOLDER / "meta.zr", 10),
    "a table cut in its entries": lambda: os.truncate(FOLDER / "meta.zr", 16 + 100),
    "length 2^32 - 1": lambda: patch("meta.zr", 12, b"\xff" * 4),
    "length 41": lambda: patch("meta.zr", 12, struct.pack("<I", 41)),
    "tail chunk 65535": lambda: patch("meta.zr", 6, b"\xff\xff"),
    "tail offset 2^32 - 1": lambda: patch("meta.zr", 8, b"\xff" * 4),
    "an entry in chunk 9": lambda: patch("meta.zr", ENTRY + 12, struct.pack("<H", 9)),
    "an entry past its chunk": lambda: patch("meta.zr", ENTRY, b"\xff\xff\xff\xff"),
    "an entry of 4 GiB": lambda: patch("meta.zr", ENTRY + 4, b"\xff" * 8),
    "an entry stored shorter": lambda: patch("meta.zr", ENTRY + 4, struct.pack("<I", 100)),
    "an entry of codec 7": lambda: patch("meta.zr", ENTRY + 14, b"\x07"),
    "an entry called zstd": lambda: patch("meta.zr", ENTRY + 14, b"\x01"),
    "no table at all": lambda: (FOLDER / "meta.zr").unlink(),
}


def damaged() -> str:
    name = os.environ["RELIABILITY_DAMAGE"]
    prepare_damage()
    DAMAGES[name]()
    return read_damaged()


# Ends and threads.


def use_after_close() -> str:
    prepare_damage()
    store = open_store()
    store.close()
    return f"WRONG: a closed store has {len(store)} records"


def close_beside_gathers() -> str:
    write_rows("zstd")
    ds = dataset.DenseDataset(str(FOLDER))
    answers = []

    def repeat() -> None:
        try:
            while True:
                if not np.array_equal(ds[np.arange(2000)], ROWS):
                    answers.append("WRONG: other bytes")
        except Exception as error:
            answers.append(f"refused: {error}")

    threads = [threading.Thread(target=repeat) for _ in range(3)]
    for thread in threads:
        thread.start()
    time.sleep(random.Random(SEED).random() * 0.05)
    ds.close()
    for thread in threads:
        thread.join()
    return max(answers, key=lambda answer: answer.startswith("WRONG"))


def end_with_stores_open() -> str:
    write_rows("zstd")
    globals()["kept"] = [dataset.DenseDataset(str(FOLDER)) for _ in range(3)]
    for ds in globals()["kept"]:
        ds[np.arange(2000)]
    return "right"


def failing_transform() -> str:
    write_rows()

    def fail(_: Any) -> Any:
        raise ValueError("the transform failed")

    loader = dataloader.DataLoader({"x": dataset.DenseDataset(str(FOLDER))}, 2, 8, transform=fail)
    next(loader)
    return "WRONG: a batch"


def next_after_close() -> str:
    write_rows()
    loader = dataloader.DataLoader({"x": dataset.DenseDataset(str(FOLDER))}, 2, 8)
    next(loader)
    loader.close()
    for _ in range(20):
        next(loader)
    return "WRONG: a closed loader goes on"


def order_of_batches() -> str:
    write_rows()

    def wait(batch: Any) -> Any:
        time.sleep(random.random() * 0.003)
        return batch

    ds = dataset.DenseDataset(str(FOLDER))
    loader = dataloader.DataLoader({"x": ds}, 4, 8, mode=0, transform=wait)
    for step in range(100):
        if not np.array_equal(next(loader)["x"], ROWS[8 * step :][:8]):
            loader.close()
            return "WRONG: batches out of order"
    loader.close()
    return "right"


def main() -> None:
    try:
        answer = globals()[CASE]()
    except Exception as error:
        answer = f"refused: {type(error).__name__}: {error}"
    print(answer.replace("\n", " "), flush=True)


if __name__ == "__main__":
    main()
