"""Arrays and iterators become stores, whole or not at all."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zrecord as zr
from support import run_python, tree

ROWS = np.random.default_rng(0).integers(0, 9, (300, 4, 5), np.int16)


@pytest.mark.parametrize("codec", ["raw", "zstd"])
@pytest.mark.parametrize("chunk_bytes", [1, 1000, 64 << 20])
def test_an_array_comes_back(path: Path, codec: str, chunk_bytes: int, store_format: str) -> None:
    assert zr.from_numpy(path, ROWS, codec, chunk_bytes, format=store_format) == 300
    with zr.DenseDataset(path) as ds:
        assert len(ds) == 300
        assert ds.shape == ROWS.shape
        assert ds.codec == codec
        assert ds.format == store_format
        assert np.array_equal(ds[:], ROWS)


@pytest.mark.parametrize(
    "array",
    [
        np.asfortranarray(ROWS),
        ROWS[::-2],
        ROWS.transpose(2, 0, 1),
        np.broadcast_to(ROWS[0], (7, 4, 5)),
        np.arange(5)[::-1],
        ROWS[:0],
        np.zeros((3, 0, 2), np.float32),
        np.zeros((0, 0)),
        np.rec.array([(1, 2.0), (3, 4.0)], dtype=[("a", "i4"), ("b", "f8")]),
    ],
    ids=lambda array: f"{array.shape} {array.strides}",
)
def test_arrays_of_every_layout_come_back(path: Path, array: np.ndarray) -> None:
    assert zr.from_numpy(path, array) == len(array)
    with zr.DenseDataset(path) as ds:
        assert ds[:].shape == array.shape
        assert np.array_equal(ds[:], array)
        assert len(list(ds)) == len(array)


def test_arrays_are_appended(path: Path, store_format: str) -> None:
    zr.from_numpy(path, ROWS, format=store_format)
    zr.from_numpy(path, ROWS[:7], "raw")
    with zr.DenseDataset(path) as ds:
        assert len(ds) == 307
        assert np.array_equal(ds[300:], ROWS[:7])
        assert ds.codec == "zstd"


@pytest.mark.parametrize(
    "other",
    [
        ROWS.astype(np.int32),
        ROWS.astype(">i2"),
        ROWS.astype(np.uint16),
        ROWS[:, :3],
        ROWS.reshape(300, 20),
        np.arange(3),
    ],
    ids=lambda array: f"{array.dtype.str} {array.shape}",
)
def test_rows_that_do_not_fit_are_refused_before_a_byte_is_written(
    path: Path, other: np.ndarray, store_format: str
) -> None:
    zr.from_numpy(path, ROWS, "raw", format=store_format)
    if store_format == "classic":
        size = (path / "0.zr").stat().st_mtime_ns, (path / "meta.zr").stat().st_mtime_ns
    else:
        before = tree(path)
    with pytest.raises(ValueError, match=r"dtype|shape|kind"):
        zr.from_numpy(path, other)
    with pytest.raises(ValueError, match=r"dtype|shape|kind"):
        zr.from_iterator(path, list(other))
    if store_format == "classic":
        assert size == ((path / "0.zr").stat().st_mtime_ns, (path / "meta.zr").stat().st_mtime_ns)
    else:
        assert tree(path) == before


def test_bad_arguments_are_refused_before_anything_is_made(path: Path) -> None:
    bad: list[tuple[type[Exception], Any]] = [
        (TypeError, lambda: zr.from_numpy(path, [1, 2])),  # type: ignore[arg-type]
        (TypeError, lambda: zr.from_numpy(path, np.ma.masked_array([1, 2], [True, False]))),
        (ValueError, lambda: zr.from_numpy(path, np.array(3))),
        (ValueError, lambda: zr.from_numpy(path, ROWS, chunk_bytes=0)),
        (ValueError, lambda: zr.from_numpy(path, ROWS, commit_every=0)),
        (ValueError, lambda: zr.from_numpy(path, ROWS, if_exists="ask")),
        (ValueError, lambda: zr.from_numpy(path, ROWS, format="tar")),
        (
            ValueError,
            lambda: zr.from_numpy(path, np.zeros((1, 1 << 20, 2), "u1"), format="classic"),
        ),
        (ValueError, lambda: zr.from_numpy(path, ROWS, schema={"dtype": "<f4"})),
        (ValueError, lambda: zr.from_numpy(path, ROWS, schema={"kind": "ragged"})),
        (ValueError, lambda: zr.from_iterator(path, [])),
        (ValueError, lambda: zr.from_iterator(path, [np.zeros((3, 0))])),
        (TypeError, lambda: zr.from_iterator(path, ["text"])),
        (TypeError, lambda: zr.from_iterator(path, 7)),  # type: ignore[arg-type]
        (TypeError, lambda: zr.from_numpy(path, ROWS, metadata={"a": object()})),
    ]
    for error, call in bad:
        with pytest.raises(error):
            call()
        assert not path.exists()


def test_if_exists(path: Path) -> None:
    for write in (
        lambda n, **more: zr.from_numpy(path, np.arange(n), **more),
        lambda n, **more: zr.from_iterator(path, (np.arange(3) for _ in range(n)), **more),
    ):
        write(3, if_exists="replace")
        write(2, if_exists="append")
        with zr.Zrecord(path, mode="r") as store:
            assert len(store) == 5
        with pytest.raises(FileExistsError):
            write(1, if_exists="error")
        write(4, if_exists="replace")
        with zr.Zrecord(path, mode="r") as store:
            assert len(store) == 4
        assert [found.name for found in path.parent.iterdir()] == [path.name]


def test_replacing_fails_half_way_and_leaves_the_old_store(path: Path) -> None:
    zr.from_numpy(path, np.arange(5))
    with pytest.raises(ZeroDivisionError):
        zr.from_iterator(path, failing(100), if_exists="replace", chunk_bytes=100)
    with zr.DenseDataset(path) as ds:
        assert ds[:].tolist() == [0, 1, 2, 3, 4]
    assert [found.name for found in path.parent.iterdir()] == [path.name]


def test_only_stores_are_replaced(path: Path) -> None:
    path.mkdir()
    (path / "thesis.tex").write_text("...")
    with pytest.raises(zr.NotAStoreError, match=r"thesis\.tex"):
        zr.from_numpy(path, ROWS, if_exists="replace")
    assert (path / "thesis.tex").exists()


def test_a_store_that_is_written_is_not_replaced(path: Path) -> None:
    with zr.Zrecord(path) as store:
        store.append(b"a", [0])
        with pytest.raises(zr.BusyError):
            zr.from_numpy(path, ROWS, if_exists="replace")
        assert len(store) == 1


def failing(count: int) -> Iterator[np.ndarray]:
    for number in range(count):
        yield np.arange(number % 7 + 1)
    raise ZeroDivisionError("half way")


@pytest.mark.parametrize("chunk_bytes", [1, 1000, 1 << 20])
def test_an_iterator_that_raises_half_way_adds_nothing(
    path: Path, chunk_bytes: int, store_format: str
) -> None:
    with pytest.raises(ZeroDivisionError):
        zr.from_iterator(path, failing(500), "raw", chunk_bytes, format=store_format)
    assert not path.exists()
    zr.from_iterator(path, [np.arange(2)] * 3, "raw", format=store_format)
    before = tree(path) if store_format == "extended" else {}
    with pytest.raises(ZeroDivisionError):
        zr.from_iterator(path, failing(500), "raw", chunk_bytes)
    with zr.RaggedDataset(path) as ds:
        assert len(ds) == 3
    if store_format == "extended":
        assert tree(path).keys() == before.keys()
        assert tree(path)["0.zr"] == before["0.zr"]
    with zr.Zrecord(path) as store:
        assert store.verify() == []
    zr.from_iterator(path, [np.arange(9)])
    with zr.RaggedDataset(path) as ds:
        assert ds[-1].tolist() == list(range(9))


KILLED = """
import os, signal, sys
import numpy as np, zrecord as zr
def kill(done, total):
    if done >= 200:
        os.kill(os.getpid(), signal.SIGKILL)
