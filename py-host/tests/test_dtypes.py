"""Every dtype comes back as it went in, or is refused at write."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import zrecord as zr
from support import sandbox
from zrecord._dtypes import from_spec, to_spec

PLAIN = [
    *("bool", "i1", "u1", "<i2", ">i2", "<u4", ">u8", "<i8"),
    *("<f2", ">f2", "<f4", ">f4", "<f8", ">f8", "g", "<c8", ">c16", "G"),
    *("S5", "S1", "<U3", ">U3", "V7", "V1"),
    *("<M8[ns]", ">M8[s]", "<M8[25us]", "<M8[D]", "<M8", "<m8[ms]", ">m8[h]", "<m8"),
]
STRUCTURED = [
    np.dtype([("a", "u1"), ("b", "<i4")]),
    np.dtype([("a", "u1"), ("b", "<i4"), ("c", "<f4", (2, 3))], align=True),
    np.dtype([("outer", [("x", ">i2"), ("y", "S3")]), ("t", "<M8[us]")], align=True),
    np.dtype([(("a title", "name"), "<i4"), ("z", "u1")]),
    np.dtype({"names": ["a", "b"], "formats": ["u1", "<f8"], "offsets": [3, 8], "itemsize": 32}),
    np.dtype([("half", ml_dtypes.bfloat16), ("n", "u1")]),
    np.dtype([("nested", [("deep", ml_dtypes.float8_e4m3fn, (2,))])]),
    np.dtype([("a", "<U2"), ("ünï", "?")]),
]
ML_DTYPES = [
    name
    for name in dir(ml_dtypes)
    if isinstance(getattr(ml_dtypes, name), type) and not name.endswith("info")
]


def random_array(dtype: np.dtype[Any], shape: tuple[int, ...] = (9, 2)) -> np.ndarray:
    size = int(np.prod(shape)) * dtype.itemsize
    raw = np.random.default_rng(1).integers(0, 50, size, np.uint8)
    if dtype.kind == "b":
        raw %= 2
    if dtype.kind == "U":
        return np.full(shape, "hé", dtype)
    return raw.view(dtype).reshape(shape)


def check(path: Path, array: np.ndarray, **options: Any) -> None:
    zr.from_numpy(path, array, **options)
    for reader in filter(None, (zr, sandbox)):
        with reader.DenseDataset(path) as ds:
            assert ds.dtype == array.dtype
            assert ds.dtype.str == array.dtype.str
            assert ds.dtype.fields == array.dtype.fields
            got = ds[:]
            assert got.dtype == array.dtype
            assert got.shape == array.shape
            assert got.tobytes() == array.tobytes()
            assert ds[0].tobytes() == array[0].tobytes()
            assert type(ds[0]) is type(array[0])


@pytest.mark.parametrize("codec", ["raw", "zstd"])
@pytest.mark.parametrize("name", PLAIN)
def test_plain_dtypes_come_back(path: Path, name: str, codec: str, store_format: str) -> None:
    check(path, random_array(np.dtype(name)), codec=codec, format=store_format)


@pytest.mark.parametrize("name", PLAIN)
def test_scalars_come_back_as_scalars(path: Path, name: str) -> None:
    check(path, random_array(np.dtype(name), (5,)))


@pytest.mark.parametrize("dtype", STRUCTURED, ids=str)
def test_structured_dtypes_come_back(path: Path, dtype: np.dtype[Any]) -> None:
    array = np.zeros((4, 2), dtype)
    array.view(np.uint8)[...] = random_array(np.dtype("u1"), array.view(np.uint8).shape) % 2
    check(path, array)
    # A record of one is a np.void, as NumPy's own.
    check(path.with_name("scalar"), np.ascontiguousarray(array[:, 0]))


@pytest.mark.parametrize("name", ML_DTYPES)
def test_ml_dtypes_come_back_by_name(path: Path, name: str) -> None:
    dtype = np.dtype(getattr(ml_dtypes, name))
    array = np.array([[0, 1], [1, 0], [0, 0]]).astype(dtype)
    check(path, array)
    if "bf" in name or "float8" in name:
        with zr.DenseDataset(path) as ds:
            np.testing.assert_array_equal(ds[:].astype(np.float32), array.astype(np.float32))


@pytest.mark.parametrize("dtype", [*PLAIN, *STRUCTURED], ids=str)
def test_a_dtype_survives_its_spec(dtype: Any) -> None:
    dtype = np.dtype(dtype)
    again = from_spec(to_spec(dtype))
    assert again == dtype
    assert again.fields == dtype.fields
    assert again.itemsize == dtype.itemsize


@pytest.mark.parametrize(
    "array",
    [
        np.array([object()]),
        np.array([[1, "a"]], object),
        np.zeros(2, [("a", "O")]),
        np.zeros(2, [("a", [("b", "O")])]),
        np.zeros(2, {"names": ["a", "b"], "formats": ["u4", "u2"], "offsets": [0, 2]}),
        np.zeros(2, {"names": ["a", "b"], "formats": ["u1", "u1"], "offsets": [1, 0]}),
    ],
    ids=lambda array: str(array.dtype),
)
def test_what_cannot_be_stored_is_refused_before_anything_is_written(
    path: Path, array: np.ndarray
) -> None:
    with pytest.raises(zr.UnsupportedError, match=r"pointers|overlaps"):
        zr.from_numpy(path, array)
    assert not path.exists()
    with pytest.raises(zr.UnsupportedError):
        zr.from_iterator(path, [array])
    assert not path.exists()


@pytest.mark.skipif(not hasattr(np.dtypes, "StringDType"), reason="NumPy 2")
def test_variable_width_strings_are_refused(path: Path) -> None:
    with pytest.raises(zr.UnsupportedError, match="pointers"):
        zr.from_numpy(path, np.array(["a", "bc"], np.dtypes.StringDType()))
    assert not path.exists()


@pytest.mark.parametrize("dtype", [STRUCTURED[0], np.dtype(ml_dtypes.bfloat16)], ids=str)
def test_classic_stores_refuse_what_their_schema_cannot_hold(
    path: Path, dtype: np.dtype[Any]
) -> None:
    with pytest.raises(zr.UnsupportedError, match="classic"):
        zr.from_numpy(path, np.zeros(3, dtype), format="classic")
    assert not path.exists()


def test_ragged_dtypes_come_back(path: Path) -> None:
    records = [np.zeros(n, STRUCTURED[2]) for n in (2, 0, 1)]
    zr.from_iterator(path, records)
    with zr.RaggedDataset(path) as ds:
        assert ds.dtype == STRUCTURED[2]
        assert [record.shape for record in ds[:]] == [(2,), (0,), (1,)]


def test_pointers_are_never_made_of_stored_bytes() -> None:
    from zrecord import _native

    for dtype in ("O", [("a", "O")], ("f4", (2,))):
        with pytest.raises(ValueError, match="cannot be stored"):
            _native.Layout(np.dtype(dtype), ())
