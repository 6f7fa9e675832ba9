"""The record store: bytes in, bytes out."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path

import numpy as np
import pytest
import zrecord as zr

BLOBS = [bytes([i % 251]) * (100 + 13 * i) for i in range(40)]


def offsets_of(blobs: list[bytes]) -> np.ndarray:
    return np.cumsum([0, *map(len, blobs[:-1])]).astype(np.uint64)


def fill(store: zr.Zrecord, blobs: list[bytes] = BLOBS, codec: str | None = None) -> int:
    return store.append(np.frombuffer(b"".join(blobs), np.uint8), offsets_of(blobs), codec)


@pytest.mark.parametrize("codec", ["raw", "zstd"])
def test_records_come_back(path: Path, codec: str, store_format: str) -> None:
    with zr.Zrecord(path, codec, format=store_format) as store:
        assert fill(store) == 0
        assert fill(store) == 40
        assert len(store) == 80
        lengths = store.lengths(np.arange(40))
        assert lengths.dtype == np.uint32
        assert lengths.tolist() == list(map(len, BLOBS))
        picked = [39, 0, 41, 7, 7]
        sizes = [len(BLOBS[i % 40]) for i in picked]
        out = np.zeros(sum(sizes), np.uint8)
        store.gather(picked, out, np.cumsum([0, *sizes[:-1]]))
        assert out.tobytes() == b"".join(BLOBS[i % 40] for i in picked)
        assert store.read(3) == BLOBS[3]
    with zr.Zrecord(path, mode="r") as store:
        assert len(store) == 80


def test_bytes_before_the_first_offset_are_skipped(path: Path) -> None:
    with zr.Zrecord(path) as store:
        store.append(b"xxabcd", [2, 4])
        assert [store.read(0), store.read(1)] == [b"ab", b"cd"]
        assert store.append(b"", []) == 2


def test_any_contiguous_array_is_bytes(path: Path) -> None:
    with zr.Zrecord(path) as store:
        values = np.arange(6, dtype="<u2").reshape(2, 3)
        store.append(values, [0, 4])
        assert store.read(0) + store.read(1) == values.tobytes()
        store.append(bytearray(b"abc"), [0])
        store.append(memoryview(b"de"), [0])
        assert store.read(2) + store.read(3) == b"abcde"
        out = np.zeros((2, 3), "<u2")
        store.gather([0, 1], out, [0, 4])
        assert np.array_equal(out, values)
        with pytest.raises(ValueError, match="contiguous"):
            store.append(values[:, 1], [0])


@pytest.mark.parametrize("offsets", [[2, 1], [5], [0, 9]])
def test_offsets_that_decrease_or_pass_the_end_are_refused(path: Path, offsets: list[int]) -> None:
    with zr.Zrecord(path) as store:
        with pytest.raises(ValueError, match="offset"):
            store.append(b"abcd", offsets)
        with pytest.raises(ValueError, match="negative"):
            store.append(b"abcd", [-1])
        assert len(store) == 0


def test_empty_records_are_kept_where_the_format_can(path: Path) -> None:
    with zr.Zrecord(path) as store:
        store.append(b"ab", [0, 0, 2, 2])
        assert [store.read(i) for i in range(4)] == [b"", b"ab", b"", b""]
    with zr.Zrecord(path.with_name("classic"), format="classic") as store:
        with pytest.raises(zr.ZrecordError):
            store.append(b"ab", [0, 0])


def test_gather_writes_into_the_callers_memory_or_says_why_not(path: Path) -> None:
    with zr.Zrecord(path) as store:
        fill(store, [b"abcd", b"efgh"])
        read_only = np.zeros(8, np.uint8)
        read_only.flags.writeable = False
        strided = np.zeros(16, np.uint8)[::2]
        repeated = np.lib.stride_tricks.as_strided(np.zeros(1, np.uint8), (8,), (0,))
        for out in (read_only, strided, repeated):
            with pytest.raises(ValueError, match=r"read-only|contiguous"):
                store.gather([0, 1], out, [0, 4])
        for out in (b"12345678", bytearray(8), [0] * 8):
            with pytest.raises(TypeError):
                store.gather([0, 1], out, [0, 4])  # type: ignore[arg-type]
        small = np.zeros(7, np.uint8)
        with pytest.raises(zr.BufferTooSmallError):
            store.gather([0, 1], small, [0, 4])
        with pytest.raises(ValueError, match="overlap"):
            store.gather([0, 1], np.zeros(8, np.uint8), [0, 2])
        with pytest.raises(ValueError, match="offset"):
            store.gather([0, 1], np.zeros(8, np.uint8), [0])
        assert not small.any()


def test_raw_stores_do_not_count_from_the_end(path: Path) -> None:
    with zr.Zrecord(path) as store:
        fill(store)
        with pytest.raises(zr.OutOfRangeError):
            store.lengths([-1])
        with pytest.raises(zr.OutOfRangeError):
            store.delete([0, 40])
        assert len(store) == 40


def test_delete_fills_holes_with_the_last_record(path: Path, store_format: str) -> None:
    with zr.Zrecord(path, format=store_format) as store:
        fill(store, [bytes([65 + i]) * (i + 1) for i in range(16)])
        store.delete([1, 5, 5, 15])
        assert len(store) == 13
        assert [store.read(i)[:1] for i in (0, 1, 5, 12)] == [b"A", b"N", b"O", b"M"]


@pytest.mark.parametrize("codec", ["raw", "zstd"])
def test_compact_gives_space_back_and_moves_no_index(
    path: Path, codec: str, store_format: str
) -> None:
    seen: list[tuple[int, int]] = []
    with zr.Zrecord(path, codec, format=store_format) as store:
        fill(store)
        store.delete(range(0, 40, 3))
        kept = [store.read(i) for i in range(len(store))]
        before = store.stats()
        assert before["reclaimable"] > 0
        store.compact(lambda done, total: seen.append((done, total)))
        after = store.stats()
        assert after["reclaimable"] == 0
        assert after["live_bytes"] == before["live_bytes"]
        assert after["records"] == len(store) == len(kept)
        assert [store.read(i) for i in range(len(store))] == kept
        store.compact()
    assert all(0 <= done <= total for done, total in seen)


def test_what_progress_raises_is_raised(path: Path) -> None:
    def stop(done: int, total: int) -> None:
        raise LookupError(f"{done} of {total}")

    with zr.Zrecord(path) as store:
        fill(store)
        with pytest.raises(LookupError):
            store.verify(stop)
        assert store.verify() == []


def test_a_dictionary_is_trained_and_used(path: Path) -> None:
    rows = [(b"the common part of all records %03d" % i) * 3 for i in range(2000)]
    with zr.Zrecord(path, "zstd_dict") as store:
        assert not store.has_dict()
        sizes = np.array([len(row) for row in rows])
        size = store.train_dict(np.frombuffer(b"".join(rows), np.uint8), sizes, 4096)
        assert 0 < size <= 4096
        assert store.has_dict()
        fill(store, rows)
        assert store.stats()["live_bytes"] < sum(map(len, rows)) / 3
        assert store.read(1999) == rows[1999]
        # Another one leaves the old records readable.
        store.train_dict(b"".join(rows), sizes, 4096)
        fill(store, rows[:3])
        assert [store.read(5), store.read(2001)] == [rows[5], rows[1]]
    with zr.Zrecord(path, mode="r") as store:
        assert store.has_dict()
        assert store.read(7) == rows[7]


def test_a_codec_for_one_append(path: Path) -> None:
    blob = [b"a" * 1000]
    with zr.Zrecord(path, "raw") as store:
        assert store.codec == "raw"
        fill(store, blob)
        raw = store.stats()["live_bytes"]
        fill(store, blob, "zstd")
        assert store.stats()["live_bytes"] < 2 * raw - 900


def test_a_reader_follows_a_writer(path: Path, store_format: str) -> None:
    with zr.Zrecord(path, format=store_format) as writer:
        with zr.Zrecord(path, mode="r") as reader:
            assert len(reader) == 0
            fill(writer)
            assert len(reader) == 40
            assert reader.read(39) == BLOBS[39]
            assert reader.mode == "r"


def test_levels_and_savings_decide_how_records_lie(path: Path) -> None:
    noise = np.random.default_rng(0).integers(0, 256, 10000, np.uint8)
    noise[:400] = 0
    sizes = []
    for number, min_saving in enumerate([0.0, 0.5]):
        where = path.with_name(str(number))
        with zr.Zrecord(where, level=1, min_saving=min_saving) as store:
            store.append(noise, [0])
            sizes.append(store.stats()["live_bytes"])
    assert sizes[0] < sizes[1] == 10000


@pytest.mark.parametrize("store_format", ["extended", "classic"])
def test_frames_made_for_decoding_keep_their_literals(path: Path, store_format: str) -> None:
    rng = np.random.default_rng(0)
    # What repeats is found in either; what is but unevenly spread is not.
    repeated = np.tile(rng.integers(0, 256, 100, np.uint8), 100)
    skewed = rng.integers(0, 64, 10_000, np.uint8)
    sizes: dict[str | None, list[int]] = {}
    for preset in (None, "decode"):
        where = path.with_name(str(preset))
        sizes[preset] = []
        for row in (repeated, skewed):
            zr.from_numpy(where, row[None], format=store_format, preset=preset)
            with zr.Zrecord(where, mode="r") as store:
                sizes[preset].append(store.stats()["live_bytes"] - sum(sizes[preset]))
        np.testing.assert_array_equal(zr.DenseDataset(where)[:], np.stack([repeated, skewed]))
    assert sizes["decode"][0] < 1_000
    assert sizes[None][1] < 8_000
    assert sizes["decode"][1] == 10_000


def test_a_preset_that_is_none_or_has_no_use_is_refused(path: Path) -> None:
    with pytest.raises(ValueError, match=r"preset is 'size', not one of \['decode'\]"):
        zr.Zrecord(path, preset="size")
    for make in (
        lambda: zr.Zrecord(path, "zstd_dict", preset="decode"),
        lambda: zr.from_numpy(path, np.zeros((100, 10)), "zstd_dict", preset="decode"),
    ):
        with pytest.raises(ValueError, match=r"preset.*dictionary"):
            make()
    assert not path.exists()
    with zr.Zrecord(path, "raw", preset="decode") as store:
        store.append(b"abc", [0])
        assert pickle.loads(pickle.dumps(store))._options[4] == "decode"


@pytest.mark.parametrize("io", ["map", "pread"])
@pytest.mark.parametrize("verify", ["first", "always", "never"])
def test_every_way_to_read_reads_the_same(path: Path, io: str, verify: str) -> None:
    with zr.Zrecord(path) as store:
        fill(store)
    with zr.Zrecord(path, mode="r", io=io, verify=verify, threads=1) as store:
        assert [store.read(i) for i in range(40)] == BLOBS
        assert ("never" in repr(store)) == (verify == "never")


def test_identity(path: Path) -> None:
    with zr.Zrecord(path) as store:
        fill(store)
        assert store.id is not None
        assert len(store.id) == 32
        before = store.generation
        store.delete([0])
        assert store.generation > before
        assert repr(store) == f"<Zrecord {str(path)!r}: 39 records, zstd, extended>"
    with zr.Zrecord(path.with_name("classic"), format="classic") as classic:
        assert classic.id is None


def test_a_copy_is_another_handle(path: Path) -> None:
    with zr.Zrecord(path) as store:
        fill(store)
        other = copy.copy(store)
        other.close()
        assert store.read(0) == BLOBS[0]


@pytest.mark.parametrize("codec", ["raw", "zstd", "zstd_dict"])
@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("level", 99),
        ("level", -(1 << 20)),
        ("min_saving", 1.0),
        ("min_saving", -0.1),
        ("min_saving", float("nan")),
    ],
)
def test_packing_options_out_of_range_are_refused_before_anything_is_made(
    path: Path, codec: str, option: str, value: float
) -> None:
    with pytest.raises(ValueError, match=option):
        zr.Zrecord(path, codec, **{option: value})
    with pytest.raises(ValueError, match=option):
        zr.from_numpy(path, np.zeros((100, 10)), codec, **{option: value})
    assert not path.exists()
    with zr.Zrecord(path) as store:
        store.append(b"abc", [0])
    with pytest.raises(ValueError, match=option):
        zr.Zrecord(path, codec, **{option: value})
