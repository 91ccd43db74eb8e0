"""The data of benchmarks/compare.py: images, and what is out of distribution (OOD), by the name of a set."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from sklearn.datasets import load_digits

from protoattend.datasets import catalogue
from protoattend.errors import UserError

ROWS, CALIBRATION, TEST = 10_000, 750, 5_000  # of Fashion-MNIST; 750 as deep kNN has in its paper
OOD_ROWS = 2_000
EXPLAINED = 500  # test rows whose examples are judged
INSIDE = ("train", "calibration", "test", "explained")


@dataclass(frozen=True)
class Data:
    """Images and labels by the name of a set; sets without labels are out of distribution."""

    X: Mapping[str, np.ndarray]
    y: Mapping[str, np.ndarray]

    @property
    def out_of_distribution(self) -> list[str]:
        return [name for name in self.X if name not in self.y]


def digits(seed: int) -> Data:
    X, y = load_digits().images.astype(np.uint8), load_digits().target
    rows = np.split(np.random.default_rng(seed).permutation(len(y)), [900, 1350])
    images, labels = ({name: part[some] for name, some in zip(INSIDE, rows, strict=False)} for part in (X, y))
    return _with_others(images, labels, {"rotated": rotated(images["test"]), "inverted": 16 - images["test"]})


def fashion(seed: int) -> Data:
    rng = np.random.default_rng(seed)
    train, test = (catalogue.load("fashion-mnist", split) for split in catalogue.SPLITS)
    some = rng.permutation(len(train.y))[:ROWS]
    calibration, rest = np.split(rng.permutation(len(test.y))[: CALIBRATION + TEST], [CALIBRATION])
    images = {"train": train.X[some], "calibration": test.X[calibration], "test": test.X[rest]}
    labels = {"train": train.y[some], "calibration": test.y[calibration], "test": test.y[rest]}
    others = {"rotated": rotated(images["test"][:OOD_ROWS])}
    try:
        others["notMNIST"] = catalogue.load("notmnist", "test").X[:OOD_ROWS]
    except UserError as error:
        print(f"without notMNIST: {error}", flush=True)
    return _with_others(images, labels, others)


SETS: Mapping[str, Callable[[int], Data]] = {"digits": digits, "fashion-mnist": fashion}


def rotated(images: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(np.rot90(images, axes=(1, 2)))


def _with_others(
    images: Mapping[str, np.ndarray], labels: Mapping[str, np.ndarray], others: Mapping[str, np.ndarray]
) -> Data:
    explained = {"explained": images["test"][:EXPLAINED]}
    return Data({**images, **explained, **others}, {**labels, "explained": labels["test"][:EXPLAINED]})
