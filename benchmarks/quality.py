"""How accurate the plain encoder and ProtoAttend are on a real data set, with the same encoder and training.

    PROTOATTEND_DATA=../shared/data python benchmarks/quality.py NAME [--seed 0] [--keep FOLDER] [--only plain]

Trains both through the public API, touches the test split once, writes benchmarks/results/quality-NAME.json.
Settings were chosen on parts of the training split. What is kept in FOLDER is not trained again, so that the two can be
trained at different times, each on a quiet machine.
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
import torch
from real_encoders import efficientnet_lite0, minilm
from sklearn.metrics import balanced_accuracy_score

from protoattend import ProtoAttendClassifier, Recipe, TestTimeAugmentation
from protoattend.baselines.plain import PlainClassifier
from protoattend.data.augment import Augmentation
from protoattend.datasets import catalogue as datasets
from protoattend.datasets.adult import NUMBERS

EXPLAINED = 1000  # test rows, spread over the split, whose prototypes are counted


@dataclass(frozen=True)
class Experiment:
    """A data set, its task, and the parameters that both classifiers share."""

    data: str
    params: Callable[[], Mapping[str, Any]]
    features: Callable[[Any], Any] = lambda X: X
    labels: Callable[[np.ndarray], np.ndarray] = lambda y: y


# For large data: pure samples with smoothed labels, and no row held back, as the schedule ends at the best epoch.
LARGE = Recipe(
    mixup=0.0,
    label_smoothing=0.2,
    optimizer="sgd",
    test_time_augmentation=TestTimeAugmentation(mirror=True, shift=1),
)
PURE = Recipe(mixup=0.0)

EXPERIMENTS: Mapping[str, Experiment] = {
    "adult-mlp": Experiment("adult", lambda: {"encoder": "mlp"}),
    "adult-lstm": Experiment(
        "adult",
        lambda: {
            "encoder": "lstm",
            "recipe": Recipe(mixup=0.0, weight_decay=1e-3, fixed_columns=NUMBERS),
            "learning_rate": 5e-3,
            "batch_size": 512,
            "max_epochs": 24,
        },
    ),
    "fashion-fast-cnn": Experiment(
        "fashion-mnist",
        lambda: {
            "encoder": "fast-cnn",
            "augment": Augmentation(padding=1, horizontal=True),
            "recipe": LARGE,
            "max_epochs": 20,
            "validation_fraction": 0.0,
        },
    ),
    "cifar-fast-cnn": Experiment(
        "cifar-10",
        lambda: {
            "encoder": "fast-cnn",
            "augment": Augmentation(padding=2, horizontal=True),
            "recipe": LARGE,
            "max_epochs": 16,
            "validation_fraction": 0.0,
        },
    ),
    "dbpedia-vdcnn": Experiment(
        "dbpedia", lambda: {"encoder": "vdcnn", "recipe": PURE, "batch_size": 64, "max_epochs": 4}
    ),
    "fruits-resnet32": Experiment(
        "fruits",
        lambda: {
            "encoder": "resnet32",
            "augment": Augmentation(padding=5, horizontal=True, vertical=True),
            "recipe": PURE,
            "batch_size": 32,
            "max_epochs": 20,
        },
    ),
    "fruits-frozen": Experiment("fruits", lambda: {"encoder": efficientnet_lite0()}),
    "dbpedia-frozen": Experiment("dbpedia", lambda: {"encoder": minilm()}),
    "isic-resnet50": Experiment(
        "isic",
        lambda: {
            "encoder": "resnet50",
            "augment": Augmentation(padding=8, horizontal=True, vertical=True),
            "recipe": PURE,
            "batch_size": 32,
            "max_epochs": 8,
            "class_weight": "balanced",
        },
        labels=datasets.melanoma_or_benign,
    ),
}


def run(classifier: Any, train: datasets.Dataset, test: datasets.Dataset, experiment: Experiment) -> dict[str, float]:
    """Train the classifier on the one split and score it on the other."""
    started = time.perf_counter()
    classifier.fit(experiment.features(train.X), experiment.labels(train.y))
    minutes = (time.perf_counter() - started) / 60
    predicted, truth = classifier.predict(experiment.features(test.X)), experiment.labels(test.y)
    return {
        "accuracy": float(np.mean(predicted == truth)),
        "balanced_accuracy": float(balanced_accuracy_score(truth, predicted)),
        "minutes": minutes,
        "threads": torch.get_num_threads(),
    }


def explanations(classifier: ProtoAttendClassifier, test: datasets.Dataset, experiment: Experiment) -> dict[str, float]:
    """Return the median number of prototypes for 95 % of the decision, and the confidence of right and wrong ones."""
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


def plain(params: Mapping[str, Any], kept: Path | None, *splits: Any) -> dict[str, float]:
    """Train and score the plain encoder."""
    classifier = PlainClassifier(**params)
    result = run(classifier, *splits)
    if kept is not None:
        record.keep_state(classifier.model_, kept / "plain.safetensors")
    return result


def protoattend(params: Mapping[str, Any], kept: Path | None, *splits: Any) -> dict[str, float]:
    """Train, score and explain ProtoAttend."""
    classifier = ProtoAttendClassifier(**params)
    result = {**run(classifier, *splits), "epochs": len(classifier.history_)}
    result |= explanations(classifier, *splits[1:])
    if kept is not None:
        classifier.save(kept / "protoattend")
    return result


METHODS = {"plain": plain, "protoattend": protoattend}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", choices=EXPERIMENTS)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep", type=Path, help="folder in which trained classifiers and their figures are kept")
    parser.add_argument("--only", choices=METHODS, help="train just this one now, and keep it")
    arguments = parser.parse_args()
    experiment = EXPERIMENTS[arguments.name]
    train, test = (datasets.load(experiment.data, split) for split in datasets.SPLITS)
    params = {**experiment.params(), "random_state": arguments.seed}
    kept = None if arguments.keep is None else arguments.keep / arguments.name
    results = {}
    for name in METHODS if arguments.only is None else [arguments.only]:
        results[name] = record.once(
            kept and kept / f"{name}.json", lambda name=name: METHODS[name](params, kept, train, test, experiment)
        )
        print(f"{name}: {results[name]['accuracy']:.4f} in {results[name]['minutes']:.1f} minutes", flush=True)
    if arguments.only is not None:
        return
    record.write(
        f"quality-{arguments.name}",
        {
            "data": experiment.data,
            "note": train.note,
            "rows": [len(train.y), len(test.y)],
            "params": {name: str(value)[:200] for name, value in params.items()},
            **results,
            "seed": arguments.seed,
        },
    )
    ours = results["protoattend"]
    print(
        f"quality {arguments.name} plain={results['plain']['accuracy']:.4f} accuracy={ours['accuracy']:.4f} "
        f"prototypes95={ours['prototypes95']:.0f} minutes={ours['minutes']:.1f}"
    )


def _at(X: Any, rows: np.ndarray) -> Any:
    if hasattr(X, "iloc"):
        return X.iloc[rows]
    return [X[row] for row in rows] if isinstance(X, list) else X[rows]


def _mean(values: np.ndarray) -> float:
    return float(values.mean()) if len(values) else float("nan")


if __name__ == "__main__":
    main()
