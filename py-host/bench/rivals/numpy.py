"""NumPy on a memory map of one ``.npy`` file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from rivals import Indices, Reader, Rows

PACKAGES = ("numpy",)


def write(folder: Path, rows: Rows, codec: str, **_: Any) -> None:
    folder.mkdir()
    np.save(folder / "rows.npy", rows)


def open_store(folder: Path, rows: Rows, codec: str, *, how: str = "clip", **_: Any) -> Reader:
    mapped = np.load(folder / "rows.npy", mmap_mode="r")
    if how == "slice":
        return _Slice(mapped)
    return _Fancy(mapped) if how == "fancy" else _Take(mapped, how)


class _Take(Reader):
    def __init__(self, mapped: npt.NDArray[np.uint8], mode: str) -> None:
        self._mapped: npt.NDArray[np.uint8] | None = mapped
        self._mode: Any = mode

    def gather(self, idx: Indices) -> npt.NDArray[Any]:
        assert self._mapped is not None
        # As a plain array, which spares NumPy the subclass.
        return np.asarray(self._mapped).take(idx, axis=0, mode=self._mode)

    def into(self, idx: Indices, out: Rows) -> None:
        assert self._mapped is not None
        np.take(self._mapped, idx, axis=0, out=out, mode=self._mode)

    def close(self) -> None:
        self._mapped = None


class _Fancy(Reader):
    def __init__(self, mapped: npt.NDArray[np.uint8]) -> None:
        self._mapped: npt.NDArray[np.uint8] | None = mapped

    def gather(self, idx: Indices) -> npt.NDArray[Any]:
        assert self._mapped is not None
        return np.asarray(self._mapped[idx])

    def into(self, idx: Indices, out: Rows) -> None:
        assert self._mapped is not None
        out[...] = self._mapped[idx]

    def close(self) -> None:
        self._mapped = None


class _Slice(_Fancy):
    """Neighbouring rows as a slice, others as they come."""

    def gather(self, idx: Indices) -> npt.NDArray[Any]:
        assert self._mapped is not None
        return np.array(self._mapped[_slice(idx)])

    def into(self, idx: Indices, out: Rows) -> None:
        assert self._mapped is not None
        np.copyto(out, self._mapped[_slice(idx)])


def _slice(idx: Indices) -> Any:
    return slice(idx[0], idx[-1] + 1) if bool(np.all(np.diff(idx) == 1)) else idx
