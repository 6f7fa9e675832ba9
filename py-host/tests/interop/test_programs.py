"""Programs for loaderx 0.9.4 run after ``s/loaderx/zrecord/``."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

PROLOGUE = """
import numpy as np
from zrecord.dataloader import DataLoader
from zrecord.dataset import DenseDataset, RaggedDataset
"""

# What the README leaves to its reader.
GIVEN = {
    "images": "images = np.load('data.npy')\n",
    "dense_tokens": """
dense_tokens, labelset = DenseDataset('train_label'), DenseDataset('train_label')
""",
}


@pytest.mark.parametrize("store_format", ["extended", "classic"])
def test_the_readme_of_loaderx_is_a_program_of_ours(
    sdist: Path, tmp_path: Path, store_format: str
) -> None:
    rows = np.sin(np.linspace(0, 9, 400 * 48)).reshape(400, 3, 4, 4)
    np.save(tmp_path / "data.npy", (rows * 100 + 100).astype(np.uint8))
    np.save(tmp_path / "label.npy", np.arange(400) % 10)
    readme = (sdist / "README.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```", readme, re.DOTALL)
    assert len(blocks) >= 5
    for number, block in enumerate(blocks):
        given = "".join(text for name, text in GIVEN.items() if name in block)
        program = PROLOGUE + given + block.replace("loaderx", "zrecord")
        if number == 0:
            program = program.replace("from zrecord", "import numpy as np\nfrom zrecord", 1)
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", program],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=60,
            env={**os.environ, "ZRECORD_FORMAT": store_format},
        )
        assert (done.returncode, done.stderr) == (0, ""), program
        if number == 0:
            assert done.stdout == "(256, 3, 4, 4)\n(256,)\n"


@pytest.mark.peer
@pytest.mark.parametrize("store_format", ["extended", "classic"])
def test_the_test_suite_of_loaderx_passes(sdist: Path, tmp_path: Path, store_format: str) -> None:
    suite = (sdist / "test_loaderx.py").read_text().replace("loaderx", "zrecord")
    # Where it finds its shared library is its own affair.
    suite = suite.replace("from zrecord import _lib", "_lib = None")
    (tmp_path / "test_peer.py").write_text(suite)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=110,
        env={**os.environ, "ZRECORD_FORMAT": store_format},
    )
    assert done.returncode == 0, done.stdout
    assert re.search(r"^\d+ passed", done.stdout, re.MULTILINE)
    assert "failed" not in done.stdout
