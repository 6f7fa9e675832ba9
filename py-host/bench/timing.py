"""Taking turns, and what is made of the times."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from worker import WorkerError, one_line

WARMING_ROUNDS = 2
TURNS_MIN = 3
"""A contender that is slow takes so many turns all the same."""


class TurnTaker(Protocol):
    """Whoever can be given a turn."""

    @property
    def label(self) -> str:
        """What it is called, once in each table."""

    def turn(self, payload: Any) -> list[float]:
        """Does the work; the seconds of each part of it."""


@dataclass
class Samples:
    """The seconds that one contender took, and what else was measured of it."""

    seconds: list[float] = field(default_factory=list)
    extras: dict[str, float] = field(default_factory=dict)
    failure: str | None = None
    turns: int = 0
    spent: float = 0.0

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)

    def percentile(self, percent: float) -> float:
        """The smallest time that so many percent of all do not exceed."""
        ranked = sorted(self.seconds)
        position = -(-len(ranked) * percent // 100)
        return ranked[max(int(position), 1) - 1]


def interleave(
    takers: Sequence[TurnTaker],
    payload: Callable[[int, int], Any],
    rounds: int,
    seconds_max: float,
) -> dict[str, Samples]:
    """Gives everybody a turn in each round, and returns all samples by label.

    Each round begins with another contender, so that none always runs behind
    the same neighbour. ``payload`` says what a turn is given: of which round, and
    whose, by number. Whoever has used up its share of ``seconds_max`` sits rounds
    out, evenly over the whole run. Whoever fails is out, with the reason.
    """
    samples = {taker.label: Samples() for taker in takers}
    if not takers:
        return samples
    for step in range(-WARMING_ROUNDS, rounds):
        start = step % len(takers)
        numbered = list(enumerate(takers))
        for number, taker in [*numbered[start:], *numbered[:start]]:
            mine = samples[taker.label]
            if mine.failure is None and _takes_part(mine, step, rounds, seconds_max):
                given = payload(WARMING_ROUNDS + step, number)
                _take_turn(taker, given, mine, is_counted=step >= 0)
    return samples


def _takes_part(mine: Samples, step: int, rounds: int, seconds_max: float) -> bool:
    if step < 0:
        return step == -WARMING_ROUNDS or mine.spent < seconds_max / rounds
    is_in_time = mine.spent <= seconds_max * (step + 1) / rounds
    return is_in_time or TURNS_MIN - mine.turns >= rounds - step


def _take_turn(taker: TurnTaker, given: Any, mine: Samples, is_counted: bool) -> None:
    started = time.perf_counter()
    try:
        seconds = taker.turn(given)
    except WorkerError as error:
        mine.failure = one_line(error)
        return
    elapsed = time.perf_counter() - started
    mine.spent += elapsed
    if is_counted:
        mine.turns += 1
        mine.seconds.extend(seconds)
