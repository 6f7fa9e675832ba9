"""Helpers of the tests, by a name that no other directory's conftest has."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def run_python(code: str, *args: object, timeout: float = 60) -> subprocess.CompletedProcess[str]:
    """Runs a program in an interpreter of its own."""
    return subprocess.run(
        [sys.executable, "-X", "dev", "-W", "error", "-c", code, *map(str, args)],
        capture_output=True,
        text=True,
        timeout=timeout,
        env={**os.environ, "PYTHONFAULTHANDLER": "1"},
    )


def tree(path: Path) -> dict[str, bytes]:
    """All files under a directory, but for locks, and their contents."""
    files = (found for found in path.rglob("*") if found.is_file() and found.name != "lock.zr")
    return {str(found.relative_to(path)): found.read_bytes() for found in files}
