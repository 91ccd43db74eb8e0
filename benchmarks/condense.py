"""How accurate a condensed database is: accuracy on unseen samples against the number of candidates kept.

    PROTOATTEND_DATA=../shared/data python benchmarks/condense.py [--quick] [--seed 0]

Trains by the defaults on 10,000 rows of Fashion-MNIST and of Adult, then halves the database again and again: by
attention received (`database.condense`) and, for comparison, by chance with the same share of each class. Writes
condense.json and condense.png to benchmarks/results; `--quick` takes scikit-learn's digits and writes nothing.
"""

from __future__ import annotations

import argparse
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import record
from one_story import load

from protoattend import CandidateDatabase, ProtoAttendClassifier
from protoattend.database.condense import attention_received, most_attended
from protoattend.database.store import encode

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


def train_on(name: str, seed: int) -> tuple[ProtoAttendClassifier, Any, np.ndarray]:
    """Return a classifier trained by the defaults, and test rows."""
    split = load(name, seed)
    classifier = ProtoAttendClassifier(random_state=seed, verbose=0).fit(split.X, split.y)
    return classifier, split.X_test, split.y_test


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
    arguments = parser.parse_args()
    names = ["digits"] if arguments.quick else ["fashion-mnist", "adult"]
    curves: dict[str, list[Point]] = {}
    for name in names:
        print(name, flush=True)
        curves[name] = curve(*train_on(name, arguments.seed), arguments.seed)
    figure = draw(curves)
    if not arguments.quick:
        figures = {name: [asdict(point) for point in points] for name, points in curves.items()}
        path = record.write("condense", {"curves": figures, "seed": arguments.seed})
        figure.savefig(path.with_suffix(".png"), dpi=110)
    for name, points in curves.items():
        print(f"condense {name} all={points[0].candidates} within_half_a_point={smallest_within(points, 0.005)}")


if __name__ == "__main__":
    main()
