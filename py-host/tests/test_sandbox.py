"""Stores that are read inside of a sandbox: as natively, and within limits."""

from __future__ import annotations

import copy
import os
import pickle
import re
import threading
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import zrecord as zr
from support import ROOT, in_child, needs_sandbox, open_reading, run_python, sandbox

pytestmark = needs_sandbox

RNG = np.random.default_rng(5)
RECORDS = [RNG.integers(0, 4, int(size), np.uint8).tobytes() for size in RNG.integers(1, 6000, 120)]
ROWS = np.arange(2000, dtype=np.int64).reshape(200, 10)
WORDS = [np.arange(n % 11, dtype=np.int16) for n in range(200)]

Open = Callable[..., Any]


def fill(path: Path, codec: str, store_format: str) -> None:
    """A store of bytes, with a hole and, if it may be, an empty record."""
    records = RECORDS if store_format == "classic" else [*RECORDS, b""]
    with zr.Zrecord(path, codec, format=store_format) as store:
        if codec == "zstd_dict":
            sizes = [len(record) for record in records]
            store.train_dict(b"".join(records), sizes, 8192)
        offsets = np.cumsum([0, *map(len, records[:-1])])
        store.append(b"".join(records), offsets)
        store.delete([3, 17])


def touched(path: Path) -> dict[str, tuple[int, int]]:
    """Sizes of files, of which a classic store has sparse ones, and their last changes."""
    stats = {found.name: found.stat() for found in path.iterdir()}
    return {name: (stat.st_size, stat.st_mtime_ns) for name, stat in stats.items()}


@pytest.mark.parametrize("codec", ["raw", "zstd", "zstd_dict"])
def test_a_store_reads_the_same(path: Path, codec: str, store_format: str) -> None:
    fill(path, codec, store_format)
    before = touched(path)
    with zr.Zrecord(path, codec, mode="r") as native, sandbox.Zrecord(path) as store:
        assert (len(store), store.format) == (len(native), store_format)
        assert (store.id, store.generation) == (native.id, native.generation)
        assert (store.has_dict(), store.stats()) == (native.has_dict(), native.stats())
        assert store.path == path
        indices = RNG.integers(0, len(store), 300)
        lengths = store.lengths(indices)
        assert lengths.dtype == np.uint32
        np.testing.assert_array_equal(lengths, native.lengths(indices))
        # Behind each other, with a gap, from the last to the first.
        offsets = np.cumsum([0, *(lengths[::-1][:-1] + 3)])[::-1].copy()
        got, expected = (np.full(int(lengths.sum()) + 900, 7, np.uint8) for _ in "ab")
        store.gather(indices, got, offsets)
        native.gather(indices, expected, offsets)
        np.testing.assert_array_equal(got, expected)
        assert [store.read(i) for i in range(len(store))] == [
            native.read(i) for i in range(len(native))
        ]
        assert store.verify() == native.verify() == []
    assert touched(path) == before


@pytest.mark.parametrize("codec", ["raw", "zstd", "zstd_dict"])
def test_datasets_read_the_same(path: Path, codec: str, store_format: str) -> None:
    options: dict[str, Any] = {"codec": codec, "format": store_format, "metadata": {"a": [1]}}
    if store_format == "classic":
        del options["metadata"]
    zr.from_numpy(path / "dense", ROWS, **options)
    # A classic record cannot be empty.
    words = [word for word in WORDS if len(word) or store_format == "extended"]
    zr.from_iterator(path / "ragged", words, **options)
    with sandbox.DenseDataset(path / "dense") as ds, zr.DenseDataset(path / "dense") as native:
        np.testing.assert_array_equal(ds[:], ROWS)
        assert (ds.codec, ds.metadata, ds.dtype) == (native.codec, native.metadata, native.dtype)
        assert not hasattr(ds, "view")
    with sandbox.RaggedDataset(path / "ragged") as ragged:
        assert all(map(np.array_equal, ragged[:], words))
        assert ragged.row_counts().tolist() == [len(word) for word in words]


