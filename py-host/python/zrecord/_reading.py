"""What every handle of a store can do: nothing here changes it."""

from __future__ import annotations

import errno
import os
import weakref
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from . import _native
from ._index import vector
from .errors import ClosedError, InvalidArgumentError, OutOfRangeError, StoreNotFoundError

if TYPE_CHECKING:
    from typing_extensions import Self


class Reading:
    """An open store, as far as it is read."""

    path: Path
    _native: _native.Reader
    _prefix: ClassVar[str] = ""
    """What its ``repr`` tells it by from a class of the same name."""

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
    def closed(self) -> bool:
        """True after :meth:`close`."""
        return self._native.closed

    def __len__(self) -> int:
        """The number of records; follows a writer in another process."""
        return self._native.length()

    def gather(self, idxs: npt.ArrayLike, dst: npt.NDArray[Any], offsets: npt.ArrayLike) -> None:
        """Copies record ``idxs[i]`` to ``dst`` at byte ``offsets[i]``, for all ``i``.

        Raises:
            OutOfRangeError: an index past the end; nothing was written.
            BufferTooSmallError: a record does not fit; nothing was written.
            ValueError: ``dst`` is read-only or not contiguous, or two records
                would overlap in it.
            CorruptError: stored bytes differ from what was written.
        """
        self._native.gather(vector(idxs), dst, vector(offsets))

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

    def stats(self) -> dict[str, int]:
        """Returns ``records``, and in bytes ``live_bytes``, ``chunk_bytes`` and
        ``reclaimable``: what records take, what chunks hold, and the difference.
        """
        return self._native.stats()

    def has_dict(self) -> bool:
        """True if ``zstd_dict`` records can be written."""
        return self._native.has_dictionary()

    def verify(self, progress: Callable[[int, int], object] | None = None) -> list[str]:
        """Reads every record and file and returns what is wrong, one line per fault."""
        return self._native.verify(progress)

    def close(self) -> None:
        """Syncs what was written and lets go of the files. Idempotent."""
        self._native.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _place(self) -> tuple[Path, str | None]:
        """What a pickle keeps of a store: where it is, and which one is there."""
        if self.closed:
            raise ClosedError(f"{self.path}: a closed store cannot be pickled or copied")
        return Path(self._native.path), self.id

    def _notes(self) -> str:
        """What else its ``repr`` says, behind a comma."""
        return ""

    def __repr__(self) -> str:
        name = self._prefix + type(self).__name__
        if self.closed:
            return f"<{name} {str(self.path)!r}, closed>"
        return (
            f"<{name} {str(self.path)!r}: {len(self)} records, {self.codec}, "
            f"{self.format}{self._notes()}>"
        )


_opened: weakref.WeakSet[_native.Reader] = weakref.WeakSet()
"""The native ones, which a loader may keep when nobody else does."""


def mind_forks(native: _native.Reader) -> None:
    """Has a handle's locks given up in every child that is forked from now on."""
    _opened.add(native)


def _after_fork() -> None:
    for native in list(_opened):
        native.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def check_id(store: Reading, pickled_id: str | None) -> None:
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
    if array.nbytes == 0:
        return np.empty(0, np.uint8)
    flat = array if array.ndim == 1 else array.reshape(-1)
    return flat if flat.dtype == np.uint8 else flat.view(np.uint8)
