"""Records as arrays, indexed as NumPy indexes, whatever store is under them."""

from __future__ import annotations

import copy
import html
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import numpy as np
import numpy.typing as npt

from . import _index, _native
from ._dtypes import from_spec
from ._reading import Reading, check_id
from .errors import InvalidArgumentError, SchemaError

if TYPE_CHECKING:
    from typing_extensions import Self


class Dataset:
    """What both kinds of dataset have."""

    _kind: ClassVar[str]
    _prefix: ClassVar[str] = ""
    """What its ``repr`` tells it by from a class of the same name."""

    def _adopt(self, store: Reading, **options: Any) -> None:
        """Begins with an open store; closes it if it is of another kind."""
        self._reading = store
        self._options = options
        """What a copy is opened with."""
        try:
            _, spec, shape, codec, metadata = self._schema()
        except BaseException:
            store.close()
            raise
        self._dtype, self._item_shape = from_spec(spec), shape
        self._codec, self._metadata = codec, metadata
        self._layout = _native.Layout(self._dtype, shape)
        self._native = store._native

    def _schema(self) -> _native._SchemaParts:
        schema = self._reading._native.schema()
        if schema is None:
            raise SchemaError(
                f"{self.path}: the store has no schema; open it with Zrecord, "
                "or write it with from_numpy or from_iterator"
            )
        if schema[0] != self._kind:
            other = {"dense": "DenseDataset", "ragged": "RaggedDataset"}[schema[0]]
            raise SchemaError(
                f"{self.path}: the store holds {schema[0]} records, not {self._kind} ones; "
                f"open it with {other}"
            )
        return schema

    @property
    def path(self) -> Path:
        """The directory of the store."""
        return self._reading.path

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of one item, as it was written."""
        return self._dtype

    @property
    def item_shape(self) -> tuple[int, ...]:
        """The shape of one row; of ragged records without the leading axis."""
        return self._item_shape

    @property
    def codec(self) -> str:
        """The codec of records for which none was asked."""
        return self._codec

    @property
    def metadata(self) -> dict[Any, Any]:
        """The user's own map, as it was given to the converter; a copy."""
        return copy.deepcopy(self._metadata)

    @property
    def format(self) -> str:
        """``"extended"`` or ``"classic"``."""
        return self._reading.format

    @property
    def closed(self) -> bool:
        """True after :meth:`close`."""
        return self._native.closed

    @property
    def _title(self) -> str:
        return self._prefix + type(self).__name__

    def __len__(self) -> int:
        """The number of records; follows a writer in another process."""
        return self._native.length()

    def close(self) -> None:
        """Lets go of the store. Idempotent; arrays handed out stay valid."""
        self._reading.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def __reduce__(self) -> tuple[Any, ...]:
        return _reopen, (type(self), self._reading._place(), self._options)

    def _summary(self) -> dict[str, str]:
        sizes = self._item_shape if self._kind == "dense" else ("rows", *self._item_shape)
        comma = "," if len(sizes) == 1 else ""
        rows = f"({', '.join(map(str, sizes))}{comma})"
        summary = {
            "records": "closed" if self.closed else f"{len(self):,}",
            "record": f"{rows} {self._dtype}",
            "codec": self._codec,
        }
        if not self.closed:
            summary["format"] = self.format
        if self._options.get("verify") == "never":
            summary["checksums"] = "never verified"
        return summary

    def __repr__(self) -> str:
        summary = ", ".join(f"{name} {value}" for name, value in self._summary().items())
        return f"<{self._title} {str(self.path)!r}: {summary}>"

    def _repr_html_(self) -> str:
        rows = {"path": str(self.path), **self._summary()}
        rows |= {f"metadata {key}": repr(value) for key, value in self._metadata.items()}
        cells = "".join(
            f"<tr><th>{html.escape(name)}</th><td>{html.escape(value)}</td></tr>"
            for name, value in rows.items()
        )
        return f"<table><caption>{self._title}</caption>{cells}</table>"


