"""``records[key]`` answers as NumPy does."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from zrecord import _index
from zrecord.errors import OutOfRangeError

ARRAYS = [
    np.arange(7),
    np.arange(7 * 3).reshape(7, 3),
    np.arange(7 * 3 * 2).reshape(7, 3, 2),
    np.zeros((0, 4)),
    np.arange(1.0),
]

INTEGERS = [0, 1, 6, -1, -7, np.int8(2), np.uint64(3), np.array(4), np.array(5, np.uint8)]
SLICES = [
    slice(start, stop, step)
    for start, stop, step in itertools.product(
        [None, 0, 2, -3, 9, -9], [None, 0, 5, -1, 9, -9], [None, 1, 2, -1, -2, 5]
    )
]
VECTORS: list[Any] = [
    [],
    [0],
    [6, 0, 3],
    [2, 2, -1, -7],
    (),
    np.array([], np.int64),
    np.array([3, 1], np.uint8),
    np.array([3, -1], np.int8),
    np.array([3, 1], np.uint64),
    np.array([3, 1], ">i4"),
    np.array([[0, 1], [-1, 2]]),
    np.array([[[3]]]),
    np.arange(7)[::2],
    np.zeros((0, 2), np.int32),
    [[0, 1], [2, 3]],
    range(3),
]
MASKS: list[Any] = [
    np.array([True, False, True, False, False, True, True]),
    [False] * 7,
    [True] * 7,
    np.ones(7, bool),
]
OTHERS: list[Any] = [..., None, True, False, np.True_, np.array(False)]
REST: list[Any] = [0, -1, slice(None), slice(0, 2), [0, 1], ..., None, np.array([1, 0])]


class Rows:
    """An array of which only whole rows can be fetched."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array

    def fetch(self, indices: np.ndarray) -> np.ndarray:
        assert indices.ndim == 1
        assert indices.dtype in (np.int64, np.uint64)
        assert indices.flags.c_contiguous
        for index in indices.tolist():
            if not -len(self.array) <= index < len(self.array):
                raise OutOfRangeError(f"index {index}")
        return np.array(self.array[indices], copy=True)

    def __getitem__(self, key: Any) -> Any:
        return _index.select(key, len(self.array), self.fetch)


def check(array: np.ndarray, key: Any) -> None:
    try:
        expected = array[key]
    except IndexError:
        with pytest.raises((IndexError, TypeError)):
            Rows(array)[key]
        return
    got = Rows(array)[key]
    assert type(got) is type(expected), key
    assert got.dtype == expected.dtype
    assert got.shape == expected.shape, key
    np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("array", ARRAYS, ids=lambda array: str(array.shape))
def test_one_key_selects_what_numpy_selects(array: np.ndarray) -> None:
    for key in INTEGERS + SLICES + VECTORS + MASKS + OTHERS:
        check(array, key)


@pytest.mark.parametrize("array", ARRAYS, ids=lambda array: str(array.shape))
def test_keys_of_several_axes_select_what_numpy_selects(array: np.ndarray) -> None:
    firsts = [*INTEGERS[:5], *SLICES[::37], *VECTORS[:4], *VECTORS[6:12], *MASKS, *OTHERS]
    for first, second in itertools.product(firsts, REST):
        check(array, (first, second))
    for first, second, third in itertools.product(firsts[::2], REST, REST):
        check(array, (first, second, third))


def test_a_mask_over_two_axes_selects_what_numpy_selects() -> None:
    array = np.arange(21).reshape(7, 3)
    check(array, array % 2 == 0)
    check(array, np.ones((7, 2), bool))


@pytest.mark.parametrize("key", [1.0, np.float32(1), [1.5], np.array([0.0]), "a", b"a", ["a"], {}])
def test_what_is_no_index_is_a_type_error(key: Any) -> None:
    with pytest.raises(TypeError):
        Rows(ARRAYS[1])[key]


@pytest.mark.parametrize("key", [7, -8, 2**63, -(2**80), [7], [-8], [2**70], np.uint64(2**63)])
def test_an_index_past_the_end_is_an_index_error(key: Any) -> None:
    with pytest.raises(IndexError) as caught:
        Rows(ARRAYS[1])[key]
    assert isinstance(caught.value, OutOfRangeError)


@pytest.mark.parametrize("length", [0, 6, 8])
def test_a_mask_of_another_length_is_an_index_error(length: int) -> None:
    with pytest.raises(IndexError):
        Rows(ARRAYS[1])[np.ones(length, bool)]


def test_ragged_keys_are_flat() -> None:
    assert _index.flat(-1, 5) == -1
    assert _index.flat(slice(None, None, 2), 5).tolist() == [0, 2, 4]
    assert _index.flat(..., 3).tolist() == [0, 1, 2]
    assert _index.flat((), 3).tolist() == [0, 1, 2]
    assert _index.flat([True, False, True], 3).tolist() == [0, 2]
    for key in (None, True, [[0]], (0, 1), 1.0):
        with pytest.raises(TypeError):
            _index.flat(key, 3)


@pytest.mark.parametrize("bad", [[True, False], [0.5], "a", np.array(["a"])])
def test_a_vector_takes_integers_only(bad: Any) -> None:
    with pytest.raises(TypeError):
        _index.vector(bad)
