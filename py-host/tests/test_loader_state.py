"""A loader stops, and another goes on exactly there."""

from __future__ import annotations

import json
import pickle
import traceback
import warnings
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zrecord as zr

LABELS = np.arange(100, dtype=np.int64)


@pytest.fixture
def streams(path: Path, store_format: str) -> dict[str, Any]:
    zr.from_numpy(path, LABELS, format=store_format)
    return {"label": zr.DenseDataset(path)}


def labels(loader: zr.DataLoader, count: int) -> list[list[int]]:
    return [batch["label"].tolist() for batch in islice(loader, count)]


@pytest.mark.parametrize("mode", list(zr.Mode))
@pytest.mark.parametrize("workers", [0, 3])
def test_another_loader_goes_on(streams: dict[str, Any], mode: zr.Mode, workers: int) -> None:
    with zr.DataLoader(streams, 2, 8, mode=mode) as whole:
        expected = labels(whole, 20)
    with zr.DataLoader(streams, 3, 8, mode=mode) as first:
        assert labels(first, 7) == expected[:7]
        state = json.loads(json.dumps(first.state_dict()))
    assert state["step"] == 7
    with zr.DataLoader(streams, workers, 8, mode=mode) as second:
        second.load_state_dict(state)
        assert second.step == 7
        assert labels(second, 13) == expected[7:]


def test_going_back_during_iteration(streams: dict[str, Any]) -> None:
    with zr.DataLoader(streams, 3, 8) as loader:
        start = labels(loader, 3)
        state = loader.state_dict()
        rest = labels(loader, 5)
        loader.load_state_dict(state)
        assert labels(loader, 5) == rest
        loader.load_state_dict({**state, "step": 0})
        assert labels(loader, 3) == start


def test_a_state_counts_what_was_delivered(streams: dict[str, Any]) -> None:
    with zr.DataLoader(streams, 4, 8, 16) as loader:
        assert loader.state_dict()["step"] == 0
        next(loader)
        assert loader.state_dict()["step"] == 1
        state = loader.state_dict()
    keys = {"version", "seed", "step", "global_batch", "length", "mode", "streams"}
    assert state.keys() == keys
    assert (state["seed"], state["global_batch"], state["length"]) == (42, 8, 100)
    assert state["mode"] == "iid"


@pytest.mark.parametrize("mode", list(zr.Mode))
def test_another_world_size_goes_on_with_the_same_order(
    streams: dict[str, Any], mode: zr.Mode
) -> None:
    with zr.DataLoader(streams, 2, 12, mode=mode) as alone:
        expected = labels(alone, 10)
    states = []
    for rank in range(3):
        with zr.DataLoader(streams, 2, 4, mode=mode, rank=rank, world_size=3) as loader:
            labels(loader, 4)
            states.append(loader.state_dict())
    assert states[0] == states[1] == states[2]
    parts = []
    for rank in range(2):
        with zr.DataLoader(streams, 2, 6, mode=mode, rank=rank, world_size=2) as loader:
            loader.load_state_dict(states[0])
            parts.append(labels(loader, 6))
    assert [one + two for one, two in zip(*parts, strict=True)] == expected[4:]


@pytest.mark.parametrize(
    ("options", "word"),
    [({"batch_size": 9}, "batch"), ({"seed": 1}, "seed"), ({"mode": 0}, "mode")],
)
def test_what_would_change_the_order_is_an_error(
    streams: dict[str, Any], options: dict[str, Any], word: str
) -> None:
    with zr.DataLoader(streams, batch_size=8) as loader:
        labels(loader, 3)
        state = loader.state_dict()
    with zr.DataLoader(streams, **{"batch_size": 8, **options}) as other:
        before = other.state_dict()
        with pytest.raises(ValueError, match=word):
            other.load_state_dict(state)
        assert other.state_dict() == before
        with pytest.warns(UserWarning, match=word):
            other.load_state_dict(state, strict=False)
        next(other)


def test_other_data_is_an_error(streams: dict[str, Any], tmp_path: Path, store_format: str) -> None:
    with zr.DataLoader(streams, batch_size=8) as loader:
        state = loader.state_dict()
    others: list[Any] = [{"other": streams["label"]}, {"label": LABELS}]
    zr.from_numpy(tmp_path / "f4", LABELS.astype(np.float32), format=store_format)
    others.append({"label": zr.DenseDataset(tmp_path / "f4")})
    if store_format == "extended":
        zr.from_numpy(tmp_path / "twin", LABELS)
        others.append({"label": zr.DenseDataset(tmp_path / "twin")})
    for other in others:
        with zr.DataLoader(other, batch_size=8) as loader:
            with pytest.raises(ValueError, match="stream"):
                loader.load_state_dict(state)
            with pytest.warns(UserWarning, match="stream"):
                loader.load_state_dict(state, strict=False)


def test_renumbered_records_are_other_data(path: Path) -> None:
    zr.from_numpy(path, LABELS)
    with zr.DenseDataset(path) as ds, zr.DataLoader(ds) as loader:
        state = loader.state_dict()
    with zr.Zrecord(path) as store:
        store.delete([3])
        store.append(LABELS[:1], [0])
    with zr.DenseDataset(path) as ds, zr.DataLoader(ds) as loader:
        with pytest.raises(ValueError, match="generation"):
            loader.load_state_dict(state)