class DenseRecords(Dataset):
    """Records of one shape, read as an array of ``(len, *item_shape)``."""

    _kind = "dense"

    @property
    def shape(self) -> tuple[int, ...]:
        """``(len, *item_shape)``."""
        return (len(self), *self._item_shape)

    def __getitem__(self, key: Any) -> Any:
        if type(key) is int:
            return self._native.take_one(key, self._layout)
        return _index.select(key, len(self), self._fetch)

    def __getitems__(self, idxs: npt.ArrayLike) -> npt.NDArray[Any]:
        """The rows of a vector of indices, ``(len(idxs), *item_shape)``, in one call."""
        return self._fetch(_index.vector(idxs))

    def _fetch(self, indices: _index.Indices) -> npt.NDArray[Any]:
        return self._native.take(indices, self._layout)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
        if copy is False:
            raise InvalidArgumentError("an array of a dataset is a copy; see view")
        return np.asarray(self._fetch(_index.every(len(self))), dtype)

    def gather(self, idx: npt.ArrayLike, out: npt.NDArray[Any] | None = None) -> npt.NDArray[Any]:
        """Returns the rows of ``idx``, ``(len(idx), *item_shape)``, in ``out`` if given.

        ``out`` must have this dtype and exactly that shape, and be writable and
        C-contiguous; with one, nothing is allocated.

        Raises:
            OutOfRangeError: an index past the end.
            ValueError: ``out`` does not fit, is read-only, or overlaps the indices.
        """
        indices = _index.vector(idx)
        if out is None:
            return self._fetch(indices)
        # What the vector was made of; the vector itself is compared natively.
        if idx is not indices and isinstance(idx, np.ndarray) and np.may_share_memory(idx, out):
            raise InvalidArgumentError("out overlaps the indices")
        self._native.take_into(indices, out, self._layout)
        return out

    def __iter__(self) -> Iterator[Any]:
        index = 0
        while index < len(self):
            yield self._native.take_one(index, self._layout)
            index += 1


class RaggedRecords(Dataset):
    """Records of any number of rows, read as a list of arrays."""

    _kind = "ragged"

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, tuple) and key and _index.is_integer(key[0]):
            return self[key[0]][key[1:]]
        indices = _index.flat(key, len(self))
        if isinstance(indices, int):
            return self._native.take_list(_index.scalar(indices), self._layout)[0]
        return self._native.take_list(indices, self._layout)

    def __getitems__(self, idxs: npt.ArrayLike) -> list[npt.NDArray[Any]]:
        """The records of a vector of indices, in one call."""
        return self._native.take_list(_index.vector(idxs), self._layout)

    def row_counts(self, idx: npt.ArrayLike | None = None) -> npt.NDArray[np.int64]:
        """Returns the number of rows of each record, ``(len(idx),)`` int64."""
        indices = _index.every(len(self)) if idx is None else _index.vector(idx)
        return self._native.row_counts(indices, self._layout)

    def packed(self, idx: npt.ArrayLike) -> tuple[npt.NDArray[Any], npt.NDArray[np.int64]]:
        """Returns ``(values, offsets)``: all rows one behind the other, and where
        each record begins and ends.

        ``values`` is ``(rows of all, *item_shape)``, ``offsets`` is
        ``(len(idx) + 1,)`` int64; record ``i`` is ``values[offsets[i]:offsets[i + 1]]``.
        """
        return self._native.take_packed(_index.vector(idx), self._layout)

    def padded(
        self, idx: npt.ArrayLike, max_len: int | None = None, pad_value: Any = 0
    ) -> tuple[npt.NDArray[Any], npt.NDArray[np.int64]]:
        """Returns ``(padded, lengths)`` as :func:`pad`, read in one call.

        Raises:
            ValueError: a record has more than ``max_len`` rows.
        """
        filler = self._filler(pad_value)
        return self._native.take_padded(_index.vector(idx), self._layout, max_len, filler)

    def _filler(self, pad_value: Any) -> bytes:
        return np.full(self._item_shape, pad_value, self._dtype).tobytes()

    def __iter__(self) -> Iterator[npt.NDArray[Any]]:
        index = 0
        while index < len(self):
            yield self[index]
            index += 1


def _reopen(cls: type[Dataset], place: tuple[Path, str | None], options: dict[str, Any]) -> Dataset:
    # Each class has a constructor of its own.
    dataset: Dataset = cls(place[0], **options)  # type: ignore[call-arg]
    check_id(dataset._reading, place[1])
    return dataset


_native_classes: set[type[Dataset]] = set()
_Class = TypeVar("_Class", bound=type[Dataset])


def natively(cls: _Class) -> _Class:
    """Lets loaders gather from a class natively. Not from those that derive
    from it: they may have their own ways, which must be asked.
    """
    _native_classes.add(cls)
    return cls


def is_native(stream: object) -> bool:
    """True for a dataset of ours that a loader may gather from natively."""
    return type(stream) in _native_classes
