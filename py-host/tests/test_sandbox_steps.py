"""Steps of preprocessing, run from Python in a sandbox."""

from __future__ import annotations

import errno
import pickle
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zrecord as zr
from support import ROOT, needs_sandbox, sandbox, tree

pytestmark = needs_sandbox

STEPS = ROOT / "target" / "component" / "steps"
TILES, TEXT, MISBEHAVING = (STEPS / f"{name}.wasm" for name in ("tiles", "text", "misbehaving"))

PHOTOS = np.random.default_rng(3).integers(0, 256, (3000, 8, 6, 3), np.uint8)
RNG = np.random.default_rng(4)
TEXTS = [
    RNG.choice(np.arange(250, 300), int(size)).astype(np.uint16)
    for size in RNG.integers(0, 3000, 400)
]


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """Dense tiles, enough of them for several batches."""
    zr.from_numpy(tmp_path / "photos", PHOTOS)
    return tmp_path / "photos"


@pytest.fixture
def numbers(tmp_path: Path) -> Path:
    """Ragged records, of which there are ten, one batch."""
    zr.from_iterator(tmp_path / "numbers", [np.arange(n, dtype=np.int32) for n in range(1, 11)])
    return tmp_path / "numbers"


def halved(photos: np.ndarray, mean: list[float], std: list[float]) -> np.ndarray:
    """What the step `tiles` makes of them, by hand."""
    squares = photos.reshape(-1, 4, 2, 3, 2, 3).astype(np.float64)
    return ((squares.mean((2, 4)) / 255 - mean) / std).astype(np.float32)


def left(path: Path) -> list[str]:
    """What is beside a store that should not be: nothing, after an error."""
    return sorted(found.name for found in path.parent.iterdir() if found.name.startswith("."))


@pytest.mark.parametrize("codec", [None, "raw"])
def test_tiles_are_halved_and_normalised(photos: Path, path: Path, codec: str | None) -> None:
    mean, std = [0.5, 0.4, 0.3], [0.2, 0.3, 0.4]
    config = {"std": std, "factor": 2, "mean": mean}
    told: list[tuple[int, int]] = []
    report = sandbox.run(
        TILES,
        photos,
        path,
        config=config,
        codec=codec,
        progress=lambda done, total: told.append((done, total)),
    )
    assert report == (3000, 0, 3000)
    assert (report.inputs, report.dropped, report.outputs) == (3000, 0, 3000)
    assert (told[0], told[-1]) == ((0, 3000), (3000, 3000))
    assert sorted(told) == told
    with zr.DenseDataset(path) as made:
        assert (made.dtype, made.item_shape) == (np.float32, (4, 3, 3))
        assert made.codec == (codec or "zstd")
        np.testing.assert_allclose(made[:], halved(PHOTOS, mean, std), rtol=1e-5, atol=1e-5)
        assert made.store.verify() == []


def test_texts_are_split_and_filtered(tmp_path: Path, path: Path) -> None:
    zr.from_iterator(tmp_path / "texts", TEXTS)
    config = '{"max_len": 100, "min_len": 5, "separator": 10}'
    report = sandbox.run(str(TEXT), str(tmp_path / "texts"), str(path), config=config)
    # There is no separator, so the text is cut at every hundredth token.
    cut = [[text[at : at + 100] for at in range(0, len(text), 100)] for text in TEXTS]
    pieces = [[piece for piece in some if len(piece) >= 5] for some in cut]
    assert report == (400, sum(not some for some in pieces), sum(map(len, pieces)))
    with zr.RaggedDataset(path) as made:
        for got, expected in zip(made, chain(*pieces), strict=True):
            np.testing.assert_array_equal(got, expected)


def test_the_same_bytes_come_out_whatever_the_instances(photos: Path, path: Path) -> None:
    configs: list[str | Mapping[str, Any]] = [
        {"factor": 2, "mean": [0.1, 0.2, 0.3]},
        {"mean": [0.1, 0.2, 0.3], "factor": 2},
        '{"factor": 2, "mean": [0.1, 0.2, 0.3]}',
    ]
    made = []
    for number, (instances, config) in enumerate(zip((1, 2, 8), configs, strict=True)):
        to = path / str(number)
        sandbox.run(TILES, photos, to, config=config, instances=instances)
        made.append(tree(to))
    assert made[0] == made[1] == made[2]


