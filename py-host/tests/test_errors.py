"""Errors have a kind, a code, and the Python class a user would catch."""

from __future__ import annotations

import errno
import os
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zrecord as zr
from support import run_python
from zrecord import errors

CLASSES = [getattr(errors, name) for name in errors.__all__]


def test_every_error_is_a_zrecord_error_with_a_code_of_its_own() -> None:
    codes = [cls.code for cls in CLASSES if cls not in (zr.ZrecordError, zr.UnknownCodecError)]
    assert all(issubclass(cls, zr.ZrecordError) for cls in CLASSES)
    assert issubclass(zr.ZrecordError, RuntimeError)
    assert len(set(codes)) == len(codes)
    assert all(code < 0 for code in codes)


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_every_error_is_exported_and_pickles(cls: type[Exception]) -> None:
    assert getattr(zr, cls.__name__) is cls
    again = pickle.loads(pickle.dumps(cls("a reason")))
    assert type(again) is cls
    assert str(again) == "a reason"


def test_the_codes_of_loaderx_are_kept(path: Path) -> None:
    with zr.Zrecord(path, format="classic") as store:
        store.append(b"abc", [0])
        with pytest.raises(zr.OutOfRangeError) as caught:
            store.gather([9], np.zeros(9, np.uint8), [0])
        assert caught.value.code == -3
        assert isinstance(caught.value, IndexError)
        with pytest.raises(zr.BufferTooSmallError) as small:
            store.gather([0], np.zeros(1, np.uint8), [0])
        assert small.value.code == -6
        with pytest.raises(zr.TrainingError) as training:
            store.train_dict(np.zeros(10, np.uint8), [5, 5], 100)
        assert training.value.code == -9
        with pytest.raises(zr.TooLargeError) as large:
            store.append(np.zeros((1 << 20) + 1, np.uint8), [0])
        assert large.value.code == -4
        assert isinstance(large.value, ValueError)


@pytest.mark.parametrize("open_it", [zr.DenseDataset, zr.RaggedDataset])
def test_a_missing_store_is_a_file_not_found_error(path: Path, open_it: Any) -> None:
    with pytest.raises(FileNotFoundError) as caught:
        open_it(path)
    assert isinstance(caught.value, zr.StoreNotFoundError)
    assert caught.value.errno == errno.ENOENT
    assert str(path) in str(caught.value)
    assert not path.exists()
    path.mkdir()
    with pytest.raises(zr.StoreNotFoundError):
        open_it(path)
    assert list(path.iterdir()) == []


def test_reading_never_creates(path: Path) -> None:
    with pytest.raises(zr.StoreNotFoundError):
        zr.Zrecord(path, mode="r")
    assert not path.exists()


def test_something_else_is_not_a_store(path: Path) -> None:
    path.mkdir()
    (path / "meta.zr").write_bytes(b"GIF89a" * 4000)
    with pytest.raises(zr.NotAStoreError) as caught:
        zr.Zrecord(path)
    assert caught.value.code == -8
    assert str(path) in str(caught.value)


def test_a_damaged_record_is_named(path: Path) -> None:
    zr.from_numpy(path, np.arange(4096, dtype=np.uint8).reshape(8, 512), "raw")
    chunk = path / "0.zr"
    data = bytearray(chunk.read_bytes())
    data[512 * 5 + 3] ^= 1
    chunk.write_bytes(data)
    with zr.DenseDataset(path) as ds:
        ds[4]
        with pytest.raises(zr.CorruptError, match=r"record 5 .*0\.zr") as caught:
            ds[:]
        assert caught.value.code == -7
    with zr.Zrecord(path, mode="r") as store:
        (fault,) = store.verify()
        assert "5" in fault


def test_creating_where_a_store_exists_is_a_file_exists_error(path: Path) -> None:
    zr.Zrecord(path, mode="x").close()
    with pytest.raises(FileExistsError) as caught:
        zr.Zrecord(path, mode="x")
    assert isinstance(caught.value, zr.StoreExistsError)


def test_two_writers_are_busy(path: Path) -> None:
    with zr.Zrecord(path) as one, zr.Zrecord(path) as two:
        one.append(b"a", [0])
        with pytest.raises(zr.BusyError):
            two.append(b"b", [0])
    with zr.Zrecord(path) as store:
        assert len(store) == 1


def test_a_reader_cannot_write(path: Path) -> None:
    zr.Zrecord(path).close()
    with zr.Zrecord(path, mode="r") as store:
        for change in (
            lambda: store.append(b"a", [0]),
            lambda: store.delete([]),
            lambda: store.compact(),
            lambda: store.train_dict(b"a", [1], 1000),
        ):
            with pytest.raises(zr.ReadOnlyError):
                change()


def test_use_after_close_says_so(path: Path) -> None:
    zr.from_numpy(path, np.arange(4))
    store, ds = zr.Zrecord(path), zr.DenseDataset(path)
    store.close()
    ds.close()
    store.close()
    assert store.closed
    assert ds.closed
    uses = [
        lambda: len(store),
        lambda: store.append(b"a", [0]),
        lambda: store.stats(),
        lambda: store.sync(),
        lambda: len(ds),
        lambda: ds[0],
        lambda: ds[[0]],
        lambda: ds.view(),
        lambda: next(iter(ds)),
    ]
    for use in uses:
        with pytest.raises(zr.ClosedError) as caught:
            use()
        assert isinstance(caught.value, ValueError)
    assert "closed" in repr(store)
    assert "closed" in repr(ds)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may do anything")