def test_errors_are_the_native_ones(path: Path) -> None:
    zr.from_numpy(path / "dense", ROWS, "raw")
    zr.from_iterator(path / "ragged", WORDS)
    zr.Zrecord(path / "untyped").close()
    zr.from_numpy(path / "damaged", ROWS, "raw")
    chunk = path / "damaged" / "0.zr"
    data = bytearray(chunk.read_bytes())
    data[80 * 5 + 3] ^= 1
    chunk.write_bytes(data)
    (path / "other").mkdir()
    (path / "other" / "meta.zr").write_bytes(b"GIF89a" * 4000)
    small, read_only = np.zeros(3, np.uint8), np.zeros(80, np.uint8)
    read_only.flags.writeable = False
    uses: list[Callable[[ModuleType], object]] = [
        lambda m: m.DenseDataset(path / "missing"),
        lambda m: m.DenseDataset(path / "other"),
        lambda m: m.DenseDataset(path / "ragged"),
        lambda m: m.RaggedDataset(path / "dense"),
        lambda m: m.DenseDataset(path / "untyped"),
        lambda m: m.DenseDataset(path / "damaged")[:],
        lambda m: m.DenseDataset(path / "dense")[200],
        lambda m: m.DenseDataset(path / "dense")[[0, -201]],
        lambda m: m.RaggedDataset(path / "ragged").padded([10], 3),
        lambda m: open_reading(m, path / "dense").read(200),
        lambda m: open_reading(m, path / "dense").read(-1),
        lambda m: open_reading(m, path / "dense").lengths([2**60]),
        lambda m: open_reading(m, path / "dense").gather([0], small, [0]),
        lambda m: open_reading(m, path / "dense").gather([0], read_only, [0]),
        lambda m: open_reading(m, path / "dense").gather([0, 1], np.zeros(160, "u1"), [0, 9]),
        lambda m: open_reading(m, path / "dense").gather([0, 1], np.zeros(160, "u1"), [0]),
    ]
    for position, use in enumerate(uses):
        with pytest.raises(zr.ZrecordError) as native:
            use(zr)
        with pytest.raises(type(native.value)) as caught:
            use(sandbox)
        assert type(caught.value) is type(native.value), position
        assert str(caught.value) == str(native.value), position
    with open_reading(zr, path / "damaged") as native_store:
        assert sandbox.Zrecord(path / "damaged").verify() == native_store.verify() != []


def test_a_limit_on_memory_ends_one_sandbox_alone(path: Path) -> None:
    rows = np.arange(3_000_000, dtype=np.int64).reshape(3, -1)
    zr.from_numpy(path, rows)
    with sandbox.DenseDataset(path, memory=6 << 20) as tight, sandbox.DenseDataset(path) as wide:
        with pytest.raises(zr.SandboxError, match=rf"memory was met: {6 << 20} bytes"):
            tight[0]
        assert not tight.closed
        np.testing.assert_array_equal(wide[:], rows)
    with pytest.raises(zr.SandboxError, match="memory was met: 65536 bytes"):
        sandbox.Zrecord(path, memory=1 << 16)


def slow(path: Path) -> int:
    """A store of one record that takes a third of a second to decode, at least."""
    record = RNG.integers(0, 16, 60 << 20, np.uint8)
    with zr.Zrecord(path, "zstd") as store:
        store.append(record, [0])
    return len(record)


def in_time(open_it: Callable[[], Any]) -> Any:
    """Opens a store in a short time; again where the machine had none for it."""
    for _ in range(50):
        try:
            return open_it()
        except zr.SandboxError:
            continue
    pytest.fail("opening takes too long")


def test_a_limit_on_time_is_named(path: Path) -> None:
    size = slow(path)
    store = in_time(lambda: sandbox.Zrecord(path, time=0.05))
    with pytest.raises(zr.SandboxError, match=r"time was met: 0.05 s for one call"):
        store.read(0)
    with pytest.raises(zr.SandboxError, match=r"has ended, reopen the store \(.*time was met"):
        store.read(0)
    store.close()
    with sandbox.Zrecord(path) as other:
        assert other.lengths([0]).tolist() == [size]


def test_a_record_longer_than_a_call_may_copy_is_too_large(path: Path) -> None:
    with zr.Zrecord(path, "raw") as store:
        store.append(bytes((8 << 20) + 1) + b"small", [0, (8 << 20) + 1])
    with sandbox.Zrecord(path, call_bytes=8 << 20) as store:
        with pytest.raises(zr.TooLargeError, match=f"{(8 << 20) + 1}"):
            store.read(0)
        assert store.read(1) == b"small"


