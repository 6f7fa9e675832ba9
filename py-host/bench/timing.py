"""Checking answers, timing in turn, printing."""

from __future__ import annotations

import statistics
import time

import numpy as np
from contestants import Gather, Workload

CHECKED_BATCHES = 20
WARMING_ROUNDS = 10


def check_answers(entrants: dict[str, Gather], workload: Workload) -> None:
    """End the program unless everybody gives the right rows."""
    for step in range(CHECKED_BATCHES):
        idx = workload.indices(step)
        expected = workload.rows[idx]
        for name, gather in entrants.items():
            workload.out.fill(0)
            if not np.array_equal(gather(idx), expected):
                raise SystemExit(f"{name} gave wrong rows for batch {step} of {workload.folder}")


def interleave(entrants: dict[str, Gather], workload: Workload, rounds: int) -> dict[str, float]:
    """The median seconds of one batch for each contestant."""
    seconds: dict[str, list[float]] = {name: [] for name in entrants}
    names = list(entrants)
    for step in range(-WARMING_ROUNDS, rounds):
        idx = workload.indices(CHECKED_BATCHES + WARMING_ROUNDS + step)
        # Each round begins with another contestant, so none always runs
        # behind the same neighbour's caches.
        turn = step % len(names)
        for name in names[turn:] + names[:turn]:
            gather = entrants[name]
            started = time.perf_counter()
            result = gather(idx)
            elapsed = time.perf_counter() - started
            del result
            if step >= 0:
                seconds[name].append(elapsed)
    return {name: statistics.median(values) for name, values in seconds.items()}


def print_table(title: str, medians: dict[str, float], batch_bytes: int) -> None:
    """One line for each contestant, its time relative to loaderx's same way of asking."""
    print(f"\n{title}")
    print(f"  {'':18}  {'ms a batch':>10}  {'GB/s':>6}  {'against loaderx':>15}")
    for name, seconds in medians.items():
        way = name.rpartition(" ")[2]
        against = medians[f"loaderx, {way}"] / seconds
        rate = batch_bytes / seconds / 1e9
        print(f"  {name:18}  {seconds * 1e3:10.3f}  {rate:6.2f}  {against:14.2f}x")
