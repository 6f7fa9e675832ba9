"""What all tests share."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import zrecord as zr
from support import ROOT

# Compiled components are kept in the repository, as all else is.
os.environ["XDG_CACHE_HOME"] = str(ROOT / "target" / "cache")


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ZRECORD_FORMAT", raising=False)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where a store may be made."""
    return tmp_path / "store"


@pytest.fixture(params=["extended", "classic"])
def store_format(request: pytest.FixtureRequest) -> str:
    """Both formats."""
    name: str = request.param
    return name


@pytest.fixture
def reader() -> ModuleType:
    """Whose datasets are opened; files that want both have a fixture of that name."""
    return zr


@pytest.fixture
def dense(tmp_path: Path, reader: ModuleType) -> Callable[..., zr.DenseDataset]:
    """Writes an array and opens it."""
    opened: list[zr.DenseDataset] = []

    def make(array: np.ndarray, codec: str = "raw", **options: object) -> zr.DenseDataset:
        where = tmp_path / f"dense{len(opened)}"
        zr.from_numpy(where, array, codec, **options)
        opened.append(reader.DenseDataset(where))
        return opened[-1]

    return make


@pytest.fixture
def ragged(tmp_path: Path, reader: ModuleType) -> Callable[..., zr.RaggedDataset]:
    """Writes records and opens them."""
    opened: list[zr.RaggedDataset] = []

    def make(records: object, codec: str = "raw", **options: object) -> zr.RaggedDataset:
        where = tmp_path / f"ragged{len(opened)}"
        zr.from_iterator(where, records, codec, **options)
        opened.append(reader.RaggedDataset(where))
        return opened[-1]

    return make
