"""Real data that is on every machine that runs the demo."""

from __future__ import annotations

import re
import sysconfig
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.datasets import load_digits, load_sample_images

TILE_SIZE = 64
TILE_STRIDE = 12
# Source text beyond this is left out, so that the slowest codec stays quick.
TEXT_BYTES_MAX = 12 << 20
# Ids below 256 are bytes; the words that are worth an id of their own come after.
WORDS_MAX = (1 << 16) - 256
WORD = re.compile(rb"[A-Za-z_][A-Za-z_0-9]+|  +|.", re.DOTALL)


@dataclass(frozen=True)
class Dataset:
    """Records to store: one array of rows if dense, a list of arrays if ragged."""

    name: str
    description: str
    records: npt.NDArray[Any] | list[npt.NDArray[Any]]

    @property
    def is_dense(self) -> bool:
        return isinstance(self.records, np.ndarray)

    @property
    def plain_bytes(self) -> int:
        return sum(record.nbytes for record in self.records)


def digits() -> Dataset:
    """Handwritten digits: small records, 64 bytes each."""
    images, _ = digits_with_labels()
    return Dataset("digits", f"{len(images):,} handwritten digits, 8x8 uint8", images)


def digits_with_labels() -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint8]]:
    """Images ``(n, 8, 8)`` of 0..16, and labels ``(n,)`` of 0..9."""
    bunch = load_digits()
    return bunch.images.astype(np.uint8), bunch.target.astype(np.uint8)


def photographs() -> Dataset:
    """Overlapping tiles of two photographs: middle-sized records, 12 KiB each."""
    tiles = np.concatenate([_tiles(image) for image in load_sample_images().images])
    size = f"{TILE_SIZE}x{TILE_SIZE}x3 uint8"
    return Dataset("photographs", f"{len(tiles):,} tiles of two photographs, {size}", tiles)


def _tiles(image: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    windows = np.lib.stride_tricks.sliding_window_view(image, (TILE_SIZE, TILE_SIZE), axis=(0, 1))
    chosen = windows[::TILE_STRIDE, ::TILE_STRIDE]
    # (row, column, channel, y, x) to (tile, y, x, channel)
    moved = np.moveaxis(chosen, 2, -1).reshape(-1, TILE_SIZE, TILE_SIZE, image.shape[-1])
    return np.ascontiguousarray(moved)


def standard_library() -> Dataset:
    """The sources of Python's standard library as token ids: records of any length."""
    texts = list(_source_texts())
    tokenised = [WORD.findall(text) for text in texts]
    counts = Counter(word for words in tokenised for word in words if len(word) > 1)
    words = [word for word, _ in counts.most_common(WORDS_MAX)]
    vocabulary = [bytes([byte]) for byte in range(256)] + words
    ids = {word: number for number, word in enumerate(vocabulary)}
    records = [np.array(list(_encode(words, ids)), dtype=np.uint16) for words in tokenised]
    if b"".join(vocabulary[number] for number in records[0]) != texts[0]:
        raise AssertionError("the tokens of a file do not spell the file")
    tokens = sum(map(len, records))
    description = f"{len(records):,} source files of the standard library, {tokens:,} uint16 tokens"
    return Dataset("sources", description, records)


def _encode(words: list[bytes], ids: dict[bytes, int]) -> Iterator[int]:
    for word in words:
        number = ids.get(word)
        if number is None:
            yield from word
        else:
            yield number


def _source_texts() -> Iterator[bytes]:
    root = Path(sysconfig.get_paths()["stdlib"])
    left_out = {"site-packages", "dist-packages", "test", "tests", "idlelib"}
    size = 0
    for path in sorted(root.rglob("*.py")):
        if left_out.isdisjoint(path.relative_to(root).parts):
            text = path.read_bytes()
            size += len(text)
            if size > TEXT_BYTES_MAX:
                return
            yield text
