"""Endless, prefetching streams of batches, and finite passes."""

from __future__ import annotations

import atexit
import json
import os
import warnings
import weakref
from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any

from . import _native
from ._settings import unsigned
from ._streams import Assembler, Ragged, Streams, Transform
from .errors import ClosedError, InvalidArgumentError
from .sampler import Mode, as_mode

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["DataLoader", "batches"]


class DataLoader:
    """An endless iterator of batches, in step order, made ahead by threads.

    Args:
        streams: ``{name: stream}``, or one bare stream for bare batches. A
            stream is a ``DenseDataset``, a ``RaggedDataset``, or anything with a
            length and items; all must have one length, which stays what it is
            now though a store may grow.
        num_workers: threads that make batches and run ``transform``; 0 does
            everything in the caller's thread.
        batch_size: records per batch and rank.
        prefetch_size: batches that are finished or under way, at most; 0 makes
            none ahead.
        mode: ``"sequential"``, ``"iid"`` or ``"cyclic"``, or its number.
        seed: with the step it decides every batch.
        transform: called with each batch, its result is the batch.
        rank: which part of the global batch is ours.
        world_size: how many ranks there are; all see disjoint parts of one
            global order.
        seeded_transform: call ``transform(batch, rng)`` with a
            ``numpy.random.Generator`` seeded from seed, step and rank.
        with_indices: add the records' indices, ``(batch_size,)`` int64, to the
            batch under this name.
        ragged: how a ``RaggedDataset`` comes: ``"list"`` of arrays,
            ``"packed"`` as ``(values, offsets)``, ``"pad"`` as
            ``(padded, lengths)``; or ``{name: form}``.
        pad_value: what ``"pad"`` fills with.
        max_len: the rows of ``"pad"``; those of the batch's longest record
            unless given. A longer record is an error.

    A batch is ``{name: array of (batch_size, *item_shape)}``; its arrays belong
    to the caller. ``transform`` runs in several threads at once.

    An exception in a gather or in ``transform`` is raised where its batch would
    come, and again by every later ``next``; ``state_dict`` points at that batch.

    Raises:
        ValueError: an argument out of its range, streams of different lengths.
        TypeError: something that is no stream.
    """

    def __init__(
        self,
        streams: Mapping[str, Any] | Any,
        num_workers: int = 4,
        batch_size: int = 256,
        prefetch_size: int = 4,
        mode: int | str = 1,
        seed: int = 42,
        transform: Transform | None = None,
        *,
        rank: int = 0,
        world_size: int = 1,
        seeded_transform: bool = False,
        with_indices: str | None = None,
        ragged: Ragged = "list",
        pad_value: Any = 0,
        max_len: int | None = None,
    ) -> None:
        self.streams = streams
        unsigned(
            num_workers=num_workers,
            batch_size=batch_size,
            prefetch_size=prefetch_size,
            seed=seed,
            rank=rank,
            world_size=world_size,
        )
        self._settings: dict[str, Any] = {
            "num_workers": num_workers,
            "batch_size": batch_size,
            "prefetch_size": prefetch_size,
            "mode": int(as_mode(mode)),
            "seed": seed,
            "transform": transform,
            "rank": rank,
            "world_size": world_size,
            "seeded_transform": seeded_transform,
            "with_indices": with_indices,
            "ragged": ragged,
            "pad_value": pad_value,
            "max_len": max_len,
        }
        self._streams = Streams(streams, ragged, pad_value, max_len)
        self._mode = as_mode(mode)
        seeded = (seed, rank) if seeded_transform else None
        assembler = Assembler(self._streams, transform, with_indices, seeded)
        self._engine = _native.Engine.endless(
            self._streams.sources,
            assembler,
            assembler.needs_indices,
            assembler.belongs_in_worker,
            num_workers,
            batch_size,
            prefetch_size,
            int(self._mode),
            seed,
            rank,
            world_size,
        )
        _open_loaders.add(self)

    @property
    def step(self) -> int:
        """The step of the batch that ``next`` returns; batches delivered so far."""
        step: int = self.state_dict()["step"]
        return step

    @property
    def length(self) -> int:
        """How many records it draws from."""
        return self._engine.length

    @property
    def batch_size(self) -> int:
        """Records per batch and rank."""
        size: int = self._settings["batch_size"]
        return size

    @property
    def mode(self) -> Mode:
        """How it walks over the records."""
        return self._mode

    @property
    def seed(self) -> int:
        """With the step, what decides every batch."""
        seed: int = self._settings["seed"]
        return seed

    @property
    def closed(self) -> bool:
        """True after :meth:`close`."""
        return self._engine.closed

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Any:
        return self._engine.next()

    def __len__(self) -> int:
        raise TypeError("an endless loader has no length; zrecord.batches makes a finite pass")

    def state_dict(self) -> dict[str, Any]:
        """Returns where the loader is: JSON-able, the same on all ranks.

        It counts batches that were delivered, not those made ahead.
        """
        state: dict[str, Any] = json.loads(self._engine.state())
        return state

    def load_state_dict(self, state: Mapping[str, Any], strict: bool = True) -> None:
        """Goes on exactly where ``state`` was taken, before or during iteration.

        What was made ahead is dropped. Another world size is fine while
        ``batch_size * world_size`` stays. Streams that have grown are drawn
        from up to the saved length, with a warning.

        Raises:
            ValueError: another seed, mode, global batch, or other data, which
                would silently change what comes; with ``strict=False`` that is
                a warning. Or a state that is none.
        """
        for warning in self._load(state, strict):
            warnings.warn(f"resuming a loader: {warning}", stacklevel=2)

    def _load(self, state: Mapping[str, Any], strict: bool) -> list[str]:
        try:
            text = json.dumps(dict(state))
        except (TypeError, ValueError) as error:
            raise InvalidArgumentError(f"that is no state of a loader: {error}") from error
        return self._engine.load_state(text, strict)

    def close(self) -> None:
        """Ends the threads and drops what was made ahead. Idempotent.

        The datasets stay open. ``next`` is an error from now on.
        """
        self._engine.close()

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
        if self.closed:
            # One that a fork has left behind says so itself.
            self.state_dict()
            raise ClosedError("a closed loader cannot be pickled or copied")
        return _restore, (self.streams, self._settings, self.state_dict())

    def __repr__(self) -> str:
        if self.closed:
            return "<DataLoader, closed>"
        names = "one stream" if self._streams.is_bare else ", ".join(self._streams.named)
        return (
            f"<DataLoader of {names}: batches of {self.batch_size} out of {self.length}, "
            f"{self._mode.name.lower()}, seed {self.seed}, at step {self.step}>"
        )


