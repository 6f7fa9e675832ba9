"""Pickles and copies: another handle of the same store, at the same step, or an error."""

from __future__ import annotations

import copy
import os
import pickle
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zrecord as zr
from joblib.externals import cloudpickle

ROWS = np.arange(2000, dtype=np.int64).reshape(200, 10)
WORDS = [np.arange(n % 11, dtype=np.int16) for n in range(200)]

COPIES: list[Callable[[Any], Any]] = [
    copy.copy,
    copy.deepcopy,
    *(lambda value, p=p: pickle.loads(pickle.dumps(value, p)) for p in (2, 5)),
    lambda value: pickle.loads(cloudpickle.dumps(value)),
]
NAMES = ["copy", "deepcopy", "pickle2", "pickle5", "cloudpickle"]


@pytest.fixture
def dense(path: Path) -> zr.DenseDataset:
    zr.from_numpy(path / "dense", ROWS)
    return zr.DenseDataset(path / "dense", verify="always", threads=1)


@pytest.fixture
def ragged(path: Path) -> zr.RaggedDataset:
    zr.from_iterator(path / "ragged", WORDS)
    return zr.RaggedDataset(path / "ragged", io="pread")


def total(batch: Any) -> Any:
    return batch["x"].sum() + sum(map(np.sum, batch["y"]))


def augment(batch: Any, rng: np.random.Generator) -> Any:
    return batch["x"][:, 0] + rng.integers(0, 1000, len(batch["x"]))


@pytest.mark.parametrize("make", COPIES, ids=NAMES)
def test_a_copy_is_a_handle_of_its_own(
    path: Path, dense: zr.DenseDataset, ragged: zr.RaggedDataset, make: Callable[[Any], Any]
) -> None:
    with zr.Zrecord(path / "bytes", "raw", mode="x", level=5) as store:
        store.append(b"onetwo", [0, 3])
        again = make(store)
        assert (again.mode, again._options, again.read(1)) == ("a", store._options, b"two")
        with pytest.raises(zr.BusyError):
            again.append(b"x", [0])
    assert again.append(b"x", [0]) == 2
    dense_again, ragged_again = make(dense), make(ragged)
    assert dense_again._options == {"verify": "always", "io": "map", "threads": 1}
    assert ragged_again._options == {"verify": "first", "io": "pread", "threads": None}
    dense.close()
    ragged.close()
    assert np.array_equal(dense_again[:], ROWS)
    assert all(map(np.array_equal, ragged_again[:], WORDS))


@pytest.mark.parametrize("make", COPIES, ids=NAMES)
def test_a_copied_sampler_goes_on_where_the_first_one_was(make: Callable[[Any], Any]) -> None:
    sampler = zr.Sampler(1000, 7, "cyclic", 5, rank=1, world_size=3)
    sampler.seek(12345)
    again = make(sampler)
    assert repr(again) == repr(sampler)
    assert all(np.array_equal(sampler.next(), again.next()) for _ in range(300))


@pytest.mark.parametrize("steps", [0, 5])
@pytest.mark.parametrize("make", COPIES, ids=NAMES)
def test_a_copied_loader_goes_on_where_the_first_one_was(
    dense: zr.DenseDataset, ragged: zr.RaggedDataset, make: Callable[[Any], Any], steps: int
) -> None:
    streams = {"x": dense, "y": ragged, "z": ROWS}
    seeded = {"mode": "cyclic", "transform": augment, "seeded_transform": True}
    for options in ({}, {"transform": total, "num_workers": 2}, seeded):
        with zr.DataLoader(streams, batch_size=8, **options) as loader:
            for _ in range(steps):
                next(loader)
            with make(loader) as again:
                assert again.state_dict() == loader.state_dict()
                assert again._settings == loader._settings
                for _ in range(4):
                    np.testing.assert_equal(next(again), next(loader))


def test_a_pass_a_closed_handle_and_a_lambda_say_that_they_cannot_be_pickled(
    path: Path, dense: zr.DenseDataset, ragged: zr.RaggedDataset
) -> None:
    with pytest.raises(TypeError, match="cannot pickle"):
        pickle.dumps(zr.batches(dense, 8))
    loader = zr.DataLoader(dense, 2, 8, transform=lambda batch: batch)
    with pytest.raises((pickle.PicklingError, AttributeError), match="lambda"):
        pickle.dumps(loader)
    store = zr.Zrecord(path / "bytes")
    for each in (loader, dense, ragged, store):
        each.close()
        for make in (pickle.dumps, copy.copy, copy.deepcopy):
            with pytest.raises(zr.ClosedError, match="closed"):
                make(each)


