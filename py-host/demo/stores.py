"""Writing a dataset with one codec, checking what comes back, and timing both."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import zrecord as zr
from sources import Dataset

BATCH_SIZE = 256
# Long enough to time, short enough that the whole demo stays quick.
GATHER_SECONDS = 0.5


@dataclass(frozen=True)
class Result:
    """What was stored, and how fast."""

    records: int
    plain_bytes: int
    stored_bytes: int
    identical: bool
    write_mb_per_second: float
    gather_mb_per_second: float


def write_and_measure(path: Path, dataset: Dataset, codec: str) -> Result:
    """Store ``dataset`` at ``path``, read all of it back in random order, time gathers."""
    started = time.perf_counter()
    if dataset.is_dense:
        zr.from_numpy(path, dataset.records, codec)
    else:
        zr.from_iterator(path, iter(dataset.records), codec)
    write_seconds = time.perf_counter() - started

    opened = zr.DenseDataset(path) if dataset.is_dense else zr.RaggedDataset(path)
    with opened as stored:
        identical = _is_identical(stored, dataset)
        gather_rate = _gather_rate(stored, len(dataset.records))
    return Result(
        records=len(dataset.records),
        plain_bytes=dataset.plain_bytes,
        stored_bytes=sum(file.stat().st_size for file in path.iterdir()),
        identical=identical,
        write_mb_per_second=dataset.plain_bytes / write_seconds / 1e6,
        gather_mb_per_second=gather_rate / 1e6,
    )


def _is_identical(stored: zr.DenseDataset | zr.RaggedDataset, dataset: Dataset) -> bool:
    if len(stored) != len(dataset.records):
        return False
    order = np.random.default_rng(1).permutation(len(stored))
    for start in range(0, len(order), BATCH_SIZE):
        idx = order[start : start + BATCH_SIZE]
        for position, record in zip(idx, stored.__getitems__(idx), strict=True):
            expected = dataset.records[position]
            if record.dtype != expected.dtype or not np.array_equal(record, expected):
                return False
    return True


def _gather_rate(stored: zr.DenseDataset | zr.RaggedDataset, records: int) -> float:
    """Bytes a second, over batches of random records."""
    rng = np.random.default_rng(2)
    batches = [rng.integers(0, records, BATCH_SIZE) for _ in range(64)]
    gather = _gather_of(stored)
    size = 0
    steps = 0
    started = time.perf_counter()
    while (elapsed := time.perf_counter() - started) < GATHER_SECONDS:
        size += gather(batches[steps % len(batches)])
        steps += 1
    return size / elapsed


def _gather_of(stored: zr.DenseDataset | zr.RaggedDataset) -> Callable[[npt.NDArray[Any]], int]:
    """A function that gathers one batch and says how many bytes it holds."""
    if isinstance(stored, zr.DenseDataset):
        out = np.empty((BATCH_SIZE, *stored.item_shape), stored.dtype)
        return lambda idx: stored.gather(idx, out=out).nbytes
    return lambda idx: stored.packed(idx)[0].nbytes
