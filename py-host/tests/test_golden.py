"""Stores that loaderx 0.9.4 wrote, kept in the repository."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import zrecord as zr
from support import READERS, ROOT, open_reading

GOLDEN = ROOT / "tests" / "golden" / "loaderx-0.9.4"
EXPECTED: dict[str, Any] = json.loads((GOLDEN / "expected.json").read_text())


def check_records(store: Any, expected: dict[str, Any]) -> None:
    records = [store.read(index) for index in range(len(store))]
    assert len(records) == expected["records"]
    assert hashlib.sha256(b"".join(records)).hexdigest() == expected["sha256"]
    prefixes = [hashlib.sha256(record).hexdigest()[:16] for record in records[:64]]
    assert prefixes == expected["record_sha256_prefix"]


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_golden_stores_are_read_in_place(name: str, reader: ModuleType) -> None:
    before = {found.name for found in (GOLDEN / name).iterdir()}
    with open_reading(reader, GOLDEN / name) as store:
        assert store.format == "classic"
        check_records(store, EXPECTED[name])
        stats = store.stats()
        assert {key: stats[key] for key in EXPECTED[name]["stats"]} == EXPECTED[name]["stats"]
    assert {found.name for found in (GOLDEN / name).iterdir()} == before


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_golden_stores_are_changed(name: str, tmp_path: Path) -> None:
    copied = shutil.copytree(GOLDEN / name, tmp_path / name)
    with zr.Zrecord(copied, "raw") as store:
        count = len(store)
        record = store.read(0) if count else b"x" * 512
        old = [store.read(index) for index in range(count)]
        assert store.append(record, [0]) == count
        assert store.read(count) == record
        store.delete([0])
        store.compact()
        assert store.verify() == []
        assert [store.read(index) for index in range(1, count)] == old[1:]


@pytest.mark.parametrize("reader", READERS)
def test_golden_datasets_are_typed(reader: ModuleType) -> None:
    with reader.DenseDataset(GOLDEN / "dense_f32_2x4") as ds:
        assert (ds.dtype, ds.item_shape) == (np.float32, (2, 4))
        assert np.array_equal(ds[:], np.arange(64, dtype=np.float32).reshape(8, 2, 4))
    with reader.DenseDataset(GOLDEN / "dense_scalar_i64") as ds:
        assert (ds.dtype, ds.item_shape) == (np.int64, ())
    with reader.RaggedDataset(GOLDEN / "ragged_rows_f4x3") as ds:
        assert (ds.dtype, ds.item_shape) == (np.float32, (3,))
        assert all(record.shape[1:] == (3,) for record in ds)
