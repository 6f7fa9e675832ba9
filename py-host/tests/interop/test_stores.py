"""What one wrote, the other reads, changes and hands back, bit for bit."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zrecord as zr

Peer = Callable[..., Any]

# Each makes a store at args["path"].
WRITERS = {
    "raw": "from_numpy(args['path'], ROWS, 'raw')",
    "zstd": "from_numpy(args['path'], ROWS, 'zstd')",
    "zstd_dict": "from_numpy(args['path'], SMOOTH, 'zstd_dict')",
    "noise": "from_numpy(args['path'], NOISE, 'zstd')",
    "float32": "from_numpy(args['path'], ROWS[:, :64].astype('f4').reshape(-1, 8, 8))",
    "scalars": "from_numpy(args['path'], np.arange(1000))",
    "big-endian": "from_numpy(args['path'], ROWS.astype('>i2'))",
    "datetimes": "from_numpy(args['path'], np.arange(99).astype('M8[D]'))",
    "no rows": "from_numpy(args['path'], ROWS[:0])",
    "appended twice": """
from_numpy(args['path'], ROWS, 'raw')
from_numpy(args['path'], ROWS, 'zstd')
from_numpy(args['path'], ROWS[:3], 'raw')
""",
    "deleted": """
from_numpy(args['path'], ROWS, 'raw')
with Zrecord(args['path']) as z: z.delete([1, 5, 5, 299])
""",
    "compacted": """
from_numpy(args['path'], ROWS, 'zstd')
with Zrecord(args['path']) as z:
    z.delete(np.arange(0, 300, 3))
    z.compact()
""",
    "ragged": "from_iterator(args['path'], [ROWS[i, :i + 1] for i in range(100)])",
    "ragged rows": """
from_iterator(args['path'], [ROWS[i, :3 * (i + 1)].reshape(-1, 3) for i in range(100)], 'raw')
""",
    "ragged dictionary": """
from_iterator(args['path'], [np.tile(SMOOTH[i], 1 + i % 3) for i in range(2000)], 'zstd_dict')
""",
    "untyped": """
with Zrecord(args['path']) as z: z.append(ROWS[:10], np.arange(10) * 512)
""",
    "empty": "Zrecord(args['path']).close()",
}

DATA = """
RNG = np.random.default_rng(7)
ROWS = RNG.integers(0, 5, (300, 512)).astype(np.uint8)
NOISE = RNG.integers(0, 256, (50, 512)).astype(np.uint8)
SMOOTH = (np.sin(np.linspace(0, 3, 256) * RNG.uniform(1, 4, (2000, 1))) * 100 + 100).astype('u1')
"""

DIGEST = """
import hashlib, os
with Zrecord(args['path']) as z:
    n = len(z)
    lengths = z.lengths(np.arange(n)) if n else np.zeros(0, np.uint32)
    offsets = np.concatenate([[0], np.cumsum(lengths.astype(np.uint64))]).astype(np.uint64)
    out = np.zeros(int(offsets[-1]), np.uint8)
    if n: z.gather(np.arange(n, dtype=np.uint64), out, offsets[:-1])
    sha256 = hashlib.sha256(out.tobytes()).hexdigest()
    print(json.dumps({'lengths': lengths.tolist(), 'sha256': sha256, 'stats': z.stats()}))
