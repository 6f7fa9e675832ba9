"""The Python example of the repository's README runs as it is printed."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

README = Path(__file__).resolve().parents[2] / "README.md"


def examples() -> list[str]:
    return re.findall(r"^```python\n(.*?)^```$", README.read_text(), re.DOTALL | re.MULTILINE)


def test_the_readme_has_a_python_example() -> None:
    assert examples()


@pytest.mark.parametrize("number", range(len(examples())))
def test_the_example_runs(number: int, tmp_path: Path) -> None:
    program = subprocess.run(
        [sys.executable, "-c", examples()[number]],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert program.returncode == 0, program.stderr
