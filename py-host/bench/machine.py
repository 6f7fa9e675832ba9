"""What a timing was taken on."""

from __future__ import annotations

import datetime
import os
import platform
from importlib.metadata import version
from pathlib import Path

import numpy as np
import zrecord as zr
from zrecord import _native


def require_release_build() -> None:
    """End the program if the native module was built without optimisation."""
    profile = _native.build_info()["profile"]
    if profile != "release":
        raise SystemExit(f"this is a {profile} build of zrecord; timings need a release build")


def describe() -> str:
    """The machine block, printed above every result."""
    lines = {
        "date": datetime.date.today().isoformat(),
        "cpu": f"{_cpu()}, {_usable_cores()} usable cores",
        "memory": _memory(),
        "system": f"{platform.system()} {platform.release()}, {' '.join(platform.libc_ver())}",
        "python": f"{platform.python_version()}, numpy {np.__version__}",
        "zrecord": f"{zr.__version__}, {_native.build_info()['profile']} profile",
        "loaderx": version("loaderx"),
    }
    return "\n".join(f"{name:8} {value}" for name, value in lines.items())


def _cpu() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _usable_cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _memory() -> str:
    if hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
        size = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        return f"{size / (1 << 30):.1f} GiB"
    return "unknown"
