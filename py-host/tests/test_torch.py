"""The real torch: its ``DataLoader`` over our datasets, and its stateful convention.

Runs in an environment of its own (``cargo xtask test --all``), since torch is
larger than everything else together.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zrecord as zr

torch = pytest.importorskip("torch", reason="torch has an environment of its own")
from torch.utils.data import DataLoader, IterableDataset, get_worker_info  # noqa: E402

pytestmark = [
    pytest.mark.filterwarnings("ignore"),
    pytest.mark.timeout(900),
]

ROWS = np.arange(4000, dtype=np.float32).reshape(400, 10)
WORDS = [np.arange(n % 11, dtype=np.int16) for n in range(400)]


@pytest.fixture(params=["fork", "forkserver", "spawn"])
def workers(request: pytest.FixtureRequest) -> dict[str, Any]:
    return {"num_workers": 2, "multiprocessing_context": request.param}


@pytest.fixture
def dense(path: Path) -> zr.DenseDataset:
    zr.from_numpy(path / "dense", ROWS)
    dense = zr.DenseDataset(path / "dense")
    dense[np.tile(np.arange(400), 50)]
    return dense


@pytest.fixture
def ragged(path: Path) -> zr.RaggedDataset:
    zr.from_iterator(path / "ragged", WORDS)
    return zr.RaggedDataset(path / "ragged")


def first_column(batches: Any) -> list[float]:
    return torch.cat([torch.as_tensor(batch)[:, 0] for batch in batches]).tolist()


@pytest.mark.parametrize("batched", [True, False])
def test_a_map_style_dataset_in_persistent_workers(
    dense: zr.DenseDataset, workers: dict[str, Any], batched: bool
) -> None:
    class OneByOne(torch.utils.data.Dataset):  # type: ignore[misc]
        def __len__(self) -> int:
            return len(dense)

        def __getitem__(self, index: int) -> Any:
            return dense[index]

    if not batched and workers["multiprocessing_context"] != "fork":
        pytest.skip("a local class goes to forked workers alone")
    loader = DataLoader(
        dense if batched else OneByOne(),
        batch_size=16,
        shuffle=True,
        persistent_workers=True,
        generator=torch.Generator().manual_seed(1),
        **workers,
    )
    passes = [first_column(loader) for _ in range(3)]
    assert all(sorted(each) == ROWS[:, 0].tolist() for each in passes)
    assert passes[0] != passes[1]
    # The parent's own handle, beside its workers'.
    assert np.array_equal(dense[:], ROWS)


def keep(batch: Any) -> Any:
    return batch


def test_ragged_records_in_workers(ragged: zr.RaggedDataset, workers: dict[str, Any]) -> None:
    loader = DataLoader(ragged, batch_size=16, collate_fn=keep, **workers)
    found = [record for batch in loader for record in batch]
    assert len(found) == 400
    assert all(map(np.array_equal, found, WORDS))


def test_a_worker_that_fails_says_why(path: Path, dense: zr.DenseDataset) -> None:
    chunk = path / "dense" / "0.zr"
    chunk.write_bytes(chunk.read_bytes()[:100])
    loader = DataLoader(dense, batch_size=16, num_workers=2, multiprocessing_context="fork")
    with pytest.raises(zr.CorruptError, match="stored bytes were expected"):
        list(loader)


class RankIterator:
    """What one of torch's workers draws; it has the methods of the stateful convention."""

    def __init__(self, loader: zr.DataLoader, steps: int) -> None:
        self.loader, self.steps = loader, steps
        self.state_dict = loader.state_dict
        self.load_state_dict = loader.load_state_dict

    def __iter__(self) -> RankIterator:
        return self

    def __next__(self) -> Any:
        if self.loader.step == self.steps:
            raise StopIteration
        return next(self.loader)


class Ranks(IterableDataset):  # type: ignore[misc]
    """Our loader in torch's workers: each worker is a rank."""

    def __init__(self, dense: zr.DenseDataset, steps: int) -> None:
        self.dense, self.steps = dense, steps

    def __iter__(self) -> RankIterator:
        info = get_worker_info()
        rank, ranks = (0, 1) if info is None else (info.id, info.num_workers)
        size = 40 // ranks
        loader = zr.DataLoader(self.dense, 2, size, mode="cyclic", rank=rank, world_size=ranks)
        return RankIterator(loader, self.steps)


def expected(first: int, last: int) -> list[float]:
    sampler = zr.Sampler(400, 40, "cyclic", 42)
    indices = np.concatenate([sampler.next() for _ in range(last)][first:]).astype(int)
    return sorted(ROWS[indices, 0].tolist())


def test_our_loader_in_workers_whose_ranks_are_disjoint(
    dense: zr.DenseDataset, workers: dict[str, Any]
) -> None:
    loader = DataLoader(Ranks(dense, 10), batch_size=None, **workers)
    assert sorted(first_column(loader)) == expected(0, 10)


class Shared(IterableDataset):  # type: ignore[misc]
    """A loader made in the parent, which one worker drains."""

    def __init__(self, loader: zr.DataLoader) -> None:
        self.loader = loader

    def __iter__(self) -> Iterator[Any]:
        for _ in range(10):
            yield next(self.loader)


def test_a_loader_that_had_not_started_goes_to_a_worker(
    dense: zr.DenseDataset, workers: dict[str, Any]
) -> None:
    made = zr.DataLoader(dense, 2, 40, mode="cyclic")
    loader = DataLoader(Shared(made), batch_size=None, **{**workers, "num_workers": 1})
    assert sorted(first_column(loader)) == expected(0, 10)
    assert made.step == 0


@pytest.mark.parametrize("num_workers", [0, 2])
def test_the_stateful_convention_resumes_exactly(dense: zr.DenseDataset, num_workers: int) -> None:
    stateful = pytest.importorskip("torchdata.stateful_dataloader")

    def loader() -> Any:
        return stateful.StatefulDataLoader(
            Ranks(dense, 20), batch_size=None, num_workers=num_workers
        )

    whole = [batch.tolist() for batch in loader()]
    first = loader()
    taken = [batch.tolist() for _, batch in zip(range(7), first, strict=False)]
    second = loader()
    second.load_state_dict(first.state_dict())
    assert taken + [batch.tolist() for batch in second] == whole
