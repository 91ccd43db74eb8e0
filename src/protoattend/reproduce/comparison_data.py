"""The data of the comparison on one encoder: samples, and what is out of distribution (OOD), by the name of a set."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch

from protoattend.data.inputs import fit_inputs
from protoattend.data.samples import chunks
from protoattend.reproduce.data import as_small_colour, drawn, load_rows, rotated
from protoattend.reproduce.networks import efficientnet_lite0
from protoattend.reproduce.record import Arrays, kept_arrays
from protoattend.reproduce.work import Work

EXPLAINED = 500  # test rows whose examples are judged
OOD_ROWS = 2_000
# Sets that a model of this one should not recognise. SVHN, the paper's for CIFAR-10, is not to be had here.
OTHERS: Mapping[str, tuple[str, ...]] = {
    "mnist": ("notmnist", "fashion-mnist"),
    "fashion-mnist": ("notmnist", "mnist"),
    "cifar-10": ("mnist", "fruits"),
}


@dataclass(frozen=True)
class Data:
    """Samples and labels by the name of a set; sets without labels are out of distribution.

    `pictures` are of the sets that examples are shown of, where the samples themselves are features.
    """

    X: Mapping[str, np.ndarray]
    y: Mapping[str, np.ndarray]
    pictures: Mapping[str, np.ndarray] = field(default_factory=dict)

    @property
    def out_of_distribution(self) -> list[str]:
        return [name for name in self.X if name not in self.y]


def comparison_data(work: Work) -> Data:
    """Return rows to learn from, for deep kNN to calibrate on, to test, and to explain; and OOD sets of images."""
    train, test = work.rows
    generator = np.random.default_rng(work.run.seed)
    order = generator.permutation(len(test.y))
    calibration, rest = order[: work.config["calibration"]], order[work.config["calibration"] :]
    parts = {"train": train, "calibration": test.take(calibration), "test": test.take(rest)}
    X = {name: np.asarray(rows.X) for name, rows in parts.items()}
    others = {} if work.config.get("frozen") else _others(work.data, X["test"][:OOD_ROWS])
    pictures = {}
    if work.config.get("frozen"):
        pictures = {"train": X["train"], "explained": X["test"][:EXPLAINED]}
        X = _features(X, work.folder / "features.npz", work.config["frozen"])
    y = {name: rows.y for name, rows in parts.items()}
    explained = {"explained": X["test"][:EXPLAINED]}
    return Data({**X, **explained, **others}, {**y, "explained": y["test"][:EXPLAINED]}, pictures)


def _others(name: str, test: np.ndarray) -> dict[str, np.ndarray]:
    """Return the test images by a quarter turn, and images of other sets, brought to the same form."""
    found = {"rotated": rotated(test)}
    for other in OTHERS.get(name, ()):
        images = drawn(load_rows(other, "test"), OOD_ROWS, np.random.default_rng(0)).X
        found[other] = as_small_colour(images) if test.ndim == 4 else images
    return found


def _features(X: Mapping[str, np.ndarray], path: Path, size: int) -> Arrays:
    """Return what a frozen EfficientNet-Lite0 makes of the images, shrunk or enlarged to this size, kept in a file."""

    def make() -> Arrays:
        pretrained = efficientnet_lite0(size=size)
        inputs = fit_inputs(X["train"])
        front = pretrained.encoder("images", inputs.form(), 1280).front.eval()
        with torch.no_grad():
            return {
                name: torch.cat([front(x) for x in chunks(inputs.tensor(inputs.source(images)), 32)]).numpy()
                for name, images in X.items()
            }

    return kept_arrays(path, make)
