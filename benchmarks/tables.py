"""Tables by the defaults: are rows far from training told apart, and are wrong labels found?

    PROTOATTEND_DATA=../shared/data python benchmarks/tables.py [--work FOLDER] [--seeds 0,1,2]

For each table: the AUROC of `ood_score` for test rows with all numbers, or one of them, moved by eight standard
deviations; and, with a tenth of the training labels made wrong, the average precision of `find_label_issues()` beside a
logistic regression cross-validated in five folds (its disagreement) and cleanlab on the probabilities of that. Writes
benchmarks/results/tables.json and prints last `tables far_all=… far_one=… labels=… logistic=… cleanlab=…` (the worst
AUROC of a table, as a mean over seeds, and means of average precision).
"""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import record
from cleanlab.rank import get_label_quality_scores
from one_story import SEEDS, TABLES, load
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import average_precision_score
from sklearn.model_selection import cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from protoattend import ProtoAttendClassifier
from protoattend.data_quality.label_errors import inject_label_noise

FAR = 8.0  # standard deviations
WRONG = 0.1  # of the labels
FEWEST = 8  # rows of a class: rarer ones would not be in every fold


def far_rows(name: str, seed: int) -> dict[str, float]:
    """Return the AUROC for rows with all numbers moved, and with one."""
    split = load(name, seed)
    X, near = split.X, split.X_test
    numbers = [column for column in X.columns if X[column].dtype.kind in "fi"]
    clf = ProtoAttendClassifier(random_state=seed, verbose=0).fit(X, split.y)
    steps = FAR * X[numbers].std().to_numpy()
    every, one = near.astype(dict.fromkeys(numbers, float)), near.astype(dict.fromkeys(numbers, float))
    every[numbers] += steps
    generator = np.random.default_rng(seed)
    chosen = generator.integers(len(numbers), size=len(one))
    signs = generator.choice([-1, 1], len(one))
    moved = one[numbers].to_numpy(copy=True)
    moved[np.arange(len(one)), chosen] += signs * steps[chosen]
    one[numbers] = moved
    return {"far_all": clf.ood_curve(near, every).auroc, "far_one": clf.ood_curve(near, one).auroc}


def wrong_labels(name: str, seed: int) -> dict[str, float]:
    """Return the average precision with which labels that were made wrong are found."""
    split = load(name, seed)
    counts = pd.Series(split.y).value_counts()
    kept = np.isin(split.y, counts.index[counts >= FEWEST])
    X, noisy = split.X[kept], inject_label_noise(split.y[kept], WRONG, random_state=seed)
    clf = ProtoAttendClassifier(random_state=seed, verbose=0).fit(X, noisy.labels)
    columns = pd.get_dummies(X).fillna(0).to_numpy(float)
    peer = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
    probabilities = cross_val_predict(peer, columns, noisy.labels, cv=5, method="predict_proba")
    codes = np.unique(noisy.labels, return_inverse=True)[1]
    scores = {
        "labels": clf.find_label_issues().scores,
        "logistic": 1 - probabilities[np.arange(len(codes)), codes],
        "cleanlab": 1 - get_label_quality_scores(codes, probabilities, method="normalized_margin"),
    }
    return {who: float(average_precision_score(noisy.flipped, score)) for who, score in scores.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, help="folder in which each run is kept")
    parser.add_argument("--seeds", default=",".join(map(str, SEEDS)))
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore", category=FutureWarning)
    runs: dict[str, list[dict[str, Any]]] = {}
    for seed in map(int, arguments.seeds.split(",")):
        for name in TABLES:
            path = None if arguments.work is None else arguments.work / f"tables {name} {seed}.json"
            found = record.once(path, lambda name=name, seed=seed: far_rows(name, seed) | wrong_labels(name, seed))
            runs.setdefault(name, []).append(found)
            print(f"{name} {seed}: " + " ".join(f"{key}={value:.3f}" for key, value in found.items()), flush=True)
    means = {key: [float(np.mean([run[key] for run in own])) for own in runs.values()] for key in found}
    figures = {key: min(values) if key.startswith("far") else float(np.mean(values)) for key, values in means.items()}
    record.write("tables", {"runs": runs, "headline": figures})
    print("tables " + " ".join(f"{name}={value:.3f}" for name, value in figures.items()))


if __name__ == "__main__":
    main()
