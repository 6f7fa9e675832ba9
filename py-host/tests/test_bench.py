"""The benchmark's own arithmetic, which runs without any rival."""

from __future__ import annotations

import importlib
import json
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

BENCH = Path(__file__).parents[1] / "bench"

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="contenders are stopped by signals")


@pytest.fixture(autouse=True)
def bench_on_path(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.syspath_prepend(str(BENCH))
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        if getattr(sys.modules[name], "__file__", None) and name in OWN:
            del sys.modules[name]


OWN = {path.stem for path in BENCH.glob("*.py")} | {"kinds", "kinds.store", "rivals"}


def module(name: str) -> Any:
    return importlib.import_module(name)


class Taker:
    """Takes turns of one length, and remembers them."""

    def __init__(self, label: str, seconds: float, log: list[str], clock: Any) -> None:
        self.label, self._seconds, self._log, self._clock = label, seconds, log, clock

    def turn(self, payload: Any) -> list[float]:
        self._log.append(f"{self.label}{payload}")
        self._clock.now += self._seconds
        if self._seconds < 0:
            raise module("worker").WorkerError("it broke")
        return [self._seconds]


class Clock:
    now = 0.0

    def perf_counter(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(module("timing"), "time", clock)
    return clock


def test_everybody_is_timed_in_turn_and_each_round_begins_with_another(clock: Clock) -> None:
    log: list[str] = []
    takers = [Taker(label, 0.001, log, clock) for label in "abc"]
    samples = module("timing").interleave(takers, lambda number, _: number, 4, 10)
    rounds = ["".join(entry[0] for entry in log[start : start + 3]) for start in range(0, 18, 3)]
    # Two rounds of warming, which are not counted.
    assert rounds == ["bca", "cab", "abc", "bca", "cab", "abc"]
    assert {label: len(mine.seconds) for label, mine in samples.items()} == dict.fromkeys("abc", 4)


def test_one_that_is_slow_sits_rounds_out_evenly_and_one_that_fails_is_out(clock: Clock) -> None:
    log: list[str] = []
    takers = [
        Taker("s", 1.0, log, clock),
        Taker("f", 0.001, log, clock),
        Taker("x", -1, log, clock),
    ]
    samples = module("timing").interleave(takers, lambda number, _: f":{number}", 40, 8)
    turns = [int(entry.split(":")[1]) for entry in log if entry[0] == "s"]
    assert len(samples["f"].seconds) == 40
    assert 7 <= len(turns) <= 10
    # Nowhere a gap that is much longer than the others.
    assert max(np.diff(turns)) <= 8
    assert samples["x"].failure == "it broke"
    assert [entry for entry in log if entry[0] == "x"] == ["x:0"]


def test_one_that_is_far_too_slow_is_timed_thrice(clock: Clock) -> None:
    takers = [Taker("s", 100.0, [], clock), Taker("f", 0.001, [], clock)]
    samples = module("timing").interleave(takers, lambda number, _: number, 20, 1)
    assert len(samples["s"].seconds) == 3


def test_nobody_takes_no_turn() -> None:
    assert module("timing").interleave([], lambda number, _: number, 3, 1) == {}


@pytest.mark.parametrize(("percent", "expected"), [(0, 1), (50, 50), (99, 99), (100, 100)])
def test_percentiles_are_of_the_samples(percent: float, expected: float) -> None:
    samples = module("timing").Samples([float(n) for n in range(100, 0, -1)])
    assert samples.percentile(percent) == expected
    assert samples.median == 50.5


def table(**seconds: float) -> Any:
    tables = module("tables")
    rows = [
        tables.Row(label.replace("_", " "), value, {"disk": value * 10})
        for label, value in seconds.items()
    ]
    return tables.Table("t", "title", rows, {"absent one": "no wheel"}, bytes=1000)


def test_a_target_is_met_against_the_best_of_several() -> None:
    targets = module("targets")
    measured = table(zrecord=2.0, numpy_a_out=5.0, numpy_b_out=4.0, numpy_c_new=1.0)
    wanted = [
        targets.Target("t", "zrecord", "numpy...out", 1.9),
        targets.Target("t", "zrecord", "numpy...out", 2.1),
        targets.Target("t", "zrecord", "numpy...", 2.1, measure="disk"),
        targets.Target("t", "zrecord", at_most=2.0),
        targets.Target("t", "zrecord", at_most=1.9),
        targets.Target("t", "zrecord", "absent...", 1),
        targets.Target("t", "zrecord", "somebody", 1),
        targets.Target("another table", "zrecord", "numpy...", 1),
    ]
    verdicts = targets.judge(wanted, [measured])
    assert [verdict.measured for verdict in verdicts] == [2.0, 2.0, 0.5, 2.0, 2.0, None, None]
    assert [verdict.is_met for verdict in verdicts[:5]] == [True, False, False, True, False]
    texts = [verdict.text() for verdict in verdicts]
    assert texts[0] == "t: zrecord against numpy out: 2.00x (target 1.90x) met"
    assert texts[1].endswith("MISSED")
    assert texts[4] == "t: zrecord: 2 s (target at most 1.9 s) MISSED"
    assert texts[5].endswith("not measured (target 1.00x): no wheel")
    assert texts[6].endswith("somebody did not take part")


def test_a_table_shows_all_and_names_who_is_missing() -> None:
    text = table(zrecord=2e-3, theirs=4e-6).text()
    lines = text.splitlines()
    assert lines[0] == "title"
    assert lines[1].split() == ["median", "GB/s", "of", "ours", "disk"]
    assert lines[2].split() == ["zrecord", "2", "ms", "0.00", "1.00x", "2e-08", "MB"]
    assert lines[3].split() == ["theirs", "4", "us", "0.25", "0.00x", "4e-11", "MB"]
    assert lines[-1] == "  skipped absent one: no wheel"
    assert len({len(line) for line in lines[2:4]}) == 1


def test_results_are_json(tmp_path: Path) -> None:
    targets, results = module("targets"), module("results")
    measured = table(zrecord=2.0, theirs=3.0)
    verdicts = targets.judge(
        [
            targets.Target("t", "zrecord", "theirs", 1),
            targets.Target("t", "zrecord", "absent one", 1),
        ],
        [measured],
    )
    about = {"date": "2026-01-02", "cpu": "A CPU (R) 9000"}
    result = results.Result("store", about, [measured], verdicts, True)
    path = results.write(result, tmp_path / "new")
    assert path.name == "2026-01-02-a-cpu-r-9000-store.json"
    read = json.loads(path.read_text())
    assert read["tables"][0]["rows"][1] == {"label": "theirs", "seconds": 3.0, "disk": 30.0}
    assert [target["met"] for target in read["targets"]] == [True, None]


@pytest.mark.parametrize(
    ("seconds", "text"), [(2.5, "2.5 s"), (1.5e-3, "1.5 ms"), (2e-6, "2 us"), (5e-8, "50 ns")]
)
def test_durations_have_the_unit_that_suits_them(seconds: float, text: str) -> None:
    assert module("tables").duration(seconds) == text


def test_every_goal_speaks_of_a_table_that_is_made() -> None:
    goals, session = module("goals").GOALS, module("session")
    store = module("kinds.store")
    usual = session.Session(session.Settings(), Path())
    made = {case.name for case in store.cases(usual)}
    assert {target.table for target in goals["store"]} <= made
    sampler = module("kinds.sampler")
    made = {f"sampler, {batch} of {n:,}" for batch in sampler.BATCHES for n in sampler.LENGTHS}
    assert {target.table for target in goals["sampler"]} <= made


@pytest.mark.parametrize("data", ["noisy", "structured", "smooth"])
def test_rows_are_the_same_every_time_and_know_their_index(tmp_path: Path, data: str) -> None:
    workloads = module("workloads")
    workload = workloads.Workload(data, 256, 1000)
    folders = [tmp_path / name for name in "ab"]
    for folder in folders:
        folder.mkdir()
    one, other = (np.load(workload.make(folder)) for folder in folders)
    assert np.array_equal(one, other)
    picked = np.array([999, 0, 500, 500])
    assert np.array_equal(workloads.stamps(one[picked]), picked)
    assert len(np.unique(one[:, 8:], axis=0)) == 1000


def test_a_contender_answers_fails_and_dies_by_name() -> None:
    worker = module("worker")
    with Path(os.devnull).open("w") as log:
        contender = worker.Worker(log)
        try:
            counter = contender.make("collections:Counter", a=2, b=1)
            assert counter.call("total") == 3
            with pytest.raises(worker.WorkerError, match="AttributeError"):
                counter.call("x")
            with pytest.raises(worker.WorkerError, match="No module named 'no_such_rival'"):
                contender.make("no_such_rival:A")
            assert counter.call("total") == 3
            with pytest.raises(worker.WorkerError, match="its process ended: exit code 3"):
                contender.make("os:_exit", status=3)
        finally:
            contender.close()


def test_a_contender_is_stopped_between_its_turns() -> None:
    worker = module("worker")
    with Path(os.devnull).open("w") as log:
        contender = worker.Worker(log)
        try:
            counter = contender.make("collections:Counter", a=1)
            # Unless it were stopped, the signal would end it now.
            os.kill(contender.pid, signal.SIGTERM)
            assert os.waitpid(contender.pid, os.WNOHANG) == (0, 0)
            with pytest.raises(worker.WorkerError, match="its process ended: SIGTERM"):
                counter.call("total")
        finally:
            contender.close()


def test_what_pip_could_not_install_is_absent_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = module("session")
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    (tmp_path / "not-installed.txt").write_text("pylance\tpip: no wheel\narray-record\tpip: none\n")
    with session.Session(session.Settings(), tmp_path) as current:
        assert current.absent == {"lance": "pip: no wheel", "array_record": "pip: none"}
        with pytest.raises(module("worker").WorkerError, match="pip: no wheel"):
            current.worker("lance")
        with pytest.raises(module("worker").WorkerError, match="only on request: --torch"):
            current.worker("torch")
