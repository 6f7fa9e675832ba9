"""Writes the stores that the browser's tests open, and what they must show.

    python stores.py OUT

Needs the wheel, NumPy, Pillow and xxhash. `expected.json` in OUT has pixels,
values and faults, computed here and not by the page.
"""

from __future__ import annotations

import hashlib
import io
import json
import struct
import sys
from pathlib import Path
from typing import Any

import numpy as np
import xxhash
import zrecord as zr
from PIL import Image

EXPECTED: dict[str, Any] = {}
RNG = np.random.default_rng(7)
ENTRY = np.dtype(
    [
        ("offset", "<u4"),
        ("stored_len", "<u4"),
        ("len", "<u4"),
        ("chunk", "<u2"),
        ("codec", "u1"),
        ("reserved", "u1"),
    ]
)


def digits(count: int) -> np.ndarray:
    """Small grey pictures: blurred strokes, so that they compress."""
    y, x = np.mgrid[0:28, 0:28]
    pictures = np.zeros((count, 28, 28), np.float64)
    for index in range(count):
        for _ in range(3):
            cx, cy, angle = RNG.uniform(8, 20), RNG.uniform(8, 20), RNG.uniform(0, np.pi)
            along = (x - cx) * np.cos(angle) + (y - cy) * np.sin(angle)
            across = -(x - cx) * np.sin(angle) + (y - cy) * np.cos(angle)
            pictures[index] += np.exp(-((along / 7) ** 4)) * np.exp(-((across / 1.6) ** 2))
    return (np.clip(pictures, 0, 1) * 255).astype(np.uint8)


