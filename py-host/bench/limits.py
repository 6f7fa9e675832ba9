"""The limits program: what copying, decoding, reading and encoding cost by themselves.

It is ``host/examples/limits``, in the release profile, and takes its turns as
every contender does.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from worker import WorkerError

Indices = npt.NDArray[np.int64]


class Program:
    """The running program."""

    def __init__(self, path: Path, folder: Path) -> None:
        self._answer = folder / "limits-answer"
        self._process = subprocess.Popen(
            [path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def ask(self, request: str, **fields: Any) -> dict[str, Any]:
        """What it answers; a :class:`WorkerError` for what it refuses."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps({"request": request, **fields}) + "\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        except OSError:
            line = ""
        if not line:
            raise WorkerError(f"its process ended: exit code {self._process.wait()}")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise WorkerError(answer["error"])
        return answer

    def rows_of(self, name: str, idx: Indices, record_bytes: int) -> npt.NDArray[np.uint8]:
        """What it fills a batch with."""
        self.ask("answer", name=name, batch=idx.tolist(), to=str(self._answer))
        batch = np.fromfile(self._answer, np.uint8).reshape(-1, record_bytes)
        return batch[: len(idx)]

    def close(self) -> None:
        if self._process.stdin is not None:
            self._process.stdin.close()
        self._process.wait()


class Limit:
    """One limit, as a contender."""

    def __init__(self, program: Program, label: str, rows: npt.NDArray[np.uint8]) -> None:
        self.label = label
        self._program = program
        self._rows = rows

    def open(self, kind: str, path: Path, batch: int, **fields: Any) -> None:
        """``kind`` is ``copy``, ``decode`` or ``read``."""
        self._program.ask(
            "open",
            name=self.label,
            kind=kind,
            path=str(path),
            record_bytes=self._rows.shape[1],
            batch=batch,
            **fields,
        )

    def encode(self, path: Path, batch: int, recipe: dict[str, Any]) -> int:
        """Frames of the rows of ``path``, by other parameters than ours; returns
        the bytes that they have. One thread decodes them."""
        answer = self._program.ask(
            "frames",
            name=self.label,
            recipe=recipe,
            path=str(path),
            offset=npy_offset(path),
            record_bytes=self._rows.shape[1],
            batch=batch,
            threads=1,
        )
        stored: int = answer["stored"]
        return stored

    def check(self, batches: list[Indices]) -> None:
        for idx in batches:
            found = self._program.rows_of(self.label, idx, self._rows.shape[1])
            if not np.array_equal(found, self._rows[idx]):
                raise WorkerError("wrong rows")

    def turn(self, batches: list[Indices]) -> list[float]:
        lists = [idx.tolist() for idx in batches]
        answer = self._program.ask("time", name=self.label, batches=lists)
        return [ns / 1e9 for ns in answer["ns"]]

    def close(self) -> None:
        self._program.ask("close", name=self.label)


def npy_offset(path: Path) -> int:
    """Where the rows of a ``.npy`` file begin."""
    with path.open("rb") as file:
        version = np.lib.format.read_magic(file)
        header = {(1, 0): np.lib.format.read_array_header_1_0}
        header.get(version, np.lib.format.read_array_header_2_0)(file)
        return file.tell()
