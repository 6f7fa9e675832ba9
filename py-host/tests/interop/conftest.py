"""Beside the real loaderx 0.9.4, in an interpreter of its own."""

from __future__ import annotations

import json
import os
import subprocess
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Peer = Callable[..., Any]

PROLOGUE = """
import json, sys
import numpy as np
from loaderx.converter import from_iterator, from_numpy
from loaderx.dataset import DenseDataset, RaggedDataset
from loaderx.zrecord import Zrecord
args = json.loads(sys.argv[1])
"""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.interop)


@pytest.fixture(scope="session")
def peer_python() -> str:
    """A Python that has loaderx 0.9.4."""
    python = os.environ.get("ZRECORD_LOADERX_PYTHON")
    if not python:
        pytest.skip("ZRECORD_LOADERX_PYTHON is not set")
    return python


@pytest.fixture(scope="session")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The unpacked source distribution of loaderx 0.9.4."""
    archive = os.environ.get("ZRECORD_LOADERX_SDIST")
    if not archive:
        pytest.skip("ZRECORD_LOADERX_SDIST is not set")
    target = tmp_path_factory.mktemp("sdist")
    with tarfile.open(archive) as opened:
        wanted = ("README.md", "tests/test_loaderx.py")
        for member in opened.getmembers():
            if member.isfile() and member.name.endswith(wanted):
                member.name = Path(member.name).name
                opened.extract(member, target, filter="data")
    return target


@pytest.fixture
def peer(peer_python: str) -> Peer:
    """Runs code under loaderx; it reads ``args`` and prints JSON."""

    def run(code: str, **args: Any) -> Any:
        done = subprocess.run(
            [peer_python, "-c", PROLOGUE + code, json.dumps(args, default=str)],
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout) if done.stdout else None

    return run
