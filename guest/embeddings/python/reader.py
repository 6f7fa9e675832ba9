"""Looks into a store through the component, in wasmtime's Python package.

    pip install -r requirements.txt
    python reader.py reader.wasm STORE [INDEX ...]

`cargo xtask component` builds `target/component/reader.wasm`. Printed are JSON
objects, one a line: what the store is, its faults, and the length and SHA-256
of each record asked for, or of a batch that the sampler draws. Anything wrong
with the store makes the exit status 1.

wasmtime's package copies lists of bytes one byte at a time, half a megabyte a
second: this is for looking and checking, not for training.
"""

import argparse
import hashlib
import json
import sys
import threading
from types import SimpleNamespace
from typing import Any

from files import Files
from wasmtime import Config, Engine, Store, Trap, WasmtimeError
from wasmtime.component import Component, Linker, Variant

MEMORY_MAX = 1 << 30
SECONDS_MAX = 60
# Records that one call checks or gathers: so that each is short.
SLICE = 4096
BATCH_BYTES_MAX = 64 << 20


class StoreError(Exception):
    """An error that the component returned."""


class Reader:
    """The component, instantiated, and what it may use."""

    def __init__(self, path: str) -> None:
        config = Config()
        config.epoch_interruption = True
        engine = Engine(config)
        self.files = Files()
        linker = Linker(engine)
        self.files.add_to(linker)
        self._store = Store(engine)
        self._store.set_limits(memory_size=MEMORY_MAX)
        # Past the first epoch it is stopped, and that ends with the time.
        self._store.set_epoch_deadline(1)
        self._clock = threading.Timer(SECONDS_MAX, engine.increment_epoch)
        self._clock.daemon = True
        self._clock.start()
        component = Component.from_file(engine, path)
        self._instance = linker.instantiate(self._store, component)

    def call(self, interface: str, name: str, *arguments: Any) -> Any:
        """Calls a function by its name in the contract; an error is raised."""
        interface = f"zrecord:store/{interface}@0.1.0"
        exported = self._instance.get_export_index(self._store, interface)
        function = self._instance.get_export_index(self._store, name, exported)
        answer = self._instance.get_func(self._store, function)(self._store, *arguments)
        # No function of ours returns a variant, so one is the error.
        if isinstance(answer, Variant):
            raise StoreError(describe(answer))
        return answer

    def drop(self, resource: Any) -> None:
        """Lets go of a resource of the component."""
        resource.drop(self._store)
        resource.close()


def describe(error: Variant) -> str:
    """An error in words: its kind, and all that it says."""
    tag, said = str(error.tag), error.payload
    if said is None:
        return tag
    if isinstance(said, Variant):
        return f"{tag}: {describe(said)}"
    if isinstance(said, str):
        return f"{tag}: {said}"
    parts = [
        f"{name} {describe(value) if isinstance(value, Variant) else value}"
        for name, value in vars(said).items()
        if value is not None
    ]
    return f"{tag}: {', '.join(parts)}"


def show(**values: Any) -> None:
    print(json.dumps(values))


def show_info(reader: Reader, store: Any) -> int:
    info = vars(reader.call("store", "[method]store.info", store))
    schema = reader.call("store", "[method]store.schema", store)
    names = ("kind", "dtype", "item-shape", "codec")
    show(
        format=info["format"],
        version=info["version"],
        id=info["id"] and info["id"].hex(),
        records=info["length"],
        schema=schema and {name: vars(schema)[name] for name in names},
    )
    return int(info["length"])


def show_faults(reader: Reader, store: Any, length: int) -> int:
    faults = reader.call("store", "[method]store.verify-structure", store)
    for first in range(0, length, SLICE):
        faults += reader.call("store", "[method]store.verify", store, first, SLICE)
    show(faults=[vars(fault) for fault in faults])
    return len(faults)


def draw(reader: Reader, length: int) -> list[int]:
    """The first batch of a random order."""
    if length == 0:
        return []
    options = {"length": length, "batch-size": min(length, 8), "mode": "cyclic"}
    options |= {"seed": 42, "rank": 0, "world-size": 1}
    sampler = reader.call("sampler", "[static]sampler.create", SimpleNamespace(**options))
    indices: list[int] = reader.call("sampler", "[method]sampler.batches", sampler, 0, 1)
    reader.drop(sampler)
    return indices


def show_records(reader: Reader, store: Any, indices: list[int]) -> None:
    while indices:
        # As many of them as fit, at least one.
        batch = reader.call("store", "[method]store.gather", store, indices, BATCH_BYTES_MAX)
        start = 0
        for index, end in zip(indices, batch.ends, strict=False):
            record = batch.bytes[start:end]
            show(index=index, len=len(record), sha256=hashlib.sha256(record).hexdigest())
            start = end
        indices = indices[len(batch.ends) :]


def main() -> int:
    parser = argparse.ArgumentParser(description="Look into a store through the component.")
    parser.add_argument("component")
    parser.add_argument("store")
    parser.add_argument("index", nargs="*", type=int)
    arguments = parser.parse_args()
    reader = Reader(arguments.component)
    try:
        directory = reader.files.lend(arguments.store)
        # Nobody is writing to it: what a writer left unfinished is passed over.
        store = reader.call("store", "[static]store.open", directory, True)
        length = show_info(reader, store)
        faults = show_faults(reader, store, length)
        show_records(reader, store, arguments.index or draw(reader, length))
        reader.drop(store)
    except StoreError as error:
        print(f"{arguments.store}: {error}", file=sys.stderr)
        return 1
    except (Trap, WasmtimeError) as error:
        # It met a limit, or has a fault; nothing can be called any more.
        print(f"{arguments.store}: the component was stopped: {error}", file=sys.stderr)
        return 1
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