@pytest.mark.parametrize(
    ("limits", "error", "message"),
    [
        ({"memory": -1}, zr.InvalidArgumentError, "memory is -1, not from 0"),
        ({"memory": "1GiB"}, TypeError, "memory is a whole number of bytes, not str"),
        ({"memory": 1e9}, TypeError, "memory is a whole number of bytes, not float"),
        ({"time": 0}, zr.InvalidArgumentError, "time is 0.0 s, and must be above 0"),
        ({"time": float("nan")}, zr.InvalidArgumentError, "time is nan s"),
        ({"time": float("inf")}, zr.InvalidArgumentError, "time is inf s"),
        ({"time": 1e300}, zr.InvalidArgumentError, "time is 1e"),
        ({"time": "60"}, TypeError, "time is a number of seconds, not str"),
        ({"call_bytes": True}, TypeError, "call_bytes is a whole number of bytes, not bool"),
    ],
    ids=str,
)
@pytest.mark.parametrize("name", ["Zrecord", "DenseDataset", "RaggedDataset"])
def test_limits_that_cannot_be_are_refused(
    path: Path, limits: dict[str, Any], error: type[Exception], message: str, name: str
) -> None:
    zr.from_numpy(path, ROWS)
    with pytest.raises(error, match=message):
        getattr(sandbox, name)(path, **limits)
    with pytest.raises(error, match=message):
        sandbox.run(path.with_name("none.wasm"), path, path.with_name("out"), **limits)


def test_a_call_must_copy_as_much_as_the_component_reads_at_once(path: Path) -> None:
    zr.from_numpy(path, ROWS)
    with pytest.raises(zr.InvalidArgumentError, match=r"call_bytes.* 8388608 are needed"):
        sandbox.Zrecord(path, call_bytes=1 << 20)


def test_a_closed_store_says_so(path: Path) -> None:
    zr.from_numpy(path, ROWS)
    ds = sandbox.DenseDataset(path)
    row = ds[3]
    ds.close()
    ds.close()
    assert ds.closed
    np.testing.assert_array_equal(row, ROWS[3])
    uses: list[Callable[[], object]] = [
        lambda: ds[0],
        lambda: ds[:],
        lambda: len(ds),
        lambda: ds.store.stats(),
        lambda: ds.store.read(0),
        lambda: pickle.dumps(ds),
    ]
    for use in uses:
        with pytest.raises(zr.ClosedError):
            use()
    # Nothing of it is left that a change would have to wait for.
    with zr.Zrecord(path) as store:
        store.delete([0])


