"""Recall of a rare class with nothing done about it, and with each of the three tools.

    python benchmarks/imbalance.py [--quick]

Breast cancer (scikit-learn) with malignant tumours made rare, 1 : 20; Adult with the rich made rare, 1 : 20, and ISIC
melanoma against the rest (1 : 4.5, 32 x 32) where `protoattend datasets` finds them. Tests are as they are, unseen.
Writes benchmarks/results/imbalance.json.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import record
import torch
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split
from sklearn.utils.class_weight import compute_sample_weight

from protoattend import ProtoAttendClassifier
from protoattend.datasets.catalogue import load, melanoma_or_benign
from protoattend.errors import UserError


@dataclass(frozen=True)
class Task:
    """Training and test samples, the rare label, and the share of the other class that undersampling keeps."""

    X: Any
    y: np.ndarray
    X_test: Any
    y_test: np.ndarray
    rare: str
    frequent: str
    share: float
    max_epochs: int | str = "auto"


def breast_cancer(seed: int) -> Task:
    X, numbers = load_breast_cancer(return_X_y=True)
    y = np.where(numbers == 0, "malignant", "benign")
    X, X_test, y, y_test = train_test_split(X, y, test_size=0.5, stratify=y, random_state=seed)
    benign, malignant = np.flatnonzero(y == "benign"), np.flatnonzero(y == "malignant")
    rows = np.concatenate([benign, malignant[: len(benign) // 20]])
    return Task(X[rows], y[rows], X_test, y_test, "malignant", "benign", 0.3)


def adult(seed: int) -> Task:
    train, test = load("adult", "train"), load("adult", "test")
    rng = np.random.default_rng(seed)
    poor, rich = (rng.permutation(np.flatnonzero(train.y == label)) for label in ("<=50K", ">50K"))
    rows = np.concatenate([poor[:4000], rich[:200]])
    return Task(train.X.iloc[rows], train.y[rows], test.X[:4000], test.y[:4000], ">50K", "<=50K", 0.1)


def isic(seed: int) -> Task:
    train, test = load("isic", "train"), load("isic", "test")
    y, y_test = melanoma_or_benign(train.y), melanoma_or_benign(test.y)
    return Task(_quarter(train.X), y, _quarter(test.X), y_test, "melanoma", "benign", 0.25, max_epochs=12)


def _quarter(images: np.ndarray) -> np.ndarray:
    """Return 128 x 128 images as 32 x 32: the mean of each 4 x 4 square."""
    return images.reshape(len(images), 32, 4, 32, 4, 3).mean((2, 4)).astype(np.uint8)


def ways(task: Task) -> dict[str, tuple[dict[str, Any], np.ndarray | None]]:
    """Return the parameters and sample weights of each way to treat the rare class."""
    return {
        "nothing": ({}, None),
        "class_weight": ({"class_weight": "balanced"}, None),
        "sample_weight": ({}, compute_sample_weight("balanced", task.y)),
        "undersample": ({"undersample": {task.frequent: task.share}}, None),
    }


def measure(make: Callable[[int], Task], n_seeds: int) -> dict[str, Any]:
    """Return mean recall of both classes, and training seconds, for each way."""
    found: dict[str, list[tuple[float, float, float]]] = {}
    for seed in range(n_seeds):
        task = make(seed)
        for name, (params, weights) in ways(task).items():
            start = time.perf_counter()
            classifier = ProtoAttendClassifier(
                max_epochs=task.max_epochs, device="cpu", random_state=seed, verbose=0, **params
            ).fit(task.X, task.y, sample_weight=weights)
            seconds = time.perf_counter() - start
            right = classifier.predict(task.X_test) == task.y_test
            rare = task.y_test == task.rare
            found.setdefault(name, []).append((right[rare].mean(), right[~rare].mean(), seconds))
            print(f"  {make.__name__} {seed} {name}: {right[rare].mean():.3f} {right[~rare].mean():.3f}", flush=True)
    means = {name: np.mean(results, axis=0) for name, results in found.items()}
    return {
        "train_rows": {label: int((task.y == label).sum()) for label in (task.rare, task.frequent)},
        "seeds": n_seeds,
        "undersample": task.share,
        "recall_rare": {name: round(float(mean[0]), 3) for name, mean in means.items()},
        "recall_frequent": {name: round(float(mean[1]), 3) for name, mean in means.items()},
        "seconds": {name: round(float(mean[2]), 1) for name, mean in means.items()},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="breast cancer alone, two seeds; nothing is written")
    quick = parser.parse_args().quick
    torch.set_num_threads(1)
    tasks = {breast_cancer: 2} if quick else {breast_cancer: 10, adult: 3, isic: 1}
    results = {}
    for make, n_seeds in tasks.items():
        try:
            results[make.__name__] = measure(make, n_seeds)
        except UserError as error:
            print(f"{make.__name__} is left out: {error}")
    for name, result in results.items():
        print(f"{name}: recall of the rare class {result['recall_rare']}, of the other {result['recall_frequent']}")
    if quick:
        return
    record.write("imbalance", results)


if __name__ == "__main__":
    main()