def test_a_step_takes_either_format_and_makes_either(tmp_path: Path, store_format: str) -> None:
    zr.from_numpy(tmp_path / "from", PHOTOS, format=store_format)
    sandbox.run(TILES, tmp_path / "from", tmp_path / "to", format=store_format)
    with zr.DenseDataset(tmp_path / "to") as made:
        assert made.format == store_format
        np.testing.assert_allclose(made[:], halved(PHOTOS, [0] * 3, [1] * 3), rtol=1e-5)


def test_a_record_that_is_blamed_is_named_by_its_index(numbers: Path, path: Path) -> None:
    with pytest.raises(zr.StepError, match=r"misbehaving\.wasm: record 3: it is odd") as caught:
        sandbox.run(MISBEHAVING, numbers, path, config="blame record 3")
    assert (caught.value.index, caught.value.records) == (3, None)
    assert isinstance(caught.value, zr.SandboxError)
    again = pickle.loads(pickle.dumps(caught.value))
    assert (again.index, str(again)) == (3, str(caught.value))
    assert not path.exists()
    assert left(path) == []


@pytest.mark.parametrize(
    ("config", "limits", "message"),
    [
        ("fail", {}, "records 0 to 9: out of luck"),
        ("panic", {}, "records 0 to 9: the component failed"),
        ("loop", {"time": 0.2}, "records 0 to 9: the sandbox's limit on time was met: 0.2 s"),
        ("take all memory", {"memory": 64 << 20}, f"limit on memory was met: {64 << 20} bytes"),
        ("bytes behind the last", {}, "records 0 to 9: "),
        ("a short record", {}, "records 0 to 9: its outputs are not what it has declared"),
    ],
)
def test_a_batch_that_fails_is_named(
    numbers: Path, path: Path, config: str, limits: dict[str, Any], message: str
) -> None:
    with pytest.raises(zr.StepError, match=message) as caught:
        sandbox.run(MISBEHAVING, numbers, path, config=config, **limits)
    assert (caught.value.index, caught.value.records) == (None, range(10))
    assert not path.exists()
    assert left(path) == []
    assert sandbox.run(MISBEHAVING, numbers, path) == (10, 0, 10)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ("refuse", "the step refuses to begin: not today"),
        ("refuse without a word", "it does not say why"),
        ("an impossible dtype", "the step refuses to begin: its output: "),
    ],
)
def test_a_step_that_refuses_blames_no_record(
    numbers: Path, path: Path, config: str, message: str
) -> None:
    with pytest.raises(zr.StepError, match=message) as caught:
        sandbox.run(MISBEHAVING, numbers, path, config=config)
    assert (caught.value.index, caught.value.records) == (None, None)
    assert not path.exists()


def test_a_configuration_that_does_not_fit_is_told(photos: Path, path: Path) -> None:
    with pytest.raises(zr.StepError, match="the configuration: unknown field `scale`"):
        sandbox.run(TILES, photos, path, config={"scale": 2})
    with pytest.raises(zr.StepError, match="factor 5 does not divide 8 and 6"):
        sandbox.run(TILES, photos, path, config={"factor": 5})


def module(name: str) -> bytes:
    """A core module that imports a function of WASI's."""
    parts = [b"wasi_snapshot_preview1", name.encode()]
    names = b"".join(bytes([len(part)]) + part for part in parts)
    imports = b"\x01" + names + b"\x00\x00"
    sections = b"\x01\x04\x01\x60\x00\x00" + b"\x02" + bytes([len(imports)]) + imports
    return b"\0asm\x01\0\0\0" + sections


