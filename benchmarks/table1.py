"""Table 1 of the paper on a part of Fashion-MNIST: what each of the six training objectives is worth.

    PROTOATTEND_DATA=../shared/data python benchmarks/table1.py --work FOLDER [--quick] [--encoder resnet32]

Everything but the objective is recipe="paper" with the paper's rate for softmax attention on this set, 1,024 candidates
at each step by default; 10,000 rows of the training split are learned from, 10,000 others of it are decided. Accuracy
is that of the input's own value (alpha 0) and of the prototypes (alpha 1). The mean of the confidence C is given twice:
over right and over wrong decisions, as the table's heading reads, and jointly, C of right ones summed over all rows,
which is what the paper's figures add up by. With FOLDER, a run that was stopped goes on. Writes
benchmarks/results/table1.json.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np
import record
from torch import nn
from training_cost import half_width

from protoattend import ProtoAttendClassifier, paper_settings
from protoattend.core.objectives import OBJECTIVES
from protoattend.database.encode import decision_weight, encode
from protoattend.datasets import catalogue as datasets

DATA = "fashion-mnist"
# Accuracy in % at alpha 0 and 1, and the mean of C where right and where wrong, as printed in Table 1.
PAPER: Mapping[str, tuple[float, float, float, float]] = {
    "self": (94.28, 13.13, 0.029, 0.194),
    "prototype": (10.92, 94.21, 0.103, 0.002),
    "joint": (94.01, 94.25, 0.927, 0.049),
    "self+prototype": (94.37, 94.38, 0.931, 0.047),
    "annealed": (94.14, 94.18, 0.927, 0.049),
    "self+prototype+joint": (94.37, 94.45, 0.928, 0.047),
}


@dataclass(frozen=True)
class Size:
    """How much is trained."""

    rows: int
    candidates: int
    epochs: int
    encoder: str


FULL = Size(rows=10_000, candidates=1024, epochs=10, encoder="half-width fast-cnn")
QUICK = Size(rows=400, candidates=64, epochs=1, encoder=FULL.encoder)


def run(objective: str, size: Size, seed: int) -> dict[str, float]:
    """Train by one objective, and return what the table says of it."""
    data = datasets.load(DATA)
    order = np.random.default_rng(seed).permutation(len(data.y))
    learned, decided = order[: size.rows], order[size.rows : 2 * size.rows]
    X, y = np.asarray(data.X), np.asarray(data.y)
    of_set = paper_settings(DATA, "softmax")
    clf = ProtoAttendClassifier(
        encoder=_encoder(size.encoder, seed),
        recipe="paper",
        objective=objective,
        normalize="softmax",
        learning_rate=of_set["learning_rate"],
        augment=of_set["augment"],
        n_candidates=size.candidates,
        max_epochs=size.epochs,
        validation_fraction=0.0,  # the last epoch: half of the objectives do not train what would choose the best one
        random_state=seed,
        verbose=0,
    ).fit(X[learned], y[learned])
    return measured(clf, X[decided], y[decided])


def measured(clf: ProtoAttendClassifier, X: np.ndarray, y: np.ndarray) -> dict[str, float]:
    """Return both accuracies, and the mean of C of right and of wrong decisions, by themselves and jointly."""
    values = encode(clf.model_, clf.inputs_.tensor(clf.inputs_.source(X))).values
    by_own = clf.classes_[(values @ decision_weight(clf.model_).T).argmax(1).numpy()]
    confidence, right = clf.confidence(X).astype(float), clf.predict(X) == y
    return {
        "self_accuracy": float((by_own == y).mean()),
        "prototype_accuracy": float(right.mean()),
        "confidence_of_right": _mean(confidence[right]),
        "confidence_of_wrong": _mean(confidence[~right]),
        "joint_right": float((confidence * right).mean()),
        "joint_wrong": float((confidence * ~right).mean()),
    }


def _mean(values: np.ndarray) -> float:
    return float(values.mean()) if len(values) else float("nan")


def _encoder(name: str, seed: int) -> str | nn.Module:
    return half_width(1, seed) if name == FULL.encoder else name


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one epoch on 400 rows, one seed; writes nothing")
    parser.add_argument("--work", type=Path, help="folder in which trainings that are done are kept")
    parser.add_argument("--encoder", default=FULL.encoder, help='by name; the paper\'s is "resnet32", much slower')
    parser.add_argument("--epochs", type=int, default=FULL.epochs)
    parser.add_argument("--candidates", type=int, default=FULL.candidates, help="at each step; they take the time")
    parser.add_argument("--seeds", type=int, default=1)
    arguments = parser.parse_args()
    if arguments.quick:
        for objective in OBJECTIVES:
            print(objective, run(objective, QUICK, 0), flush=True)
        return
    size = Size(FULL.rows, arguments.candidates, arguments.epochs, arguments.encoder)
    found: dict[str, Any] = {}
    for objective in OBJECTIVES:
        each = []
        for seed in range(arguments.seeds):
            name = f"table1 {size.encoder} {size.epochs} {size.candidates} {objective} {seed}.json"
            path = None if arguments.work is None else arguments.work / name
            each.append(record.once(path, lambda objective=objective, seed=seed: run(objective, size, seed)))
        found[objective] = {name: mean(part[name] for part in each) for name in each[0]} | {"runs": each}
        print(objective, {name: value for name, value in found[objective].items() if name != "runs"}, flush=True)
    record.write("table1", {"data": DATA, **vars(size), "seeds": arguments.seeds, "objectives": found, "paper": PAPER})


if __name__ == "__main__":
    main()