def test_a_relative_path_is_the_one_that_was_opened(tmp_path: Path, monkeypatch: Any) -> None:
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    zr.from_numpy("store", ROWS)
    handles = [zr.DenseDataset("store"), zr.Zrecord("store", mode="r")]
    loader = zr.DataLoader(handles[0], 2, 8)
    # As two programs have it: one pickles after it has moved, one reads elsewhere.
    monkeypatch.chdir(tmp_path / "elsewhere")
    pickled = pickle.dumps([*handles, loader])
    monkeypatch.chdir("/")
    dense, store, again = pickle.loads(pickled)
    assert np.array_equal(dense[:], ROWS)
    assert len(store) == 200
    assert np.array_equal(next(again), next(loader))
    assert not (tmp_path / "elsewhere" / "store").exists()


PICKLED = {
    "dense": lambda path: zr.DenseDataset(path),
    "reading": lambda path: zr.Zrecord(path, mode="r"),
    "writing": lambda path: zr.Zrecord(path),
    "loader": lambda path: zr.DataLoader(zr.DenseDataset(path), 0, 8),
}


@pytest.mark.parametrize("kind", PICKLED)
def test_a_store_that_is_gone_or_another_is_an_error(path: Path, kind: str) -> None:
    zr.from_numpy(path, ROWS)
    pickled = pickle.dumps(PICKLED[kind](path))
    zr.from_numpy(path, ROWS + 1, if_exists="replace")
    with pytest.raises(FileNotFoundError, match="another store is where the pickled one was"):
        pickle.loads(pickled)
    shutil.rmtree(path)
    with pytest.raises(zr.StoreNotFoundError, match="store"):
        pickle.loads(pickled)
    assert not path.exists()


def test_a_moved_store_is_refused_and_opened_by_its_new_path(path: Path) -> None:
    zr.from_numpy(path, ROWS)
    dense = zr.DenseDataset(path)
    loader = zr.DataLoader(dense, 0, 8)
    next(loader)
    state, pickled = loader.state_dict(), pickle.dumps(dense)
    moved = path.with_name("moved")
    path.rename(moved)
    with pytest.raises(zr.StoreNotFoundError):
        pickle.loads(pickled)
    # What is open stays open, and the state knows the store, not its path.
    again = zr.DataLoader(zr.DenseDataset(moved), 0, 8)
    again.load_state_dict(state)
    assert np.array_equal(next(again), next(loader))


def test_another_process_unpickles_and_goes_on(
    path: Path, dense: zr.DenseDataset, ragged: zr.RaggedDataset
) -> None:
    sampler = zr.Sampler(200, 8, "iid", 1)
    loader = zr.DataLoader({"x": dense, "y": ragged}, 2, 8, mode="cyclic")
    for _ in range(3):
        next(loader)
        sampler.next()
    pickled = path / "pickled"
    pickled.write_bytes(pickle.dumps([dense, ragged, sampler, loader]))
    code = """
import pickle, sys
import numpy as np
dense, ragged, sampler, loader = pickle.load(open(sys.argv[1], "rb"))
batch = next(loader)
np.savez(sys.argv[2], rows=dense[:], words=np.concatenate(ragged[:]), drawn=sampler.next(),
    x=batch["x"], y=np.concatenate(batch["y"]))
"""
    found = path / "found.npz"
    subprocess.run(
        [sys.executable, "-c", code, str(pickled), str(found)],
        check=True,
        cwd="/",
        timeout=60,
        env=dict(os.environ),
    )
    batch = next(loader)
    with np.load(found) as arrays:
        assert np.array_equal(arrays["rows"], ROWS)
        assert np.array_equal(arrays["words"], np.concatenate(WORDS))
        assert np.array_equal(arrays["drawn"], sampler.next())
        assert np.array_equal(arrays["x"], batch["x"])
        assert np.array_equal(arrays["y"], np.concatenate(batch["y"]))
