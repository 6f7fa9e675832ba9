"""loaderx 0.9.4, and its newest release: their samplers have one interface."""

from __future__ import annotations

from loaderx.sampler import Sampler

from samplers import Draws

PACKAGES = ("loaderx",)
MODES = {
    "sequential": Sampler.Mode.SEQUENTIAL,
    "iid": Sampler.Mode.IID,
    "cyclic": Sampler.Mode.CYCLIC,
}


def open_sampler(length: int, batch: int, mode: str) -> Draws:
    sampler = Sampler(length, batch, MODES[mode])
    return Draws(sampler.next, repeats=mode == "iid")
