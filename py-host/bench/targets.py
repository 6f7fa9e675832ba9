"""Judging what was measured by what must be reached, which ``goals.py`` lists."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tables import Table, count, duration


@dataclass(frozen=True)
class Target:
    """Of ``ours``, in the table of that name, against the best of ``theirs``.

    A label with ``...`` in it stands for all that begin and end so. ``at_least``
    is a ratio, theirs through ours, of times or of another measure; ``at_most``
    is a number of seconds, or of bytes, for ours alone.
    """

    table: str
    ours: str
    theirs: str = ""
    at_least: float = math.nan
    at_most: float = math.nan
    measure: str = "seconds"

    @property
    def text(self) -> str:
        of = "" if self.measure == "seconds" else f" in {self.measure}"
        what = f"{self.table}: {self.ours}"
        if not self.theirs:
            return f"{what}{of}"
        against = " ".join(self.theirs.replace("...", " ").split())
        return f"{what} against {against}{of}"


@dataclass(frozen=True)
class Verdict:
    """A target and what was measured; ``None`` if it was not."""

    target: Target
    measured: float | None
    reason: str = ""

    @property
    def is_met(self) -> bool:
        if self.measured is None:
            return False
        if not math.isnan(self.target.at_most):
            return self.measured <= self.target.at_most
        return self.measured >= self.target.at_least

    def text(self) -> str:
        """One line, as ``... 1.92x (target 1.7x) met``."""
        target = self.target
        is_ratio = math.isnan(target.at_most)
        show = duration if target.measure == "seconds" else count
        wanted = _ratio(target.at_least) if is_ratio else f"at most {show(target.at_most)}"
        if self.measured is None:
            return f"{target.text}: not measured (target {wanted}): {self.reason}"
        measured = _ratio(self.measured) if is_ratio else show(self.measured)
        word = "met" if self.is_met else "MISSED"
        return f"{target.text}: {measured} (target {wanted}) {word}"

    def as_json(self) -> dict[str, Any]:
        absolute = not math.isnan(self.target.at_most)
        return {
            "target": self.target.text,
            "at_most" if absolute else "at_least": (
                self.target.at_most if absolute else self.target.at_least
            ),
            "measured": self.measured,
            "met": self.is_met if self.measured is not None else None,
            "reason": self.reason,
        }


def _ratio(value: float) -> str:
    return f"{value:.2f}x"


def judge(targets: Sequence[Target], tables: Sequence[Table]) -> list[Verdict]:
    """Every target of a table that is there, in order."""
    by_name = {table.name: table for table in tables}
    return [_judge(t, by_name[t.table]) for t in targets if t.table in by_name]


def _judge(target: Target, table: Table) -> Verdict:
    ours = _best(table, target.ours, target.measure)
    if ours is None:
        return Verdict(target, None, _why(table, target.ours))
    if not target.theirs:
        return Verdict(target, ours)
    theirs = _best(table, target.theirs, target.measure)
    if theirs is None:
        return Verdict(target, None, _why(table, target.theirs))
    return Verdict(target, theirs / ours)


def _best(table: Table, pattern: str, measure: str) -> float | None:
    found = (row.measure(measure) for row in table.rows if matches(pattern, row.label))
    return min((value for value in found if value is not None), default=None)


def matches(pattern: str, label: str) -> bool:
    """Whether a label is the one meant, or one of them."""
    head, dots, tail = pattern.partition("...")
    if not dots:
        return label == pattern
    return label.startswith(head) and label.endswith(tail)


def _why(table: Table, pattern: str) -> str:
    reasons = (reason for label, reason in table.skipped.items() if matches(pattern, label))
    return next(reasons, f"{pattern} did not take part")