def test_what_the_system_refuses_keeps_its_errno(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(OSError, match="denied") as caught:
        zr.Zrecord(tmp_path / "store")
    assert caught.value.errno == errno.EACCES


def test_a_path_through_a_file_keeps_its_errno(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="file") as caught:
        zr.Zrecord(tmp_path / "file" / "store")
    assert caught.value.errno in (errno.ENOTDIR, errno.EEXIST)
    assert isinstance(caught.value, zr.ZrecordError)


def test_an_unknown_codec_is_a_value_error_and_a_key_error(path: Path) -> None:
    for error in (ValueError, KeyError):
        with pytest.raises(error, match="unknown codec 'lz4'"):
            zr.Zrecord(path, "lz4")
        with pytest.raises(error):
            zr.from_numpy(path, np.arange(3), "lz4")
    assert not path.exists()
    with zr.Zrecord(path) as store, pytest.raises(KeyError):
        store.append(b"a", [0], "lz4")


@pytest.mark.parametrize(
    "options",
    [
        {"mode": "w"},
        {"format": "newest"},
        {"verify": "sometimes"},
        {"io": "uring"},
    ],
)
def test_options_are_checked(path: Path, options: dict[str, Any]) -> None:
    with pytest.raises(zr.InvalidArgumentError, match=next(iter(options))):
        zr.Zrecord(path, **options)
    assert not path.exists()


def test_an_existing_store_keeps_its_format(path: Path) -> None:
    zr.Zrecord(path, format="classic").close()
    with zr.Zrecord(path) as store:
        assert store.format == "classic"
    with pytest.raises(zr.UnsupportedError, match="the store is classic, not extended"):
        zr.Zrecord(path, format="extended")


def test_a_dense_store_is_not_a_ragged_one(tmp_path: Path) -> None:
    zr.from_numpy(tmp_path / "d", np.arange(3))
    zr.from_iterator(tmp_path / "r", [np.arange(3)])
    zr.Zrecord(tmp_path / "u").close()
    with pytest.raises(ValueError, match="DenseDataset"):
        zr.RaggedDataset(tmp_path / "d")
    with pytest.raises(ValueError, match="RaggedDataset"):
        zr.DenseDataset(tmp_path / "r")
    with pytest.raises(ValueError, match="no schema"):
        zr.DenseDataset(tmp_path / "u")
    with pytest.raises(zr.SchemaError):
        zr.from_numpy(tmp_path / "r", np.arange(3))
    with pytest.raises(zr.SchemaError):
        zr.from_iterator(tmp_path / "d", [np.arange(3)])


def test_a_bad_format_in_the_environment_says_so(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ZRECORD_FORMAT", "best")
    with pytest.raises(ValueError, match="ZRECORD_FORMAT"):
        zr.Zrecord(path)
    monkeypatch.setenv("ZRECORD_FORMAT", "classic")
    with zr.Zrecord(path) as store:
        assert store.format == "classic"


def test_stop_iteration_in_a_transform_does_not_end_the_loop() -> None:
    def transform(_: object) -> object:
        return next(iter(()))

    for workers in (0, 2):
        with zr.DataLoader(np.arange(20), workers, 4, transform=transform) as loader:
            with pytest.raises(RuntimeError, match="StopIteration"):
                next(loader)
        with pytest.raises(RuntimeError, match="StopIteration"):
            list(zr.batches(np.arange(20), 4, num_workers=workers, transform=transform))


def test_a_batch_that_no_memory_holds_is_an_error() -> None:
    sampler = zr.Sampler(10, 2**60, 0)
    with pytest.raises(zr.InvalidArgumentError, match="batch_size"):
        sampler.next()


def test_numbers_below_zero_name_their_argument(tmp_path: Path) -> None:
    with zr.Zrecord(tmp_path / "store") as store:
        with pytest.raises(zr.OutOfRangeError):
            store.read(-1)
        with pytest.raises(zr.InvalidArgumentError, match="target"):
            store.train_dict(b"abc", [3], -1)
    for call in (zr.Sampler(10, 2, 0).seek, zr.Sampler(10, 2, 0).at):
        with pytest.raises(zr.InvalidArgumentError, match="step"):
            call(-1)


def test_streams_that_cannot_be_are_refused_at_once(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="DenseDataset"):
        zr.DataLoader({"image": str(tmp_path)}, batch_size=2)
    with pytest.raises(TypeError, match="transform"):
        zr.DataLoader(np.arange(10), batch_size=2, transform=5)  # type: ignore[arg-type]


def test_streams_of_loaderx_are_taken() -> None:
    class OnlyMany:
        def __len__(self) -> int:
            return 10

        def __getitems__(self, indices: object) -> object:
            return np.asarray(indices) * 2

    with zr.DataLoader({1: OnlyMany()}, 1, 4, 2, 0, 42) as loader:
        batch = next(loader)
    assert list(batch) == [1]
    assert batch[1].shape == (4,)


def test_the_same_metadata_fit_again(tmp_path: Path) -> None:
    rows = np.zeros((3, 2), np.float32)
    given = {"shape": (1, 2), "scale": float("nan"), "of": {"a": (3,)}}
    for _ in range(2):
        zr.from_numpy(tmp_path / "store", rows, metadata=given)
    with pytest.raises(zr.SchemaError, match="metadata"):
        zr.from_numpy(tmp_path / "store", rows, metadata={"shape": (2, 1)})
    dataset = zr.DenseDataset(tmp_path / "store")
    dataset.metadata["of"]["a"].append(4)
    assert dataset.metadata["of"] == {"a": [3]}


def test_a_build_without_the_sandbox_says_how_to_get_it() -> None:
    code = """
import zrecord._native as native
if hasattr(native, "Sandbox"):
    del native.Sandbox
try:
    import zrecord.sandbox
except ImportError as error:
    assert error.name == "zrecord.sandbox"
    print(error)
"""
    done = run_python(code)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("\n") == 1
    assert "cargo xtask wheel" in done.stdout
