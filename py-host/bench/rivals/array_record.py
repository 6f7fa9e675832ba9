"""array_record, in groups of one record, read as its documentation says for random access."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy.typing as npt
from array_record.python.array_record_module import ArrayRecordReader, ArrayRecordWriter

from rivals import Indices, Reader, Rows, joined

PACKAGES = ("array-record",)
CODECS = {"raw": "uncompressed", "zstd": "zstd:3"}
RANDOM_ACCESS = "readahead_buffer_size:0,max_parallelism:0"


def write(folder: Path, rows: Rows, codec: str, **_: Any) -> None:
    folder.mkdir()
    writer = ArrayRecordWriter(str(folder / "rows"), f"group_size:1,{CODECS[codec]}")
    for row in rows:
        writer.write(row.tobytes())
    writer.close()


def open_store(folder: Path, rows: Rows, codec: str, **_: Any) -> Reader:
    return _File(str(folder / "rows"), rows.shape[1])


class _File(Reader):
    def __init__(self, path: str, record_bytes: int) -> None:
        self._reader = ArrayRecordReader(path, RANDOM_ACCESS)
        self._record_bytes = record_bytes

    def gather(self, idx: Indices) -> npt.NDArray[Any]:
        return joined(self._reader.read(idx.tolist()), self._record_bytes)

    def close(self) -> None:
        self._reader.close()
