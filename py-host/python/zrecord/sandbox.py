"""Stores and steps of preprocessing that need not be trusted.

A store that somebody else has made is read by a WebAssembly component inside of
this process: it parses and decodes, and can reach nothing but the files of that
one directory. Whatever the files hold, what comes of it is records or an error.

>>> from zrecord import sandbox
>>> with sandbox.DenseDataset("from-somebody", memory=256 << 20) as images:
...     first = images[0]

| instead of | take |
| --- | --- |
| :class:`zrecord.Zrecord` | :class:`Zrecord`, which reads only |
| :class:`zrecord.DenseDataset` | :class:`DenseDataset` |
| :class:`zrecord.RaggedDataset` | :class:`RaggedDataset` |

They answer as the native ones do, with the same errors, and with
:class:`~zrecord.errors.SandboxError` where a limit is met. Loaders take the
datasets as streams. Calls into one store run one at a time, checksums are always
compared, and a gather takes longer than natively: raw records are copied twice
more, compressed ones decoded several times slower.

:func:`run` makes a new store out of another by a step: a component that can
touch nothing but the records it is given.

All of it is in builds with the sandbox only, as `cargo xtask wheel` makes them.
"""

from __future__ import annotations

import json
import operator
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from . import _datasets, _native
from ._reading import Reading, check_id, mind_forks
from ._settings import FORMATS, PRESETS, check_choice, check_codec
from .errors import InvalidArgumentError

if not hasattr(_native, "Sandbox"):
    raise ImportError(
        "this build of zrecord has no sandbox; one that has it is made by `cargo xtask wheel`, "
        "or by maturin with `--features sandbox`",
        name=__name__,
    )

__all__ = ["DenseDataset", "RaggedDataset", "Report", "Zrecord", "run"]


class Zrecord(Reading):
    """A store of byte records that is read inside of a sandbox.

    Args:
        path: the directory of the store; it must exist, and nothing is written.
        memory: the most bytes of memory that the component may have; 1 GiB
            unless given. A record of ``n`` bytes needs about ``2 * n``.
        time: how many seconds one call into the component may take; 60 unless
            given. What works in slices (a large gather, :meth:`verify`) has
            them for each.
        call_bytes: the most bytes that one call copies; 64 MiB unless given,
            8 MiB at least. A longer record cannot be gathered.

    A limit that is met is a :class:`~zrecord.errors.SandboxError` that names it;
    where the component had to be stopped for it, the store has to be opened
    anew. Any number of threads may use one handle, one at a time. After a fork
    the child opens the store anew on first use. Pickling and copying reopen by
    path, as with :class:`zrecord.Zrecord`.

    Raises:
        StoreNotFoundError: a ``FileNotFoundError``; nothing is ever created.
        CorruptError, NotAStoreError, UnsupportedError: as the native store.
        SandboxError: the component cannot be made within the limits.
    """

    _native: _native.Sandbox
    _prefix = "sandbox."

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        memory: int | None = None,
        time: float | None = None,
        call_bytes: int | None = None,
    ) -> None:
        self.path: Path = Path(path)
        self._limits = _limits(memory, time, call_bytes)
        self._native = _native.Sandbox(os.fspath(self.path.absolute()), *self._limits)
        mind_forks(self._native)

    def __reduce__(self) -> tuple[Any, ...]:
        return _reopen, (self._place(), *self._limits)


class _Dataset(_datasets.Dataset):
    """A dataset over a store inside of a sandbox."""

    _prefix = "sandbox."

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        memory: int | None = None,
        time: float | None = None,
        call_bytes: int | None = None,
    ) -> None:
        self._store = Zrecord(path, memory=memory, time=time, call_bytes=call_bytes)
        self._adopt(self._store, memory=memory, time=time, call_bytes=call_bytes)

    @property
    def store(self) -> Zrecord:
        """The store under the dataset."""
        return self._store


@_datasets.natively
class DenseDataset(_Dataset, _datasets.DenseRecords):
    """Records of one shape, read inside of a sandbox.

    Indexed as :class:`zrecord.DenseDataset`, whose ``view`` alone it does not
    have: there are no records in place to be seen, since the component decodes
    all of them in memory of its own.

    Args:
        path: the directory of the store; it must exist.
        memory, time, call_bytes: the limits of :class:`Zrecord`.

    Raises:
        StoreNotFoundError: a ``FileNotFoundError``; nothing is ever created.
        SchemaError: a ``ValueError``; the store is untyped, or ragged.
    """


@_datasets.natively
class RaggedDataset(_Dataset, _datasets.RaggedRecords):
    """Records of any number of rows, read inside of a sandbox.

    Indexed as :class:`zrecord.RaggedDataset`.

    Args:
        path: the directory of the store; it must exist.
        memory, time, call_bytes: the limits of :class:`Zrecord`.

    Raises:
        StoreNotFoundError: a ``FileNotFoundError``; nothing is ever created.
        SchemaError: a ``ValueError``; the store is untyped, or dense.
    """


