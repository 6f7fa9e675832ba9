"""What the demo prints: a table, and claims that are checked."""

from __future__ import annotations

import sys
from collections.abc import Sequence


class Claims:
    """Claims that were checked; the first that fails ends the program."""

    def __init__(self) -> None:
        self.held = 0

    def check(self, holds: bool, claim: str) -> None:
        if not holds:
            print(f"FAILED  {claim}", flush=True)
            sys.exit(1)
        self.held += 1
        print(f"    ok  {claim}", flush=True)


def table(headings: Sequence[str], rows: Sequence[Sequence[str]], *, left: int) -> str:
    """Lines with aligned columns: the first ``left`` to the left, numbers to the right."""
    widths = [max(map(len, column)) for column in zip(headings, *rows, strict=True)]

    def line(cells: Sequence[str]) -> str:
        aligned = (
            cell.ljust(width) if column < left else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(cells, widths, strict=True))
        )
        return "  ".join(aligned).rstrip()

    rule = "  ".join("-" * width for width in widths)
    return "\n".join([line(headings), rule, *map(line, rows)])


def thousands(number: float) -> str:
    """A number without its fraction, with commas."""
    return f"{number:,.0f}"
