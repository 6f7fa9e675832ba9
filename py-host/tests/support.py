"""Helpers of the tests, by a name that no other directory's conftest has."""

from __future__ import annotations

import faulthandler
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import zrecord as zr
from zrecord import _native

try:
    from zrecord import sandbox
except ImportError:
    sandbox = None  # type: ignore[assignment]

NO_SANDBOX = "this wheel has no sandbox: `cargo xtask test` builds one that has"
needs_sandbox = pytest.mark.skipif(sandbox is None, reason=NO_SANDBOX)

needs_inspector = pytest.mark.skipif(
    not hasattr(_native, "Inspector"),
    reason="this wheel has no inspector: `cargo xtask test` builds one that has",
)

READERS = [
    pytest.param(zr, id="native"),
    pytest.param(sandbox, id="sandbox", marks=needs_sandbox),
]
"""The modules whose ``DenseDataset`` and ``RaggedDataset`` answer alike."""

ROOT = Path(__file__).resolve().parents[2]


def run_python(
    code: str, *args: object, timeout: float = 60, cwd: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Runs a program in an interpreter of its own."""
    return subprocess.run(
        [sys.executable, "-X", "dev", "-W", "error", "-c", code, *map(str, args)],
        capture_output=True,
        text=True,
        timeout=timeout,
        cwd=cwd,
        env={**os.environ, "PYTHONFAULTHANDLER": "1"},
    )


def open_reading(reader: ModuleType, path: Path) -> Any:
    """A store of bytes that is read, and not to be changed."""
    return zr.Zrecord(path, mode="r") if reader is zr else reader.Zrecord(path)


def tree(path: Path) -> dict[str, bytes]:
    """All files under a directory, but for locks, and their contents."""
    files = (found for found in path.rglob("*") if found.is_file() and found.name != "lock.zr")
    return {str(found.relative_to(path)): found.read_bytes() for found in files}


def in_child(work: Callable[[], object]) -> None:
    """Runs something in a forked child, and fails if it fails or hangs."""
    # Its own fork would wait for a watchdog thread that is not there.
    faulthandler.cancel_dump_traceback_later()
    pid = os.fork()
    if pid == 0:
        status = 1
        faulthandler.dump_traceback_later(60, exit=True)
        try:
            work()
            status = 0
        except BaseException as error:
            os.write(2, f"in the child: {error!r}\n".encode())
        finally:
            os._exit(status)
    assert os.waitpid(pid, 0)[1] == 0
