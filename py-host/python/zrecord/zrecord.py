"""The record store: packed byte records, appended and gathered in batches."""

from __future__ import annotations

import errno
import os
import weakref
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from . import _native
from ._index import vector
from ._settings import (
    CODECS,
    FORMATS,
    RECORD_LEN_MAX,
    check_choice,
    check_codec,
    default_format,
    unsigned,
)
from .errors import (
    ClosedError,
    InvalidArgumentError,
    OutOfRangeError,
    StoreNotFoundError,
    UnknownCodecError,
    ZrecordError,
)

__all__ = ["CODECS", "MAX_RECORD_LEN", "Zrecord", "ZrecordError"]

MAX_RECORD_LEN: Final[int] = RECORD_LEN_MAX[default_format()]
"""The longest record that a new store of the default format holds, in bytes."""


class Zrecord:
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
        level: the zstd level; 3 for ``zstd`` and 19 for ``zstd_dict`` unless
            asked.
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

    def __init__(
        self,
        path: str | os.PathLike[str],
        codec: str = "zstd",
        *,
        mode: str = "a",
        format: str | None = None,
        level: int | None = None,
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
            min_saving,
            verify,
            io,
            lock,
            threads,
        )
        _open_stores.add(self._native)

    @property
    def codec(self) -> str:
        """The codec of records for which none is asked."""
        return self._native.codec

    @property
    def format(self) -> str:
        """``"extended"`` or ``"classic"``."""
        return self._native.format

    @property
    def id(self) -> str | None:
        """What tells this store from others, as 32 hex digits; classic stores have none."""
        return self._native.id

    @property
    def generation(self) -> int:
        """Rises whenever records are renumbered."""
        return self._native.generation

    @property
    def mode(self) -> str:
        """``"a"`` or ``"r"``."""
        return self._options[1]

    @property
    def closed(self) -> bool:
        """True after :meth:`close`."""
        return self._native.closed

    def __len__(self) -> int:
        """The number of records; follows a writer in another process."""
        return self._native.length()

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
        return self._native.append(as_bytes(src, "src"), as_offsets(offsets), codec)

    def gather(self, idxs: npt.ArrayLike, dst: npt.NDArray[Any], offsets: npt.ArrayLike) -> None:
        """Copies record ``idxs[i]`` to ``dst`` at byte ``offsets[i]``, for all ``i``.

        Raises:
            OutOfRangeError: an index past the end; nothing was written.
            BufferTooSmallError: a record does not fit; nothing was written.
            ValueError: ``dst`` is read-only or not contiguous, or two records
                would overlap in it.
            CorruptError: stored bytes differ from what was written.
        """
        self._native.gather(vector(idxs), as_destination(dst, "dst"), as_offsets(offsets))

    def lengths(self, idxs: npt.ArrayLike) -> npt.NDArray[np.uint32]:
        """Returns the length of each record in bytes, ``(len(idxs),)`` uint32."""
        return self._native.lengths(vector(idxs))

    def read(self, index: int) -> bytes:
        """Returns one record.

        Raises:
            OutOfRangeError: there is none at ``index``, which counts from 0.
        """
        if index < 0:
            raise OutOfRangeError(f"index {index} is out of range: it counts from 0")
        return self._native.read(index)

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

    def stats(self) -> dict[str, int]:
        """Returns ``records``, and in bytes ``live_bytes``, ``chunk_bytes`` and
        ``reclaimable``: what records take, what chunks hold, and the difference.
        """
        return self._native.stats()

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
            as_bytes(samples, "samples"), as_offsets(sizes), int(target)
        )

    def has_dict(self) -> bool:
        """True if ``zstd_dict`` records can be written."""
        return self._native.has_dictionary()

    def verify(self, progress: Callable[[int, int], object] | None = None) -> list[str]:
        """Reads every record and file and returns what is wrong, one line per fault."""
        return self._native.verify(progress)

    def close(self) -> None:
        """Syncs what was written and lets go of the files. Idempotent."""
        self._native.close()

    def __enter__(self) -> Zrecord:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def __reduce__(self) -> tuple[Any, ...]:
        return _reopen, (self._place(), *self._options)

    def _place(self) -> tuple[Path, str | None]:
        """What a pickle keeps of a store: where it is, and which one is there."""
        if self.closed:
            raise ClosedError(f"{self.path}: a closed store cannot be pickled or copied")
        return Path(self._native.path), self.id

    def __repr__(self) -> str:
        if self.closed:
            return f"<Zrecord {str(self.path)!r}, closed>"
        note = ", checksums never verified" if self._options[5] == "never" else ""
        return (
            f"<Zrecord {str(self.path)!r}: {len(self)} records, {self.codec}, {self.format}{note}>"
        )


_open_stores: weakref.WeakSet[_native.Store] = weakref.WeakSet()
"""The native ones, which a loader may keep when nobody else does."""


def _reopen(
    place: tuple[Path, str | None], codec: str, mode: str, *options: Any
) -> Zrecord:
    path, pickled_id = place
    names = ("format", "level", "min_saving", "verify", "io", "lock", "threads")
    # One that is gone must not be made anew, empty.
    if mode != "r" and not (path / "meta.zr").exists():
        raise StoreNotFoundError(errno.ENOENT, f"{path}: the store that was pickled is gone")
    store = Zrecord(path, codec, mode=mode, **dict(zip(names, options, strict=True)))
    check_id(store, pickled_id)
    return store


def check_id(store: Zrecord, pickled_id: str | None) -> None:
    """Closes the store, and refuses it, if it is another than was pickled."""
    if store.id != pickled_id:
        store.close()
        raise StoreNotFoundError(
            errno.ENOENT, f"{store.path}: another store is where the pickled one was"
        )


def as_bytes(data: Any, argument: str) -> npt.NDArray[np.uint8]:
    """The bytes of a C-contiguous array or of a bytes-like object, without a copy."""
    array = data if isinstance(data, np.ndarray) else np.frombuffer(data, np.uint8)
    if not array.flags.c_contiguous:
        raise InvalidArgumentError(f"{argument} must be C-contiguous")
    if array.dtype.hasobject:
        raise InvalidArgumentError(f"{argument} holds Python objects, not bytes")
    if array.dtype == np.uint8 and array.ndim == 1:
        return array
    if array.nbytes == 0:
        return np.empty(0, np.uint8)
    return array.reshape(-1).view(np.uint8)


def as_destination(array: Any, argument: str) -> npt.NDArray[np.uint8]:
    """The bytes of an array that is to be written to."""
    if not isinstance(array, np.ndarray):
        raise TypeError(f"{argument} must be a NumPy array, not {type(array).__name__}")
    if not array.flags.writeable:
        raise InvalidArgumentError(f"{argument} is read-only")
    return as_bytes(array, argument)


def as_offsets(offsets: Any) -> npt.NDArray[np.uint64]:
    """Offsets or sizes in bytes as a contiguous uint64 vector."""
    array = vector(offsets)
    if array.dtype == np.int64:
        if array.size and array.min() < 0:
            raise InvalidArgumentError("an offset is negative")
        return array.view(np.uint64)
    return array  # type: ignore[return-value]


def _after_fork() -> None:
    for store in list(_open_stores):
        store.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
