"""Ours."""

from __future__ import annotations

import zrecord as zr

from samplers import Draws

PACKAGES = ("zrecord",)


def open_sampler(length: int, batch: int, mode: str) -> Draws:
    sampler = zr.Sampler(length, batch, mode)
    return Draws(sampler.next, repeats=mode == "iid")
