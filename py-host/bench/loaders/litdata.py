"""litdata, streamed from a folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import litdata
import numpy as np

from loaders import Loader, Rows, Settings, transform

PACKAGES = ("litdata",)
CHUNK_BYTES = "64MB"


def write(folder: Path, rows: Rows) -> None:
    from litdata.streaming.writer import BinaryWriter

    folder.mkdir()
    writer = BinaryWriter(str(folder), chunk_bytes=CHUNK_BYTES)
    for index, row in enumerate(rows):
        writer.add_item(index, np.array(row))
    writer.done()
    writer.merge(1)


def open_loader(folder: Path, rows: Rows, settings: Settings) -> Loader:
    dataset = litdata.StreamingDataset(str(folder), shuffle=True, drop_last=True)
    loader = litdata.StreamingDataLoader(
        dataset,
        batch_size=settings.batch,
        num_workers=settings.workers,
        prefetch_factor=settings.prefetch,
        persistent_workers=True,
    )
    return Loader(_endless(loader, settings))


def _endless(loader: Any, settings: Settings) -> Iterator[Any]:
    if settings.streams > 1:
        raise NotImplementedError("one stream only")
    while True:
        for batch in loader:
            yield transform(np.asarray(batch)) if settings.transforms else batch
