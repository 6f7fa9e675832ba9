"""What can go wrong, one class per kind that a caller can act on.

All derive from :class:`ZrecordError`; each is also the built-in class that a
caller would catch (an index out of range is an ``IndexError``, a missing store
a ``FileNotFoundError``). ``code`` is a small negative number per class; for
its own kinds it is the one that loaderx uses.
"""

from __future__ import annotations

import errno
from typing import ClassVar

__all__ = [
    "BufferTooSmallError",
    "BusyError",
    "ClosedError",
    "CorruptError",
    "ForkedError",
    "FullError",
    "InvalidArgumentError",
    "NotAStoreError",
    "OutOfRangeError",
    "PoisonedError",
    "ReadOnlyError",
    "SandboxError",
    "SchemaError",
    "StepError",
    "StorageError",
    "StoreExistsError",
    "StoreNotFoundError",
    "TooLargeError",
    "TrainingError",
    "UnknownCodecError",
    "UnsupportedError",
    "ZrecordError",
]


class ZrecordError(RuntimeError):
    """Why an operation on a store, a sampler or a loader failed."""

    code: ClassVar[int] = 0


class StorageError(OSError, ZrecordError):
    """The operating system refused; ``errno`` says why."""

    code = -2


class OutOfRangeError(ZrecordError, IndexError):
    """An index past the end of the store."""

    code = -3


class TooLargeError(ZrecordError, ValueError):
    """A record longer than the store's format allows."""

    code = -4


class FullError(ZrecordError):
    """The format's limit on records or chunks is reached."""

    code = -5


class BufferTooSmallError(ZrecordError, ValueError):
    """The destination cannot take the records that were asked for."""

    code = -6


class CorruptError(ZrecordError):
    """Stored bytes differ from those that were written."""

    code = -7


class NotAStoreError(ZrecordError):
    """The directory holds something else than a store, or one from a newer version."""

    code = -8


class TrainingError(ZrecordError):
    """Too few or too small samples to train a dictionary on."""

    code = -9


class StoreNotFoundError(FileNotFoundError, ZrecordError):
    """No store at that path."""

    code = -11


class StoreExistsError(FileExistsError, ZrecordError):
    """A store exists where a new one was to be made."""

    code = -12


class BusyError(ZrecordError):
    """Another handle, here or in another process, holds what this call needs."""

    code = -13


class UnsupportedError(ZrecordError, ValueError):
    """The store, or the request, needs what this format or build does not have."""

    code = -14


class InvalidArgumentError(ZrecordError, ValueError):
    """An argument that can never be right."""

    code = -15


class UnknownCodecError(InvalidArgumentError, KeyError):
    """A codec name other than ``raw``, ``zstd`` and ``zstd_dict``."""

    # A KeyError would show its message in quotes.
    __str__ = ValueError.__str__


class SchemaError(ZrecordError, ValueError):
    """Records whose kind, dtype or shape is not the store's."""

    code = -16


class ReadOnlyError(ZrecordError):
    """A change through a handle that was opened for reading."""

    code = -17


class ClosedError(ZrecordError, ValueError):
    """Use of a store, dataset or loader after it was closed."""

    code = -18


class PoisonedError(ZrecordError):
    """An earlier sync failed: reading goes on, writing needs a reopened store."""

    code = -19


class ForkedError(ZrecordError):
    """A loader that was made before this process was forked from another."""

    code = -20


class SandboxError(ZrecordError):
    """A sandbox met one of its limits, or what runs in it failed.

    The process and its other sandboxes are unharmed; the store has to be
    opened anew.
    """

    code = -21


class StepError(SandboxError):
    """A step of preprocessing is none, refuses its input, failed or was stopped.

    Nothing was written then.
    """

    code = -22

    index: int | None = None
    """The record that the step blames, by its index in the source."""

    records: range | None = None
    """The batch that it failed on, where it blames no record."""


def _step_error(text: str, index: int | None, records: tuple[int, int] | None) -> StepError:
    """Builds an error of a step, ``records`` from first to last; called by the native module."""
    error = StepError(text)
    error.index = index
    error.records = None if records is None else range(records[0], records[1] + 1)
    return error


def _os_error(kind: str, number: int | None, text: str) -> ZrecordError:
    """Builds an error of an ``OSError`` class; called by the native module."""
    cls = {
        "StorageError": StorageError,
        "StoreNotFoundError": StoreNotFoundError,
        "StoreExistsError": StoreExistsError,
    }[kind]
    if number is None and cls is StoreExistsError:
        number = errno.EEXIST
    return cls(text) if number is None else cls(number, text)
