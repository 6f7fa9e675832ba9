"""TensorStore, its zarr 3 driver: small chunks in shards."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy.typing as npt
import tensorstore

from rivals import Indices, Reader, Rows, rows_per_chunk

PACKAGES = ("tensorstore",)
CHUNKS_PER_SHARD = 1024


def write(folder: Path, rows: Rows, codec: str, **_: Any) -> None:
    per_chunk = rows_per_chunk(rows.shape[1])
    codecs: list[dict[str, Any]] = [{"name": "bytes"}]
    if codec != "raw":
        codecs.append({"name": "zstd", "configuration": {"level": 3}})
    sharding = {"chunk_shape": [per_chunk, rows.shape[1]], "codecs": codecs}
    metadata = {
        "shape": list(rows.shape),
        "data_type": "uint8",
        "chunk_grid": {
            "name": "regular",
            "configuration": {"chunk_shape": [per_chunk * CHUNKS_PER_SHARD, rows.shape[1]]},
        },
        "codecs": [{"name": "sharding_indexed", "configuration": sharding}],
    }
    array = tensorstore.open({**_spec(folder), "metadata": metadata, "create": True}).result()
    array.write(rows).result()


def open_store(folder: Path, rows: Rows, codec: str, **_: Any) -> Reader:
    return _Array(tensorstore.open(_spec(folder), read=True).result())


def _spec(folder: Path) -> dict[str, Any]:
    return {"driver": "zarr3", "kvstore": {"driver": "file", "path": f"{folder}/"}}


class _Array(Reader):
    def __init__(self, array: Any) -> None:
        self._array = array

    def gather(self, idx: Indices) -> npt.NDArray[Any]:
        batch: npt.NDArray[Any] = self._array[idx].read().result()
        return batch