@pytest.mark.parametrize("again", [copy.copy, lambda value: pickle.loads(pickle.dumps(value))])
def test_a_copy_is_a_handle_of_its_own(path: Path, again: Callable[[Any], Any]) -> None:
    zr.from_numpy(path / "dense", ROWS)
    zr.from_iterator(path / "ragged", WORDS)
    limits = {"memory": 64 << 20, "time": 5.0, "call_bytes": 9 << 20}
    opened = (
        sandbox.DenseDataset(path / "dense", **limits),
        sandbox.RaggedDataset(path / "ragged", **limits),
    )
    for ds in opened:
        other = again(ds)
        ds.close()
        assert type(other) is type(ds)
        assert other._options == limits
        assert other.store._limits == tuple(limits.values())
        assert np.array_equal(other[7], (ROWS if other._kind == "dense" else WORDS)[7])
    store = again(sandbox.Zrecord(path / "dense", **limits))
    assert store._limits == tuple(limits.values())
    pickled = pickle.dumps(store)
    (path / "dense").rename(path / "moved")
    zr.from_numpy(path / "dense", ROWS)
    with pytest.raises(zr.StoreNotFoundError, match="another store"):
        pickle.loads(pickled)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_child_opens_its_stores_anew(path: Path) -> None:
    zr.from_numpy(path / "dense", ROWS)
    zr.from_iterator(path / "ragged", WORDS)
    dense, ragged = sandbox.DenseDataset(path / "dense"), sandbox.RaggedDataset(path / "ragged")
    closed = sandbox.Zrecord(path / "dense")
    closed.close()

    def work() -> None:
        assert np.array_equal(dense[:], ROWS)
        assert all(map(np.array_equal, ragged[:], WORDS))
        assert dense.store.verify() == []
        with pytest.raises(zr.ClosedError):
            len(closed)
        # What the child has opened, it can open again in a child of its own.
        in_child(lambda: np.testing.assert_array_equal(dense[5], ROWS[5]))
        dense.close()
        with pytest.raises(zr.ClosedError):
            dense[0]

    in_child(work)
    assert np.array_equal(dense[:], ROWS)
    (path / "ragged").rename(path / "moved")

    def miss() -> None:
        with pytest.raises(zr.StoreNotFoundError):
            ragged[0]

    in_child(miss)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_forks_beside_calls_and_openings_leave_working_children(path: Path) -> None:
    zr.from_numpy(path, ROWS)
    shared, stop = sandbox.DenseDataset(path), threading.Event()

    def read() -> None:
        while not stop.is_set():
            assert shared[3, 0] == 30

    def reopen() -> None:
        while not stop.is_set():
            with sandbox.DenseDataset(path) as ds:
                assert ds[4, 0] == 40

    threads = [threading.Thread(target=work) for work in (read, read, reopen)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(20):
            in_child(lambda: np.testing.assert_array_equal(shared[:], ROWS))
    finally:
        stop.set()
        for thread in threads:
            thread.join()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_child_holds_no_lock_of_its_parent(path: Path) -> None:
    zr.from_numpy(path, ROWS)
    ds = sandbox.DenseDataset(path)
    received, sent = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(sent)
        os.read(received, 1)
        os._exit(0)
    try:
        ds.close()
        with zr.Zrecord(path) as store:
            store.delete([0])
    finally:
        os.close(sent)
        os.waitpid(pid, 0)
        os.close(received)


def test_many_threads_use_one_handle(path: Path) -> None:
    zr.from_numpy(path, ROWS)
    ds, wrong = sandbox.DenseDataset(path), []

    def read(seed: int) -> None:
        rng = np.random.default_rng(seed)
        for _ in range(50):
            picked = rng.integers(0, 200, 20)
            if not np.array_equal(ds[picked], ROWS[picked]):
                wrong.append(seed)

    threads = [threading.Thread(target=read, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


@pytest.mark.parametrize("form", ["list", "packed", "pad"])
def test_loaders_take_sandboxed_datasets(path: Path, form: str) -> None:
    zr.from_numpy(path / "dense", ROWS)
    zr.from_iterator(path / "ragged", WORDS)

    def batches(module: ModuleType, count: int = 12) -> list[Any]:
        streams = {
            "x": module.DenseDataset(path / "dense"),
            "y": module.RaggedDataset(path / "ragged"),
        }
        with zr.DataLoader(streams, 2, 32, seed=9, ragged=form) as loader:
            made = [next(loader) for _ in range(count)]
            made.append(loader.state_dict())
        return made

    for got, expected in zip(batches(sandbox), batches(zr), strict=True):
        assert pickle.dumps(got) == pickle.dumps(expected)
    passed = zr.batches(sandbox.DenseDataset(path / "dense"), 64)
    np.testing.assert_array_equal(np.concatenate(list(passed)), ROWS)


def test_a_loader_gathers_natively_but_asks_a_subclass(path: Path) -> None:
    class Negated(sandbox.DenseDataset):  # type: ignore[name-defined,misc]
        def __getitems__(self, idxs: Any) -> Any:
            return -super().__getitems__(idxs)

    zr.from_numpy(path, ROWS)
    for cls, sign in ((sandbox.DenseDataset, 1), (Negated, -1)):
        with zr.DataLoader(cls(path), batch_size=200, mode="sequential") as loader:
            np.testing.assert_array_equal(next(loader), sign * ROWS)


def test_a_loader_names_the_step_at_which_a_limit_was_met(path: Path) -> None:
    zr.from_numpy(path, np.zeros((4, 3_000_000)))
    ds = sandbox.DenseDataset(path, memory=8 << 20)
    with zr.DataLoader(ds, batch_size=1) as loader:
        with pytest.raises(zr.SandboxError, match="memory was met") as caught:
            next(loader)
        assert any("step 0" in note for note in caught.value.__notes__)


def test_it_follows_a_writer(path: Path) -> None:
    with zr.Zrecord(path, "raw") as writer:
        writer.append(b"one", [0])
        store = sandbox.Zrecord(path)
        writer.append(b"three", [0])
        assert len(store) == 2
        assert store.read(1) == b"three"
        with pytest.raises(zr.BusyError):
            writer.delete([0])
        store.close()
        writer.delete([0])


def test_a_verification_tells_its_progress(path: Path) -> None:
    fill(path, "zstd", "extended")
    told: list[tuple[int, int]] = []
    with sandbox.Zrecord(path) as store:
        assert store.verify(lambda done, total: told.append((done, total))) == []
        count = len(store)
    assert (told[0], told[-1]) == ((0, count), (count, count))
    with sandbox.Zrecord(path) as store, pytest.raises(ZeroDivisionError):
        store.verify(lambda done, total: 1 / 0)


def test_the_gil_is_let_go(path: Path) -> None:
    slow(path)
    with sandbox.Zrecord(path) as store:
        turns = 0
        thread = threading.Thread(target=store.read, args=(0,))
        thread.start()
        while thread.is_alive():
            thread.join(0.001)
            turns += 1
    assert turns > 3


def test_the_example_of_the_readme_runs(tmp_path: Path) -> None:
    readme = (ROOT / "py-host" / "README.md").read_text()
    examples = re.findall(r"^```python\n(.*?)^```$", readme, re.DOTALL | re.MULTILINE)
    assert len(examples) == 2
    done = run_python("\n".join(examples), cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("<sandbox.DenseDataset 'images': records 1,000")
