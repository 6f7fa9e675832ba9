"""The record store: packed byte records, appended and gathered in batches."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import numpy.typing as npt

from . import _native
from ._index import vector
from ._reading import Reading, as_bytes, check_id, mind_forks
from ._settings import (
    CODECS,
    FORMATS,
    PRESETS,
    RECORD_LEN_MAX,
    check_choice,
    check_codec,
    default_format,
    unsigned,
)
from .errors import StoreNotFoundError, UnknownCodecError, ZrecordError

__all__ = ["CODECS", "MAX_RECORD_LEN", "Zrecord", "ZrecordError"]

MAX_RECORD_LEN: Final[int] = RECORD_LEN_MAX[default_format()]
"""The longest record that a new store of the default format holds, in bytes."""


class Zrecord(Reading):
    """A store of byte records, each compressed on its own.

    Args:
        path: the directory of the store.
        codec: how records are packed for which no codec is asked: ``raw``,
            ``zstd`` or ``zstd_dict``. A typed store has its schema's.
        mode: ``"a"`` opens or creates, parents too, and takes the writer's lock
            at the first change; ``"r"`` reads and writes nothing; ``"x"``
            creates, or fails if there is a store.
        format: ``"extended"`` (the default for new stores) or ``"classic"``,
            loaderx's. An existing store has its own.
        level: the zstd level; 3 for ``zstd`` and 15 for ``zstd_dict`` unless
            asked.
        preset: ``"decode"`` makes ``zstd`` frames that decode 1.3 to 1.9 times as
            fast and are a few per cent longer; written at level 9 unless asked.
        min_saving: the share of its length that a record must lose to be
            stored compressed: 0.05 in extended stores, 0.0 in classic ones.
        verify: when checksums are checked: ``"first"`` time a record is read,
            ``"always"`` or ``"never"``.
        io: ``"map"`` reads through memory mappings, ``"pread"`` through calls.
        lock: ``False`` writes without locks, where the file system has none.
        threads: how many threads pack and gather, from 1 to 4096;
            ``ZRECORD_THREADS``, else what affinity and the cgroup allow.

    Any number of threads may gather and append on one handle. After a fork
    the child opens the store anew on first use. Pickling and copying reopen by
    path, and refuse another store that has taken its place (by its id, which
    classic stores do not have).
    """

    _native: _native.Store

    def __init__(
        self,
        path: str | os.PathLike[str],
        codec: str = "zstd",
        *,
        mode: str = "a",
        format: str | None = None,
        level: int | None = None,
        preset: str | None = None,
        min_saving: float | None = None,
        verify: str = "first",
        io: str = "map",
        lock: bool = True,
        threads: int | None = None,
    ) -> None:
        self.path: Path = Path(path)
        check_choice("mode", mode, ("r", "a", "x"))
        if format is not None:
            check_choice("format", format, FORMATS)
        if preset is not None:
            check_choice("preset", preset, PRESETS)
        check_choice("verify", verify, ("first", "always", "never"))
        check_choice("io", io, ("map", "pread"))
        if threads is not None:
            unsigned(threads=threads)
        self._options = (
            check_codec(codec),
            # Opened again, the store is there.
            "a" if mode == "x" else mode,
            format,
            level,
            preset,
            min_saving,
            verify,
            io,
            lock,
            threads,
        )
        wanted = format
        if format is None and mode != "r" and not (self.path / "meta.zr").exists():
            wanted = default_format()
        self._native = _native.Store(
            os.fspath(self.path.absolute()),
            mode,
            codec,
            wanted,
            level,
            preset,
            min_saving,
            verify,
            io,
            lock,
            threads,
        )
        mind_forks(self._native)

    @property
    def mode(self) -> str:
        """``"a"`` or ``"r"``."""
        return self._options[1]

    def append(
        self,
        src: npt.NDArray[Any] | bytes | bytearray | memoryview,
        offsets: npt.ArrayLike,
        codec: str | None = None,
    ) -> int:
        """Appends records and returns the index of the first.

        Record ``i`` is ``src[offsets[i]:offsets[i + 1]]`` in bytes, the last one
        runs to the end; bytes before ``offsets[0]`` are skipped. All are there
        when it returns, or none; :meth:`sync` makes them survive a loss of power.

        Raises:
            ValueError: ``src`` is not C-contiguous, offsets decrease or lie
                past its end.
            TooLargeError: a record longer than the format allows.
            SchemaError: a record that the store's schema does not fit.
            BusyError: another handle writes.
            ReadOnlyError: the store was opened with ``mode="r"``.
        """
        if codec is not None and codec not in CODECS:
            raise UnknownCodecError(f"unknown codec {codec!r}, expected one of {list(CODECS)}")
        return self._native.append(as_bytes(src, "src"), vector(offsets), codec)

    def delete(self, idxs: npt.ArrayLike) -> None:
        """Deletes records, all or none; duplicates and any order are fine.

        Each hole is filled by the last record, so indices change. The record
        table is written anew: 24 MB per million records. The space of the
        records is given back by :meth:`compact`.

        Raises:
            OutOfRangeError: an index past the end; nothing was deleted.
            BusyError: another handle has the store open.
        """
        self._native.delete(vector(idxs))

    def compact(self, progress: Callable[[int, int], object] | None = None) -> None:
        """Gives the space of deleted records back; indices stay.

        Safe to kill: running it again finishes it. Needs about one chunk of
        free space. ``progress(done, total)`` is called with bytes now and then.

        Raises:
            BusyError: another handle has the store open.
            CorruptError: a record to be moved is damaged; nothing was lost.
        """
        self._native.compact(progress)

    def sync(self) -> None:
        """Makes everything appended so far survive a loss of power."""
        self._native.sync()

    def train_dict(
        self, samples: npt.NDArray[Any] | bytes, sizes: npt.ArrayLike, target: int
    ) -> int:
        """Trains a dictionary for ``zstd_dict`` and returns its size in bytes.

        Args:
            samples: the samples one behind the other.
            sizes: the length of each in bytes.
            target: the most bytes it may have.

        An extended store takes up to 256; each record knows its own.

        Raises:
            TrainingError: too few or too small samples.
            UnsupportedError: a classic store whose records use its dictionary.
        """
        unsigned(target=target)
        return self._native.train_dictionary(
            as_bytes(samples, "samples"), vector(sizes), int(target)
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return _reopen, (self._place(), *self._options)

    def _notes(self) -> str:
        return ", checksums never verified" if self._options[6] == "never" else ""


def _reopen(place: tuple[Path, str | None], codec: str, mode: str, *options: Any) -> Zrecord:
    path, pickled_id = place
    names = ("format", "level", "preset", "min_saving", "verify", "io", "lock", "threads")
    # One that is gone must not be made anew, empty.
    if mode != "r" and not (path / "meta.zr").exists():
        raise StoreNotFoundError(errno.ENOENT, f"{path}: the store that was pickled is gone")
    store = Zrecord(path, codec, mode=mode, **dict(zip(names, options, strict=True)))
    check_id(store, pickled_id)
    return store
