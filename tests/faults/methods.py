"""Public methods and functions with arguments that are right: each is called with one of them odd in turn."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from protoattend import CandidateDatabase, Checkpoints, ProtoAttendClassifier
from protoattend.data_quality.label_errors import inject_label_noise
from protoattend.database.approximate import FaissNeighbours
from protoattend.monitoring.drift import DriftMonitor
from protoattend.monitoring.ood import energy, neighbour_distance
from protoattend.monitoring.ood_curves import OodCurve
from protoattend.uncertainty import calibration, selective
from protoattend.uncertainty.conformal import Conformal

ONE_X = (
    *("predict", "predict_proba", "decision_function", "class_mass", "confidence", "calibrated_proba"),
    *("calibrated_confidence", "prototype_usage"),
)


@dataclass(frozen=True)
class Method:
    """A call that is right: `call(**given)`."""

    name: str
    call: Callable[..., Any] = field(repr=False)
    given: dict[str, Any] = field(repr=False)

    def odd(self, value: Any) -> Iterator[tuple[str, Callable[[], Any]]]:
        """Yield the call with each argument replaced in turn."""
        for name in self.given:
            yield f"{self.name}({name}=", lambda name=name: self.call(**(self.given | {name: value}))


def methods_of(clf: ProtoAttendClassifier, X: np.ndarray, y: np.ndarray) -> list[Method]:
    """Return the methods of a classifier fitted on a table, and of what it returns."""
    clf.calibrate(X, y)
    few = {"X": X[:3]}
    both = {"X": X, "y": y}
    edited = clf.database_.snapshot()
    explained, issues = clf.explain(X[:2]), clf.find_label_issues()
    usage = clf.prototype_usage(X)
    monitor, detector = DriftMonitor(usage), clf.ood_detector()
    queries = edited.rows.queries[:2]
    listed: list[tuple[str, Callable[..., Any], dict[str, Any]]] = [
        *((name, getattr(clf, name), few) for name in ONE_X),
        *((name, getattr(clf, name), both) for name in ("score", "calibrate")),
        ("score", clf.score, both | {"sample_weight": np.ones(len(y))}),
        ("assess", clf.assess, both | {"name": "a"}),
        ("threshold_for", clf.threshold_for, both | {"accuracy": 0.5, "guarantee": 0.9}),
        ("prediction_set", clf.prediction_set, few | {"coverage": 0.9, "by_class": False}),
        ("explain", clf.explain, few | {"top": 3, "without": [0], "with_labels": {1: y[0]}}),
        ("explain_diverse", clf.explain_diverse, few | {"top": 3}),
        ("contrast", clf.contrast, few | {"label": y[0], "top": 3}),
        ("counterfactuals", clf.counterfactuals, few | {"at_most": 3}),
        ("predict_or_abstain", clf.predict_or_abstain, few | {"min_confidence": 0.5}),
        ("prototype_quality", clf.prototype_quality, both | {"subclasses": y, "candidate_subclasses": edited.labels}),
        ("ood_score", clf.ood_score, few | {"method": "energy"}),
        ("ood_curve", clf.ood_curve, {"X_in": X, "X_out": 10 * X, "method": "energy"}),
        ("ood_detector", clf.ood_detector, {"X": X}),
        ("confidence_ratios", clf.confidence_ratios, {"sets": {"a": X}}),
        ("confidence_ratios", lambda X: clf.confidence_ratios({"a": X}), few),
        ("drift_monitor", clf.drift_monitor, {"X": X, "false_alarm": 0.01}),
        ("find_label_issues", clf.find_label_issues, both | {"cv": 2}),
        ("error_analysis", clf.error_analysis, both | {"top": 3}),
        ("save", clf.save, {"folder": "/dev/null/model"}),
        ("load", ProtoAttendClassifier.load, {"folder": "/nowhere", "image_roots": ()}),
        ("database.add", lambda X, y: clf.database_.snapshot().add(X, y), {"X": X[:3], "y": y[:3]}),
        ("database.remove", lambda indices: clf.database_.snapshot().remove(indices), {"indices": [0]}),
        ("database.forget", lambda indices: clf.database_.snapshot().forget(indices), {"indices": [0]}),
        ("database.relabel", edited.relabel, {"indices": [0], "labels": [y[0]]}),
        ("database.relocate", edited.relocate, {"old": "/a", "new": "/b"}),
        ("database.without", edited.without, {"indices": [0]}),
        ("database.with_labels", edited.with_labels, {"labels": {0: y[0]}}),
        ("database.condense", edited.condense, {"n": 5}),
        ("database.condense_within", edited.condense_within, {"loss": 0.1}),
        ("database.quantize_keys", edited.quantize_keys, {"dtype": "int8"}),
        ("database.approximate", edited.approximate, {"neighbours": FaissNeighbours.build(clf.database_), "k": 10}),
        ("database.attend", edited.attend, {"queries": queries, "own": None, "top": 3}),
        ("database.decide", edited.decide, {"queries": queries, "own": None}),
        ("database.preview", edited.preview, {"index": 0}),
        ("database.save", edited.save, {"folder": "/dev/null/database"}),
        ("database.save_shard", edited.save_shard, {"folder": "/dev/null/shards", "number": 0, "of": 2}),
        ("database.merge", CandidateDatabase.merge, {"shards": "/nowhere", "folder": "/dev/null/merged"}),
        ("database.build", _build(clf), {"X": X[:9], "y": y[:9]}),
        ("explanation.n_prototypes", explained[0].n_prototypes, {"share": 0.9}),
        ("issues.corrected", issues.corrected, {"y": edited.labels}),
        ("monitor", DriftMonitor, {"reference": usage, "false_alarm": 0.1, "recent": 9, "seed": 0}),
        ("monitor.update", monitor.update, {"usage": usage}),
        ("monitor.save", monitor.save, {"folder": "/dev/null/monitor"}),
        ("monitor.load", DriftMonitor.load, {"folder": "/nowhere"}),
        ("detector.score", detector.score, few),
        ("detector.p_value", detector.p_value, few),
    ]
    return [Method(*each) for each in listed]


def _build(clf: ProtoAttendClassifier) -> Callable[..., Any]:
    read = {"inputs": clf.inputs_, "classes": clf.database_.classes}
    return lambda X, y: CandidateDatabase.build(clf.model_, X, y, **read)


def functions() -> list[Method]:
    """Return the metrics and tests that take plain arrays."""
    confidence, correct = np.linspace(0.1, 0.9, 60), np.arange(60) % 3 > 0
    shares, labels = np.full((60, 3), 1 / 3), np.arange(60) % 3
    scored = {"confidence": confidence, "correct": correct}
    classes = {"probabilities": shares, "labels": labels}
    conformal = Conformal.fit(shares, labels)
    listed: list[tuple[Callable[..., Any], dict[str, Any]]] = [
        (selective.risk_coverage, scored),
        (selective.accuracy_at_coverage, scored | {"coverage": 0.5}),
        (selective.coverage_at_accuracy, scored | {"accuracy": 0.5}),
        (selective.threshold_for_accuracy, scored | {"accuracy": 0.5}),
        (selective.guaranteed_threshold, scored | {"accuracy": 0.4, "guarantee": 0.9}),
        (selective.auc_coverage, {"confidence": confidence, "scores": confidence, "positive": correct}),
        (calibration.reliability, scored | {"bins": 3}),
        (calibration.adaptive_reliability, scored | {"bins": 3}),
        (calibration.expected_calibration_error, scored | {"bins": 3}),
        (calibration.adaptive_calibration_error, scored | {"bins": 3}),
        (calibration.brier_score, scored),
        (calibration.multiclass_brier_score, classes),
        (calibration.fit_temperature, classes),
        (calibration.scale_temperature, {"probabilities": shares, "temperature": 2.0}),
        (calibration.fit_isotonic, scored),
        (Conformal.fit, {"support": shares, "labels": labels}),
        (conformal.sets, {"support": shares, "coverage": 0.5}),
        (conformal.sets_by_class, {"support": shares, "coverage": 0.5}),
        (energy, {"logits": shares}),
        (neighbour_distance, {"features": shares, "reference": shares, "k": 1}),
        (OodCurve.from_scores, {"in_distribution": confidence, "out_of_distribution": confidence, "name": "a"}),
        (Checkpoints, {"folder": "/nowhere", "every": 3}),
        (inject_label_noise, {"y": labels, "rate": 0.5, "random_state": 0}),
    ]
    return [Method(call.__qualname__, call, given) for call, given in listed]
