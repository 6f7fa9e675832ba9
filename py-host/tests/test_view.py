"""``python -m zrecord``, and its ``view``: what it says, serves and how it ends."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
import zrecord as zr
from support import in_child, needs_inspector
from zrecord import _native

ADDRESS = re.compile(
    r"http://127\.0\.0\.1:(?P<port>\d+)/\?token=(?P<token>[0-9a-f]{32})"
    r"#url=/a%20store\?token=(?P=token)&record=(?P<record>\d+)"
)


def command(*arguments: object) -> list[str]:
    return [sys.executable, "-X", "dev", "-m", "zrecord", *map(str, arguments)]


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command(*arguments), capture_output=True, text=True, timeout=60)


@pytest.fixture
def store(tmp_path: Path, store_format: str) -> Path:
    where = tmp_path / "a store"
    zr.from_numpy(where, np.arange(600).reshape(100, 6), format=store_format)
    return where


def hear_interrupts() -> None:
    """A parent in the background of a shell ignores Ctrl-C, and hands that down."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@contextmanager
def viewing(*arguments: object, **environment: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The running command, and the address that it printed."""
    program = subprocess.Popen(
        command("view", *arguments),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **environment},
        preexec_fn=None if sys.platform == "win32" else hear_interrupts,
    )
    try:
        assert program.stdout is not None
        yield program, program.stdout.readline().rstrip()
    finally:
        program.kill()
        program.communicate()


def fetch(address: str, name: str = "", **headers: str) -> tuple[int, bytes]:
    """A file of the store by the address of the page, or the page itself."""
    found = ADDRESS.fullmatch(address)
    assert found is not None, address
    path = f"a%20store/{name}" if name else ""
    url = f"http://127.0.0.1:{found['port']}/{path}?token={found['token']}"
    with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=60) as reply:
        return reply.status, reply.read()


def test_without_arguments_it_helps() -> None:
    done = run()
    assert (done.returncode, done.stderr) == (0, "")
    assert "view" in done.stdout
    assert run("--version").stdout == f"zrecord {zr.__version__}\n"


def test_help_says_what_is_served() -> None:
    done = run("view", "--help")
    assert done.returncode == 0
    for word in ("127.0.0.1", "--port", "--no-browser", "--record", "token"):
        assert word in done.stdout


@pytest.mark.parametrize("option", [("--port", "65536"), ("--port", "-1"), ("--record", "x")])
def test_numbers_are_checked(tmp_path: Path, option: tuple[str, str]) -> None:
    done = run("view", tmp_path, *option)
    assert done.returncode == 2
    assert "is not from 0 to" in done.stderr or "expected one argument" in done.stderr


@pytest.mark.skipif(hasattr(_native, "Inspector"), reason="this wheel has the inspector")
def test_a_build_without_the_inspector_says_how_to_get_it(tmp_path: Path) -> None:
    done = run("view", tmp_path)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert "--features view" in done.stderr


@needs_inspector
@pytest.mark.skipif(sys.platform == "win32", reason="sends SIGINT")
def test_it_serves_until_ctrl_c(store: Path) -> None:
    with viewing(store, "--no-browser", "--record", 42) as (program, address):
        found = ADDRESS.fullmatch(address)
        assert found is not None, address
        assert found["record"] == "42"
        assert fetch(address)[1].startswith(b"<!doctype html>")
        # A classic chunk is gigabytes long, and sparse.
        with open(store / "0.zr", "rb") as chunk:
            first = chunk.read(20)
        assert fetch(address, "0.zr", Range="bytes=10-19") == (206, first[10:])
        with pytest.raises(urllib.error.HTTPError, match="403"):
            urllib.request.urlopen(f"http://127.0.0.1:{found['port']}/", timeout=60)
        assert program.stdout is not None
        hint = program.stdout.readline()
        program.send_signal(signal.SIGINT)
        rest, err = program.communicate(timeout=60)
    assert (program.returncode, rest, err) == (130, "", "")
    assert f"ssh -L {found['port']}:127.0.0.1:{found['port']}" in hint


@needs_inspector
def test_errors_are_one_line(tmp_path: Path) -> None:
    zr.from_numpy(tmp_path / "store", np.zeros(3))
    (tmp_path / "empty").mkdir()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        for arguments, reason in [
            ((tmp_path / "nothing",), "meta.zr: No such file or directory"),
            ((tmp_path / "empty",), "there is no meta.zr in it"),
            ((tmp_path / "store" / "meta.zr",), "it is not a folder"),
            ((tmp_path / "store", "--port", port), f"port {port}: another program listens on it"),
        ]:
            done = run("view", "--no-browser", *arguments)
            assert (done.returncode, done.stdout) == (1, "")
            assert done.stderr.startswith(f"zrecord: {arguments[0]}: ")
            assert reason in done.stderr
            assert done.stderr.count("\n") == 1


@needs_inspector
@pytest.mark.skipif(sys.platform != "linux", reason="stands in for xdg-open")
def test_the_browser_is_opened(tmp_path: Path, store: Path) -> None:
    opened, program = tmp_path / "opened", tmp_path / "bin" / "xdg-open"
    program.parent.mkdir()
    program.write_text(
        f"#!/bin/sh\nprintf %s \"$1\" > '{opened}.new'; /bin/mv '{opened}.new' '{opened}'\n"
    )
    program.chmod(0o755)
    with viewing(store, PATH=str(program.parent)) as (_, address):
        while not opened.exists():
            os.sched_yield()
        # It is given an address that works once, since others may see it.
        with urllib.request.urlopen(opened.read_text(), timeout=60) as reply:
            assert reply.url == address
            assert reply.read().startswith(b"<!doctype html>")
        with pytest.raises(urllib.error.HTTPError, match="403"):
            urllib.request.urlopen(opened.read_text(), timeout=60)


@needs_inspector
def test_it_serves_beside_python(store: Path) -> None:
    inspector = _native.Inspector(str(store), 0, 0)
    address = inspector.invitation.splitlines()[0]
    whole = (store / "schema.msgpack").read_bytes()
    results: list[tuple[int, bytes]] = []
    # Were the interpreter held, none of these could ask.
    threads = [
        threading.Thread(target=lambda: results.append(fetch(address, "schema.msgpack")))
        for _ in range(30)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [(200, whole)] * 30
    del inspector
    with pytest.raises(urllib.error.URLError):
        fetch(address, "schema.msgpack")


@needs_inspector
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_child_can_drop_what_its_parent_serves(store: Path) -> None:
    holder = [_native.Inspector(str(store), 0, 0)]
    address = holder[0].invitation.splitlines()[0]
    in_child(holder.clear)
    assert fetch(address, "schema.msgpack")[0] == 200


@needs_inspector
def test_errors_have_their_classes(tmp_path: Path) -> None:
    with pytest.raises(zr.StoreNotFoundError):
        _native.Inspector(str(tmp_path / "nothing"), 0, 0)
    with pytest.raises(zr.NotAStoreError):
        _native.Inspector(str(tmp_path), 0, 0)