@pytest.mark.parametrize(
    ("bytes_of_file", "message"),
    [
        (b"GIF89a", "it is no step: it does not begin as WebAssembly does"),
        (b"", "it is no step: it does not begin as WebAssembly does"),
        (module("fd_write"), "it imports wasi_snapshot_preview1, and a step may import nothing; "),
        (b"\0asm\x0d\0\x01\0", r"it does not export zrecord:step/transform@0\.1\.0"),
        (TILES, r"^.*tiles-cut\.wasm: it is no step: "),
    ],
    ids=["a picture", "nothing", "WASI", "another world", "cut"],
)
def test_a_file_that_is_no_step_is_refused_in_one_line(
    numbers: Path, path: Path, bytes_of_file: bytes | Path, message: str
) -> None:
    step = path.with_name("tiles-cut.wasm")
    if isinstance(bytes_of_file, Path):
        bytes_of_file = bytes_of_file.read_bytes()[:-100]
    step.write_bytes(bytes_of_file)
    with pytest.raises(zr.StepError, match=message) as caught:
        sandbox.run(step, numbers, path)
    assert "\n" not in str(caught.value)
    assert str(step) in str(caught.value)
    assert not path.exists()


def test_what_is_missing_or_in_the_way_is_told_first(numbers: Path, path: Path) -> None:
    with pytest.raises(OSError, match=r"none\.wasm") as caught:
        sandbox.run(path / "none.wasm", numbers, path)
    assert isinstance(caught.value, zr.StorageError)
    assert caught.value.errno == errno.ENOENT
    with pytest.raises(FileNotFoundError) as missing:
        sandbox.run(MISBEHAVING, path / "none", path)
    assert isinstance(missing.value, zr.StoreNotFoundError)
    path.mkdir()
    with pytest.raises(zr.StoreExistsError):
        sandbox.run(MISBEHAVING, numbers, path)
    with pytest.raises(zr.InvalidArgumentError):
        sandbox.run(MISBEHAVING, numbers, numbers / "inside")
    assert list(path.iterdir()) == []


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"config": {"a": float("nan")}}, ValueError, "config cannot be written as JSON"),
        ({"config": {"a": np.zeros(2)}}, ValueError, "config cannot be written as JSON"),
        ({"config": 3}, TypeError, "config is a text or a map, not int"),
        ({"instances": 0}, ValueError, "instances is 0"),
        ({"instances": -1}, ValueError, "instances is -1"),
        ({"instances": 1.5}, TypeError, "instances is a whole number"),
        ({"codec": "lz4"}, zr.UnknownCodecError, "lz4"),
        ({"format": "old"}, ValueError, "format is 'old'"),
        ({"level": 99}, zr.ZrecordError, "99"),
        ({"min_saving": 2.0}, zr.ZrecordError, "2"),
    ],
    ids=str,
)
def test_arguments_are_checked(
    numbers: Path, path: Path, options: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        sandbox.run(MISBEHAVING, numbers, path, **options)
    assert not path.exists()


def test_what_progress_raises_ends_the_run(photos: Path, path: Path) -> None:
    def at_once(done: int, total: int) -> None:
        raise ZeroDivisionError(f"at {done} of {total}")

    def at_the_end(done: int, total: int) -> None:
        if done == total:
            raise ZeroDivisionError

    for progress in (at_once, at_the_end):
        with pytest.raises(ZeroDivisionError):
            sandbox.run(TILES, photos, path, progress=progress)
        assert not path.exists()
        assert left(path) == []
    with pytest.raises(ZeroDivisionError):
        # A step that would go on for a minute.
        sandbox.run(MISBEHAVING, photos, path, config="loop", progress=at_once)


PROGRAM = """
import signal, sys
from zrecord import sandbox
# A parent in the background of a shell ignores Ctrl-C, and hands that down.
signal.signal(signal.SIGINT, signal.default_int_handler)
step, source, destination, CONFIG = sys.argv[1:]
print("ready", flush=True)
try:
    sandbox.run(step, source, destination, config=CONFIG, time=600, instances=2)
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="sends SIGINT")
@pytest.mark.parametrize("config", ["loop", "loop at once"])
def test_ctrl_c_ends_a_step_that_would_not_end(photos: Path, path: Path, config: str) -> None:
    with subprocess.Popen(
        [sys.executable, "-X", "faulthandler", "-c", PROGRAM, MISBEHAVING, photos, path, config],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as program:
        try:
            assert program.stdout is not None
            assert program.stdout.readline() == "ready\n"
            time.sleep(0.5)
            program.send_signal(signal.SIGINT)
            out, err = program.communicate(timeout=100)
        finally:
            # One that did not hear would run for ever.
            program.kill()
    assert (program.returncode, out, err) == (0, "interrupted\n", "")
    assert not path.exists()
    assert left(path) == []
