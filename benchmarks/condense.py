"""How accurate a condensed database is: accuracy on unseen samples against the number of candidates kept.

    PROTOATTEND_DATA=../shared/data python benchmarks/condense.py [--quick] [--seed 0] [--kept FOLDER]

Trains on Fashion-MNIST and Adult as benchmarks/quality.py does, or takes what that kept in FOLDER, then halves the
database again and again: by attention received (`database.condense`) and, for comparison, by chance with the same share
of each class. Writes condense.json and condense.png to benchmarks/results; `--quick` takes scikit-learn's digits and
writes nothing.
"""

from __future__ import annotations

import argparse
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import record
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from protoattend import CandidateDatabase, ProtoAttendClassifier, Recipe
from protoattend.database.condense import attention_received, most_attended
from protoattend.database.store import encode
from protoattend.datasets import catalogue as datasets

SMALLEST = 8  # candidates of each class, on average
RANDOM_CHOICES = 5


@dataclass(frozen=True)
class Point:
    """Accuracy on the test split with so many candidates: the most attended, and the mean of random choices."""

    candidates: int
    accuracy: float
    random: float


def curve(classifier: ProtoAttendClassifier, X: Any, y: np.ndarray, seed: int) -> list[Point]:
    """Return the points from the whole database down to a few candidates a class."""
    database, labels = classifier.database_, classifier.database_.rows.labels.numpy()
    queries = encode(classifier.model_, classifier.inputs_.tensor(classifier.inputs_.source(X))).queries
    truth = database.classes.encode(y)

    def accuracy(received: np.ndarray, n: int) -> float:
        left_out = np.setdiff1d(np.arange(len(database)), most_attended(received, labels, n))
        smaller: CandidateDatabase = database.without(database.indices[left_out])
        return float((smaller.decide(queries).logits.argmax(1) == truth).double().mean())

    received, rng = attention_received(database), np.random.default_rng(seed)
    points, n = [], len(database)
    while n >= SMALLEST * len(database.classes):
        by_chance = [accuracy(rng.random(len(database)), n) for _ in range(RANDOM_CHOICES)]
        points.append(Point(n, accuracy(received, n), float(np.mean(by_chance))))
        print(f"  {points[-1]}", flush=True)
        n //= 2
    return points


def train_on(name: str, seed: int, kept: Path | None) -> tuple[ProtoAttendClassifier, Any, np.ndarray]:
    """Return a classifier trained as in benchmarks/quality.py, or kept by it, and its test split."""
    from quality import EXPERIMENTS

    experiment = EXPERIMENTS[name]
    train, test = (datasets.load(experiment.data, split) for split in datasets.SPLITS)
    if kept is not None and (folder := kept / name / "protoattend").exists():
        classifier = ProtoAttendClassifier.load(folder)
    else:
        classifier = ProtoAttendClassifier(**{**experiment.params(), "random_state": seed})
        classifier.fit(experiment.features(train.X), experiment.labels(train.y))
    return classifier, experiment.features(test.X), experiment.labels(test.y)


def train_on_digits(seed: int) -> tuple[ProtoAttendClassifier, Any, np.ndarray]:
    X, y = load_digits(return_X_y=True)
    X, X_test, y, y_test = train_test_split(X.reshape(-1, 8, 8), y, test_size=0.4, random_state=seed)
    classifier = ProtoAttendClassifier(
        max_epochs=12, recipe=Recipe(mixup=0.3), augment=None, random_state=seed, verbose=0
    )
    classifier.fit(X, y)
    return classifier, X_test, y_test


def draw(curves: dict[str, list[Point]]) -> Any:
    """Return a figure with one panel for each data set."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5 * len(curves), 3.6), layout="constrained")
    axes = figure.subplots(1, len(curves), squeeze=False)[0]
    for ax, (name, points) in zip(axes, curves.items(), strict=True):
        sizes = [point.candidates for point in points]
        ax.plot(sizes, [point.accuracy for point in points], marker="o", label="most attended")
        ax.plot(sizes, [point.random for point in points], marker="o", mfc="none", ls="--", label="by chance")
        ax.set(xscale="log", xlabel="candidates", ylabel="test accuracy", title=name)
        ax.legend(frameon=False)
        ax.spines[["top", "right"]].set_visible(False)
    return figure


def smallest_within(points: list[Point], loss: float) -> int:
    """Return the fewest candidates whose accuracy is at most `loss` below that of all."""
    return min(point.candidates for point in points if point.accuracy >= points[0].accuracy - loss)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="digits alone; nothing is written")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kept", type=Path, help="the folder of quality.py --keep")
    arguments = parser.parse_args()
    names = ["digits"] if arguments.quick else ["fashion-fast-cnn", "adult-mlp"]
    curves: dict[str, list[Point]] = {}
    for name in names:
        print(name, flush=True)
        made = train_on_digits(arguments.seed) if name == "digits" else train_on(name, arguments.seed, arguments.kept)
        curves[name] = curve(*made, arguments.seed)
    figure = draw(curves)
    if not arguments.quick:
        figures = {name: [asdict(point) for point in points] for name, points in curves.items()}
        path = record.write("condense", {"curves": figures, "seed": arguments.seed})
        figure.savefig(path.with_suffix(".png"), dpi=110)
    for name, points in curves.items():
        print(f"condense {name} all={points[0].candidates} within_half_a_point={smallest_within(points, 0.005)}")


if __name__ == "__main__":
    main()
