"""How many threads work: affinity, quota, a variable and an argument decide."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import numpy as np
import pytest
import zrecord as zr
from support import run_python

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="counts threads in /proc")

COUNT = """
import os, pathlib, sys
import numpy as np, zrecord as zr
{setup}
def pool():
    tasks = pathlib.Path("/proc/self/task").iterdir()
    return sum((task / "comm").read_text().startswith("zrecord-") for task in tasks)
ds = zr.DenseDataset(sys.argv[1]{arguments})
for _ in range(20):
    ds[np.tile(np.arange(200), 500)]
print(pool())
"""
"""Prints how many threads there are for batches, besides the caller's."""


@pytest.fixture(autouse=True)
def _no_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ZRECORD_THREADS", raising=False)


@pytest.fixture
def stored(path: Path) -> Path:
    zr.from_numpy(path, np.arange(2000).reshape(200, 10))
    return path


def count(path: Path, setup: str = "", arguments: str = "") -> int:
    done = run_python(COUNT.format(setup=setup, arguments=arguments), path)
    assert (done.returncode, done.stderr) == (0, "")
    return int(done.stdout)


def test_affinity_is_respected(stored: Path) -> None:
    allowed = sorted(os.sched_getaffinity(0))
    assert count(stored, f"os.sched_setaffinity(0, {{{allowed[0]}}})") == 0
    if len(allowed) > 1:
        assert count(stored, f"os.sched_setaffinity(0, {set(allowed[:2])})") in (0, 2)


def test_the_argument_goes_before_the_variable_and_the_variable_before_the_system(
    stored: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = f"os.sched_setaffinity(0, {{{min(os.sched_getaffinity(0))}}})"
    monkeypatch.setenv("ZRECORD_THREADS", " 3 ")
    assert count(stored, one) == 3
    assert count(stored, one, ", threads=2") == 2
    assert count(stored, "", ", threads=1") == 0
    monkeypatch.setenv("ZRECORD_THREADS", "")
    assert count(stored, one) == 0


@pytest.mark.parametrize("value", ["0", "-1", "two", "1.5", "4097", "99999999999999999999"])
def test_a_variable_that_is_no_number_of_threads_is_named(
    stored: Path, path: Path, monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    monkeypatch.setenv("ZRECORD_THREADS", value)
    with pytest.raises(ValueError, match="ZRECORD_THREADS") as raised:
        zr.DenseDataset(stored)
    assert value in str(raised.value)
    new = path.with_name("new")
    with pytest.raises(zr.InvalidArgumentError, match="ZRECORD_THREADS"):
        zr.Zrecord(new)
    assert not new.exists()
    with zr.DenseDataset(stored, threads=1) as ds:
        assert len(ds) == 200


@pytest.mark.parametrize("threads", [0, -1, 4097, 2**70])
def test_an_argument_that_is_no_number_of_threads_is_named(stored: Path, threads: int) -> None:
    with pytest.raises(ValueError, match="threads"):
        zr.DenseDataset(stored, threads=threads)


def quota_directory() -> Path | None:
    """A control group that this process may make groups in, of either version."""
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        number, controllers, group = line.split(":", 2)
        root = "/sys/fs/cgroup" if number == "0" else f"/sys/fs/cgroup/{controllers}"
        directory = Path(root) / group.lstrip("/")
        is_cpu = "cpu" in controllers.split(",") or number == "0"
        if is_cpu and os.access(directory, os.W_OK) and any(directory.glob("cpu.*")):
            return directory
    return None


def test_a_quota_is_respected(stored: Path) -> None:
    directory = quota_directory()
    if directory is None:
        pytest.skip("no control group can be made here")
    group = directory / f"zrecord-test-{os.getpid()}"
    try:
        group.mkdir(exist_ok=True)
        if (group / "cpu.max").exists():
            (group / "cpu.max").write_text("100000 100000")
        else:
            (group / "cpu.cfs_quota_us").write_text("100000")
    except OSError as error:
        if group.exists():
            group.rmdir()
        pytest.skip(f"no quota can be set here: {error}")
    try:
        join = f"pathlib.Path({str(group / 'cgroup.procs')!r}).write_text(str(os.getpid()))"
        assert count(stored, join) == 0
    finally:
        group.rmdir()
