"""The native half: no checks that Python can make, no waiting with the GIL.

Indices are int64 or uint64 vectors; ``take*`` count negative ones from the
end, the rest of ``Reader`` and ``Store`` does not. Byte arguments are contiguous uint8
vectors, offsets and sizes uint64 vectors in bytes.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias, final

import numpy as np
import numpy.typing as npt
from typing_extensions import disjoint_base

_Indices: TypeAlias = npt.NDArray[np.int64] | npt.NDArray[np.uint64]
_Progress: TypeAlias = Callable[[int, int], object] | None

_SchemaParts: TypeAlias = tuple[str, Any, tuple[int, ...], str, dict[Any, Any]]
"""Kind, dtype as a schema holds it, item shape, codec, metadata."""

__all__ = [
    "DICT_MAX",
    "DICT_MIN",
    "Engine",
    "Inspector",
    "Layout",
    "Reader",
    "Sampler",
    "Sandbox",
    "Source",
    "Store",
    "Successor",
    "after_fork",
    "before_fork",
    "build_info",
    "join_left",
    "run_step",
]

DICT_MIN: Final[int]
DICT_MAX: Final[int]

def after_fork() -> None: ...
def before_fork() -> None: ...
def build_info() -> dict[str, str]: ...
def join_left() -> None: ...
def run_step(
    step: str,
    source: str,
    destination: str,
    config: str,
    memory: int | None,
    time: float | None,
    call_bytes: int | None,
    instances: int | None,
    codec: str | None,
    format: str | None,
    level: int | None,
    preset: str | None,
    min_saving: float | None,
    progress: _Progress,
) -> tuple[int, int, int]:
    """Returns inputs, dropped and outputs. In builds with the sandbox."""

@final
class Layout:
    """What a row is: a dtype and a shape."""

    def __new__(cls, dtype: np.dtype[Any], item_shape: tuple[int, ...]) -> Layout: ...
    @property
    def row_bytes(self) -> int: ...

@disjoint_base
class Reader:
    """What reads records; the class that every handle derives from."""

    @property
    def path(self) -> str: ...
    @property
    def codec(self) -> str: ...
    @property
    def format(self) -> str: ...
    @property
    def id(self) -> str | None: ...
    @property
    def generation(self) -> int: ...
    @property
    def closed(self) -> bool: ...
    def length(self) -> int: ...
    def schema(self) -> _SchemaParts | None: ...
    def gather(
        self,
        indices: _Indices,
        dst: npt.NDArray[Any],
        offsets: _Indices,
    ) -> None: ...
    def lengths(self, indices: _Indices) -> npt.NDArray[np.uint32]: ...
    def read(self, index: int) -> bytes: ...
    def take(self, indices: _Indices, layout: Layout) -> npt.NDArray[Any]: ...
    def take_one(self, index: int, layout: Layout) -> Any: ...
    def take_into(self, indices: _Indices, out: npt.NDArray[Any], layout: Layout) -> None: ...
    def take_list(self, indices: _Indices, layout: Layout) -> list[npt.NDArray[Any]]: ...
    def take_packed(
        self, indices: _Indices, layout: Layout
    ) -> tuple[npt.NDArray[Any], npt.NDArray[np.int64]]: ...
    def take_padded(
        self, indices: _Indices, layout: Layout, max_len: int | None, filler: bytes
    ) -> tuple[npt.NDArray[Any], npt.NDArray[np.int64]]: ...
    def row_counts(self, indices: _Indices, layout: Layout) -> npt.NDArray[np.int64]: ...
    def verify(self, progress: _Progress) -> list[str]: ...
    def stats(self) -> dict[str, int]: ...
    def has_dictionary(self) -> bool: ...
    def close(self) -> None: ...
    def after_fork(self) -> None: ...

@final
class Store(Reader):
    """A handle that opens its store anew in the child of a fork."""

    def __new__(
        cls,
        path: str,
        mode: str,
        codec: str,
        format: str | None,
        level: int | None,
        preset: str | None,
        min_saving: float | None,
        verify: str,
        io: str,
        lock: bool,
        threads: int | None,
    ) -> Store: ...
    def set_schema(
        self,
        kind: str,
        dtype: Any,
        item_shape: tuple[int, ...],
        codec: str,
        metadata: dict[Any, Any],
    ) -> None: ...
    def append(
        self, src: npt.NDArray[np.uint8], offsets: _Indices, codec: str | None
    ) -> int: ...
    def stage(
        self, src: npt.NDArray[np.uint8], offsets: _Indices, codec: str | None
    ) -> int: ...
    def commit_staged(self) -> None: ...
    def discard_staged(self) -> None: ...
    def lock_writer(self) -> None: ...
    def view(self, start: int, stop: int, layout: Layout) -> npt.NDArray[Any]: ...
    def delete(self, indices: _Indices) -> None: ...
    def compact(self, progress: _Progress) -> None: ...
    def sync(self) -> None: ...
    def train_dictionary(
        self, samples: npt.NDArray[np.uint8], sizes: _Indices, capacity: int
    ) -> int: ...

@final
class Sandbox(Reader):
    """A handle of a store that is read inside of a sandbox. In builds that have it."""

    def __new__(
        cls, path: str, memory: int | None, time: float | None, call_bytes: int | None
    ) -> Sandbox: ...

@final
class Sampler:
    def __new__(
        cls, length: int, batch_size: int, mode: int, seed: int, rank: int, world_size: int
    ) -> Sampler: ...
    @property
    def step(self) -> int: ...
    def next(self) -> npt.NDArray[np.uint64]: ...
    def at(self, step: int) -> npt.NDArray[np.uint64]: ...
    def seek(self, step: int) -> None: ...

@final
class Source:
    """A stream of a loader. ``form`` is dense, list, packed or pad."""

    def __new__(
        cls, store: Reader, layout: Layout, form: str, max_len: int | None, filler: bytes
    ) -> Source: ...
    @staticmethod
    def python(object: Any, description: str) -> Source: ...

_Assemble: TypeAlias = Callable[[int, npt.NDArray[np.int64] | None, list[Any]], Any]

@final
class Engine:
    """Makes batches ahead, in order: gathers, then calls ``assemble``."""

    @staticmethod
    def endless(
        streams: Sequence[tuple[str, Source]],
        assemble: _Assemble,
        needs_indices: bool,
        in_worker: bool,
        workers: int,
        batch_size: int,
        prefetch: int,
        mode: int,
        seed: int,
        rank: int,
        world_size: int,
    ) -> Engine: ...
    @staticmethod
    def pass_once(
        streams: Sequence[tuple[str, Source]],
        assemble: _Assemble,
        needs_indices: bool,
        in_worker: bool,
        workers: int,
        batch_size: int,
        prefetch: int,
        drop_last: bool,
        rank: int,
        world_size: int,
    ) -> Engine: ...
    @property
    def steps(self) -> int | None: ...
    @property
    def length(self) -> int: ...
    @property
    def closed(self) -> bool: ...
    def state(self) -> str: ...
    def load_state(self, state: str, strict: bool) -> list[str]: ...
    def next(self) -> Any: ...
    def close(self) -> None: ...

@final
class Inspector:
    """Serves one store and the page that looks into it, until it is dropped. In builds
    that have it."""

    def __new__(cls, path: str, port: int, record: int) -> Inspector: ...
    @property
    def invitation(self) -> str: ...
    def open_browser(self) -> bool: ...

@final
class Successor:
    """A directory beside a store's place, which it takes when it is published."""

    def __new__(cls, place: str, replaces: bool) -> Successor: ...
    @property
    def path(self) -> str: ...
    def publish(self) -> None: ...
    def discard(self) -> None: ...
