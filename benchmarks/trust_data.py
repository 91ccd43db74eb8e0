"""The data of benchmarks/trust.py: images with out-of-distribution (OOD) sets, and labelled sets to make noisy."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from quality import EXPERIMENTS
from sklearn.datasets import load_digits

from protoattend.datasets import catalogue as datasets
from protoattend.errors import UserError
from protoattend.reproduce.networks import half_width

OTHERS = ("mnist", "notmnist", "fruits")


@dataclass(frozen=True)
class Images:
    """A training set, unseen images to calibrate on and to test with, OOD ones by name, and parameters."""

    X: np.ndarray
    y: np.ndarray
    X_held: np.ndarray
    y_held: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray
    out_of_distribution: Mapping[str, np.ndarray]
    params: Mapping[str, Any]


def digits() -> Images:
    X, y = load_digits().images.astype(np.float32), load_digits().target
    order = np.random.default_rng(0).permutation(len(y))
    train, held, test = np.split(order, [900, 1350])
    return Images(
        X[train], y[train], X[held], y[held], X[test], y[test], _made(X[test], 16.0), {"max_epochs": 25}
    )  # fmt: skip


def fashion() -> Images:
    return _from_catalogue("fashion-mnist", EXPERIMENTS["fashion-fast-cnn"].params())


def cifar() -> Images:
    """Half as wide and half as long in training as quality.py has it, for want of time."""
    shorter = {"encoder": half_width(3, seed=0), "max_epochs": 8}
    return _from_catalogue("cifar-10", {**EXPERIMENTS["cifar-fast-cnn"].params(), **shorter})


def noisy_digits() -> tuple[Any, np.ndarray, Mapping[str, Any]]:
    X, y = load_digits(return_X_y=True)
    return X, y, {}


def noisy_fashion() -> tuple[Any, np.ndarray, Mapping[str, Any]]:
    train = datasets.load("fashion-mnist")
    return train.X[:10_000], train.y[:10_000], {"encoder": half_width(1, seed=0), "max_epochs": 8}


def noisy_adult() -> tuple[Any, np.ndarray, Mapping[str, Any]]:
    train = datasets.load("adult")
    return train.X.iloc[:10_000], train.y[:10_000], {}


IMAGES: Mapping[str, Callable[[], Images]] = {"fashion-fast-cnn": fashion, "cifar-half-width": cifar}
LABELS: Mapping[str, Callable[[], tuple[Any, np.ndarray, Mapping[str, Any]]]] = {
    "digits": noisy_digits, "fashion-mnist": noisy_fashion, "adult": noisy_adult,
}  # fmt: skip


def _from_catalogue(name: str, params: Mapping[str, Any]) -> Images:
    """Hold half of the test split out for calibration; OOD sets that are not found are left out."""
    train, test = datasets.load(name, "train"), datasets.load(name, "test")
    held, rest = slice(0, None, 2), slice(1, None, 2)
    ood = _made(test.X[rest], 255.0)
    for other in OTHERS:
        try:
            ood[other] = _like(datasets.load(other, "test").X[:5000], test.X.shape[1:])
        except UserError as error:
            print(f"without {other}: {error}", flush=True)
    return Images(train.X, train.y, test.X[held], test.y[held], test.X[rest], test.y[rest], ood, params)


def _made(X: np.ndarray, brightest: float) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(1)
    noise = rng.uniform(0, brightest, X.shape).astype(X.dtype)
    return {"rotated": np.ascontiguousarray(np.rot90(X, 1, (1, 2))), "noise": noise}


def _like(X: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Return images in another size by taking the nearest pixels, and in gray or colours as asked."""
    rows, columns = (np.linspace(0, X.shape[i] - 1, shape[i - 1]).round().astype(int) for i in (1, 2))
    sized = X[:, rows][:, :, columns]
    if len(shape) == 2 and sized.ndim == 4:
        return sized.mean(3).astype(X.dtype)
    return np.repeat(sized[..., None], 3, axis=3) if len(shape) == 3 and sized.ndim == 3 else sized
