"""Samples of a training set as records, and random batches of them, fast.

>>> import zrecord as zr
>>> zr.from_numpy("images", images)
>>> loader = zr.DataLoader({"image": zr.DenseDataset("images")}, batch_size=256)

| to | use |
| --- | --- |
| write an array, an iterator | :func:`from_numpy`, :func:`from_iterator` |
| read records as arrays | :class:`DenseDataset`, :class:`RaggedDataset` |
| train | :class:`DataLoader`, endless; :func:`batches`, one pass |
| keep bytes | :class:`Zrecord` |
| look into what you do not trust | :mod:`zrecord.sandbox`, in builds that have it |
"""

from __future__ import annotations

from . import converter, dataloader, dataset, errors, sampler, zrecord
from ._native import build_info
from .converter import from_iterator, from_numpy
from .dataloader import DataLoader, batches
from .dataset import DenseDataset, RaggedDataset, pad
from .errors import (
    BufferTooSmallError,
    BusyError,
    ClosedError,
    CorruptError,
    ForkedError,
    FullError,
    InvalidArgumentError,
    NotAStoreError,
    OutOfRangeError,
    PoisonedError,
    ReadOnlyError,
    SandboxError,
    SchemaError,
    StepError,
    StorageError,
    StoreExistsError,
    StoreNotFoundError,
    TooLargeError,
    TrainingError,
    UnknownCodecError,
    UnsupportedError,
    ZrecordError,
)
from .sampler import Mode, Sampler
from .zrecord import CODECS, MAX_RECORD_LEN, Zrecord

__version__: str = build_info()["version"]

__all__ = [
    "CODECS",
    "MAX_RECORD_LEN",
    "BufferTooSmallError",
    "BusyError",
    "ClosedError",
    "CorruptError",
    "DataLoader",
    "DenseDataset",
    "ForkedError",
    "FullError",
    "InvalidArgumentError",
    "Mode",
    "NotAStoreError",
    "OutOfRangeError",
    "PoisonedError",
    "RaggedDataset",
    "ReadOnlyError",
    "Sampler",
    "SandboxError",
    "SchemaError",
    "StepError",
    "StorageError",
    "StoreExistsError",
    "StoreNotFoundError",
    "TooLargeError",
    "TrainingError",
    "UnknownCodecError",
    "UnsupportedError",
    "Zrecord",
    "ZrecordError",
    "batches",
    "build_info",
    "converter",
    "dataloader",
    "dataset",
    "errors",
    "from_iterator",
    "from_numpy",
    "pad",
    "sampler",
    "zrecord",
]
