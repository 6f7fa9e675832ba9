"""Making files cold, and seeing how cold they are. Linux alone."""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import os
from collections.abc import Iterable
from pathlib import Path

import numpy as np

MADV_DONTNEED = 4
DROP_CACHES = Path("/proc/sys/vm/drop_caches")
PAGE = mmap.PAGESIZE


def release_mappings(folder: Path) -> None:
    """Takes the pages of files below ``folder`` out of this process's page table.

    What is mapped and was touched cannot be dropped. The mappings stay, and
    fault the pages in again when they are next touched.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    libc.madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    for line in Path("/proc/self/maps").read_text().splitlines():
        fields = line.split(maxsplit=5)
        if len(fields) == 6 and fields[5].startswith(f"{folder}/") and "s" in fields[1]:
            start, end = (int(word, 16) for word in fields[0].split("-"))
            libc.madvise(start, end - start, MADV_DONTNEED)


class Dropper:
    """Drops the page cache, in the way that is permitted."""

    def __init__(self, way: str) -> None:
        """``caches`` drops all, ``files`` that of given files, ``auto`` what can be."""
        self.drops_all = way != "files" and os.access(DROP_CACHES, os.W_OK)
        if way == "caches" and not self.drops_all:
            raise SystemExit(f"--drop caches: {DROP_CACHES} cannot be written")
        self.left_max = 0.0
        """The largest share of the files that was still in memory."""

    def drop(self, files: Iterable[Path]) -> None:
        """Makes the files cold, whose bytes are made durable first."""
        files = list(files)
        for file in files:
            with file.open("rb") as opened:
                os.fsync(opened.fileno())
                if not self.drops_all:
                    os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        if self.drops_all:
            DROP_CACHES.write_text("1")
        self.left_max = max(self.left_max, share_in_memory(files))

    @property
    def text(self) -> str:
        way = "the whole page cache" if self.drops_all else "the page cache of the files"
        left = f"at most {self.left_max:.1%} of the files was still in memory"
        return f"before each turn {way} was dropped; {left}"


def share_in_memory(files: Iterable[Path]) -> float:
    """How much of the files is in the page cache, from 0 to 1."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mincore.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p)
    found = total = 0
    for file in files:
        size = file.stat().st_size
        if size == 0:
            continue
        with (
            file.open("rb") as opened,
            contextlib.closing(
                mmap.mmap(opened.fileno(), 0, mmap.MAP_SHARED, mmap.PROT_READ)
            ) as mapped,
        ):
            pages = -(-size // PAGE)
            resident = np.zeros(pages, np.uint8)
            memory = np.frombuffer(mapped, np.uint8)
            libc.mincore(memory.ctypes.data, size, resident.ctypes.data)
            del memory
            found += int((resident & 1).sum())
            total += pages
    return found / max(total, 1)
