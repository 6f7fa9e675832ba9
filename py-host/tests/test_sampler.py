"""The sampler is a pure function of seed and step."""

from __future__ import annotations

import copy
import json
import pickle
import threading
from typing import Any

import numpy as np
import pytest
import zrecord as zr
from support import ROOT

VECTORS = ROOT / "tests" / "vectors" / "sampler.json"


def test_modes_have_loaderx_s_names_and_numbers() -> None:
    assert list(zr.Sampler.Mode) == [0, 1, 2]
    assert zr.Sampler.Mode.SEQUENTIAL == 0
    assert zr.Sampler.Mode.IID == 1
    assert zr.Sampler.Mode.CYCLIC == 2


@pytest.mark.parametrize("mode", list(zr.Mode))
def test_every_way_to_name_a_mode_is_the_same(mode: zr.Mode) -> None:
    samplers = [
        zr.Sampler(1000, 8, spelling)
        for spelling in (mode, int(mode), mode.name.lower(), mode.name)
    ]
    batches = [sampler.next() for sampler in samplers]
    for sampler, batch in zip(samplers, batches, strict=True):
        assert sampler.mode is mode
        assert np.array_equal(batch, batches[0])
        assert batch.dtype == np.uint64
        assert batch.shape == (8,)


def test_seek_reaches_any_step() -> None:
    sampler = zr.Sampler(10**6, 32, "cyclic", 7)
    first = [sampler.next() for _ in range(20)]
    sampler.seek(5)
    assert sampler.step == 5
    assert np.array_equal(next(sampler), first[5])
    assert np.array_equal(sampler.at(2), first[2])
    assert sampler.step == 6
    assert iter(sampler) is sampler
    sampler.seek(10**15)
    assert sampler.next().max() < 10**6


def test_a_batch_belongs_to_the_caller() -> None:
    sampler = zr.Sampler(100, 4, 1)
    one = sampler.next()
    kept = one.copy()
    sampler.next()[:] = 0
    assert np.array_equal(one, kept)


def test_sequential_goes_round() -> None:
    sampler = zr.Sampler(5, 3, 0)
    assert np.concatenate([sampler.next() for _ in range(4)]).tolist() == [
        *range(5),
        *range(5),
        0,
        1,
    ]


def test_cyclic_never_repeats_within_a_cycle() -> None:
    sampler = zr.Sampler(100, 10, 2)
    for _ in range(3):
        cycle = np.concatenate([sampler.next() for _ in range(10)])
        assert sorted(cycle.tolist()) == list(range(100))


@pytest.mark.parametrize("mode", list(zr.Mode))
def test_ranks_share_one_global_order(mode: zr.Mode) -> None:
    alone = zr.Sampler(1000, 12, mode, 3)
    ranks = [zr.Sampler(1000, 4, mode, 3, rank=rank, world_size=3) for rank in range(3)]
    for _ in range(5):
        together = np.concatenate([rank.next() for rank in ranks])
        assert np.array_equal(together, alone.next())


@pytest.mark.parametrize(
    ("args", "options"),
    [
        ((0, 4, 1), {}),
        ((10, 0, 1), {}),
        ((10, 11, 2), {}),
        ((10, 4, 3), {}),
        ((10, 4, "random"), {}),
        ((10, 4, 1), {"rank": 1}),
        ((10, 4, 1), {"world_size": 0}),
    ],
)
def test_arguments_out_of_range_are_value_errors(args: Any, options: Any) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        zr.Sampler(*args, **options)


def test_a_sampler_pickles_with_its_step() -> None:
    sampler = zr.Sampler(1000, 4, "cyclic", 9, rank=1, world_size=2)
    sampler.seek(17)
    for again in (pickle.loads(pickle.dumps(sampler)), copy.copy(sampler), copy.deepcopy(sampler)):
        assert again.step == 17
        assert repr(again) == repr(sampler)
        assert np.array_equal(again.next(), sampler.at(17))


def test_threads_share_the_steps() -> None:
    sampler = zr.Sampler(10**6, 4, "sequential")
    seen: list[int] = []
    lock = threading.Lock()

    def take() -> None:
        mine = [int(sampler.next()[0]) // 4 for _ in range(500)]
        with lock:
            seen.extend(mine)

    threads = [threading.Thread(target=take) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(seen) == list(range(4000))


@pytest.mark.skipif(not VECTORS.exists(), reason="no vectors yet")
def test_the_vectors() -> None:
    vectors = json.loads(VECTORS.read_text())
    cases = vectors["cases"] if isinstance(vectors, dict) else vectors
    assert len(cases) > 10
    for case in cases:
        sampler = zr.Sampler(
            int(case["length"]),
            int(case["batch_size"]),
            case["mode"],
            int(case["seed"]),
            rank=int(case.get("rank", 0)),
            world_size=int(case.get("world_size", 1)),
        )
        expected = [int(index) for index in case["indices"]]
        assert sampler.at(int(case["step"])).tolist() == expected, case
