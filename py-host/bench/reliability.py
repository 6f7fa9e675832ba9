"""What becomes of stores and processes when something goes wrong, beside loaderx.

``python reliability.py --peer PYTHON [--rounds N] [--seed S]`` runs every case
in a process of its own, with a deadline, ours in this interpreter and loaderx
in the one given, and prints a table. It fails when one of ours was wrong.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

CASES = Path(__file__).with_name("reliability_cases.py")
DEADLINE = 60
"""Seconds for one process."""


class Contestant:
    """A package, the interpreter that has it, and the format that it writes."""

    def __init__(self, label: str, package: str, python: str, format: str) -> None:
        self.label, self.package, self.python, self.format = label, package, python, format

    def start(self, case: str, folder: Path, seed: int, **more: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [self.python, str(CASES), self.package, case, str(folder), str(seed)],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env={**os.environ, "RELIABILITY_FORMAT": self.format, **more},
        )

    def run(self, case: str, folder: Path, seed: int, **more: str) -> str:
        return outcome(self.start(case, folder, seed, **more))


def outcome(process: subprocess.Popen[str]) -> str:
    """The last line of a process, or how it ended instead."""
    try:
        text, _ = process.communicate(timeout=DEADLINE)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        return "WRONG: hangs"
    if process.returncode < 0:
        return f"WRONG: died of {signal.Signals(-process.returncode).name}"
    lines = text.splitlines()
    if process.returncode > 0 or not lines:
        return f"WRONG: ended with {process.returncode}"
    return lines[-1]


def killed_while_compacting(one: Contestant, folder: Path, seed: int) -> str:
    one.run("make_compactable", folder / "timed", seed)
    timed = one.start("compact", folder / "timed", seed)
    answers = timed.communicate(timeout=DEADLINE)[0].split()
    duration = float(answers[1])
    one.run("make_compactable", folder / "killed", seed)
    process = one.start("compact", folder / "killed", seed)
    assert process.stdout is not None
    process.stdout.readline()
    time.sleep(random.Random(seed).random() * duration)
    process.kill()
    process.communicate()
    return one.run("check_compacted", folder / "killed", seed)


def two_writers(one: Contestant, folder: Path, seed: int) -> str:
    del seed
    store = folder / "store"
    writers = [one.start("write_beside", store, number) for number in (1, 2)]
    for answer in map(outcome, writers):
        if not answer.startswith("right"):
            return answer
    return one.run("count_written", store, 0)


def simple(case: str, **more: str) -> Callable[[Contestant, Path, int], str]:
    return lambda one, folder, seed: one.run(case, folder / "store", seed, **more)


MANY, ONCE = True, False
DAMAGES = (
    "a chunk cut in half",
    "a chunk cut to nothing",
    "a chunk deleted",
    "an empty table",
    "a table cut in its header",
    "a table cut in its entries",
    "no table at all",
    "length 2^32 - 1",
    "length 41",
    "tail chunk 65535",
    "tail offset 2^32 - 1",
    "an entry in chunk 9",
    "an entry past its chunk",
    "an entry of 4 GiB",
    "an entry stored shorter",
    "an entry of codec 7",
    "an entry called zstd",
)
TESTS: dict[str, tuple[Callable[[Contestant, Path, int], str], bool]] = {
    "killed while compacting": (killed_while_compacting, MANY),
    "two writing processes": (two_writers, MANY),
    "gather in a forked child": (simple("gather_after_fork"), MANY),
    "loader in a forked child": (simple("load_after_fork"), MANY),
    "close beside gathers": (simple("close_beside_gathers"), MANY),
    "end with stores open": (simple("end_with_stores_open"), MANY),
    "order of batches, 4 workers": (simple("order_of_batches"), MANY),
    "len() of a closed store": (simple("use_after_close"), ONCE),
    "a transform that raises": (simple("failing_transform"), ONCE),
    "next() of a closed loader": (simple("next_after_close"), ONCE),
    **{name: (simple("damaged", RELIABILITY_DAMAGE=name), ONCE) for name in DAMAGES},
}


def kind(answer: str) -> str:
    """A row of the table has room for kinds of outcomes, not for each message."""
    if answer.startswith("right"):
        return "right"
    if answer.startswith("refused"):
        return "refused"
    return answer.removeprefix("WRONG: ")


def summary(answers: list[str]) -> str:
    counts = Counter(map(kind, answers))
    if len(answers) == 1:
        return kind(answers[0])
    return ", ".join(f"{count} {name}" for name, count in counts.most_common())


def repeat(
    test: Callable[[Contestant, Path, int], str], one: Contestant, rounds: int, seed: int
) -> list[str]:
    answers = []
    for number in range(rounds):
        folder = Path(tempfile.mkdtemp(prefix="zrecord-reliability-"))
        try:
            answers.append(test(one, folder, 1000 * seed + number))
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    return answers


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peer", help="the interpreter that has loaderx")
    parser.add_argument("--rounds", type=int, default=20, help="of each test that depends on luck")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="tests whose name has this in it")
    arguments = parser.parse_args()
    contestants = [Contestant("zrecord, loaderx's format", "zrecord", sys.executable, "classic")]
    contestants.append(Contestant("zrecord", "zrecord", sys.executable, "extended"))
    if arguments.peer:
        contestants.insert(0, Contestant("loaderx 0.9.4", "loaderx", arguments.peer, ""))
    print(f"{arguments.rounds} rounds of what depends on luck, seed {arguments.seed}\n")
    print("| test |", " | ".join(one.label for one in contestants), "|")
    print("| --- |", " | ".join("---" for _ in contestants), "|", flush=True)
    wrong = []
    for name, (test, depends_on_luck) in TESTS.items():
        if arguments.only not in name:
            continue
        cells = []
        for one in contestants:
            # The damages are written for loaderx's bytes.
            if one.format == "extended" and name in DAMAGES and "chunk " not in f"{name} "[:8]:
                cells.append("")
                continue
            rounds = arguments.rounds if depends_on_luck else 1
            answers = repeat(test, one, rounds, arguments.seed)
            cells.append(summary(answers))
            if one.package == "zrecord":
                wrong += [f"{name}: {answer}" for answer in answers if answer.startswith("WRONG")]
        print(f"| {name} |", " | ".join(cells), "|", flush=True)
    for line in wrong:
        print(line, file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