rows = np.random.default_rng(0).integers(0, 9, (300, 4, 5), np.int16)
zr.from_numpy(sys.argv[1], rows, "raw", 400, format=sys.argv[2], progress=kill)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="sends SIGKILL")
def test_a_conversion_that_is_killed_adds_nothing(path: Path, store_format: str) -> None:
    assert run_python(KILLED, path, store_format).returncode == -9
    assert not path.exists()
    zr.from_numpy(path, ROWS[:5], format=store_format)
    assert run_python(KILLED, path, store_format).returncode == -9
    with zr.DenseDataset(path) as ds:
        assert np.array_equal(ds[:], ROWS[:5])
    # What the killed one left past the end is written over.
    assert zr.from_numpy(path, ROWS) == 300
    with zr.DenseDataset(path) as ds:
        assert np.array_equal(ds[5:], ROWS)
    with zr.Zrecord(path) as store:
        assert store.verify() == []


def test_commit_every_keeps_what_was_committed(path: Path) -> None:
    with pytest.raises(ZeroDivisionError):
        zr.from_iterator(path, failing(25), commit_every=10)
    with zr.RaggedDataset(path) as ds:
        assert len(ds) == 20
    seen = []
    zr.from_numpy(
        path.with_name("d"),
        ROWS,
        commit_every=100,
        progress=lambda done, total: seen.append((done, total)),
    )
    assert seen == [(100, 300), (200, 300), (300, 300)]


