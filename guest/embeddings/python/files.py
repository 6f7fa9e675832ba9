"""The interface `files` of `zrecord:store`, served from folders.

All that the component can reach goes through here: a name is one of a store's
before anything is looked for, and what is opened is a regular file of the
folder that was lent. `result` and `variant` come from wasmtime as plain values
and as `Variant`; an answer of ours is an error if it is a `Variant`.
"""

import errno
import os
import re
import stat
from typing import Any

from wasmtime.component import Linker, ResourceHost, ResourceType, Variant

INTERFACE = "zrecord:store/files@0.1.0"

# What wasmtime tells our resource types apart by.
DIRECTORY, FILE = 0, 1
# One call copies at most so many bytes; wasmtime itself stops at 128 MiB.
CALL_BYTES_MAX = 64 << 20
# The file names of the contract, but for those of a store that is written to.
NAMES = {"meta.zr", "schema.msgpack", "dict.zr"} | {f"dict.{n}.zr" for n in range(1, 256)}
CHUNK = re.compile(r"(0|[1-9][0-9]{0,9})\.zr")
CODES = {
    errno.ENOENT: "no-entry",
    errno.EACCES: "access",
    errno.EPERM: "access",
    errno.ELOOP: "not-a-file",
    errno.EISDIR: "not-a-file",
}
# No link is followed, and a pipe does not block. Windows has neither flag.
FLAGS = (
    os.O_RDONLY
    | getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_NONBLOCK", 0)
    | getattr(os, "O_BINARY", 0)
)


class Files:
    """The folders that are lent, and the files that are open in them."""

    def __init__(self) -> None:
        # Both by the number that stands for them in the component.
        self._folders: dict[int, str] = {}
        self._descriptors: dict[int, int] = {}
        self._last = 0

    def lend(self, folder: str) -> ResourceHost:
        """A `directory` for the component, which owns it from here on."""
        return ResourceHost.own(self._remember(self._folders, folder), DIRECTORY)

    def add_to(self, linker: Linker) -> None:
        """Defines the interface."""
        with linker.root() as root, root.add_instance(INTERFACE) as files:
            files.add_resource("directory", ResourceType.host(DIRECTORY), self._drop_directory)
            files.add_resource("file", ResourceType.host(FILE), self._drop_file)
            files.add_func("[method]directory.open", self._open)
            files.add_func("[method]file.size", self._size)
            files.add_func("[method]file.read", self._read)
            files.add_func("[method]file.read-many", self._read_many)

    def _remember(self, table: dict[int, Any], value: Any) -> int:
        self._last += 1
        table[self._last] = value
        return self._last

    def _drop_directory(self, _store: Any, number: int) -> None:
        del self._folders[number]

    def _drop_file(self, _store: Any, number: int) -> None:
        os.close(self._descriptors.pop(number))

    def _open(self, store: Any, directory: Any, name: str) -> Any:
        folder = self._folders[directory.to_host(store).rep]
        if name not in NAMES and not CHUNK.fullmatch(name):
            return Variant("invalid")
        try:
            descriptor = os.open(os.path.join(folder, name), FLAGS)
        except OSError as error:
            return code(error)
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            return Variant("not-a-file")
        return ResourceHost.own(self._remember(self._descriptors, descriptor), FILE)

    def _size(self, store: Any, file: Any) -> Any:
        try:
            return os.fstat(self._descriptor(store, file)).st_size
        except OSError as error:
            return code(error)

    def _read(self, store: Any, file: Any, length: int, offset: int) -> Any:
        if length > CALL_BYTES_MAX:
            return Variant("too-large")
        try:
            read = read_at(self._descriptor(store, file), length, offset)
        except OSError as error:
            return code(error)
        return read, len(read) < length

    def _read_many(self, store: Any, file: Any, spans: list[Any]) -> Any:
        if sum(span.length for span in spans) > CALL_BYTES_MAX:
            return Variant("too-large")
        descriptor = self._descriptor(store, file)
        packed = bytearray()
        try:
            for span in spans:
                read = read_at(descriptor, span.length, span.offset)
                packed += read
                if len(read) < span.length:
                    break
        except OSError as error:
            return code(error)
        return bytes(packed)

    def _descriptor(self, store: Any, file: Any) -> int:
        return self._descriptors[file.to_host(store).rep]


def read_at(descriptor: int, length: int, offset: int) -> bytes:
    """Fewer bytes than `length` only where the file ends."""
    parts = []
    # No file reaches as far as an offset may say.
    while length > 0 and offset < 1 << 63:
        part = os.pread(descriptor, length, offset)
        if not part:
            break
        parts.append(part)
        length -= len(part)
        offset += len(part)
    return b"".join(parts)


def code(error: OSError) -> Variant:
    """What the system said, in the contract's words."""
    tag = CODES.get(error.errno or 0)
    return Variant(tag) if tag else Variant("other", str(error))
