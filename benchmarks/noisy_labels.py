"""How accurate a classifier stays where some labels of the training data are wrong, by how it is trained.

    python benchmarks/noisy_labels.py [--quick] [--work FOLDER]

Digits whose labels are replaced uniformly by others, as in the paper; the test labels are right. Means over
three seeds, which draw split and noise too. Mixup makes every way robust, so all are tried with and without it.
"corrected" trains first what finds disputed labels, three folds of it, then on all rows with likelier labels in place,
each counting by how likely its label is right.
Writes benchmarks/results/noisy_labels.json. With FOLDER, a run that was stopped goes on.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np
import record
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from protoattend import ProtoAttendClassifier, Recipe
from protoattend.baselines.plain import PlainClassifier
from protoattend.data_quality.label_errors import inject_label_noise

RATES = (0.0, 0.2, 0.4)
MIXUPS = (0.0, 1.0)
SEEDS = 3
FOLDS = 3
CORRECTED = "sparsemax, labels corrected by find_label_issues"
WAYS: Mapping[str, tuple[type[Any], dict[str, Any]]] = {
    "plain encoder": (PlainClassifier, {}),
    "sparsemax": (ProtoAttendClassifier, {}),
    "sparsemax, lambda_sparse=0.1 (the paper)": (ProtoAttendClassifier, {"lambda_sparse": 0.1}),
    CORRECTED: (ProtoAttendClassifier, {}),
}


def accuracy(way: str, *, mixup: float, rate: float, seed: int) -> float:
    """Train one way on labels of which `rate` are wrong, and return the share of right answers."""
    images, labels = load_digits().images.astype(np.float32), load_digits().target
    X, X_test, y, y_test = train_test_split(images, labels, test_size=600, random_state=seed, stratify=labels)
    kind, own = WAYS[way]
    clf = kind(**own, recipe=Recipe(mixup=mixup), random_state=seed, verbose=0)
    given = inject_label_noise(y, rate, random_state=seed).labels
    if way == CORRECTED:
        issues = clf.find_label_issues(X, given, cv=FOLDS)
        clf.fit(X, issues.corrected(given), issues.certainty)
    else:
        clf.fit(X, given)
    return float(clf.score(X_test, y_test))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one rate and one seed, without mixup; writes nothing")
    parser.add_argument("--work", type=Path, help="folder in which trainings that are done are kept")
    arguments = parser.parse_args()
    if arguments.quick:
        for way in WAYS:
            print(f"{way}: {accuracy(way, mixup=0.0, rate=0.4, seed=0):.4f}", flush=True)
        return
    cases = [(way, mixup, rate) for mixup in MIXUPS for rate in RATES for way in WAYS]
    found = [
        {"way": way, "mixup": mixup, "rate": rate, "accuracy": _mean_accuracy(way, mixup, rate, arguments.work)}
        for way, mixup, rate in cases
    ]
    record.write("noisy_labels", {"data": "digits", "seeds": SEEDS, "accuracy": found})


def _mean_accuracy(way: str, mixup: float, rate: float, work: Path | None) -> float:
    each = []
    for seed in range(SEEDS):
        path = None if work is None else work / f"noise {way} {mixup} {rate} {seed}.json"
        each.append(record.once(path, lambda seed=seed: {"accuracy": accuracy(way, mixup=mixup, rate=rate, seed=seed)}))
    found = mean(part["accuracy"] for part in each)
    print(f"{way}, mixup {mixup:g}, {rate:.0%} wrong labels: {found:.4f}", flush=True)
    return found


if __name__ == "__main__":
    main()