def _restore(streams: Any, settings: dict[str, Any], state: dict[str, Any]) -> DataLoader:
    loader = DataLoader(streams, **settings)
    # That a store has grown since is no news to whoever unpickles.
    loader._load(state, strict=True)
    return loader


class Batches:
    """One pass over streams, each record once, in order; see :func:`batches`."""

    def __init__(self, engine: _native.Engine) -> None:
        self._engine = engine
        _open_loaders.add(self)

    def __len__(self) -> int:
        """The number of batches of the whole pass."""
        return self._engine.steps or 0

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        return self._engine.next()

    def close(self) -> None:
        """Ends the threads. Idempotent."""
        self._engine.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


def batches(
    streams: Mapping[str, Any] | Any,
    batch_size: int = 256,
    *,
    drop_last: bool = False,
    rank: int = 0,
    world_size: int = 1,
    num_workers: int = 4,
    prefetch_size: int = 4,
    transform: Transform | None = None,
    with_indices: str | None = None,
    ragged: Ragged = "list",
    pad_value: Any = 0,
    max_len: int | None = None,
) -> Batches:
    """Returns a finite pass: each record once, in order, prefetched, with ``len()``.

    For evaluation. Batch ``k`` of rank ``r`` begins at record
    ``(k * world_size + r) * batch_size``. Every rank gets the same number of
    batches; unless ``drop_last``, a rank's last one may be short, or empty. The
    other arguments are :class:`DataLoader`'s.
    """
    unsigned(
        num_workers=num_workers,
        batch_size=batch_size,
        prefetch_size=prefetch_size,
        rank=rank,
        world_size=world_size,
    )
    made = Streams(streams, ragged, pad_value, max_len)
    assembler = Assembler(made, transform, with_indices, None)
    engine = _native.Engine.pass_once(
        made.sources,
        assembler,
        assembler.needs_indices,
        assembler.belongs_in_worker,
        num_workers,
        batch_size,
        prefetch_size,
        drop_last,
        rank,
        world_size,
    )
    return Batches(engine)


_open_loaders: weakref.WeakSet[DataLoader | Batches] = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    # Threads must be gone before the interpreter is: they may be inside it.
    for loader in list(_open_loaders):
        loader.close()
    _native.join_left()


if hasattr(os, "register_at_fork"):
    # The loaders' threads and a fork must not meet in the interpreter's locks.
    os.register_at_fork(
        before=_native.before_fork,
        after_in_parent=_native.after_fork,
        after_in_child=_native.after_fork,
    )
