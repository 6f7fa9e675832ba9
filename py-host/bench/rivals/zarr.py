"""zarr, format 3: small chunks in shards, so that a record is not a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy.typing as npt
import zarr
import zarr.codecs

from rivals import Indices, Reader, Rows, rows_per_chunk

PACKAGES = ("zarr",)
CHUNKS_PER_SHARD = 1024


def write(folder: Path, rows: Rows, codec: str, **_: Any) -> None:
    per_chunk = rows_per_chunk(rows.shape[1])
    compressor = None if codec == "raw" else zarr.codecs.ZstdCodec(level=3)
    array: Any = zarr.create_array(
        folder,
        shape=rows.shape,
        dtype=rows.dtype,
        chunks=(per_chunk, rows.shape[1]),
        shards=(per_chunk * CHUNKS_PER_SHARD, rows.shape[1]),
        compressors=compressor,
    )
    array[:] = rows


def open_store(folder: Path, rows: Rows, codec: str, **_: Any) -> Reader:
    return _Array(zarr.open_array(folder, mode="r"))


class _Array(Reader):
    def __init__(self, array: Any) -> None:
        self._array = array

    def gather(self, idx: Indices) -> npt.NDArray[Any]:
        batch: npt.NDArray[Any] = self._array.oindex[idx]
        return batch
