"""What a process holds in memory, as Linux counts it; nothing elsewhere."""

from __future__ import annotations

import contextlib
from pathlib import Path

_STATUS = Path("/proc/self/status")


def held() -> int:
    """The bytes of its own that the process has in memory, mapped files apart."""
    return _status("RssAnon")


def resident() -> int:
    """All that it has in memory."""
    return _status("VmRSS")


def peak() -> int:
    """The most that :func:`resident` has been since :func:`forget_peak`."""
    return _status("VmHWM")


def forget_peak() -> None:
    """Counts the peak from now on."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def _status(name: str) -> int:
    if not _STATUS.exists():
        return 0
    for line in _STATUS.read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) << 10
    return 0
