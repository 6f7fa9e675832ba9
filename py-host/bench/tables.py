"""Results: one table for each thing that was timed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from timing import Samples


@dataclass
class Row:
    """What was measured of one contender."""

    label: str
    seconds: float
    """The median of a batch, a call, or whatever the table is about."""
    measures: dict[str, float] = field(default_factory=dict)
    """Whatever else: ``p99``, ``first``, ``memory``, ``bytes``..."""

    @classmethod
    def of(cls, label: str, samples: Samples) -> Row:
        """``p99`` where there are enough samples to speak of one."""
        measures = dict(samples.extras)
        measures["samples"] = len(samples.seconds)
        if len(samples.seconds) >= P99_SAMPLES_MIN:
            measures["p99"] = samples.percentile(99)
        return cls(label, samples.median, measures)

    def measure(self, name: str) -> float | None:
        return self.seconds if name == "seconds" else self.measures.get(name)


P99_SAMPLES_MIN = 30


@dataclass
class Table:
    """Contenders on one workload, in one run."""

    name: str
    """What targets know it by."""
    title: str
    rows: list[Row] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)
    """Who did not take part, and why."""
    bytes: int = 0
    """Bytes that each time is for, or 0 where that means nothing."""
    notes: list[str] = field(default_factory=list)

    def add(self, samples: dict[str, Samples]) -> None:
        """Adds everybody who has not failed, and names those who have."""
        for label, mine in samples.items():
            if mine.failure is None:
                self.rows.append(Row.of(label, mine))
            else:
                self.skipped[label] = mine.failure

    def find(self, label: str) -> Row | None:
        return next((row for row in self.rows if row.label == label), None)

    def text(self) -> str:
        """The table as it is printed."""
        names = ["p99", "first", "memory", "disk"]
        shown = [name for name in names if any(name in row.measures for row in self.rows)]
        heads = ["median", *(["GB/s"] if self.bytes else []), "of ours", *shown]
        ours = next((row.seconds for row in self.rows if is_ours(row.label)), math.nan)
        body = [[row.label, *self._cells(row, ours, shown)] for row in self.rows]
        lines = [self.title, *_aligned([["", *heads], *body])]
        lines += [f"  {note}" for note in self.notes]
        lines += [f"  skipped {label}: {reason}" for label, reason in self.skipped.items()]
        return "\n".join(lines)

    def _cells(self, row: Row, ours: float, shown: Sequence[str]) -> list[str]:
        cells = [duration(row.seconds)]
        if self.bytes:
            cells.append(f"{self.bytes / row.seconds / 1e9:.2f}")
        cells.append(f"{row.seconds / ours:.2f}x" if math.isfinite(ours) else "")
        for name in shown:
            value = row.measures.get(name)
            show = duration if name in ("p99", "first") else count
            cells.append("" if value is None else show(value))
        return cells

    def as_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "title": self.title,
            "bytes": self.bytes,
            "rows": [
                {"label": row.label, "seconds": row.seconds, **row.measures} for row in self.rows
            ],
            "skipped": self.skipped,
            "notes": self.notes,
        }


def is_ours(label: str) -> bool:
    return label.startswith("zrecord")


def duration(seconds: float) -> str:
    """A time in the unit that suits it."""
    for unit, name in ((1.0, "s"), (1e-3, "ms"), (1e-6, "us")):
        if abs(seconds) >= unit:
            return f"{seconds / unit:.3g} {name}"
    return f"{seconds * 1e9:.3g} ns"


def count(bytes: float) -> str:
    return f"{bytes / 1e6:.4g} MB"


def _aligned(rows: list[list[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  "
        + row[0].ljust(widths[0])
        + "".join("  " + cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))
        for row in rows
    ]
