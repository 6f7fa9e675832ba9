"""A process of one contender, and the benchmark's end of it.

Every contender runs in a process of its own, for four reasons: its memory is
its own, its threads take no time from others, two versions of one package can
stand side by side, and one that crashes takes nobody with it. It takes its own
times, so the pipe counts for nobody.

The benchmark asks for objects (``"gathering:Gathering"``), and calls their
methods. Between its turns a contender is stopped, threads, children and all.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import pickle
import signal
import subprocess
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, TextIO

FOLDER = Path(__file__).parent
PR_SET_PDEATHSIG = 1


class WorkerError(Exception):
    """What went wrong in a contender's process, in one line."""


class Worker:
    """The benchmark's end: starts the process, and asks it."""

    def __init__(
        self, log: TextIO, python: str = sys.executable, packages: Path | None = None
    ) -> None:
        """``packages`` is a folder whose packages go before all others; ``log``
        gets what is printed."""
        environment = dict(os.environ)
        if packages is not None:
            environment["PYTHONPATH"] = str(packages)
        self._process = subprocess.Popen(
            [python, str(FOLDER / "worker.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            env=environment,
            start_new_session=True,
        )
        self._is_stopped = False

    @property
    def pid(self) -> int:
        return self._process.pid

    def make(self, kind: str, /, **arguments: Any) -> Remote:
        """An object in the process: ``module:Class``, made with ``arguments``."""
        return Remote(self, self._ask("make", kind, arguments))

    def _ask(self, *request: Any) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with self._running():
            try:
                _send(self._process.stdin, request)
                is_right, answer = _receive(self._process.stdout)
            except (OSError, EOFError):
                code = self._process.wait()
                how = signal.Signals(-code).name if code < 0 else f"exit code {code}"
                raise WorkerError(f"its process ended: {how}") from None
        if not is_right:
            raise WorkerError(answer)
        return answer

    @contextlib.contextmanager
    def _running(self) -> Iterator[None]:
        if self._is_stopped:
            self._signal("SIGCONT")
            self._is_stopped = False
        try:
            yield
        finally:
            self._is_stopped = self._process.poll() is None and self._signal("SIGSTOP")

    def _signal(self, name: str) -> bool:
        number = getattr(signal, name, None)
        if number is None:
            return False
        # A session of its own, so these are it and its children alone.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, number)
        return True

    def close(self) -> None:
        """Ends the process, whatever it does."""
        if self._process.poll() is None and not self._signal("SIGKILL"):
            self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()


class Remote:
    """An object in a contender's process."""

    def __init__(self, worker: Worker, number: int) -> None:
        self.worker = worker
        self._number = number

    def call(self, method: str, *arguments: Any) -> Any:
        """What the method returns; a :class:`WorkerError` for what it raises."""
        return self.worker._ask("call", self._number, method, arguments)

    def drop(self) -> None:
        """Lets go of the object."""
        self.worker._ask("drop", self._number)


def _send(pipe: BinaryIO | Any, message: Any) -> None:
    pickle.dump(message, pipe)
    pipe.flush()


def _receive(pipe: BinaryIO | Any) -> Any:
    return pickle.load(pipe)


def serve() -> None:
    """The process's end: answers until nobody asks any more."""
    _die_with_parent()
    requests, answers = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    # What packages print goes where errors go, and so do those of children.
    os.dup2(2, 1)
    sys.stdin = os.fdopen(os.open(os.devnull, os.O_RDONLY))
    objects: dict[int, Any] = {}
    while True:
        try:
            request = _receive(requests)
        except EOFError:
            return
        try:
            answer = (True, _answer(objects, *request))
        except BaseException as error:
            traceback.print_exc()
            answer = (False, one_line(error))
        _send(answers, answer)


def one_line(error: BaseException) -> str:
    """An error in one line that is not too long."""
    lines = str(error).strip().splitlines() or [""]
    text = lines[0] if len(lines[0]) < 200 else lines[0][:197] + "..."
    return text if isinstance(error, WorkerError) else f"{type(error).__name__}: {text}"


def _answer(objects: dict[int, Any], action: str, *rest: Any) -> Any:
    if action == "make":
        kind, arguments = rest
        module, name = kind.split(":")
        number = max(objects, default=0) + 1
        objects[number] = getattr(importlib.import_module(module), name)(**arguments)
        return number
    if action == "call":
        number, method, arguments = rest
        return getattr(objects[number], method)(*arguments)
    del objects[rest[0]]
    return None


def _die_with_parent() -> None:
    # One that is stopped would never see that its pipe was closed.
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


if __name__ == "__main__":
    serve()
