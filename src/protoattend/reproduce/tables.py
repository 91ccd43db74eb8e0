"""Tables 1 to 3: what the objectives, the normalisations and wrong labels do."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from protoattend.classifier import ProtoAttendClassifier
from protoattend.core.objectives import OBJECTIVES
from protoattend.data_quality.label_errors import inject_label_noise
from protoattend.database.encode import decision_weight, encode
from protoattend.reproduce.data import Rows
from protoattend.reproduce.measures import (
    as_learned,
    examples,
    prototype_counts,
    reliable,
    selective,
    wrong_examples,
)
from protoattend.reproduce.record import once
from protoattend.reproduce.work import Work, training_facts

FEW = 8  # n_prototypes of the library's default
FOLDS = 3


def table1(work: Work) -> dict[str, Any]:
    """Train by each of the six objectives: accuracy at alpha 0 and 1, and the mean of C of right and wrong decisions.

    The last epoch is taken: half of the objectives do not train what would choose the best one.
    """
    return {name: once(work.folder / f"{name}.json", partial(_table1, work, name)) for name in OBJECTIVES}


def _table1(work: Work, objective: str) -> dict[str, Any]:
    settings = work.settings("softmax", objective=objective, validation_fraction=0.0)
    clf = work.fitted(objective, settings)
    return both_decisions(clf, work.test) | training_facts(clf, len(work.train.y))


def both_decisions(clf: ProtoAttendClassifier, rows: Rows) -> dict[str, float]:
    """Return both accuracies, and the mean of C of right and of wrong decisions, by themselves and jointly."""
    values = encode(clf.model_, clf.inputs_.tensor(clf.inputs_.source(rows.X))).values
    by_own = clf.classes_[(values @ decision_weight(clf.model_).T).argmax(1).numpy()]
    confidence, right = clf.confidence(rows.X).astype(float), clf.predict(rows.X) == rows.y
    return {
        "self_accuracy": float((by_own == rows.y).mean()),
        "prototype_accuracy": float(right.mean()),
        "confidence_of_right": _mean(confidence[right]),
        "confidence_of_wrong": _mean(confidence[~right]),
        "joint_right": float((confidence * right).mean()),
        "joint_wrong": float((confidence * ~right).mean()),
    }


def table2(work: Work) -> dict[str, Any]:
    """Train the plain encoder and ProtoAttend by several normalisations: accuracy, numbers of prototypes, curves."""
    found = {"plain": once(work.folder / "plain.json", partial(_plain, work))}
    for training in work.config["trainings"]:
        found[training] = once(work.folder / f"{training}.json", partial(_attention, work, training))
    return found


def _plain(work: Work) -> dict[str, Any]:
    clf = work.plain(work.settings("baseline"))
    probabilities = clf.predict_proba(work.test.X)
    right = clf.classes_[probabilities.argmax(1)] == work.test.y
    found = {"accuracy": float(right.mean()), "selective": selective(probabilities.max(1), right)}
    return found | training_facts(clf, len(work.train.y))


def _attention(work: Work, training: str) -> dict[str, Any]:
    clf, test = work.fitted(training, work.settings(training)), work.test
    found = {"as_learned": as_learned(clf, test.X, test.y)} | _confidence(clf, test)
    found |= {"examples": examples(clf, test.X, test.y), "wrong": wrong_examples(clf, test.X, test.y)}
    if clf.normalize == "sparsemax":
        if clf.database_.readings is None:  # the paper leaves attention as it was learned
            clf.database_.set_n_prototypes(FEW)
        accuracy = float(np.mean(clf.predict(test.X) == test.y))
        found["few"] = {"accuracy": accuracy, "prototypes": prototype_counts(clf, test.X)}
    return found | training_facts(clf, len(work.train.y))


def _confidence(clf: ProtoAttendClassifier, rows: Rows) -> dict[str, Any]:
    confidence, right = clf.confidence(rows.X).astype(float), clf.predict(rows.X) == rows.y
    return {"selective": selective(confidence, right), "reliability": reliable(confidence, right)}


def table3(work: Work) -> dict[str, Any]:
    """Train on labels of which a share is wrong, each uniformly another one; test labels are right."""
    ways = ["plain", "dropout", *(f"lambda_sparse={value:g}" for value in work.config["lambdas"])]
    if work.run.recipe == "ours":
        ways.append("corrected")
    return {way: once(work.folder / f"{way}.json", partial(_table3, work, way)) for way in ways}


def _table3(work: Work, way: str) -> dict[str, Any]:
    noise, test = work.config["noise"], work.test
    given = inject_label_noise(work.train.y, noise, random_state=work.run.seed).labels
    clf: Any
    certainty: np.ndarray | None = None
    if way in ("plain", "dropout"):
        settings = work.settings(f"baseline, noise {noise}")
        if way == "dropout":
            settings = work.dropping(settings, work.config["dropout"])
        clf = work.plain(settings, Rows(work.train.X, given))
    else:
        settings = work.settings(f"sparsemax, noise {noise}")
        if way == "corrected":
            finder = ProtoAttendClassifier(**settings, random_state=work.run.seed, verbose=0)
            issues = finder.find_label_issues(work.train.X, given, cv=FOLDS)
            given, certainty = issues.corrected(given), issues.certainty
        else:
            settings["lambda_sparse"] = float(way.partition("=")[2])
        clf = work.fitted(way, settings, Rows(work.train.X, given), certainty)
    found = {"accuracy": float(np.mean(clf.predict(test.X) == test.y))}
    found["labels_right"] = float(np.mean(given == work.train.y))
    if isinstance(clf, ProtoAttendClassifier):
        found["prototypes"] = prototype_counts(clf, test.X)["95%"]
    return found | training_facts(clf, len(work.train.y))


def _mean(values: np.ndarray) -> float:
    return float(values.mean()) if len(values) else float("nan")
