"""What a timing was taken on."""

from __future__ import annotations

import datetime
import os
import platform
from pathlib import Path

import numpy as np
import zrecord as zr
from zrecord import _native


def require_release_build() -> None:
    """End the program if the native module was built without optimisation."""
    profile = _native.build_info()["profile"]
    if profile != "release":
        raise SystemExit(f"this is a {profile} build of zrecord; timings need a release build")


def describe() -> dict[str, object]:
    """The machine block: printed above every result, and kept with it."""
    return {
        "date": datetime.date.today().isoformat(),
        "cpu": _cpu(),
        "cores": f"{_usable_cores()} usable of {os.cpu_count()}, quota {_quota()}",
        "caches": _caches(),
        "memory": _memory(),
        "load": _load(),
        "system": f"{platform.system()} {platform.release()}, {' '.join(platform.libc_ver())}",
        "python": f"{platform.python_version()}, NumPy {np.__version__}",
        "zrecord": f"{zr.__version__}, {_native.build_info()['profile']} profile",
    }


def text(about: dict[str, object]) -> str:
    return "\n".join(f"{name:8} {value}" for name, value in about.items())


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


def _quota() -> str:
    """What the control group allows, in cores."""
    two = Path("/sys/fs/cgroup/cpu.max")
    one = Path("/sys/fs/cgroup/cpu")
    try:
        if two.exists():
            quota, period = two.read_text().split()
        else:
            quota, period = (
                (one / name).read_text().strip()
                for name in ("cpu.cfs_quota_us", "cpu.cfs_period_us")
            )
    except OSError:
        return "none"
    return "none" if quota in ("max", "-1") else f"{int(quota) / int(period):.3g} cores"


def _caches() -> str:
    """The first core's, as Linux tells them."""
    found = []
    for folder in sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        level, kind, size = (
            (folder / name).read_text().strip() for name in ("level", "type", "size")
        )
        letter = {"Data": "d", "Instruction": "i"}.get(kind, "")
        found.append(f"L{level}{letter} {size}")
    return ", ".join(found) or "unknown"


def _memory() -> str:
    if hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
        size = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        return f"{size / (1 << 30):.1f} GiB, huge pages {_huge_pages()}"
    return "unknown"


def _huge_pages() -> str:
    path = Path("/sys/kernel/mm/transparent_hugepage/enabled")
    if not path.exists():
        return "unknown"
    return path.read_text().partition("[")[2].partition("]")[0]


def _load() -> str:
    """A machine that does other things meanwhile is no place for a benchmark."""
    if not hasattr(os, "getloadavg"):
        return "unknown"
    load = os.getloadavg()[0]
    busy = ": BUSY, so the figures below mean little" if load > 0.5 else ""
    return f"{load:.2f} when it began{busy}"
