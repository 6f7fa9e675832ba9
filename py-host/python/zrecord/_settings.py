"""Defaults that the environment can change, and names that are checked once."""

from __future__ import annotations

import operator
import os
from typing import Any, Final

from .errors import InvalidArgumentError, UnknownCodecError

CODECS: Final[dict[str, int]] = {"raw": 0, "zstd": 1, "zstd_dict": 2}
"""Codec names and their numbers in both formats."""

FORMATS: Final = ("extended", "classic")
PRESETS: Final = ("decode",)

RECORD_LEN_MAX: Final[dict[str, int]] = {"extended": 2**32 - 1, "classic": 1 << 20}
"""The longest record of each format, in bytes."""


def default_format() -> str:
    """The format of new stores: ``ZRECORD_FORMAT``, else extended."""
    name = os.environ.get("ZRECORD_FORMAT") or "extended"
    if name not in FORMATS:
        raise InvalidArgumentError(f"ZRECORD_FORMAT is {name!r}, not one of {list(FORMATS)}")
    return name


def check_codec(codec: str) -> str:
    """Returns ``codec`` if there is one of that name."""
    if codec not in CODECS:
        raise UnknownCodecError(f"unknown codec {codec!r}, expected one of {list(CODECS)}")
    return codec


def check_choice(argument: str, value: str, choices: tuple[str, ...]) -> str:
    """Returns ``value`` if it is one of ``choices``."""
    if value not in choices:
        raise InvalidArgumentError(f"{argument} is {value!r}, not one of {list(choices)}")
    return value


def unsigned(**values: Any) -> None:
    """Refuses arguments that are no integers of 64 bits without a sign."""
    for name, value in values.items():
        if not 0 <= operator.index(value) < 2**64:
            raise InvalidArgumentError(f"{name} is {value}, not from 0 to 2**64 - 1")
