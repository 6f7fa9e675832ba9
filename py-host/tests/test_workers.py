"""Datasets and loaders in worker processes, however those are started."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Iterator
from multiprocessing.context import BaseContext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zrecord as zr

# Python 3.12 warns of forks in processes with threads, which these tests are about.
pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")

ROWS = np.arange(2000, dtype=np.int64).reshape(200, 10)
WORDS = [np.arange(n % 11, dtype=np.int16) for n in range(200)]

shared: dict[str, Any] = {}
"""What a pool's workers have got by their initializer."""


@pytest.fixture(params=["fork", "forkserver", "spawn"])
def context(request: pytest.FixtureRequest) -> BaseContext:
    if request.param not in multiprocessing.get_all_start_methods():
        pytest.skip(f"this system has no {request.param}")
    return multiprocessing.get_context(request.param)


@pytest.fixture
def streams(path: Path) -> Iterator[dict[str, Any]]:
    zr.from_numpy(path / "x", ROWS, "raw")
    zr.from_iterator(path / "y", WORDS)
    opened = {"x": zr.DenseDataset(path / "x"), "y": zr.RaggedDataset(path / "y")}
    # A fork then comes upon a process with threads.
    opened["x"][np.tile(np.arange(200), 50)]
    yield opened
    for stream in opened.values():
        stream.close()


def share(streams: dict[str, Any]) -> None:
    shared.update(streams)


def fetch(indices: list[int]) -> tuple[int, Any, Any]:
    return os.getpid(), shared["x"].__getitems__(indices), shared["y"].__getitems__(indices)


def test_a_pool_fetches_batches(context: BaseContext, streams: dict[str, Any]) -> None:
    batches = np.random.default_rng(1).permutation(200).reshape(20, 10).tolist()
    with context.Pool(2, share, (streams,)) as pool:
        for batch, (pid, rows, words) in zip(batches, pool.map(fetch, batches), strict=True):
            assert pid != os.getpid()
            assert np.array_equal(rows, ROWS[batch])
            assert all(map(np.array_equal, words, (WORDS[i] for i in batch)))
    assert np.array_equal(streams["x"][:], ROWS)


def draw(loader: zr.DataLoader, count: int, answers: Any) -> None:
    try:
        answers.put([next(loader)["x"][:, 0].tolist() for _ in range(count)])
        loader.close()
    except Exception as error:
        answers.put(repr(error))


@pytest.mark.parametrize("steps", [0, 3])
def test_processes_draw_from_the_ranks_of_a_loader(
    context: BaseContext, streams: dict[str, Any], steps: int
) -> None:
    answers = context.Queue()
    options: dict[str, Any] = {"mode": "cyclic", "batch_size": 10, "world_size": 2}
    loaders = [zr.DataLoader(streams, rank=rank, **options) for rank in range(2)]
    for _ in range(steps):
        for loader in loaders:
            next(loader)
    processes = [
        context.Process(target=draw, args=(loader, 10 - steps, answers)) for loader in loaders
    ]
    for process in processes:
        process.start()
    got = [answers.get(timeout=100) for _ in processes]
    for process in processes:
        process.join(100)
        assert process.exitcode == 0
    if steps > 0 and context.get_start_method() == "fork":
        # Nothing is pickled on this way, so the threads are missed.
        assert all("ForkedError" in answer for answer in got)
        return
    drawn = sorted(number for answer in got for batch in answer for number in batch)
    sampler = zr.Sampler(200, 20, "cyclic", 42)
    expected = np.concatenate([sampler.next() for _ in range(10)][steps:])
    assert drawn == sorted((10 * expected.astype(int)).tolist())


def write(path: str, number: int, answers: Any) -> None:
    try:
        with zr.Zrecord(path) as store:
            answers.put(store.append(bytes([number]), [0]))
    except zr.BusyError:
        answers.put("busy")


def test_one_of_several_writing_processes_writes(context: BaseContext, path: Path) -> None:
    answers = context.Queue()
    with zr.Zrecord(path) as store:
        store.append(b"a", [0])
        process = context.Process(target=write, args=(str(path), 1, answers))
        process.start()
        assert answers.get(timeout=100) == "busy"
        process.join(100)
    process = context.Process(target=write, args=(str(path), 2, answers))
    process.start()
    assert answers.get(timeout=100) == 1
    process.join(100)
    with zr.Zrecord(path) as store:
        assert [store.read(index) for index in range(len(store))] == [b"a", b"\x02"]