@pytest.mark.parametrize("if_exists", ["append", "error"])
@pytest.mark.parametrize("when", ["before", "meanwhile"])
def test_a_store_that_another_has_made_in_its_place_stays(
    path: Path, if_exists: str, when: str
) -> None:
    def source() -> Iterator[np.ndarray]:
        if when == "before":
            zr.Zrecord(path).close()
        yield np.arange(3)
        if when == "meanwhile":
            zr.Zrecord(path).close()
        yield np.arange(3)

    with pytest.raises(zr.StoreExistsError):
        zr.from_iterator(path, source(), if_exists=if_exists, chunk_bytes=1)
    with zr.Zrecord(path, mode="r") as store:
        assert len(store) == 0
    assert [found.name for found in path.parent.iterdir()] == [path.name]


def test_a_source_may_change_the_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)

    def source() -> Iterator[np.ndarray]:
        yield np.arange(3)
        monkeypatch.chdir(tmp_path / "elsewhere")

    zr.from_iterator("store.zr", source())
    with zr.RaggedDataset(tmp_path / "store.zr") as ds:
        assert len(ds) == 1


def test_progress_may_stop_it(path: Path) -> None:
    def stop(done: int, total: int | None) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        zr.from_numpy(path, ROWS, chunk_bytes=400, progress=stop)
    assert not path.exists()


def test_records_of_another_type_are_named_by_position(path: Path) -> None:
    cases: list[tuple[list[Any], str]] = [
        ([np.arange(3), np.arange(3.0)], "record 1 .*float64"),
        ([np.arange(3), np.arange(3), np.ones((2, 2), int)], r"record 2 .*\(2,\)"),
        ([np.zeros((2, 3)), np.zeros((2, 4))], "record 1"),
        ([b"abc", np.arange(3)], "record 1 .*int64"),
        ([[1, 2], [0.5]], "record 1 .*float64"),
    ]
    for records, message in cases:
        with pytest.raises(zr.SchemaError, match=message):
            zr.from_iterator(path, records)
        assert not path.exists()


def test_records_of_every_sort_are_taken(path: Path) -> None:
    zr.from_iterator(path, [b"abc", bytearray(b"de"), b"", memoryview(b"f")])
    with zr.RaggedDataset(path) as ds:
        assert ds.dtype == np.uint8
        assert [record.tobytes() for record in ds] == [b"abc", b"de", b"", b"f"]
    lists = path.with_name("lists")
    zr.from_iterator(lists, [[1, 2], [], (3,)])
    with zr.RaggedDataset(lists) as ds:
        assert [record.tolist() for record in ds] == [[1, 2], [], [3]]


def test_an_iterator_may_hand_out_one_array_again_and_again(path: Path) -> None:
    def reuse() -> Iterator[np.ndarray]:
        buffer = np.zeros(3, int)
        for number in range(10):
            buffer[:] = number
            yield buffer

    zr.from_iterator(path, reuse())
    with zr.RaggedDataset(path) as ds:
        assert [record[0] for record in ds] == list(range(10))


def test_an_empty_source_needs_a_schema(path: Path) -> None:
    assert zr.from_iterator(path, [], schema={"dtype": "<f4", "item_shape": [3]}) == 0
    with zr.RaggedDataset(path) as ds:
        assert len(ds) == 0
        assert ds.dtype == np.float32
        assert ds.item_shape == (3,)
    assert zr.from_iterator(path, []) == 0


