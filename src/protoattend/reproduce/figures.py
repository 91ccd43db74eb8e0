"""What figures of the paper are drawn from, beside what the tables and the comparison measure already."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from protoattend.datasets.paper import paper_settings
from protoattend.reproduce.measures import examples, rounded, wrong_examples
from protoattend.reproduce.record import once
from protoattend.reproduce.work import Work, training_facts
from protoattend.uncertainty.selective import auc_coverage


def sparsity(work: Work) -> dict[str, Any]:
    """Train with several lambda_sparse: how the number of prototypes falls in training, and what accuracy is left."""
    return {
        f"{value:g}": once(work.folder / f"{value:g}.json", partial(_sparsity, work, value))
        for value in work.config["lambdas"]
    }


def _sparsity(work: Work, value: float) -> dict[str, Any]:
    settings = work.settings(work.config["training"], lambda_sparse=value)
    clf = work.fitted(f"{value:g}", settings)
    accuracy = float(np.mean(clf.predict(work.test.X) == work.test.y))
    return {"accuracy": accuracy} | training_facts(clf, len(work.train.y))


def melanoma(work: Work) -> dict[str, Any]:
    """Train on ISIC with benign rows undersampled: the AUC among those answered, by how many are."""
    return {
        training: once(work.folder / f"{training}.json", partial(_melanoma, work, training))
        for training in work.config["trainings"]
    }


def _melanoma(work: Work, training: str) -> dict[str, Any]:
    share = paper_settings("isic", "softmax", y=work.train.y)["undersample"]
    settings = work.settings(training, undersample=share)
    positive = work.test.y == "melanoma"
    found: dict[str, Any] = {}
    clf: Any
    if training == "baseline":
        clf = work.plain(settings)
        probabilities = clf.predict_proba(work.test.X)
        confidence = probabilities.max(1)
    else:
        clf = work.fitted(training, settings)
        probabilities, confidence = clf.predict_proba(work.test.X), clf.confidence(work.test.X)
        found = {
            "examples": examples(clf, work.test.X, work.test.y),
            "wrong": wrong_examples(clf, work.test.X, work.test.y),
        }
    scores = probabilities[:, int(np.flatnonzero(clf.classes_ == "melanoma")[0])]
    curve = auc_coverage(confidence, scores, positive, points=40)
    benign = work.train.y == "benign"
    n_kept = int((~benign).sum() + share["benign"] * benign.sum())
    found |= {
        "auc": float(curve.auc[-1]),
        "accuracy": float((clf.classes_[probabilities.argmax(1)] == work.test.y).mean()),
        "coverage": rounded(curve.coverage),
        "auc_by_coverage": rounded(curve.auc),
        "melanomas": int(positive.sum()),
    }
    return found | training_facts(clf, n_kept)