class Report(NamedTuple):
    """What a step has done."""

    inputs: int
    """How many records went in."""
    dropped: int
    """How many of them made no record."""
    outputs: int
    """How many records came out."""


def run(
    step: str | os.PathLike[str],
    source: str | os.PathLike[str],
    destination: str | os.PathLike[str],
    *,
    config: str | Mapping[str, Any] | None = None,
    memory: int | None = None,
    time: float | None = None,
    call_bytes: int | None = None,
    instances: int | None = None,
    codec: str | None = None,
    format: str | None = None,
    level: int | None = None,
    preset: str | None = None,
    min_saving: float | None = None,
    progress: Callable[[int, int], object] | None = None,
) -> Report:
    """Runs a step of preprocessing over a store, and writes a new one.

    The step imports nothing: it sees the records it is given, and makes others
    of them. The same step, configuration and source make the same bytes,
    whatever the number of instances. The new store is written beside its place
    and takes it at the end: after an error, and after Ctrl-C, there is none.

    >>> sandbox.run("tiles.wasm", "photos", "tiles", config={"factor": 2})
    Report(inputs=1000, dropped=0, outputs=1000)

    Args:
        step: the file of the step, a component or what compilers leave for
            ``wasm32-unknown-unknown``.
        source: the store that is read, natively.
        destination: where the new store is to be; there must be nothing.
        config: what the step is configured by: a text, or a map that is
            written as JSON with its keys in order.
        memory: the most bytes that one instance may have; 1 GiB unless given.
        time: how many seconds one call may take; 60 unless given.
        call_bytes: the most bytes that one call copies, and so the longest
            record; 64 MiB unless given.
        instances: how many work at once; as many as there are processors to
            use unless given.
        codec, format, level, preset, min_saving: those of the new store, as
            :class:`zrecord.Zrecord` has them; the codec is the source's unless
            given.
        progress: called as ``progress(done, total)``, in records of the source,
            many times a second. What it raises ends the run.

    Raises:
        StepError: the file is no step, imports something, refuses the
            configuration, fails, or meets a limit. ``index`` is the record that
            it blames, ``records`` the batch otherwise.
        StoreExistsError: there is something at ``destination``.
        StoreNotFoundError, CorruptError: as reading ``source``.
        StorageError: an ``OSError``; the file cannot be read.
    """
    if codec is not None:
        check_codec(codec)
    if format is not None:
        check_choice("format", format, FORMATS)
    if preset is not None:
        check_choice("preset", preset, PRESETS)
    limits = _limits(memory, time, call_bytes)
    if instances is not None:
        instances = _whole("instances", instances, "instances")
        if instances == 0:
            raise InvalidArgumentError("instances is 0, and one is needed at least")
    made = _native.run_step(
        os.fspath(step),
        os.fspath(source),
        os.fspath(destination),
        _configuration(config),
        *limits,
        instances,
        codec,
        format,
        level,
        preset,
        min_saving,
        progress,
    )
    return Report(*made)


_Limits: TypeAlias = tuple[int | None, float | None, int | None]


def _limits(memory: int | None, time: float | None, call_bytes: int | None) -> _Limits:
    """The limits as they were given, if they can be right."""
    if memory is not None:
        memory = _whole("memory", memory, "bytes")
    if call_bytes is not None:
        call_bytes = _whole("call_bytes", call_bytes, "bytes")
    if time is not None:
        if isinstance(time, bool) or not hasattr(time, "__float__"):
            raise TypeError(f"time is a number of seconds, not {type(time).__name__}")
        time = float(time)
        if not 0 < time < float("inf"):
            raise InvalidArgumentError(f"time is {time} s, and must be above 0 and finite")
    return memory, time, call_bytes


def _whole(argument: str, value: Any, what: str) -> int:
    """A number of bytes or of instances."""
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"{argument} is a whole number of {what}, not {type(value).__name__}")
    number = operator.index(value)
    if not 0 <= number < 2**63:
        raise InvalidArgumentError(f"{argument} is {number}, not from 0 to 2**63 - 1")
    return number


def _configuration(config: str | Mapping[str, Any] | None) -> str:
    if config is None or isinstance(config, str):
        return config or ""
    if not isinstance(config, Mapping):
        raise TypeError(f"config is a text or a map, not {type(config).__name__}")
    try:
        # In order, so that equal maps make equal stores.
        return json.dumps(dict(config), sort_keys=True, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise InvalidArgumentError(f"config cannot be written as JSON: {error}") from error


def _reopen(
    place: tuple[Path, str | None],
    memory: int | None,
    time: float | None,
    call_bytes: int | None,
) -> Zrecord:
    store = Zrecord(place[0], memory=memory, time=time, call_bytes=call_bytes)
    check_id(store, place[1])
    return store
