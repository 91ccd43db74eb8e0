"""How accurate the plain encoder and ProtoAttend are on a real data set, with the same encoder and training.

    PROTOATTEND_DATA=../shared/data python benchmarks/quality.py NAME [--seed 0] [--keep FOLDER]

Trains both through the public API, touches the test split once, writes benchmarks/results/quality-NAME.json.
Settings were chosen on parts of the training split.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import record
from real_encoders import efficientnet_lite0, minilm
from sklearn.metrics import balanced_accuracy_score

from protoattend import ProtoAttendClassifier
from protoattend.baselines.plain import PlainClassifier
from protoattend.data import datasets
from protoattend.data.augment import PAPER_AUGMENTATION, Augmentation

EXPLAINED = 1000  # test rows, spread over the split, whose prototypes are counted


@dataclass(frozen=True)
class Experiment:
    """A data set, its task, and the parameters that both classifiers share."""

    data: str
    params: Callable[[], Mapping[str, Any]]
    features: Callable[[Any], Any] = lambda X: X
    labels: Callable[[np.ndarray], np.ndarray] = lambda y: y


@dataclass(frozen=True)
class Result:
    """What one classifier achieved on the test split, and how long its training took."""

    accuracy: float
    balanced_accuracy: float
    minutes: float


# For large data: pure samples with smoothed labels, and no row held back, as the schedule ends at the best epoch.
LARGE = {"mixup": 0.0, "label_smoothing": 0.1, "validation_fraction": 0.0}

EXPERIMENTS: Mapping[str, Experiment] = {
    "adult-mlp": Experiment("adult", lambda: {"encoder": "mlp"}),
    "adult-lstm": Experiment(
        "adult",
        lambda: {
            "encoder": "lstm",
            "mixup": 0.0,
            "learning_rate": 5e-3,
            "weight_decay": 1e-3,
            "batch_size": 512,
            "max_epochs": 24,
        },
    ),
    "fashion-fast-cnn": Experiment(
        "fashion-mnist",
        lambda: {
            "encoder": "fast-cnn",
            "augment": Augmentation(padding=1, horizontal=True),
            "max_epochs": 22,
            **LARGE,
        },
    ),
    "cifar-fast-cnn": Experiment(
        "cifar-10",
        lambda: {
            "encoder": "fast-cnn",
            "augment": Augmentation(padding=2, horizontal=True, cutout=8),
            "optimizer": "sgd",
            "max_epochs": 24,
            **LARGE,
        },
    ),
    "dbpedia-vdcnn": Experiment("dbpedia", lambda: {"encoder": "vdcnn", "mixup": 0.0, "max_epochs": 4}),
    "fruits-resnet32": Experiment(
        "fruits",
        lambda: {"encoder": "resnet32", "augment": PAPER_AUGMENTATION["fruits"], "mixup": 0.0, "max_epochs": 12},
    ),
    "fruits-frozen": Experiment("fruits", lambda: {"encoder": efficientnet_lite0()}),
    "dbpedia-frozen": Experiment("dbpedia", lambda: {"encoder": minilm()}),
    "isic-resnet50": Experiment(
        "isic",
        lambda: {
            "encoder": "resnet50",
            "augment": PAPER_AUGMENTATION["isic"],
            "mixup": 0.0,
            "max_epochs": 12,
            "class_weight": "balanced",
        },
        labels=datasets.melanoma_or_benign,
    ),
}


def run(classifier: Any, train: datasets.Dataset, test: datasets.Dataset, experiment: Experiment) -> Result:
    """Train the classifier on the one split and score it on the other."""
    started = time.perf_counter()
    classifier.fit(experiment.features(train.X), experiment.labels(train.y))
    minutes = (time.perf_counter() - started) / 60
    predicted, truth = classifier.predict(experiment.features(test.X)), experiment.labels(test.y)
    return Result(float(np.mean(predicted == truth)), float(balanced_accuracy_score(truth, predicted)), minutes)


def explanations(classifier: ProtoAttendClassifier, test: datasets.Dataset, experiment: Experiment) -> dict[str, float]:
    """Return the median number of prototypes for 95 % of the decision, and how sure right and wrong answers are."""
    rows = np.unique(np.linspace(0, len(test.y) - 1, EXPLAINED).astype(int))
    X, truth = experiment.features(_at(test.X, rows)), experiment.labels(test.y[rows])
    explained = classifier.explain(X)
    confidence = np.array([e.confidence for e in explained])
    right = np.array([e.prediction for e in explained]) == truth
    return {
        "prototypes95": float(np.median([e.n_prototypes(0.95) for e in explained])),
        "confidence_right": _mean(confidence[right]),
        "confidence_wrong": _mean(confidence[~right]),
        "explained_rows": len(rows),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", choices=EXPERIMENTS)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep", type=Path, help="folder in which both trained classifiers are kept")
    arguments = parser.parse_args()
    experiment = EXPERIMENTS[arguments.name]
    train, test = (datasets.load(experiment.data, split) for split in datasets.SPLITS)
    params = {**experiment.params(), "random_state": arguments.seed}
    plain_classifier = PlainClassifier(**params)
    plain = run(plain_classifier, train, test, experiment)
    print(f"plain encoder: {plain.accuracy:.4f} in {plain.minutes:.1f} minutes", flush=True)
    ours = ProtoAttendClassifier(**params)
    result = run(ours, train, test, experiment)
    figures = {
        "data": experiment.data,
        "note": train.note,
        "rows": [len(train.y), len(test.y)],
        "params": {name: str(value)[:200] for name, value in params.items()},
        "epochs": len(ours.history_),
        "plain": vars(plain),
        "protoattend": {**vars(result), **explanations(ours, test, experiment)},
        "seed": arguments.seed,
    }
    record.write(f"quality-{arguments.name}", figures)
    if arguments.keep is not None:
        kept = arguments.keep / arguments.name
        kept.mkdir(parents=True, exist_ok=True)
        ours.save(kept / "protoattend")
        record.keep_state(plain_classifier.model_, kept / "plain.safetensors")
    print(
        f"quality {arguments.name} plain={plain.accuracy:.4f} accuracy={result.accuracy:.4f} "
        f"prototypes95={figures['protoattend']['prototypes95']:.0f} minutes={result.minutes:.1f}"
    )


def _at(X: Any, rows: np.ndarray) -> Any:
    if hasattr(X, "iloc"):
        return X.iloc[rows]
    return [X[row] for row in rows] if isinstance(X, list) else X[rows]


def _mean(values: np.ndarray) -> float:
    return float(values.mean()) if len(values) else float("nan")


if __name__ == "__main__":
    main()
