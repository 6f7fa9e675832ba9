"""Training from the loader, stopped half way and resumed to the bit."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

import numpy as np
import numpy.typing as npt
import zrecord as zr
from report import Claims
from sklearn.linear_model import SGDClassifier
from sources import digits_with_labels

STEPS = 600
STOP_AT = STEPS // 2
BATCH_SIZE = 64
CLASSES = np.arange(10)
ACCURACY_MIN = 0.9

Batch = dict[str, npt.NDArray[np.generic]]


@dataclass
class Trainer:
    """A classifier, and a digest of every batch that it has seen."""

    model: SGDClassifier = field(default_factory=lambda: SGDClassifier(random_state=0))
    seen: list[str] = field(default_factory=list)

    def train(self, batches: Iterable[Batch]) -> None:
        for batch in batches:
            images, labels = batch["image"], batch["label"]
            digest = hashlib.sha256(images.tobytes() + labels.tobytes())
            self.seen.append(digest.hexdigest())
            self.model.partial_fit(images.reshape(len(images), -1), labels, classes=CLASSES)


def demonstrate(folder: Path, claims: Claims) -> None:
    """Train without a stop, train with a stop, and compare the two."""
    images, labels = digits_with_labels()
    held_out = np.arange(len(images)) % 5 == 0
    zr.from_numpy(folder / "image", images[~held_out])
    zr.from_numpy(folder / "label", labels[~held_out])
    print(f"Training on {np.sum(~held_out):,} digits, {STEPS} steps of {BATCH_SIZE}:")

    through = Trainer()
    with open_loader(folder, num_workers=4) as loader:
        through.train(islice(loader, STEPS))

    # The same, but the process could have ended at STOP_AT: all that is carried
    # over is the model and a line of JSON. Another number of workers, to show
    # that it changes nothing.
    resumed = Trainer()
    with open_loader(folder, num_workers=4) as loader:
        resumed.train(islice(loader, STOP_AT))
        state = json.dumps(loader.state_dict())
    print(f"        stopped at step {STOP_AT} with {state}")
    with open_loader(folder, num_workers=2) as loader:
        loader.load_state_dict(json.loads(state))
        resumed.train(islice(loader, STEPS - STOP_AT))

    pixels = scale({"image": images[held_out]})["image"].reshape(int(held_out.sum()), -1)
    accuracy = float(through.model.score(pixels, labels[held_out]))
    claims.check(
        accuracy > ACCURACY_MIN,
        f"accuracy {accuracy:.3f} on {held_out.sum()} digits held out, above {ACCURACY_MIN}",
    )
    claims.check(
        len(set(through.seen)) == STEPS, f"all {STEPS} batches of the uninterrupted run differ"
    )
    claims.check(
        resumed.seen[STOP_AT:] == through.seen[STOP_AT:],
        f"after the resume, batches {STOP_AT} to {STEPS - 1} are the same bit for bit",
    )
    claims.check(
        np.array_equal(resumed.model.coef_, through.model.coef_),
        "the resumed model equals the uninterrupted one, every coefficient",
    )


def open_loader(folder: Path, num_workers: int) -> zr.DataLoader:
    streams = {
        "image": zr.DenseDataset(folder / "image"),
        "label": zr.DenseDataset(folder / "label"),
    }
    return zr.DataLoader(
        streams,
        num_workers=num_workers,
        batch_size=BATCH_SIZE,
        mode="cyclic",
        seed=7,
        transform=scale,
    )


def scale(batch: Batch) -> Batch:
    """Pixels of 0..16 as floats of 0..1."""
    return batch | {"image": batch["image"].astype(np.float32) / 16}
