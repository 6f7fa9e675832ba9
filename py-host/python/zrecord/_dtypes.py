"""NumPy dtypes as a schema holds them, and back.

A schema holds the ``dtype.str`` of a plain dtype, the name of an ``ml_dtypes``
type, or for a structured dtype the list of its fields, with padding as fields
without a name. That is NumPy's ``descr``, but for ``ml_dtypes`` fields, whose
``descr`` is opaque bytes.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from .errors import SchemaError, UnsupportedError

Spec: TypeAlias = str | list[list[Any]]


def to_spec(dtype: np.dtype[Any]) -> Spec:
    """Returns what a schema holds for ``dtype``.

    Raises:
        UnsupportedError: it holds pointers, or fields that overlap or are out
            of order.
    """
    if dtype.hasobject or dtype.kind == "T":
        raise UnsupportedError(
            f"the dtype {dtype} holds pointers to Python objects, which cannot be stored; "
            "convert the array to a numeric, string or structured dtype of fixed width"
        )
    if dtype.names is not None:
        return _fields(dtype)
    if is_ml_dtype(dtype):
        return str(dtype.name)
    if dtype.isbuiltin == 2:
        raise UnsupportedError(
            f"the dtype {dtype} of {dtype.type.__module__} is none of NumPy's or ml_dtypes' own"
        )
    return dtype.str


def is_ml_dtype(dtype: np.dtype[Any]) -> bool:
    """True for ``bfloat16`` and the other types of ``ml_dtypes``."""
    return dtype.isbuiltin == 2 and dtype.type.__module__.partition(".")[0] == "ml_dtypes"


def _fields(dtype: np.dtype[Any]) -> list[list[Any]]:
    assert dtype.names is not None
    assert dtype.fields is not None
    fields: list[list[Any]] = []
    end = 0
    for name in dtype.names:
        item, offset, *title = dtype.fields[name]
        if offset < end:
            raise UnsupportedError(
                f"the field {name!r} of {dtype} overlaps another or is out of order; "
                "numpy.lib.recfunctions.repack_fields makes a dtype that can be stored"
            )
        if offset > end:
            fields.append(["", f"|V{offset - end}"])
        base, shape = (item.base, list(item.shape)) if item.subdtype else (item, None)
        label: Any = [_text(title[0], dtype), name] if title else name
        fields.append([label, to_spec(base)] + ([] if shape is None else [shape]))
        end = offset + item.itemsize
    if dtype.itemsize > end:
        fields.append(["", f"|V{dtype.itemsize - end}"])
    return fields


def _text(title: Any, dtype: np.dtype[Any]) -> str:
    if isinstance(title, str):
        return title
    raise UnsupportedError(f"the field title {title!r} of {dtype} is no text")


def from_spec(spec: Spec) -> np.dtype[Any]:
    """Returns the dtype that a schema describes.

    Raises:
        UnsupportedError: it is a type of ``ml_dtypes``, which is not installed
            or too old to have it.
        SchemaError: this NumPy does not know it.
    """
    if isinstance(spec, list):
        return _structured(spec)
    if spec[:1] in "<>|":
        try:
            return np.dtype(spec)
        except TypeError as error:
            raise SchemaError(f"this NumPy has no dtype {spec!r}") from error
    try:
        import ml_dtypes

        found: np.dtype[Any] = np.dtype(getattr(ml_dtypes, spec))
    except (ImportError, AttributeError) as error:
        raise UnsupportedError(
            f"the dtype {spec} needs the package ml_dtypes (pip install -U ml_dtypes)"
        ) from error
    return found


def _structured(spec: list[list[Any]]) -> np.dtype[Any]:
    # Padding has no name: the offsets say where it is.
    names, formats, offsets, titles = [], [], [], []
    end = 0
    for label, item, *shape in spec:
        dtype = from_spec(item)
        if shape:
            dtype = np.dtype((dtype, tuple(shape[0])))
        if label != "":
            title, name = label if isinstance(label, list) else (None, label)
            names.append(name)
            formats.append(dtype)
            offsets.append(end)
            titles.append(title)
        end += dtype.itemsize
    layout: Any = {
        "names": names,
        "formats": formats,
        "offsets": offsets,
        "itemsize": end,
    }
    if any(title is not None for title in titles):
        layout["titles"] = titles
    structured: np.dtype[Any] = np.dtype(layout)
    return structured