def landscape(height: int, width: int, seed: int) -> np.ndarray:
    """An RGB picture with sky, hills and a sun."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[0:height, 0:width] / np.array([height, width]).reshape(2, 1, 1)
    picture = np.stack([0.55 + 0.4 * y, 0.65 + 0.2 * y, 0.95 - 0.3 * y], axis=-1)
    sun = np.exp(-(((x - rng.uniform(0.2, 0.8)) ** 2 + (y - 0.3) ** 2) / 0.006))
    picture += sun[..., None] * np.array([0.5, 0.35, -0.2])
    for layer in range(3):
        ridge = 0.5 + 0.15 * layer + 0.09 * np.sin(6 * x * (1 + layer) + rng.uniform(0, 6))
        colour = np.array([0.18, 0.42, 0.35]) * (1.25 - 0.3 * layer)
        picture = np.where((y > ridge)[..., None], colour, picture)
    return (np.clip(picture, 0, 1) * 255).astype(np.uint8)


def grey(values: np.ndarray, low: float, high: float) -> list[list[int]]:
    scaled = (values.astype(np.float64) - low) * (255 / (high - low))
    return np.rint(np.clip(scaled, 0, 255)).astype(int).tolist()


def demo(out: Path) -> None:
    """Stores in both formats, of every codec and kind of content."""
    dense(out)
    ragged(out)
    unusual(out)


def dense(out: Path) -> None:
    """Tensors, pictures among them."""
    pictures = digits(3000)
    for layout in ("extended", "classic"):
        # Classic stores have no place for it.
        metadata = {"source": "strokes", "classes": 10} if layout == "extended" else None
        for codec in ("raw", "zstd", "zstd_dict"):
            folder = out / f"digits-{layout}-{codec}"
            zr.from_numpy(folder, pictures, codec=codec, format=layout, metadata=metadata)
    for mode in ("sequential", "iid", "cyclic"):
        sampler = zr.Sampler(len(pictures), 64, mode=mode, seed=7)
        EXPECTED[f"sampler-{mode}"] = [sampler.next().tolist() for _ in range(4)]
    EXPECTED["digits"] = {"record": 17, "pixels": pictures[17].tolist()}

    floats = RNG.normal(size=(40, 3, 32, 32)).astype(np.float32)
    zr.from_numpy(out / "chw-float", floats, codec="raw")
    low, high = float(floats[3].min()), float(floats[3].max())
    EXPECTED["chw-float"] = {
        "record": 3,
        "pixels": np.stack([grey(c, low, high) for c in floats[3]], -1).tolist(),
    }

    colours = np.stack([landscape(48, 64, seed) for seed in range(24)])
    zr.from_numpy(out / "hwc-rgb", colours, codec="zstd")
    EXPECTED["hwc-rgb"] = {"record": 5, "pixels": colours[5].tolist()}

    photos = np.stack([landscape(96, 128, 1000 + seed) for seed in range(60)])
    metadata = {"source": "made by a formula", "license": "CC0-1.0"}
    zr.from_numpy(out / "photos", np.tile(photos, (25, 1, 1, 1)), codec="zstd", metadata=metadata)

    tensor = (np.arange(50 * 2 * 3 * 5).reshape(50, 2, 3, 5) / 8).astype(np.float64)
    zr.from_numpy(out / "tensor", tensor, codec="raw")
    EXPECTED["tensor"] = {"record": 7, "values": tensor[7].ravel().tolist()}


def ragged(out: Path) -> None:
    """Encoded images, texts, sounds and tokens."""
    images = []
    for index, kind in enumerate(["PNG", "JPEG", "WEBP", "GIF"] * 3):
        buffer = io.BytesIO()
        Image.fromarray(landscape(120, 160, 100 + index)).save(buffer, kind)
        images.append(np.frombuffer(buffer.getvalue(), np.uint8))
    bomb = bytearray(images[0].tobytes())
    bomb[16:24] = struct.pack(">II", 60_000, 60_000)
    images.append(np.frombuffer(bytes(bomb), np.uint8))
    images.append(
        np.frombuffer(
            b'<svg xmlns="http://www.w3.org/2000/svg" onload="document.title=1"/>', np.uint8
        )
    )
    zr.from_iterator(out / "images", images, codec="raw")
    EXPECTED["images"] = {"png_pixels": landscape(120, 160, 100).tolist(), "bomb": 12, "svg": 13}

    texts = [
        "Records are read at random.\nLines too: é, 漢字, 🙂.",
        "<img src=x onerror=\"document.title='broken'\">",
    ]
    texts += [f"Line {index} of a corpus." for index in range(200)]
    zr.from_iterator(
        out / "texts", [np.frombuffer(t.encode(), np.uint8) for t in texts], codec="zstd"
    )
    EXPECTED["texts"] = texts[:2]

    time = np.arange(16_000) / 16_000
    sounds = [
        (np.sin(2 * np.pi * f * time) * np.exp(-3 * time) * 30_000).astype(np.int16)
        for f in (220, 440, 880, 1760)
    ]
    zr.from_iterator(out / "sounds", sounds, codec="zstd")

    tokens = [RNG.integers(0, 50_000, RNG.integers(20, 400)).astype(np.uint16) for _ in range(60)]
    zr.from_iterator(out / "tokens", tokens, codec="raw")
    EXPECTED["tokens"] = {"record": 2, "tokens": tokens[2].tolist()}


def unusual(out: Path) -> None:
    """Fields, no type, no values, no records, and records that were deleted."""
    fields = np.zeros(20, dtype=[("label", "<i4"), ("name", "S8"), ("box", "<f4", (4,))])
    fields["label"], fields["name"] = np.arange(20), [f"n{i}".encode() for i in range(20)]
    zr.from_numpy(out / "fields", fields, codec="raw")

    with zr.Zrecord(out / "untyped", codec="raw", mode="x") as store:
        parts = [b"\x00\x01\x02\xff" * 8, b"plain text", b"\x89PNG\r\n\x1a\nbroken"]
        offsets = np.cumsum([0, *map(len, parts[:-1])]).astype(np.uint64)
        store.append(np.frombuffer(b"".join(parts), np.uint8), offsets)

    zr.from_numpy(out / "hollow", np.zeros((5, 1 << 20, 0), np.float32), codec="raw")
    zr.from_numpy(out / "empty", np.zeros((0, 4), np.float32), codec="raw")
    zr.from_numpy(out / "deleted", RNG.integers(0, 255, (400, 512), np.uint8), codec="raw")
    with zr.Zrecord(out / "deleted") as store:
        store.delete(np.arange(0, 300, 3))


def damaged(out: Path) -> None:
    """Stores with faults that are known, and what is no store."""
    rows = RNG.integers(0, 255, (500, 300), np.uint8)
    zr.from_numpy(out / "flipped", rows, codec="raw")
    faults = [3, 77, 499]
    chunk = out / "flipped" / "0.zr"
    data = bytearray(chunk.read_bytes())
    for index in faults:
        data[index * 300 + 11] ^= 0x40
    chunk.write_bytes(bytes(data))
    EXPECTED["flipped"] = faults

    def spoilt(name: str) -> Path:
        zr.from_numpy(out / name, rows[:50], codec="raw")
        return out / name

    (spoilt("missing-chunk") / "0.zr").unlink()
    cut = spoilt("cut-chunk") / "0.zr"
    cut.write_bytes(cut.read_bytes()[: 20 * 300 + 5])
    table = spoilt("cut-table") / "meta.zr"
    table.write_bytes(table.read_bytes()[: 12_288 + 24 * 31])
    (spoilt("no-header") / "meta.zr").write_bytes(b"this is something else" * 100)
    (spoilt("empty-header") / "meta.zr").write_bytes(b"")
    (spoilt("bad-schema") / "schema.msgpack").write_bytes(b"\x81\xa6format\xc1")
    entry = spoilt("bad-entry") / "meta.zr"
    data = bytearray(entry.read_bytes())
    data[12_288 + 24 * 7 + 20] = 9
    entry.write_bytes(bytes(data))
    folder = out / "no-store"
    folder.mkdir()
    (folder / "notes.txt").write_text("nothing here")
    harm = "document.title='broken'"
    html = {f"<script>{harm}</script>": f'<img src=x onerror="{harm}">'}
    zr.from_numpy(out / "html-metadata", rows[:10], codec="raw", metadata=html)


def bad_entries(out: Path) -> None:
    """Many entries of a codec that does not exist, in a format without sums."""
    folder, damaged = out / "bad-entries", range(2500, 5000, 10)
    zr.from_numpy(folder, RNG.integers(0, 255, (5000, 10), np.uint8), "raw", format="classic")
    with open(folder / "meta.zr", "r+b") as meta:
        for index in damaged:
            meta.seek(16 + 16 * index + 14)
            meta.write(b"\x09")
    EXPECTED["bad-entries"] = len(damaged)


def large_classic(out: Path) -> None:
    """2^24 records, whose places tell their index."""
    folder = out / "large-classic"
    folder.mkdir()
    count = 1 << 24
    with open(folder / "meta.zr", "wb") as meta:
        meta.write(struct.pack("<4sHHII", b"ZREC", 3, 63, (1 << 18) * 64, count))
        for first in range(0, count, 1 << 20):
            index = np.arange(first, first + (1 << 20), dtype=np.uint64)
            entries = np.zeros(1 << 20, ENTRY)
            entries["offset"] = (index % (1 << 18)) * 64
            entries["chunk"] = index >> 18
            entries["stored_len"] = entries["len"] = 1 + index % 61
            meta.write(entries.tobytes())
    for chunk in range(64):
        with open(folder / f"{chunk}.zr", "wb") as file:
            file.truncate((1 << 18) * 64)


def patch_length(meta: Path, count: int, each: int) -> None:
    """Makes the header count `count` records of `each` bytes, one chunk."""
    data = bytearray(meta.read_bytes())
    seed = xxhash.xxh3_64_intdigest(bytes(data[16:32]))
    for page in (4096, 8192):
        slot = data[page : page + 96]
        struct.pack_into("<QQ", slot, 8, count, count)
        struct.pack_into("<QQ", slot, 48, count * each, count * each)
        struct.pack_into("<IIII", slot, 64, 0, count * each, 0, count * each)
        struct.pack_into("<Q", slot, 88, xxhash.xxh3_64_intdigest(bytes(slot[:88]), seed=seed))
        data[page : page + 96] = slot
    meta.write_bytes(bytes(data))


def huge_extended(out: Path) -> None:
    """10^8 records of one byte, sparse: all entries but the first are holes,
    which say that a record has no bytes."""
    folder, count = out / "huge-extended", 10**8
    zr.from_numpy(folder, np.zeros(1, np.uint8), codec="raw")
    meta = folder / "meta.zr"
    patch_length(meta, count, 1)
    with open(meta, "r+b") as file:
        file.truncate(12_288 + 24 * count)
        # Rows that tell their index by their length.
        for index in (0, 1, 31_415_926, 50_000_000, count - 2, count - 1):
            file.seek(12_288 + 24 * index)
            file.write(struct.pack("<IIIIIBBH", index, 1000, 1000, 0, 0, 0, 0, 0))
    with open(folder / "0.zr", "r+b") as file:
        file.truncate(count)


def million(out: Path) -> None:
    rows = np.zeros((1_000_000, 256), np.uint8)
    rows[:, :8] = np.arange(1_000_000, dtype="<u8").view(np.uint8).reshape(-1, 8)
    zr.from_numpy(out / "million", rows, codec="raw")


def main() -> None:
    out = Path(sys.argv[1])
    out.mkdir(parents=True)
    demo(out)
    damaged(out)
    bad_entries(out)
    large_classic(out)
    huge_extended(out)
    million(out)
    EXPECTED["script"] = hashlib.sha256(Path(__file__).read_bytes()).hexdigest()
    (out / "expected.json").write_text(json.dumps(EXPECTED))


if __name__ == "__main__":
    main()