"""

TYPED = """
ds = (RaggedDataset if args['ragged'] else DenseDataset)(args['path'])
print(json.dumps([ds.dtype.str, list(ds.item_shape), ds.codec, len(ds)]))
"""


def digest(path: Path, mode: str = "r") -> dict[str, Any]:
    with zr.Zrecord(path, mode=mode) as store:
        records = [store.read(index) for index in range(len(store))]
        return {
            "lengths": [len(record) for record in records],
            "sha256": hashlib.sha256(b"".join(records)).hexdigest(),
            "stats": store.stats(),
        }


@pytest.fixture(params=sorted(WRITERS))
def written(request: pytest.FixtureRequest, peer: Peer, path: Path) -> Path:
    """A store that loaderx wrote."""
    peer(DATA + WRITERS[request.param], path=path)
    return path


def is_typed(path: Path) -> bool:
    return (path / "schema.msgpack").exists()


def test_what_loaderx_wrote_is_read_bit_for_bit(written: Path, peer: Peer) -> None:
    ours = digest(written)
    assert ours == peer(DIGEST, path=written)
    if is_typed(written):
        with zr.Zrecord(written, mode="r") as store:
            schema = store._native.schema()
        assert schema is not None
        is_ragged = schema[0] == "ragged"
        with (zr.RaggedDataset if is_ragged else zr.DenseDataset)(written) as ds:
            told = [ds.dtype.str, list(ds.item_shape), ds.codec, len(ds)]
        assert told == peer(TYPED, path=written, ragged=is_ragged)


def test_what_loaderx_wrote_is_appended_to_and_handed_back(written: Path, peer: Peer) -> None:
    before = digest(written)
    with zr.Zrecord(written) as store:
        record = store.read(0) if len(store) else b"x" * 512
        codecs = ["raw", "zstd"] + ["zstd_dict"] * store.has_dict()
        for codec in codecs:
            store.append(record, [0], codec)
        assert store.verify() == []
    theirs = peer(DIGEST, path=written)
    assert theirs["lengths"] == before["lengths"] + [len(record)] * len(codecs)
    assert theirs["sha256"] == digest(written)["sha256"]


def test_what_loaderx_wrote_is_deleted_from_and_compacted(written: Path, peer: Peer) -> None:
    with zr.Zrecord(written) as store:
        count = len(store)
        doomed = range(0, count, 4)
        store.delete(doomed)
        kept = digest(written)
        store.compact()
    ours = digest(written)
    assert ours["lengths"] == kept["lengths"]
    assert ours["sha256"] == kept["sha256"]
    assert ours["stats"]["reclaimable"] == 0
    theirs = peer(DIGEST, path=written)
    assert theirs["lengths"] == ours["lengths"]
    assert theirs["sha256"] == ours["sha256"]
    # And loaderx goes on with it.
    peer("with Zrecord(args['path']) as z: z.append(np.ones(512, np.uint8), [0])", path=written)
    assert digest(written)["lengths"] == [*kept["lengths"], 512]


def test_delete_leaves_the_order_that_loaderx_leaves(tmp_path: Path, peer: Peer) -> None:
    for name in "ab":
        peer(DATA + WRITERS["raw"], path=tmp_path / name)
    doomed = [0, 299, 7, 7, 150, 298]
    peer(
        "with Zrecord(args['path']) as z: z.delete(args['doomed'])",
        path=tmp_path / "a",
        doomed=doomed,
    )
    with zr.Zrecord(tmp_path / "b") as store:
        store.delete(doomed)
    assert digest(tmp_path / "a") == digest(tmp_path / "b")


ROWS = np.random.default_rng(7).integers(0, 5, (300, 512)).astype(np.uint8)
SMOOTH = (np.sin(np.linspace(0, 3, 256) * np.arange(2000)[:, None] / 999) * 100 + 100).astype("u1")


@pytest.mark.parametrize("codec", ["raw", "zstd", "zstd_dict"])
@pytest.mark.parametrize("dtype", ["u1", "<f4", ">i2", "<M8[s]"])
def test_loaderx_reads_what_we_wrote(path: Path, peer: Peer, codec: str, dtype: str) -> None:
    rows = SMOOTH.astype(dtype)
    zr.from_numpy(path, rows, codec, format="classic")
    zr.from_numpy(path, rows[:5], codec)
    theirs = peer(DIGEST, path=path)
    ours = digest(path)
    assert theirs == ours
    expected = rows.tobytes() + rows[:5].tobytes()
    assert theirs["sha256"] == hashlib.sha256(expected).hexdigest()
    told = peer(TYPED, path=path, ragged=False)
    assert told == [np.dtype(dtype).str, [256], codec, 2005]


def test_loaderx_reads_our_ragged_stores(path: Path, peer: Peer) -> None:
    records = [ROWS[i, : 3 * (i + 1)].reshape(-1, 3) for i in range(100)]
    zr.from_iterator(path, records, format="classic", metadata={"mine": [1, 2]})
    assert peer(DIGEST, path=path) == digest(path)
    assert peer(TYPED, path=path, ragged=True) == ["|u1", [3], "zstd", 100]
    peer("from_iterator(args['path'], [np.ones((2, 3), np.uint8)])", path=path)
    with zr.RaggedDataset(path) as ds:
        assert len(ds) == 101
        assert ds[-1].tolist() == [[1, 1, 1]] * 2
        assert ds.metadata == {"mine": [1, 2]}


def test_loaderx_reads_after_our_delete_and_compact(path: Path, peer: Peer) -> None:
    zr.from_numpy(path, ROWS, "zstd", format="classic")
    with zr.Zrecord(path) as store:
        store.delete(np.arange(0, 300, 3))
        assert peer(DIGEST, path=path)["sha256"] == digest(path)["sha256"]
        store.compact()
    theirs = peer(DIGEST, path=path)
    assert theirs["sha256"] == digest(path)["sha256"]
    assert len(theirs["lengths"]) == 200


def test_both_take_turns(path: Path, peer: Peer) -> None:
    expected: list[np.ndarray] = []
    for turn in range(4):
        rows = ROWS[turn * 10 : turn * 10 + 7]
        zr.from_numpy(path, rows, ("raw", "zstd")[turn % 2], format="classic")
        peer(
            "from_numpy(args['path'], np.full((3, 512), args['turn'], np.uint8))",
            path=path,
            turn=turn,
        )
        expected += [rows, np.full((3, 512), turn, np.uint8)]
    with zr.DenseDataset(path) as ds:
        assert np.array_equal(ds[:], np.concatenate(expected))
