"""Records in place."""

from __future__ import annotations

import gc
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import zrecord as zr

ROWS = np.arange(7 * 3 * 2, dtype=np.float32).reshape(7, 3, 2)

Dense = Callable[..., zr.DenseDataset]


def test_a_view_is_the_file_itself(dense: Dense) -> None:
    ds = dense(ROWS)
    view = ds.view()
    np.testing.assert_array_equal(view, ROWS)
    np.testing.assert_array_equal(ds.view(2, 5), ROWS[2:5])
    np.testing.assert_array_equal(ds.view(-3), ROWS[-3:])
    assert ds.view(5, 2).shape == (0, 3, 2)
    assert not view.flags.writeable
    with pytest.raises(ValueError, match="read-only"):
        view[0] = 0
    with pytest.raises(ValueError, match="WRITEABLE"):
        view.flags.writeable = True
    ds.close()
    del ds
    gc.collect()
    np.testing.assert_array_equal(view, ROWS)
    with pytest.raises(zr.UnsupportedError):
        dense(np.zeros((9, 1000)), "zstd").view()


def test_a_view_keeps_delete_away(path: Path) -> None:
    zr.from_numpy(path, ROWS, "raw")
    ds = zr.DenseDataset(path)
    view = ds.view()
    ds.close()
    with zr.Zrecord(path) as store:
        with pytest.raises(zr.BusyError):
            store.delete([0])
        del view, ds
        gc.collect()
        store.delete([0])
        assert len(store) == 6
