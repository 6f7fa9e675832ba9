"""mosaicml-streaming, from a local folder, through torch's ``DataLoader``."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from streaming import MDSWriter, StreamingDataset
from torch.utils.data import DataLoader

from loaders import Loader, Rows, Settings, transform

PACKAGES = ("mosaicml-streaming",)


def write(folder: Path, rows: Rows) -> None:
    columns = {"row": f"ndarray:uint8:{rows.shape[1]}"}
    with MDSWriter(out=str(folder), columns=columns) as writer:
        for row in rows:
            writer.write({"row": np.array(row)})


def open_loader(folder: Path, rows: Rows, settings: Settings) -> Loader:
    dataset = StreamingDataset(local=str(folder), shuffle=True, batch_size=settings.batch)
    loader = DataLoader(
        dataset,
        batch_size=settings.batch,
        num_workers=settings.workers,
        prefetch_factor=settings.prefetch,
        persistent_workers=True,
        drop_last=True,
    )
    return Loader(_endless(loader, settings))


def _endless(loader: Any, settings: Settings) -> Iterator[Any]:
    if settings.streams > 1:
        raise NotImplementedError("one stream only")
    while True:
        for batch in loader:
            rows = batch["row"]
            yield transform(np.asarray(rows)) if settings.transforms else rows
