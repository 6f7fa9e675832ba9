"""A result as a picture: bars for each table, ours among them."""

from __future__ import annotations

from pathlib import Path

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from results import Result
from tables import Row, Table, duration, is_ours

OURS, LIMIT, THEIRS = "#1b6ca8", "#7a7a7a", "#c9c9c9"
BAR_INCHES = 0.22
WIDTH_INCHES = 9


def draw(result: Result, folder: Path) -> list[Path]:
    """The paths of the pictures, PNG and SVG; those of the same day are replaced."""
    figure = figure_of(result)
    # The same picture for the same figures, so that changes can be seen.
    matplotlib.rcParams["svg.hashsalt"] = result.name
    paths = [folder / f"{result.name}.{kind}" for kind in ("png", "svg")]
    for path in paths:
        metadata = {"Date": None} if path.suffix == ".svg" else {}
        figure.savefig(path, dpi=110, metadata=metadata)
    return paths


def figure_of(result: Result) -> Figure:
    tables = [table for table in result.tables if table.rows]
    heights = [len(table.rows) + 2 for table in tables]
    figure = Figure((WIDTH_INCHES, BAR_INCHES * (sum(heights) + 4)), layout="constrained")
    grid = figure.subplots(len(tables), 1, squeeze=False, height_ratios=heights)
    for axes, table in zip(grid[:, 0], tables, strict=True):
        _bars(axes, table)
    about = result.about
    figure.suptitle(
        f"Zrecord, {result.kind}: median times, logarithmic, shorter is better\n"
        f"{about['date']}, {about['cpu']}, {about['cores']}, {about['system']}",
        fontsize=9,
    )
    return figure


def _bars(axes: Axes, table: Table) -> None:
    rows = sorted(table.rows, key=lambda row: row.seconds, reverse=True)
    seconds = [row.seconds for row in rows]
    bars = axes.barh([row.label for row in rows], seconds, color=[_colour(row) for row in rows])
    axes.bar_label(bars, [duration(value) for value in seconds], padding=3, fontsize=7)
    axes.set_xscale("log")
    # The shortest bar is to be seen, and the figures at the ends as well.
    axes.set_xlim(min(seconds) / 2, max(seconds) * (max(seconds) / min(seconds)) ** 0.2 * 1.5)
    axes.set_title(table.title, loc="left", fontsize=8)
    axes.tick_params(labelsize=7)
    axes.tick_params(axis="x", which="both", bottom=False, labelbottom=False)
    for side in ("top", "right", "bottom"):
        axes.spines[side].set_visible(False)


def _colour(row: Row) -> str:
    if is_ours(row.label):
        return OURS
    return LIMIT if row.label.startswith("limit") else THEIRS
