"""One run of the benchmark: its folder, its settings, its processes."""

from __future__ import annotations

import contextlib
import sys
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

from limits import Program
from worker import Remote, Worker, WorkerError

NEWEST = "loaderx-newest"
"""The folder of the environment that holds loaderx's newest release."""
NOT_INSTALLED = "not-installed.txt"
"""The file of the environment that says what pip could not install, and why."""


@dataclass
class Settings:
    """What was asked for."""

    quick: bool = False
    """Small and short, to see whether everything runs."""
    full: bool = False
    """Every combination, rather than those that targets speak of."""
    only: list[str] = field(default_factory=list)
    """Parts of the names of the tables that are wanted; all unless given."""
    drop: str = "auto"
    """How the page cache is dropped: ``auto``, ``caches`` or ``files``."""
    limits: Path | None = None
    """The limits program."""
    torch: Path | None = None
    """The interpreter of the environment with torch."""
    log: Path | None = None
    """Where goes what the contenders' packages print."""

    def scaled(self, quick: int, usual: int) -> int:
        return quick if self.quick else usual

    def wants(self, table: str) -> bool:
        return not self.only or any(part in table for part in self.only)


class Session:
    """Starts each contender's process when it is first needed, and ends all."""

    def __init__(self, settings: Settings, folder: Path) -> None:
        self.settings = settings
        self.folder = folder
        self.versions: dict[str, str] = {}
        self.absent: dict[str, str] = _not_installed()
        """Contenders that are not there at all, and why."""
        self._log = settings.log.open("a") if settings.log else sys.stderr
        self._workers: dict[str, Worker] = {}
        self._program: Program | None = None
        self._made = 0

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.end_workers()
        if self._program is not None:
            self._program.close()
        if self._log is not sys.stderr:
            self._log.close()

    def end_workers(self) -> None:
        """Ends the contenders' processes; the next use starts new ones."""
        for worker in self._workers.values():
            worker.close()
        self._workers.clear()

    def worker(self, rival: str, fresh: str = "") -> Worker:
        """The process of a rival; one of its own for each name in ``fresh``.

        Raises:
            WorkerError: the rival cannot be used; it says why.
        """
        if rival in self.absent:
            raise WorkerError(self.absent[rival])
        name = f"{rival} {fresh}".strip()
        if name not in self._workers:
            worker = self._start(rival)
            try:
                about = worker.make("about:About", rival=rival)
                self.versions.update(about.call("versions"))
            except WorkerError as error:
                worker.close()
                self.absent[rival] = str(error)
                raise
            self._workers[name] = worker
        return self._workers[name]

    def _start(self, rival: str) -> Worker:
        if rival.endswith("_newest"):
            folder = Path(sys.prefix) / NEWEST
            if not folder.is_dir():
                raise WorkerError(f"{folder.name} is not installed")
            return Worker(self._log, packages=folder)
        if rival in NEED_TORCH:
            if self.settings.torch is None:
                raise WorkerError("only on request: --torch")
            return Worker(self._log, python=str(self.settings.torch))
        return Worker(self._log)

    def make(self, rival: str, kind: str, /, fresh: str = "", **arguments: Any) -> Remote:
        """An object in the process of a rival."""
        return self.worker(rival, fresh).make(kind, **arguments)

    @property
    def program(self) -> Program:
        """The limits program.

        Raises:
            WorkerError: none was given.
        """
        if self._program is None:
            path = self.settings.limits
            if path is None or not path.exists():
                raise WorkerError("there is no limits program; --limits names it")
            self._program = Program(path, self.folder)
        return self._program

    def new_folder(self, name: str) -> Path:
        """A path in the folder of this run where nothing is."""
        self._made += 1
        return self.folder / f"{self._made}-{name}"


NEED_TORCH = ("torch", "litdata", "streaming")


def _not_installed() -> dict[str, str]:
    absent = {}
    with contextlib.suppress(FileNotFoundError):
        for line in (Path(sys.prefix) / NOT_INSTALLED).read_text().splitlines():
            name, _, reason = line.partition("\t")
            absent[_module(name)] = reason
    return absent


def _module(package: str) -> str:
    """The module of ours for a package, as pip names it."""
    names = {"pylance": "lance", "loaderx-newest": "loaderx_newest"}
    return names.get(package, package.replace("-", "_"))
