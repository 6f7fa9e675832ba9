"""The loader: which batches come, in which order, in which form."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zrecord as zr

COUNT = 100
IMAGES = np.arange(COUNT * 12, dtype=np.float32).reshape(COUNT, 3, 4)
LABELS = np.arange(COUNT, dtype=np.int64)

Dense = Callable[..., zr.DenseDataset]
Ragged = Callable[..., zr.RaggedDataset]


@pytest.fixture
def streams(dense: Dense) -> dict[str, Any]:
    return {"image": dense(IMAGES, "zstd"), "label": dense(LABELS)}


def take(loader: Any, count: int) -> list[Any]:
    with loader:
        return list(islice(loader, count))


@pytest.mark.parametrize("mode", list(zr.Mode))
@pytest.mark.parametrize(
    ("num_workers", "prefetch_size"), [(0, 4), (4, 0), (1, 1), (4, 4), (3, 16)]
)
def test_batches_are_what_the_sampler_says(
    streams: dict[str, Any], mode: zr.Mode, num_workers: int, prefetch_size: int
) -> None:
    sampler = zr.Sampler(COUNT, 16, mode, 7)
    loader = zr.DataLoader(streams, num_workers, 16, prefetch_size, mode, 7)
    for batch in take(loader, 20):
        indices = sampler.next()
        assert list(batch) == ["image", "label"]
        assert batch["image"].shape == (16, 3, 4)
        assert batch["image"].dtype == np.float32
        np.testing.assert_array_equal(batch["image"], IMAGES[indices])
        np.testing.assert_array_equal(batch["label"], LABELS[indices])


def test_defaults_are_loaderx_s(streams: dict[str, Any]) -> None:
    with zr.DataLoader(streams) as loader:
        assert (loader.batch_size, loader.mode, loader.seed, loader.length) == (256, 1, 42, COUNT)
        expected = zr.Sampler(COUNT, 256, 1, 42).next()
        np.testing.assert_array_equal(next(loader)["label"], expected)


def test_a_bare_stream_gives_bare_batches(dense: Dense) -> None:
    batches = take(zr.DataLoader(dense(LABELS), batch_size=10, mode="sequential"), 2)
    assert [batch.tolist() for batch in batches] == [list(range(10)), list(range(10, 20))]


def test_eight_workers_with_random_sleeps_keep_the_order(streams: dict[str, Any]) -> None:
    def transform(batch: dict[str, Any]) -> list[int]:
        time.sleep(random.uniform(0, 0.01))
        labels: list[int] = batch["label"].tolist()
        return labels

    loader = zr.DataLoader(streams, 8, 8, 16, "cyclic", transform=transform)
    sampler = zr.Sampler(COUNT, 8, "cyclic", 42)
    assert take(loader, 100) == [sampler.next().tolist() for _ in range(100)]


def test_transforms_run_in_num_workers_threads(streams: dict[str, Any]) -> None:
    barrier = threading.Barrier(4, timeout=20)

    def transform(batch: dict[str, Any]) -> int:
        barrier.wait()
        return threading.get_ident()

    threads = set(take(zr.DataLoader(streams, 4, 8, 8, transform=transform), 8))
    # Those ahead wait for a fourth that never comes.
    barrier.abort()
    assert threading.get_ident() not in threads
    assert len(threads) == 4
    inline = zr.DataLoader(streams, 0, 8, transform=lambda batch: threading.get_ident())
    assert set(take(inline, 3)) == {threading.get_ident()}


def test_no_more_is_made_ahead_than_prefetch_size(streams: dict[str, Any]) -> None:
    made: list[int] = []
    loader = zr.DataLoader(streams, 8, 4, 3, transform=lambda batch: made.append(1))
    with loader:
        next(loader)
        time.sleep(0.2)
        assert len(made) <= 4
        next(loader)
        time.sleep(0.2)
        assert len(made) <= 5


def seeded(batch: dict[str, Any], rng: np.random.Generator) -> Any:
    time.sleep(random.uniform(0, 0.003))
    return batch["label"] + rng.normal(size=8)


def test_seeded_transforms_do_not_depend_on_workers(streams: dict[str, Any]) -> None:
    runs = [
        take(zr.DataLoader(streams, workers, 8, 4, transform=seeded, seeded_transform=True), 20)
        for workers in (0, 1, 5)
    ]
    for run in runs[1:]:
        np.testing.assert_array_equal(run, runs[0])
    other = zr.DataLoader(streams, 1, 8, 4, 1, 43, transform=seeded, seeded_transform=True)
    assert not np.array_equal(take(other, 20), runs[0])


def test_seeded_transforms_resume_bit_for_bit(streams: dict[str, Any]) -> None:
    def make(workers: int) -> zr.DataLoader:
        return zr.DataLoader(streams, workers, 8, transform=seeded, seeded_transform=True)

    whole = take(make(3), 20)
    with make(2) as first:
        start = [next(first) for _ in range(7)]
        state = first.state_dict()
    second = make(4)
    second.load_state_dict(state)
    np.testing.assert_array_equal(start + take(second, 13), whole)


def test_ranks_differ_in_their_random_numbers(streams: dict[str, Any]) -> None:
    def noise(batch: Any, rng: np.random.Generator) -> float:
        return rng.random()

    ranks = [
        take(
            zr.DataLoader(
                streams, 1, 8, transform=noise, seeded_transform=True, rank=rank, world_size=2
            ),
            3,
        )
        for rank in range(2)
    ]
    assert len({*ranks[0], *ranks[1]}) == 6


def test_with_indices_adds_them(streams: dict[str, Any]) -> None:
    (batch,) = take(zr.DataLoader(streams, with_indices="index"), 1)
    assert batch["index"].dtype == np.int64
    np.testing.assert_array_equal(batch["index"], batch["label"])


@pytest.mark.parametrize("workers", [0, 3])
def test_ragged_streams_come_in_three_forms(ragged: Ragged, workers: int) -> None:
    records = [np.arange(n % 5, dtype=np.int16) + n for n in range(COUNT)]
    ds = ragged(records)
    plain = zr.DataLoader({"x": ds}, workers, 8, mode="sequential")
    for step, batch in enumerate(take(plain, 3)):
        for record, expected in zip(batch["x"], records[8 * step :], strict=False):
            np.testing.assert_array_equal(record, expected)
    packed = zr.DataLoader({"x": ds}, workers, 8, mode="sequential", ragged="packed")
    (batch,) = take(packed, 1)
    values, offsets = batch["x"]
    np.testing.assert_array_equal(values, np.concatenate(records[:8]))
    assert offsets.tolist() == np.cumsum([0, *(len(record) for record in records[:8])]).tolist()
    for max_len in (None, 6):
        padded = zr.DataLoader(
            {"x": ds, "y": ds},
            workers,
            8,
            mode="sequential",
            ragged={"x": "pad"},
            pad_value=-1,
            max_len=max_len,
        )
        (batch,) = take(padded, 1)
        expected, lengths = zr.pad(records[:8], max_len, -1)
        np.testing.assert_array_equal(batch["x"][0], expected)
        np.testing.assert_array_equal(batch["x"][1], lengths)
        assert isinstance(batch["y"], list)
    with zr.DataLoader({"x": ds}, workers, 8, ragged="pad", max_len=2) as narrow:
        with pytest.raises(ValueError, match="over max_len=2"):
            next(narrow)


class Records:
    """A stream of records that are asked for one by one."""

    def __init__(self, items: list[Any]) -> None:
        self.items = items

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, index: int) -> Any:
        assert type(index) is int
        return self.items[index]


class Batched(Records):
    """A stream that is asked for batches."""

    def __getitem__(self, index: int) -> Any:
        raise AssertionError("asked one by one")

    def __getitems__(self, indices: Any) -> list[Any]:
        return [self.items[index] for index in indices]


@pytest.mark.parametrize("workers", [0, 3])
def test_anything_with_a_length_and_items_is_a_stream(
    streams: dict[str, Any], workers: int
) -> None:
    streams |= {
        "array": IMAGES,
        "list": list(range(COUNT)),
        "rows": Records([np.full(3, n) for n in range(COUNT)]),
        "texts": Records([str(n) for n in range(COUNT)]),
        "batched": Batched([{"n": n} for n in range(COUNT)]),
    }
    for batch in take(zr.DataLoader(streams, workers, 8), 5):
        labels = batch["label"]
        np.testing.assert_array_equal(batch["array"], IMAGES[labels])
        np.testing.assert_array_equal(batch["list"], labels)
        np.testing.assert_array_equal(batch["rows"], np.repeat(labels[:, None], 3, 1))
        assert batch["texts"] == [str(n) for n in labels]
        assert batch["batched"] == [{"n": n} for n in labels]


def test_a_subclass_of_a_dataset_is_asked(path: Path) -> None:
    class Negated(zr.DenseDataset):
        def __getitems__(self, idxs: Any) -> Any:
            return -super().__getitems__(idxs)

    zr.from_numpy(path, LABELS)
    loader = zr.DataLoader(Negated(path), batch_size=4, mode="sequential")
    assert take(loader, 1)[0].tolist() == [0, -1, -2, -3]


def test_ranks_see_disjoint_parts_of_one_order(streams: dict[str, Any]) -> None:
    alone = take(zr.DataLoader(streams, 2, 8, mode="cyclic"), 10)
    ranks = [
        take(zr.DataLoader(streams, 2, 4, mode="cyclic", rank=rank, world_size=2), 10)
        for rank in range(2)
    ]
    for one, zero, two in zip(alone, *ranks, strict=True):
        np.testing.assert_array_equal(one["label"], np.concatenate([zero["label"], two["label"]]))


@pytest.mark.parametrize(
    "options",
    [
        {"num_workers": -1},
        {"prefetch_size": -1},
        {"batch_size": 0},
        {"batch_size": COUNT + 1, "mode": "cyclic"},
        {"mode": 3},
        {"mode": "shuffle"},
        {"rank": 1},
        {"ragged": "stacked"},
        {"ragged": {"other": "pad"}},
        {"seed": -1},
        {"rank": -1},
        {"with_indices": "label"},
        {"seeded_transform": True},
    ],
    ids=str,
)
def test_arguments_are_checked(streams: dict[str, Any], options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        zr.DataLoader(streams, **options)


def test_streams_are_checked(streams: dict[str, Any], dense: Dense) -> None:
    with pytest.raises(ValueError, match="length"):
        zr.DataLoader({**streams, "short": LABELS[:-1]})
    with pytest.raises(ValueError, match="stream"):
        zr.DataLoader({})
    with pytest.raises(TypeError, match="no length"):
        zr.DataLoader({"x": iter([1])})
    with pytest.raises(ValueError, match=r"\w"):
        zr.DataLoader(dense(LABELS[:0]))
    with pytest.raises(ValueError, match="dict"):
        zr.DataLoader(dense(LABELS), with_indices="index")
    closed = dense(LABELS)
    closed.close()
    with pytest.raises(zr.ClosedError):
        zr.DataLoader(closed)


def test_it_has_no_length_and_goes_on(streams: dict[str, Any]) -> None:
    with zr.DataLoader(streams, 2, 8, mode="sequential") as loader:
        with pytest.raises(TypeError, match="batches"):
            len(loader)
        assert iter(loader) is loader
        seen = []
        for _ in range(3):
            for batch in loader:
                seen.append(int(batch["label"][0]))
                if len(seen) % 2 == 0:
                    break
        assert seen == [0, 8, 16, 24, 32, 40]
        assert "step 6" in repr(loader)
    assert "closed" in repr(loader)


def test_batches_are_the_callers_own(streams: dict[str, Any]) -> None:
    with zr.DataLoader(streams, 2, 8, mode="sequential") as loader:
        kept = [next(loader) for _ in range(30)]
        for batch in kept:
            batch["label"] += 1
        for step, batch in enumerate(kept):
            expected = (np.arange(8) + 8 * step) % COUNT + 1
            np.testing.assert_array_equal(batch["label"], expected)
            np.testing.assert_array_equal(batch["image"], IMAGES[expected - 1])


@pytest.mark.parametrize(("num_workers", "prefetch_size"), [(0, 0), (3, 2)])
@pytest.mark.parametrize("batch_size", [1, 7, 50, 100, 101])
def test_a_pass_has_each_record_once(
    streams: dict[str, Any], batch_size: int, num_workers: int, prefetch_size: int
) -> None:
    for drop_last in (False, True):
        loader = zr.batches(
            streams,
            batch_size,
            drop_last=drop_last,
            num_workers=num_workers,
            prefetch_size=prefetch_size,
        )
        batches = list(loader)
        assert len(batches) == len(loader)
        full, rest = divmod(COUNT, batch_size)
        assert len(batches) == full + (rest > 0 and not drop_last)
        labels = [int(label) for batch in batches for label in batch["label"]]
        assert labels == list(range(full * batch_size if drop_last else COUNT))
        with pytest.raises(StopIteration):
            next(loader)


def test_the_ranks_of_a_pass_have_as_many_batches(streams: dict[str, Any]) -> None:
    for drop_last, batch_size in ((False, 7), (True, 7), (False, 33)):
        ranks = [
            list(zr.batches(streams, batch_size, drop_last=drop_last, rank=rank, world_size=3))
            for rank in range(3)
        ]
        assert len({len(rank) for rank in ranks}) == 1
        labels = [
            label
            for step in zip(*ranks, strict=True)
            for batch in step
            for label in batch["label"].tolist()
        ]
        assert labels == list(range(len(labels)))
        assert len(labels) == (COUNT // 21 * 21 if drop_last else COUNT)


def test_a_pass_takes_what_a_loader_takes(ragged: Ragged) -> None:
    records = ragged([np.arange(n + 1) for n in range(10)])
    made = zr.batches(
        {"x": records},
        4,
        transform=lambda batch: batch["x"][0].shape,
        with_indices="i",
        ragged="pad",
        max_len=12,
    )
    with made:
        assert list(made) == [(4, 12), (4, 12), (2, 12)]
    with pytest.raises(ValueError, match="batch_size"):
        zr.batches(records, 0)
    empty = zr.batches(np.zeros((0, 3)), 4)
    assert len(empty) == 0
    assert list(empty) == []
