"""Dense and ragged datasets, over a store that is read natively or in a sandbox."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import zrecord as zr
from support import READERS

ROWS = np.arange(7 * 3 * 2, dtype=np.float32).reshape(7, 3, 2)
RECORDS = [np.arange(n * 2, dtype=np.int32).reshape(n, 2) + n for n in (3, 0, 5, 1, 1, 9)]

Dense = Callable[..., zr.DenseDataset]
Ragged = Callable[..., zr.RaggedDataset]


@pytest.fixture(params=READERS)
def reader(request: pytest.FixtureRequest) -> ModuleType:
    """Both ways of reading."""
    module: ModuleType = request.param
    return module


@pytest.mark.parametrize(
    "key",
    [
        *(0, -1, np.int8(3), np.uint64(6), slice(None), slice(None, None, -2), slice(9, 99)),
        *([], [6, 0, 0, -7], np.array([1, 2], np.uint8), np.array([[0, 1], [2, -1]])),
        *(np.arange(7) % 2 == 0, ..., (), None, True, False),
        *((0, 1), (0, 1, 1), (slice(1, 3), 0), ([1, 2], [0, 1]), (..., 0), (-1, ..., [1, 0])),
    ],
    ids=str,
)
@pytest.mark.parametrize("codec", ["raw", "zstd"])
def test_a_dense_dataset_is_indexed_as_an_array(dense: Dense, key: Any, codec: str) -> None:
    ds = dense(ROWS, codec)
    got, expected = ds[key], ROWS[key]
    assert type(got) is type(expected)
    np.testing.assert_array_equal(got, expected)
    assert got.dtype == expected.dtype
    if isinstance(got, np.ndarray):
        assert got.flags.writeable
        got += 1
        np.testing.assert_array_equal(ds[key], expected)


def test_a_dataset_of_scalars_gives_scalars(dense: Dense) -> None:
    ds = dense(np.arange(5, dtype=np.int32))
    assert ds.item_shape == ()
    assert type(ds[3]) is np.int32
    assert type(ds[np.uint8(3)]) is np.int32
    assert ds[-1] == 4
    assert list(ds) == [0, 1, 2, 3, 4]
    assert np.array_equal(np.asarray(ds), np.arange(5))


@pytest.mark.parametrize("key", [7, -8, [7], [0, -8], 2**80, np.uint64(2**63 + 1)], ids=str)
def test_past_the_end_is_an_index_error(dense: Dense, ragged: Ragged, key: Any) -> None:
    for ds in (dense(ROWS), ragged([np.arange(3)] * 7)):
        with pytest.raises(IndexError) as caught:
            ds[key]
        assert caught.value.code == -3  # type: ignore[attr-defined]


@pytest.mark.parametrize("key", [1.0, "a", [0.5], np.zeros(7)], ids=str)
def test_what_is_no_index_is_a_type_error(dense: Dense, ragged: Ragged, key: Any) -> None:
    for ds in (dense(ROWS), ragged(RECORDS)):
        with pytest.raises(TypeError):
            ds[key]


def test_iteration_ends(dense: Dense, ragged: Ragged) -> None:
    for got, expected in zip(dense(ROWS), ROWS, strict=True):
        np.testing.assert_array_equal(got, expected)
    for got, expected in zip(ragged(RECORDS), RECORDS, strict=True):
        np.testing.assert_array_equal(got, expected)


def test_gather_takes_memory(dense: Dense) -> None:
    ds = dense(ROWS)
    out = np.zeros((3, 3, 2), np.float32)
    assert ds.gather([6, -7, 6], out) is out
    np.testing.assert_array_equal(out, ROWS[[6, 0, 6]])
    np.testing.assert_array_equal(ds.gather(np.array([1, 2])), ROWS[1:3])
    np.testing.assert_array_equal(ds.__getitems__([5]), ROWS[[5]])
    assert ds.gather([]).shape == (0, 3, 2)


def test_gather_says_what_is_wrong_with_out(dense: Dense) -> None:
    ds = dense(ROWS)
    read_only = np.zeros((2, 3, 2), np.float32)
    read_only.flags.writeable = False
    bad: list[tuple[Any, str]] = [
        (read_only, "read-only"),
        (np.zeros((2, 2, 3), np.float32).transpose(0, 2, 1), "contiguous"),
        (np.zeros((2, 3, 2)), "float64"),
        (np.zeros((2, 3, 2), ">f4"), ">f4"),
        (np.zeros((3, 3, 2), np.float32), "shape"),
        (np.zeros((2, 6), np.float32), "shape"),
        (np.lib.stride_tricks.as_strided(read_only, (2, 3, 2), (0, 8, 4)), "read-only"),
    ]
    for out, message in bad:
        with pytest.raises(ValueError, match=message):
            ds.gather([0, 1], out)
    with pytest.raises(zr.BufferTooSmallError):
        ds.gather([0, 1, 2], np.zeros((2, 3, 2), np.float32))
    with pytest.raises(TypeError):
        ds.gather([0], bytearray(24))  # type: ignore[arg-type]


def test_out_may_not_be_the_indices(dense: Dense) -> None:
    ds = dense(np.arange(8))
    both = np.arange(8)
    with pytest.raises(zr.InvalidArgumentError, match="overlaps"):
        ds.gather(both[::-1], both)
    assert np.array_equal(both, np.arange(8))


def test_a_dataset_follows_a_growing_store(path: Path, reader: ModuleType) -> None:
    zr.from_numpy(path, ROWS)
    with reader.DenseDataset(path) as ds:
        zr.from_numpy(path, ROWS + 1)
        assert len(ds) == 14
        np.testing.assert_array_equal(ds[-1], ROWS[-1] + 1)


def test_what_a_dataset_says_of_itself(path: Path, reader: ModuleType) -> None:
    zr.from_numpy(path, ROWS, metadata={"<b>": "<script>"})
    with reader.DenseDataset(path) as ds:
        assert (ds.path, ds.dtype, ds.item_shape) == (path, np.float32, (3, 2))
        assert (ds.codec, ds.format, ds.shape) == ("zstd", "extended", (7, 3, 2))
        assert isinstance(ds.store, reader.Zrecord)
        text = repr(ds)
        for part in ("DenseDataset", str(path), "7", "(3, 2) float32", "zstd"):
            assert part in text
        assert ("sandbox.DenseDataset" in text) == (reader is not zr)
        assert ("sandbox.Zrecord" in repr(ds.store)) == (reader is not zr)
        page = ds._repr_html_()
        assert "&lt;script&gt;" in page
        assert "<script>" not in page
        assert ds.metadata == {"<b>": "<script>"}
    for text in (repr(ds), ds._repr_html_(), repr(ds.store)):
        assert "closed" in text


def test_checksums_that_are_not_verified_are_told(path: Path) -> None:
    zr.from_numpy(path, ROWS)
    with zr.DenseDataset(path, verify="never") as ds:
        assert "never verified" in repr(ds)


def test_a_copy_is_another_handle(dense: Dense, ragged: Ragged) -> None:
    for ds in (dense(ROWS), ragged(RECORDS)):
        other = copy.copy(ds)
        other.close()
        np.testing.assert_array_equal(ds[0], copy.deepcopy(ds)[0])


@pytest.mark.parametrize("codec", ["raw", "zstd"])
def test_a_ragged_dataset_is_indexed_as_a_list(ragged: Ragged, codec: str) -> None:
    ds = ragged(RECORDS, codec)
    assert len(ds) == 6
    assert (ds.dtype, ds.item_shape) == (np.int32, (2,))
    for key in (0, -1, 1, np.uint8(2)):
        np.testing.assert_array_equal(ds[key], RECORDS[int(key)])
        assert ds[key].flags.writeable
    for key, expected in [
        (slice(1, 5, 2), [1, 3]),
        (slice(None, None, -1), [5, 4, 3, 2, 1, 0]),
        ([5, 0, 0, -1], [5, 0, 0, 5]),
        (np.array([True, False, True, False, False, True]), [0, 2, 5]),
        ([], []),
        (..., range(6)),
        ((), range(6)),
    ]:
        got = ds[key]
        assert isinstance(got, list)
        assert len(got) == len(expected)
        for record, index in zip(got, expected, strict=True):
            np.testing.assert_array_equal(record, RECORDS[index])
            assert record.shape == RECORDS[index].shape
    assert ds[2, 1].tolist() == RECORDS[2][1].tolist()
    assert ds[2, 1, 0] == RECORDS[2][1, 0]
    for key in ([[0, 1]], (slice(None), 0), None):
        with pytest.raises(TypeError):
            ds[key]


def test_records_of_one_list_do_not_overlap(ragged: Ragged) -> None:
    records = ragged(RECORDS)[[0, 2, 0]]
    for record in records:
        record += 100
    for record, index in zip(records, (0, 2, 0), strict=True):
        np.testing.assert_array_equal(record, RECORDS[index] + 100)


def test_packed_records(ragged: Ragged) -> None:
    values, offsets = ragged(RECORDS).packed([2, 1, 0])
    assert offsets.dtype == np.int64
    assert offsets.tolist() == [0, 5, 5, 8]
    np.testing.assert_array_equal(values, np.concatenate([RECORDS[2], RECORDS[1], RECORDS[0]]))
    values, offsets = ragged(RECORDS).packed([])
    assert (values.shape, offsets.tolist()) == ((0, 2), [0])


@pytest.mark.parametrize("pad_value", [0, -1, [7, 8]])
@pytest.mark.parametrize("max_len", [None, 9, 12])
def test_padded_records_are_what_pad_makes(
    ragged: Ragged, max_len: int | None, pad_value: Any
) -> None:
    ds = ragged(RECORDS)
    picked = [5, 1, 0, -1]
    padded, lengths = ds.padded(picked, max_len, pad_value)
    expected, expected_lengths = zr.pad(ds[picked], max_len, pad_value)
    np.testing.assert_array_equal(padded, expected)
    np.testing.assert_array_equal(lengths, expected_lengths)
    assert lengths.dtype == np.int64
    assert padded.flags.writeable
    assert ds.row_counts([0, -1]).tolist() == [3, 9]
    assert ds.row_counts().tolist() == [3, 0, 5, 1, 1, 9]


def test_padding_never_cuts(ragged: Ragged) -> None:
    ds = ragged(RECORDS)
    with pytest.raises(ValueError, match="9 rows, over max_len=8"):
        ds.padded([5], 8)
    with pytest.raises(ValueError, match="9 rows, over max_len=8"):
        zr.pad(ds[[5]], 8)


def test_pad_says_what_it_cannot_pad() -> None:
    with pytest.raises(ValueError, match="at least one"):
        zr.pad([])
    with pytest.raises(ValueError, match="record 1"):
        zr.pad([np.zeros(2), np.zeros((2, 2))])
    with pytest.raises(ValueError, match="record 1"):
        zr.pad([np.zeros(2), np.zeros(2, np.int8)])
    padded, lengths = zr.pad([np.arange(3), np.arange(1)], 5, 9)
    assert padded.tolist() == [[0, 1, 2, 9, 9], [0, 9, 9, 9, 9]]
    assert lengths.tolist() == [3, 1]


def test_buffers_are_recycled_only_when_nobody_holds_them(dense: Dense) -> None:
    ds = dense(np.arange(100 * 4096, dtype=np.int64).reshape(100, 4096))
    kept = [ds[[i]] for i in range(10)]
    parts = [ds[[i]][0, ::2] for i in range(10)]
    for _ in range(50):
        ds[np.arange(7)]
    for index, (row, part) in enumerate(zip(kept, parts, strict=True)):
        assert row[0, 0] == index * 4096
        assert part[-1] == index * 4096 + 4094
        assert row.ctypes.data % 64 == 0
