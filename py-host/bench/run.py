"""The benchmark: ours beside its rivals and beside what the machine allows.

Run by ``cargo xtask bench``. Everybody first gives answers, which are compared
with the rows that were written; only then are all timed in turn, so that a
change of the machine's mood meets them all. Medians count. Nothing is asserted
about speed: targets stand beside the figures, and are met or missed.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import machine
import results
import targets
from goals import GOALS
from session import Session, Settings
from tables import Table, is_ours

KINDS = ("sampler", "store", "loader", "write", "cold", "small")
STUDIES = ("frames",)
"""Of what the product could do; no part of ``all``."""


def main() -> int:
    arguments = parse()
    machine.require_release_build()
    print(machine.text(machine.describe()), flush=True)
    settings = Settings(
        quick=arguments.quick,
        full=arguments.full,
        only=arguments.only,
        drop=arguments.drop,
        limits=arguments.limits,
        torch=arguments.torch_python,
        log=results.new_log(),
    )
    kinds = KINDS if arguments.kind == "all" else (arguments.kind,)
    failed: list[str] = []
    for kind in kinds:
        with folder_in(arguments.folder) as folder, Session(settings, folder) as session:
            tables = list(printed(importlib.import_module(f"kinds.{kind}").run(session)))
            verdicts = targets.judge(GOALS[kind], tables)
            about = {**machine.describe(), "versions": dict(sorted(session.versions.items()))}
        report(kind, about, tables, verdicts, settings, arguments.save)
        failed += failures_of_ours(tables)
    for line in failed:
        print(f"FAILED: {line}", file=sys.stderr)
    return 1 if failed else 0


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("kind", nargs="?", default="store", choices=[*KINDS, *STUDIES, "all"])
    parser.add_argument("--quick", action="store_true", help="seconds, to see that all runs")
    parser.add_argument("--full", action="store_true", help="every combination; takes long")
    parser.add_argument(
        "--only", action="append", default=[], help="tables with this in their names; repeatable"
    )
    parser.add_argument(
        "--drop",
        choices=["auto", "caches", "files"],
        default="auto",
        help="cold: drop the whole page cache, or that of the files alone",
    )
    parser.add_argument("--folder", type=Path, help="where stores are made")
    parser.add_argument(
        "--save", action="store_true", help="also write JSON and pictures into docs/benchmarks"
    )
    parser.add_argument("--limits", type=Path, help="the limits program (given by xtask)")
    parser.add_argument("--torch-python", type=Path, help="a Python with torch (given by xtask)")
    arguments = parser.parse_args()
    if arguments.save and arguments.quick:
        parser.error("a quick run is not worth saving")
    return arguments


@contextlib.contextmanager
def folder_in(parent: Path | None) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="zrecord-bench-", dir=parent) as folder:
        yield Path(folder)


def printed(tables: Iterator[Table]) -> Iterator[Table]:
    """Shows each table as soon as it is there."""
    for table in tables:
        print(f"\n{table.text()}", flush=True)
        yield table


def failures_of_ours(tables: list[Table]) -> list[str]:
    """A rival may fail; ours may not."""
    return [
        f"{table.name}: {label}: {reason}"
        for table in tables
        for label, reason in table.skipped.items()
        if is_ours(label)
    ]


def report(
    kind: str,
    about: dict[str, object],
    tables: list[Table],
    verdicts: list[targets.Verdict],
    settings: Settings,
    is_saved: bool,
) -> None:
    """Prints the targets and writes the results."""
    print(f"\n{kind}: targets")
    for verdict in verdicts:
        print(f"  {verdict.text()}")
    if settings.quick:
        print("  (a quick run: these figures mean nothing)")
    versions = about["versions"]
    if isinstance(versions, dict):
        print("\nversions: " + ", ".join(f"{name} {v}" for name, v in versions.items()))
    result = results.Result(kind, about, tables, verdicts, settings.quick)
    print(f"results: {results.write(result, results.SCRATCH)}")
    print(f"what the contenders printed: {settings.log}", flush=True)
    if is_saved:
        import picture

        print(f"saved:   {results.write(result, results.SAVED)}")
        for path in picture.draw(result, results.SAVED):
            print(f"saved:   {path}")


if __name__ == "__main__":
    sys.exit(main())
