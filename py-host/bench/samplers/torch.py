"""torch's samplers, in batches."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from torch.utils.data import BatchSampler, RandomSampler

from samplers import Draws

PACKAGES = ("torch",)


def open_sampler(length: int, batch: int, mode: str) -> Draws:
    is_iid = mode == "iid"

    def endless() -> Iterator[Any]:
        while True:
            random = RandomSampler(range(length), replacement=is_iid)
            yield from BatchSampler(random, batch, drop_last=True)

    iterator = endless()
    return Draws(lambda: next(iterator), 0 if is_iid else length // batch, is_iid)