def test_a_schema_is_not_changed_and_its_other_keys_are_kept(path: Path) -> None:
    schema = {"dtype": "<u2", "item_shape": [20], "source": "camera 3"}
    given = dict(schema)
    zr.from_numpy(path, ROWS, schema=schema, metadata={"split": "train"})
    assert schema == given
    with zr.DenseDataset(path) as ds:
        assert ds.dtype == np.uint16
        assert ds.item_shape == (20,)
        assert ds.metadata == {"source": "camera 3", "split": "train"}


def test_metadata_come_back(path: Path, store_format: str) -> None:
    metadata = {
        "text": "ünï",
        "numbers": [1, -2, 2**63, 0.5, None, True],
        "nested": {"deep": {"a": b"\x00\xff"}},
        "classes": ["cat", "dog"],
    }
    zr.from_numpy(path, ROWS, metadata=metadata, format=store_format)
    with zr.DenseDataset(path) as ds:
        assert ds.metadata == metadata
        ds.metadata["text"] = "changed"
        assert ds.metadata == metadata
    zr.from_numpy(path, ROWS, metadata=metadata)
    with pytest.raises(zr.SchemaError, match="metadata"):
        zr.from_numpy(path, ROWS, metadata={"text": "other"})


@pytest.mark.parametrize("metadata", [{"a": 2**70}, {"a": {1, 2}}, {"a": np.arange(3)}])
def test_metadata_that_cannot_be_kept_are_refused(path: Path, metadata: dict[str, Any]) -> None:
    with pytest.raises((TypeError, OverflowError), match="metadata"):
        zr.from_numpy(path, ROWS, metadata=metadata)
    endless: dict[str, Any] = {}
    endless["self"] = endless
    with pytest.raises(ValueError, match="nested"):
        zr.from_numpy(path, ROWS, metadata=endless)


def smooth(count: int, dtype: str) -> np.ndarray:
    waves = np.sin(np.linspace(0, 3, 256) * np.random.default_rng(0).uniform(1, 4, (count, 1)))
    return (waves * 100 + 100).astype(dtype)


@pytest.mark.parametrize("dtype", ["u1", "<f4", "<i8", ">u2"])
def test_a_dictionary_is_trained_on_any_dtype(path: Path, dtype: str, store_format: str) -> None:
    rows = smooth(2000, dtype)
    zr.from_numpy(path, rows, "zstd_dict", 1 << 16, format=store_format)
    with zr.DenseDataset(path) as ds:
        assert np.array_equal(ds[:], rows)
        assert ds.store.has_dict()
    first = (path / "dict.zr").read_bytes()
    # Only a store without one gets one.
    zr.from_numpy(path, rows[:100], "zstd_dict")
    assert (path / "dict.zr").read_bytes() == first


def test_a_dictionary_sees_all_of_the_data(path: Path) -> None:
    # The head is noise: a dictionary of it alone would be of no use.
    rows = smooth(4000, "u1")
    rows[:1000] = np.random.default_rng(1).integers(0, 256, (1000, 256))
    zr.from_numpy(path, rows, "zstd_dict", 1000 * 256)
    zr.from_numpy(path.with_name("plain"), rows, "zstd")
    stores = [zr.Zrecord(path, mode="r"), zr.Zrecord(path.with_name("plain"), mode="r")]
    sizes = [store.stats()["live_bytes"] for store in stores]
    for store in stores:
        store.close()
    assert sizes[0] < 0.8 * sizes[1]


def test_a_dictionary_for_an_iterator(path: Path) -> None:
    rows = list(smooth(2000, "<i4"))
    zr.from_iterator(path, rows, "zstd_dict", dict_size=5000)
    assert 0 < (path / "dict.zr").stat().st_size <= 5000
    with zr.RaggedDataset(path) as ds:
        assert np.array_equal(ds[1999], rows[1999])


def test_too_few_rows_for_a_dictionary_say_so(path: Path) -> None:
    with pytest.raises(zr.TrainingError):
        zr.from_numpy(path, np.zeros((2, 4), np.uint8), "zstd_dict")
    assert not path.exists()
    assert zr.from_numpy(path, np.zeros((0, 4), np.uint8), "zstd_dict") == 0
