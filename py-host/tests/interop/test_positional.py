"""Every function of loaderx 0.9.4 is called as it is there: by position."""

from __future__ import annotations

import inspect
import json
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zrecord.converter
import zrecord.dataloader
import zrecord.dataset
import zrecord.sampler
import zrecord.zrecord

NAMES = {
    "converter": ["from_numpy", "from_iterator"],
    "dataset": [
        "DenseDataset.__init__",
        "RaggedDataset.__init__",
        "DenseDataset.__getitems__",
        "RaggedDataset.__getitems__",
        "DenseDataset.close",
        "pad",
    ],
    "dataloader": ["DataLoader.__init__", "DataLoader.close"],
    "sampler": ["Sampler.__init__", "Sampler.next", "Sampler.seek"],
    "zrecord": [
        f"Zrecord.{name}"
        for name in (
            *("__init__", "append", "gather", "lengths", "delete", "compact", "stats"),
            *("sync", "train_dict", "has_dict", "close"),
        )
    ],
}

SIGNATURES = """
import importlib, inspect, json, sys
found = {}
for module, names in json.loads(sys.argv[1]).items():
    for name in names:
        target = importlib.import_module("loaderx." + module)
        for part in name.split("."):
            target = getattr(target, part)
        found[module + "." + name] = [
            [p.name, None if p.default is p.empty or callable(p.default) else [p.default]]
            for p in inspect.signature(target).parameters.values()
        ]
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def signatures(peer_python: str) -> dict[str, list[Any]]:
    """Parameters and defaults of loaderx's functions."""
    out = subprocess.run(
        [peer_python, "-c", SIGNATURES, json.dumps(NAMES)],
        capture_output=True,
        text=True,
        check=True,
    )
    found: dict[str, list[Any]] = json.loads(out.stdout)
    return found


@pytest.mark.parametrize(
    "name", [f"{module}.{name}" for module, names in NAMES.items() for name in names]
)
def test_parameters_have_loaderx_s_names_places_and_defaults(
    signatures: dict[str, list[Any]], name: str
) -> None:
    target: Any = zrecord
    for part in name.split("."):
        target = getattr(target, part)
    ours = [
        parameter
        for parameter in inspect.signature(target).parameters.values()
        if parameter.kind is parameter.POSITIONAL_OR_KEYWORD
    ]
    theirs = signatures[name]
    assert [parameter.name for parameter in ours][: len(theirs)] == [place[0] for place in theirs]
    # What is ours alone may be left out.
    assert all(parameter.default is not parameter.empty for parameter in ours[len(theirs) :])
    for parameter, (_, default) in zip(ours, theirs, strict=False):
        if default is not None:
            assert [parameter.default] == default


def test_positional_calls_work(tmp_path: Path) -> None:
    from zrecord.converter import from_iterator, from_numpy
    from zrecord.dataloader import DataLoader
    from zrecord.dataset import DenseDataset, RaggedDataset, pad
    from zrecord.sampler import Sampler
    from zrecord.zrecord import CODECS, MAX_RECORD_LEN, Zrecord, ZrecordError

    rows = (np.arange(200 * 64) % 50).reshape(200, 64).astype(np.uint8)
    schema = {"dtype": "|u1", "item_shape": [64]}
    assert from_numpy(str(tmp_path / "d"), rows, "zstd_dict", 1 << 12, 4096, schema) == 200
    seqs = [np.arange(n, dtype=np.int32) for n in (3, 1, 2)]
    assert from_iterator(str(tmp_path / "r"), seqs, "raw", 1 << 12, None, None) == 3
    dense, ragged = DenseDataset(str(tmp_path / "d")), RaggedDataset(str(tmp_path / "r"))
    padded, lengths = pad(ragged[[0, 1, 2]], 4, -1)
    assert padded.shape == (3, 4)
    assert lengths.tolist() == [3, 1, 2]
    loader = DataLoader({"x": dense}, 2, 8, 3, Sampler.Mode.CYCLIC, 1, lambda batch: batch["x"])
    assert next(loader).shape == (8, 64)
    loader.close()
    sampler = Sampler(100, 10, Sampler.Mode.IID, 42)
    sampler.seek(3)
    assert sampler.next().shape == (10,)
    with Zrecord(str(tmp_path / "z"), "zstd") as store:
        assert store.append(rows.reshape(-1), np.arange(200) * 64, "raw") == 0
        out = np.zeros(128, np.uint8)
        store.gather(np.array([1, 0], np.uint64), out, np.array([0, 64], np.uint64))
        assert np.array_equal(out.reshape(2, 64), rows[[1, 0]])
        assert store.train_dict(rows, np.full(200, 64), 4096) > 0
        assert store.has_dict()
        store.delete([0])
        store.compact()
        store.sync()
        keys = {"records", "live_bytes", "chunk_bytes", "reclaimable"}
        assert store.stats().keys() == keys
    assert CODECS == {"raw": 0, "zstd": 1, "zstd_dict": 2}
    assert MAX_RECORD_LEN >= 1 << 20
    assert issubclass(ZrecordError, RuntimeError)