def test_a_longer_store_goes_on_over_the_saved_length(
    path: Path, streams: dict[str, Any], store_format: str
) -> None:
    with zr.DataLoader(streams, 2, 8, mode="cyclic") as loader:
        zr.from_numpy(path, LABELS)
        expected = labels(loader, 30)
        assert loader.length == 100
        assert max(map(max, expected)) == 99
    with zr.DataLoader(streams, 2, 8, mode="cyclic") as loader:
        state = {**loader.state_dict(), "length": 100}
        with pytest.warns(UserWarning, match="grown from 100 to 200"):
            loader.load_state_dict(state)
        assert labels(loader, 30) == expected


def test_a_shorter_store_is_an_error(path: Path) -> None:
    zr.from_numpy(path, LABELS)
    with zr.DenseDataset(path) as ds, zr.DataLoader(ds, batch_size=8) as loader:
        state = loader.state_dict()
        with pytest.raises(ValueError, match="length"):
            loader.load_state_dict({**state, "length": 101})


@pytest.mark.parametrize(
    "state", [{}, {"version": 1}, {"step": -1}, {"version": 99}, {"mode": "best"}, {"a": object()}]
)
def test_what_is_no_state_says_so(streams: dict[str, Any], state: dict[str, Any]) -> None:
    with zr.DataLoader(streams, batch_size=8) as loader:
        good = loader.state_dict()
        bad = state if not state or state == {"version": 1} else {**good, **state}
        with pytest.raises(ValueError, match="state"):
            loader.load_state_dict(bad)
        assert loader.state_dict() == good


class Fails:
    """A transform that fails at one step."""

    def __init__(self, step: int) -> None:
        self.step = step

    def __call__(self, batch: Any) -> Any:
        if batch["label"][0] == 8 * self.step:
            raise self.culprit(batch)
        return batch

    def culprit(self, batch: Any) -> Exception:
        return LookupError(f"label {batch['label'][0]}")


@pytest.mark.parametrize("workers", [0, 1, 4])
def test_an_exception_surfaces_at_its_batch_again_and_again(
    streams: dict[str, Any], workers: int
) -> None:
    transform = Fails(5)
    with zr.DataLoader(streams, workers, 8, 8, "sequential", transform=transform) as loader:
        assert len(labels(loader, 5)) == 5
        depths = set()
        for _ in range(3):
            with pytest.raises(LookupError, match="label 40") as caught:
                next(loader)
            text = "".join(traceback.format_exception(caught.value))
            assert "__call__" in text
            assert "raise self.culprit(batch)" in text
            assert any("step 5" in note for note in caught.value.__notes__)
            assert len(caught.value.__notes__) == 1
            depths.add(len(traceback.extract_tb(caught.value.__traceback__)))
            assert loader.state_dict()["step"] == 5
        assert len(depths) == 1
        transform.step = 99
        loader.load_state_dict(loader.state_dict())
        assert labels(loader, 1) == [list(range(40, 48))]


@pytest.mark.parametrize("workers", [0, 3])
def test_a_gather_that_fails_surfaces_at_its_batch(
    path: Path, streams: dict[str, Any], workers: int
) -> None:
    with zr.DataLoader(streams, workers, 8, 4, "sequential") as loader:
        next(loader)
        streams["label"].close()
        with pytest.raises(zr.ClosedError) as caught:
            labels(loader, 10)
        assert "step" in caught.value.__notes__[0]
        step = loader.step
        with pytest.raises(zr.ClosedError):
            next(loader)
        assert loader.step == step


def test_an_exception_in_a_python_stream_surfaces(streams: dict[str, Any]) -> None:
    class Broken:
        def __len__(self) -> int:
            return 100

        def __getitem__(self, index: int) -> int:
            return 1 // (index - 42)

    streams["broken"] = Broken()
    with zr.DataLoader(streams, 3, 8, mode="sequential") as loader:
        assert len(labels(loader, 5)) == 5
        with pytest.raises(ZeroDivisionError):
            next(loader)


def test_a_transform_cannot_ask_its_own_loader(streams: dict[str, Any]) -> None:
    loaders: list[zr.DataLoader] = []
    loader = zr.DataLoader(streams, 2, 8, transform=lambda batch: next(loaders[0]))
    loaders.append(loader)
    with loader, pytest.raises(zr.ZrecordError, match="itself"):
        next(loader)
    loaders.clear()


@pytest.mark.parametrize("workers", [0, 3])
def test_next_after_close_is_an_error(streams: dict[str, Any], workers: int) -> None:
    loader = zr.DataLoader(streams, workers, 8)
    next(loader)
    loader.close()
    loader.close()
    assert loader.closed
    for use in (lambda: next(loader), lambda: loader.load_state_dict(loader.state_dict())):
        with pytest.raises(zr.ClosedError):
            use()
    assert len(streams["label"]) == 100


def test_a_loader_pickles_with_its_place(path: Path, streams: dict[str, Any]) -> None:
    with zr.DataLoader(streams, 2, 8, mode="cyclic", transform=Fails(10**6)) as loader:
        labels(loader, 4)
        pickled = pickle.dumps(loader)
        expected = labels(loader, 6)
    with pickle.loads(pickled) as again:
        assert again.step == 4
        assert labels(again, 6) == expected
    # That the store has grown since is no news.
    zr.from_numpy(path, LABELS)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pickle.loads(pickled) as again:
            assert labels(again, 6) == expected
