"""Lance: a column of binary values of one length, taken by row number."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import lance
import numpy as np
import numpy.typing as npt
import pyarrow

from rivals import Indices, Reader, Rows

PACKAGES = ("pylance",)
BLOCK_BYTES = 16 << 20


def write(folder: Path, rows: Rows, codec: str, **_: Any) -> None:
    record_bytes = rows.shape[1]
    step = max(1, BLOCK_BYTES // record_bytes)
    schema = pyarrow.schema([("row", pyarrow.binary(record_bytes))])

    def blocks() -> Iterator[Any]:
        for start in range(0, len(rows), step):
            block = np.ascontiguousarray(rows[start : start + step])
            values = pyarrow.FixedSizeBinaryArray.from_buffers(
                schema.field("row").type, len(block), [None, pyarrow.py_buffer(block)]
            )
            yield pyarrow.record_batch([values], schema=schema)

    lance.write_dataset(pyarrow.RecordBatchReader.from_batches(schema, blocks()), str(folder))


def open_store(folder: Path, rows: Rows, codec: str, **_: Any) -> Reader:
    return _Dataset(lance.dataset(str(folder)), rows.shape[1])


class _Dataset(Reader):
    def __init__(self, dataset: Any, record_bytes: int) -> None:
        self._dataset = dataset
        self._record_bytes = record_bytes

    def gather(self, idx: Indices) -> npt.NDArray[Any]:
        chunks = self._dataset.take(idx, columns=["row"])["row"].chunks
        parts = [self._array(chunk) for chunk in chunks]
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def _array(self, chunk: Any) -> Rows:
        size = self._record_bytes
        start, count = chunk.offset * size, len(chunk) * size
        return np.frombuffer(chunk.buffers()[1], np.uint8, count, start).reshape(-1, size)
