"""Who takes part: the same rows behind the same two questions.

``into`` fills memory of the caller, ``new`` returns an array of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import loaderx.converter
import loaderx.dataset
import loaderx.zrecord
import numpy as np
import numpy.typing as npt
import zrecord as zr

Gather = Callable[[npt.NDArray[np.int64]], npt.NDArray[Any]]


@dataclass
class Workload:
    """Rows, how they are stored, and the batches that are asked for."""

    folder: Path
    rows: npt.NDArray[np.uint8]
    codec: str
    batch: int
    out: npt.NDArray[np.uint8] = field(init=False)

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True)
        self.out = np.empty((self.batch, self.rows.shape[1]), np.uint8)

    @property
    def batch_bytes(self) -> int:
        return self.out.nbytes

    def indices(self, step: int) -> npt.NDArray[np.int64]:
        """The same for every contestant at one step."""
        return np.random.default_rng(step).integers(0, len(self.rows), self.batch)


@contextmanager
def contestants(workload: Workload) -> Iterator[tuple[dict[str, Gather], float]]:
    """The contestants by name, and the ratio at which our store compressed."""
    with ExitStack() as stack:
        entrants: dict[str, Gather] = {}
        ratio = _add_zrecord(workload, stack, entrants)
        _add_loaderx(workload, stack, entrants)
        if workload.codec == "raw":
            _add_numpy(workload, entrants)
        yield entrants, ratio


def _add_zrecord(workload: Workload, stack: ExitStack, entrants: dict[str, Gather]) -> float:
    path = workload.folder / "zrecord"
    zr.from_numpy(path, workload.rows, workload.codec)
    dataset = stack.enter_context(zr.DenseDataset(path))
    entrants["zrecord, into"] = lambda idx: dataset.gather(idx, out=workload.out)
    entrants["zrecord, new"] = lambda idx: dataset[idx]
    stored = sum(file.stat().st_size for file in path.glob("[0-9]*.zr"))
    return workload.rows.nbytes / stored


def _add_loaderx(workload: Workload, stack: ExitStack, entrants: dict[str, Gather]) -> None:
    path = workload.folder / "loaderx"
    loaderx.converter.from_numpy(str(path), workload.rows, workload.codec)
    dataset = stack.enter_context(loaderx.dataset.DenseDataset(str(path)))
    store = loaderx.zrecord.Zrecord(str(path))
    stack.callback(store.close)
    offsets = np.arange(workload.batch, dtype=np.uint64) * np.uint64(workload.rows.shape[1])

    def into(idx: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
        store.gather(idx, workload.out, offsets)
        return workload.out

    entrants["loaderx, into"] = into
    entrants["loaderx, new"] = lambda idx: dataset[idx]


def _add_numpy(workload: Workload, entrants: dict[str, Gather]) -> None:
    path = workload.folder / "rows.npy"
    np.save(path, workload.rows)
    mapped = np.load(path, mmap_mode="r")
    entrants["np.take, into"] = lambda idx: np.take(
        mapped, idx, axis=0, out=workload.out, mode="clip"
    )
    entrants["fancy index, new"] = lambda idx: np.asarray(mapped[idx])
