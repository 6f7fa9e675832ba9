"""The rows that are stored: kinds of data, all the same in every run."""

from __future__ import annotations

import functools
import re
import sysconfig
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

Rows = npt.NDArray[np.uint8]

BLOCK_BYTES = 16 << 20
STAMP_BYTES = 8
"""The first bytes of a generated row are its index, so that whoever shuffles
for himself can be checked."""


@dataclass(frozen=True)
class Workload:
    """Rows of one kind of data and one size, in a ``.npy`` file."""

    data: str
    record_bytes: int
    records: int

    @property
    def name(self) -> str:
        return f"{size(self.record_bytes)}, {self.data}"

    def make(self, folder: Path) -> Path:
        """The path of the rows, which are made if they are not there."""
        path = folder / f"{self.data}-{self.record_bytes}-{self.records}.npy"
        if path.exists():
            return path
        shape = (self.records, self.record_bytes)
        rows = np.lib.format.open_memmap(path, "w+", np.uint8, shape)
        make = MAKERS[self.data]
        step = max(1, BLOCK_BYTES // self.record_bytes)
        for start in range(0, self.records, step):
            block = rows[start : start + step]
            block[...] = make(np.random.default_rng(start), block.shape)
            if self.data in STAMPED:
                stamp(block, start)
        rows.flush()
        return path


def stamp(rows: Rows, first: int) -> None:
    """Writes each row's index into its first bytes."""
    indices = np.arange(first, first + len(rows), dtype="<u8")
    rows[:, :STAMP_BYTES] = indices[:, None].view(np.uint8)


def stamps(batch: Rows) -> npt.NDArray[np.int64]:
    """The indices of the rows of a batch."""
    return np.ascontiguousarray(batch[:, :STAMP_BYTES]).view("<u8")[:, 0].astype(np.int64)


def size(count: int) -> str:
    """A number of bytes as people say it."""
    for unit, name in ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if count >= unit:
            return f"{count / unit:.4g} {name}"
    return f"{count} B"


def noisy(rng: np.random.Generator, shape: tuple[int, ...]) -> Rows:
    """Nearly incompressible, a ratio of about 1.03: wide Gaussian noise."""
    return _gaussian(rng, shape, 52)


def structured(rng: np.random.Generator, shape: tuple[int, ...]) -> Rows:
    """A ratio of about 1.08: a wave under noise, as sensors see it."""
    phase = rng.random((shape[0], 1), dtype=np.float32)
    wave = 24 * np.sin(2 * np.pi * (np.arange(shape[1], dtype=np.float32) / 1024 + phase))
    return _gaussian(rng, shape, 34) + wave.astype(np.int8).view(np.uint8)


def _gaussian(rng: np.random.Generator, shape: tuple[int, ...], deviation: float) -> Rows:
    # Drawn by a table of quantiles, which is several times as fast.
    quantiles = np.sort(np.random.default_rng(0).normal(128, deviation, 1 << 16))
    table = quantiles.clip(0, 255).astype(np.uint8)
    return table[rng.integers(0, 1 << 16, shape, dtype=np.uint16)]


def smooth(rng: np.random.Generator, shape: tuple[int, ...]) -> Rows:
    """A ratio of 5 to 9: a slow random walk."""
    moves = rng.integers(0, 256, shape, dtype=np.uint8) < 14
    ups = rng.integers(0, 2, shape, dtype=np.int8) * np.int8(2) - np.int8(1)
    return np.cumsum(moves * ups, axis=1, dtype=np.int8).view(np.uint8)


def digits(_: np.random.Generator, shape: tuple[int, ...]) -> Rows:
    """Handwritten digits, 64 bytes each."""
    from sklearn.datasets import load_digits

    images: Rows = load_digits().images.astype(np.uint8).reshape(DIGITS, -1)
    return images[: shape[0]]


DIGITS = 1797


def photos(rng: np.random.Generator, shape: tuple[int, ...]) -> Rows:
    """Tiles of two photographs, 64 x 64 pixels of red, green and blue."""
    return _tiles(rng, shape[0], 64).reshape(shape)


def _tiles(rng: np.random.Generator, count: int, side: int) -> Rows:
    tiles = np.empty((count, side, side, 3), np.uint8)
    images = _photographs()
    for tile, which in zip(tiles, rng.integers(0, len(images), count), strict=True):
        height, width, _ = images[which].shape
        y, x = rng.integers(0, (height - side, width - side))
        tile[...] = images[which][y : y + side, x : x + side]
    return tiles


@functools.cache
def _photographs() -> list[Rows]:
    from sklearn.datasets import load_sample_images

    images: list[Rows] = load_sample_images().images
    return images


def source(rng: np.random.Generator, shape: tuple[int, ...]) -> Rows:
    """Stretches of source text: Python's own library."""
    text = np.frombuffer(_library().encode(), np.uint8)
    return _stretches(rng, text, shape)


def tokens(rng: np.random.Generator, shape: tuple[int, ...]) -> Rows:
    """That text as numbers of its words in 16 bits, the most frequent first."""
    return _stretches(rng, _numbered(), (shape[0], shape[1] // 2)).view(np.uint8)


def _stretches(
    rng: np.random.Generator, values: npt.NDArray[Any], shape: tuple[int, ...]
) -> npt.NDArray[Any]:
    starts = rng.integers(0, len(values) - shape[1], shape[0])
    stretches: npt.NDArray[Any] = values[starts[:, None] + np.arange(shape[1])]
    return stretches


@functools.cache
def _library() -> str:
    folder = Path(sysconfig.get_path("stdlib"))
    return "".join(path.read_text("utf-8") for path in sorted(folder.glob("*.py")))


@functools.cache
def _numbered() -> npt.NDArray[np.uint16]:
    words = re.findall(r"\w+|\s+|[^\w\s]", _library())
    ranks = {word: rank for rank, (word, _) in enumerate(Counter(words).most_common())}
    return np.array([min(ranks[word], 0xFFFF) for word in words], "<u2")


def features(rng: np.random.Generator, shape: tuple[int, ...]) -> Rows:
    """What a network's first layer makes of photographs: positive parts of
    random projections of tiles, in ``float32``."""
    width = 512
    tiles = _tiles(rng, shape[0] * shape[1] // (4 * width), 16).reshape(-1, 16 * 16 * 3)
    weights = np.random.default_rng(0).normal(0, 1, (tiles.shape[1], width))
    layer = np.maximum((tiles / 127.5 - 1) @ weights / 16, 0).astype("<f4")
    return layer.reshape(shape[0], -1).view(np.uint8)


MAKERS: dict[str, Callable[[np.random.Generator, tuple[int, ...]], Rows]] = {
    "noisy": noisy,
    "structured": structured,
    "smooth": smooth,
    "digits": digits,
    "photos": photos,
    "source": source,
    "tokens": tokens,
    "features": features,
}
STAMPED = ("noisy", "structured", "smooth")
"""Those that are generated."""
