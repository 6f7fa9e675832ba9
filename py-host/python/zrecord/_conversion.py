"""One all-or-nothing write to a store, for the converters."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from . import _native
from ._dtypes import from_spec, to_spec
from ._records import RecordType
from ._settings import (
    FORMATS,
    RECORD_LEN_MAX,
    check_choice,
    check_codec,
    default_format,
)
from .errors import (
    InvalidArgumentError,
    PoisonedError,
    SchemaError,
    StoreExistsError,
    TooLargeError,
)
from .zrecord import Zrecord


class Conversion:
    """Appends blocks of records to a store and commits them at the end.

    An existing store that is appended to stays as it was when that fails. A
    new one grows beside its place and takes it when it is whole; where nothing
    is replaced and ``commit_every`` is given, with its first commit.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        codec: str,
        *,
        if_exists: str,
        format: str | None,
        level: int | None,
        preset: str | None,
        min_saving: float | None,
        commit_every: int | None,
    ) -> None:
        check_choice("if_exists", if_exists, ("append", "error", "replace"))
        if format is not None:
            check_choice("format", format, FORMATS)
        if commit_every is not None and commit_every < 1:
            raise InvalidArgumentError(f"commit_every is {commit_every}, not at least 1")
        # Absolute, as a source may change the directory.
        self.path = Path(path).absolute()
        self.codec = check_codec(codec)
        self.if_exists = if_exists
        self.options: dict[str, Any] = {
            "level": level,
            "preset": preset,
            "min_saving": min_saving,
        }
        self.commit_every = commit_every
        self.exists = (self.path / "meta.zr").exists()
        self.format = self._format(format)
        self._store: Zrecord | None = None
        self._uncommitted = 0
        self._successor: _native.Successor | None = None

    def _format(self, wanted: str | None) -> str:
        if not self.exists or self.if_exists == "replace":
            return wanted or default_format()
        if self.if_exists == "error":
            raise StoreExistsError(f"{self.path}: a store exists here, and if_exists='error'")
        with Zrecord(self.path, mode="r") as store:
            return wanted or store.format

    @property
    def store(self) -> Zrecord:
        """The store that is written."""
        assert self._store is not None
        return self._store

    def record_type(self) -> RecordType | None:
        """What an existing ragged store holds, when it is appended to."""
        if not self.exists or self.if_exists == "replace":
            return None
        with Zrecord(self.path, mode="r") as store:
            schema = store._native.schema()
        if schema is None or schema[0] != "ragged":
            return None
        return RecordType(from_spec(schema[1]), schema[2])

    def check_row(self, row_bytes: int, what: str) -> None:
        """Refuses rows that the format cannot hold, before anything is written."""
        limit = RECORD_LEN_MAX[self.format]
        if row_bytes > limit:
            raise TooLargeError(
                f"{what} has {row_bytes} bytes; a record of the {self.format} format has at "
                f"most {limit}"
            )

    def begin(
        self,
        kind: str,
        dtype: np.dtype[Any],
        item_shape: tuple[int, ...],
        metadata: dict[Any, Any],
    ) -> None:
        """Opens or creates the store and makes it typed.

        Raises:
            SchemaError: it has another schema; nothing was written.
        """
        spec = to_spec(dtype)
        if self.exists and self.if_exists == "append":
            self._check_metadata(metadata)
            self._open(self.path, "a")
        else:
            replaces = self.if_exists == "replace"
            self._successor = _native.Successor(os.fspath(self.path), replaces)
            self._open(Path(self._successor.path), "x")
        self.store._native.set_schema(kind, spec, item_shape, self.codec, metadata)

    def _open(self, path: Path, mode: str) -> None:
        self._store = Zrecord(path, self.codec, mode=mode, format=self.format, **self.options)

    def _check_metadata(self, metadata: dict[Any, Any]) -> None:
        with Zrecord(self.path, mode="r") as store:
            schema = store._native.schema()
        if metadata and schema is not None and not _same(schema[4], metadata):
            raise SchemaError(
                f"{self.path}: the store's metadata are {schema[4]!r}; they are kept in its "
                "schema, which never changes once it is written"
            )

    def append(self, block: npt.NDArray[np.uint8], offsets: npt.NDArray[np.uint64]) -> None:
        """Adds records; they count once committed."""
        native = self.store._native
        native.stage(block, offsets, self.codec)
        self._uncommitted += len(offsets)
        if self.commit_every is not None and self._uncommitted >= self.commit_every:
            native.commit_staged()
            self._uncommitted = 0
            if self._successor is not None and self.if_exists != "replace":
                self.finish()
                self._open(self.path, "a")

    def finish(self) -> None:
        """Commits, makes it durable and closes the store, which is then in its place."""
        store = self.store
        store._native.commit_staged()
        store.sync()
        store.close()
        if self._successor is not None:
            self._successor.publish()
            self._successor = None

    def abort(self) -> None:
        """Takes back what was not committed; a store that was made for it goes too."""
        if self._store is not None:
            try:
                if not self._store.closed:
                    self._store._native.discard_staged()
            finally:
                # What has failed is on its way to the caller.
                with contextlib.suppress(PoisonedError):
                    self._store.close()
        if self._successor is not None:
            self._successor.discard()


def train(
    conversion: Conversion, samples: list[npt.NDArray[np.uint8]], dict_size: int | None
) -> None:
    """Trains a dictionary on samples, if the store has none."""
    if not samples or conversion.store.has_dict():
        return
    sizes = np.array([len(sample) for sample in samples], np.uint64)
    total = int(sizes.sum())
    target = dict_size or min(max(total // 100, _native.DICT_MIN), _native.DICT_MAX)
    conversion.store.train_dict(np.concatenate(samples), sizes, target)


def spread(count: int, at_most: int) -> npt.NDArray[np.int64]:
    """At most ``at_most`` of ``count`` indices, spread evenly, first and last included."""
    picked = min(count, max(at_most, 1))
    return np.unique(np.linspace(0, count - 1, picked).astype(np.int64))


def _same(kept: Any, given: Any) -> bool:
    """Whether ``given`` is what comes back as ``kept``: tuples come back as lists."""
    if isinstance(kept, dict) and isinstance(given, dict):
        return kept.keys() == given.keys() and all(_same(kept[key], given[key]) for key in kept)
    if isinstance(kept, list) and isinstance(given, list | tuple):
        return len(kept) == len(given) and all(map(_same, kept, given))
    return bool(kept == given or (kept != kept and given != given))
