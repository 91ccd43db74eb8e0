"""How good ProtoAttend is on the features of frozen pre-trained encoders, and what that costs on one thread.

    python benchmarks/pretrained.py [--quick]

Fruits with EfficientNet-Lite0 and a subset of DBPedia with MiniLM, against the plain encoder in the same run. What is
not installed or not there is left out, with the command that gets it. Writes benchmarks/results/pretrained.json.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import record
import torch
from real_encoders import IMAGES, TEXTS, efficientnet_lite0, install_command, minilm, missing

from protoattend import ProtoAttendClassifier
from protoattend.baselines.plain import PlainClassifier
from protoattend.datasets.catalogue import Dataset, load
from protoattend.encoders.pretrained import Pretrained
from protoattend.errors import UserError

SEED = 0
SETS: dict[str, tuple[tuple[str, ...], Callable[[], Pretrained], int, int]] = {  # rows to train and to test on at most
    "fruits": (IMAGES, efficientnet_lite0, 10**9, 10**9),
    "dbpedia": (TEXTS, minilm, 3000, 2000),
}


def some(data: Dataset, count: int) -> tuple[Any, np.ndarray]:
    """Return at most `count` rows, drawn by the seed."""
    rows = np.random.default_rng(SEED).permutation(len(data.y))[:count]
    return ([data.X[i] for i in rows] if isinstance(data.X, list) else data.X[rows]), data.y[rows]


def measure(name: str, encoder: Pretrained, n_train: int, n_test: int) -> dict[str, Any]:
    """Return the accuracy of ProtoAttend and of the plain encoder on one data set, with time and prototypes."""
    X, y = some(load(name), n_train)
    X_test, y_test = some(load(name, "test"), n_test)
    started = time.process_time()
    clf = ProtoAttendClassifier(encoder, random_state=SEED, verbose=1).fit(X, y)
    seconds = time.process_time() - started
    started = time.process_time()
    decisions = clf.explain(X_test)
    milliseconds = 1000 * (time.process_time() - started) / len(y_test)
    correct = np.array([e.prediction for e in decisions]) == y_test
    confidence = np.array([e.confidence for e in decisions])
    plain = PlainClassifier(encoder, random_state=SEED, verbose=1).fit(X, y)
    return {
        "encoder": str(encoder),
        "n_train": len(y),
        "n_test": len(y_test),
        "accuracy": round(float(correct.mean()), 4),
        "plain_accuracy": round(float((plain.predict(X_test) == y_test).mean()), 4),
        "confidence_right": round(float(confidence[correct].mean()), 3),
        "confidence_wrong": round(float(confidence[~correct].mean()), 3) if not correct.all() else None,
        "median_prototypes": float(np.median([e.n_prototypes(0.95) for e in decisions])),
        "fit_cpu_seconds": round(seconds, 1),
        "explain_cpu_milliseconds_a_row": round(milliseconds, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few rows; nothing is written")
    quick = parser.parse_args().quick
    torch.set_num_threads(1)
    found: dict[str, Any] = {}
    for name, (packages, make, n_train, n_test) in SETS.items():
        if missing(packages):
            print(f"{name}: left out; {install_command(packages)}")
            continue
        try:
            found[name] = measure(name, make(), *((100, 50) if quick else (n_train, n_test)))
        except UserError as error:
            print(f"{name}: left out; {error}")
            continue
        print(name, json.dumps(found[name]))
    if quick or not found:
        return
    record.write("pretrained", {**found, "seed": SEED})


if __name__ == "__main__":
    main()
