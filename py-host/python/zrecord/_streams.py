"""What a loader reads from, and how a batch is put together."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from . import _native
from ._datasets import RaggedRecords, is_native
from ._settings import check_choice
from .errors import InvalidArgumentError

Transform: TypeAlias = Callable[..., Any]
Ragged: TypeAlias = str | Mapping[str, str]

RAGGED_FORMS = ("list", "packed", "pad")


class Streams:
    """Named streams that are gathered at the same indices, or one bare stream."""

    def __init__(self, streams: Any, ragged: Ragged, pad_value: Any, max_len: int | None) -> None:
        self.is_bare = not isinstance(streams, Mapping)
        self.named: dict[Any, Any] = {"": streams} if self.is_bare else dict(streams)
        if not self.named:
            raise InvalidArgumentError("there are no streams to load from")
        if not isinstance(ragged, str) and not ragged.keys() <= self.named.keys():
            strange = sorted(ragged.keys() - self.named.keys())
            raise InvalidArgumentError(f"ragged names no streams: {strange}")
        self.python: list[tuple[int, Any]] = []
        """Those that Python gathers from, and their places."""
        self.sources: list[tuple[str, _native.Source]] = []
        for place, (name, stream) in enumerate(self.named.items()):
            source = _native_source(stream, _form(ragged, name), pad_value, max_len)
            if source is None:
                source = _python_source(name, stream)
                self.python.append((place, stream))
            # Batches keep the names as they are; a state has text.
            self.sources.append((str(name), source))


def _form(ragged: Ragged, name: Any) -> str:
    form = ragged if isinstance(ragged, str) else ragged.get(name, "list")
    return check_choice("ragged", form, RAGGED_FORMS)


def _native_source(
    stream: Any, form: str, pad_value: Any, max_len: int | None
) -> _native.Source | None:
    if not is_native(stream):
        return None
    if isinstance(stream, RaggedRecords):
        filler = stream._filler(pad_value) if form == "pad" else b""
        return _native.Source(stream._native, stream._layout, form, max_len, filler)
    return _native.Source(stream._native, stream._layout, "dense", None, b"")


def _python_source(name: Any, stream: Any) -> _native.Source:
    what = "the stream" if name == "" else f"the stream {name!r}"
    if isinstance(stream, str | bytes):
        raise TypeError(f"{what} is {stream!r}; open it first, as with DenseDataset(path)")
    has_items = hasattr(stream, "__getitem__") or hasattr(stream, "__getitems__")
    if not (hasattr(stream, "__len__") and has_items):
        raise TypeError(f"{what} is a {type(stream).__name__}, which has no length or no items")
    return _native.Source.python(stream, describe(stream))


def describe(stream: Any) -> str:
    """What tells a stream's data from other data, but for its length."""
    if isinstance(stream, np.ndarray):
        return f"array of {stream.dtype.str} {stream.shape[1:]}"
    return f"{type(stream).__module__}.{type(stream).__qualname__}"


class Assembler:
    """Makes a batch of what was gathered. Knows no loader, so none is kept alive by it."""

    def __init__(
        self,
        streams: Streams,
        transform: Transform | None,
        with_indices: str | None,
        seeded: tuple[int, int] | None,
    ) -> None:
        if with_indices is not None:
            if streams.is_bare:
                raise InvalidArgumentError("with_indices needs named streams: a dict")
            if with_indices in streams.named:
                raise InvalidArgumentError(f"with_indices={with_indices!r} is a stream's name")
        if transform is not None and not callable(transform):
            raise TypeError(f"transform is a {type(transform).__name__}, which cannot be called")
        if seeded is not None and transform is None:
            raise InvalidArgumentError("seeded_transform needs a transform")
        self._names = list(streams.named)
        self._python = streams.python
        self._is_bare = streams.is_bare
        self._transform = transform
        self._with_indices = with_indices
        self._seeded = seeded
        self.needs_indices = bool(self._python) or with_indices is not None
        self.belongs_in_worker = bool(self._python) or transform is not None
        """True if the user's own code runs in it."""

    def __call__(self, step: int, indices: npt.NDArray[np.int64] | None, parts: list[Any]) -> Any:
        """Called once per batch, in a worker if Python code of the user's runs in it."""
        try:
            return self._assemble(step, indices, parts)
        except StopIteration as error:
            # It would end the loop over the loader as if all had been well.
            raise RuntimeError("a transform or a stream raised StopIteration") from error

    def _assemble(self, step: int, indices: npt.NDArray[np.int64] | None, parts: list[Any]) -> Any:
        for place, stream in self._python:
            parts[place] = gather(stream, indices)
        batch: Any = parts[0] if self._is_bare else dict(zip(self._names, parts, strict=True))
        if self._with_indices is not None:
            batch[self._with_indices] = indices
        if self._transform is None:
            return batch
        if self._seeded is None:
            return self._transform(batch)
        return self._transform(batch, generator(*self._seeded, step))


def generator(seed: int, rank: int, step: int) -> np.random.Generator:
    """The random numbers of one batch, whatever thread makes it, and whenever."""
    # Named, not default_rng: what that is may change with NumPy.
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence((seed, step, rank))))


def gather(stream: Any, indices: Any) -> Any:
    """The records of any stream at a vector of indices.

    Streams with ``__getitems__`` are asked once and their answer is taken as it
    is, arrays are indexed once, others are asked record by record: numbers and
    arrays are stacked, anything else comes as a list.
    """
    many = getattr(stream, "__getitems__", None)
    if many is not None:
        return many(indices)
    if isinstance(stream, np.ndarray):
        return stream[indices]
    records = [stream[index] for index in indices.tolist()]
    if all(isinstance(record, np.ndarray | np.generic | bool | int | float) for record in records):
        return np.stack(records) if records else np.empty(0)
    return records
