"""Results as JSON: everything that was printed, and more."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tables import Table
from targets import Verdict

ROOT = Path(__file__).resolve().parents[2]
SCRATCH = ROOT / "target" / "bench"
SAVED = ROOT / "docs" / "benchmarks"


@dataclass(frozen=True)
class Result:
    """One kind, measured in one run."""

    kind: str
    about: dict[str, object]
    tables: list[Table]
    verdicts: list[Verdict]
    is_quick: bool

    @property
    def name(self) -> str:
        """The file's: date, machine, kind."""
        words = re.findall(r"[A-Za-z0-9]+", str(self.about["cpu"]))
        return "-".join([str(self.about["date"]), *words, self.kind]).lower()

    def as_json(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "quick": self.is_quick,
            "machine": self.about,
            "tables": [table.as_json() for table in self.tables],
            "targets": [verdict.as_json() for verdict in self.verdicts],
        }


def write(result: Result, folder: Path) -> Path:
    """The path of the new file; one of the same day and kind is replaced."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{result.name}.json"
    path.write_text(json.dumps(result.as_json(), indent=1) + "\n")
    return path


def new_log() -> Path:
    """The path of an empty file for what the contenders' packages print."""
    SCRATCH.mkdir(parents=True, exist_ok=True)
    path = SCRATCH / "contenders.log"
    path.write_text("")
    return path
