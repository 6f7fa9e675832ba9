"""``python -m zrecord``: what the command ``zrecord`` has for people without it."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence

from . import __version__, _native
from .errors import ZrecordError

_NO_INSPECTOR = (
    "this build of zrecord cannot show stores in a browser; one that can is made by "
    "`cargo xtask wheel`, or by `cargo xtask web` and maturin with `--features view`"
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command, and returns the status that the process ends with."""
    parser = _parser()
    parsed = parser.parse_args(arguments)
    if parsed.command is None:
        parser.print_help()
        return 0
    try:
        view(parsed.path, parsed.port, parsed.record, not parsed.no_browser)
    except KeyboardInterrupt:
        return 130
    except ZrecordError as error:
        print(f"zrecord: {_one_line(error)}", file=sys.stderr)
        return 1
    return 0


def view(path: str, port: int, record: int, in_browser: bool) -> None:
    """Shows a store in the browser until Ctrl-C."""
    if not hasattr(_native, "Inspector"):
        raise ZrecordError(_NO_INSPECTOR)
    inspector = _native.Inspector(path, port, record)
    print(inspector.invitation, flush=True)
    if in_browser and not inspector.open_browser():
        print(
            "zrecord: note: no browser could be started; open the address in one",
            file=sys.stderr,
            flush=True,
        )
    while True:
        # Threads of its own serve; Ctrl-C comes into this one.
        time.sleep(3600)


def _one_line(error: ZrecordError) -> str:
    """As the command says it: without the system's number of an error."""
    said = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return " ".join(said.split())


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m zrecord", description="Records of a training set, in one directory."
    )
    parser.add_argument("--version", action="version", version=f"zrecord {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    view = commands.add_parser(
        "view",
        help="show a store in the browser",
        description="Show a store in the browser: its records, how they are packed, and "
        "whether they are intact. Serves a page and the files of this one store on 127.0.0.1 "
        "until Ctrl-C, to whoever has the token of the address that is printed. The page does "
        "the rest; nothing is written and nothing leaves the machine.",
    )
    view.add_argument("path", metavar="PATH", help="the directory of the store")
    view.add_argument(
        "--port",
        type=_below(2**16),
        default=0,
        help="the port to listen on (default: one that is free)",
    )
    view.add_argument(
        "--no-browser", action="store_true", help="print the address, and open no browser"
    )
    view.add_argument(
        "--record",
        type=_below(2**64),
        default=0,
        metavar="INDEX",
        help="the record to show first",
    )
    return parser


def _below(limit: int) -> Callable[[str], int]:
    """What reads a number from 0 to below the limit."""

    def read(text: str) -> int:
        if not (text.isascii() and text.isdigit() and int(text) < limit):
            raise argparse.ArgumentTypeError(f"{text!r} is not from 0 to {limit - 1}")
        return int(text)

    return read


if __name__ == "__main__":
    sys.exit(main())
