"""Folders that earlier versions wrote still open, and decide as they did."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_digits

from protoattend import ProtoAttendClassifier
from protoattend.monitoring.drift import DriftMonitor
from protoattend.monitoring.usage import PrototypeUsage

HERE = Path(__file__).parent
BEFORE = json.loads((HERE / "classifier-v2.json").read_text())


def inputs(kind: str) -> Any:
    if kind == "table":
        return pd.DataFrame(BEFORE["table"]["x"], columns=BEFORE["table"]["columns"])
    return load_digits().images[60:75].astype("uint8") if kind == "images" else ["melon pie", "a chisel and pliers"]


@pytest.mark.parametrize("kind", ["table", "images", "texts"])
def test_version_2_decides_as_before(kind: str) -> None:
    X, before = inputs(kind), BEFORE[kind]
    loaded = ProtoAttendClassifier.load(HERE / f"classifier-v2-{kind}")
    np.testing.assert_array_equal(loaded.predict(X), loaded.classes_[np.argmax(before["proba"], axis=1)])
    np.testing.assert_allclose(loaded.predict_proba(X), before["proba"], atol=1e-6)
    np.testing.assert_allclose(loaded.confidence(X), before["confidence"], atol=1e-6)
    assert [[p.index for p in e.prototypes] for e in loaded.explain(X)] == before["prototypes"]


def test_version_2_keeps_its_calibration_and_edits() -> None:
    loaded = ProtoAttendClassifier.load(HERE / "classifier-v2-table")
    assert loaded.prediction_set(inputs("table"), 0.8) == BEFORE["table"]["sets"]
    assert loaded.database_.labels[0] == "virginica"
    assert 5 not in loaded.database_.indices
    assert loaded.database_.indices[-1] == 50


def test_a_drift_monitor_of_version_1_goes_on() -> None:
    monitor = DriftMonitor.load(HERE / "drift-monitor-v1")
    assert (monitor.n_seen, monitor.alarm_at) == (6, None)
    confidence = np.linspace(0.5, 0.7, 12)
    usage = PrototypeUsage(
        confidence=confidence,
        class_mass=np.stack([confidence, 1 - confidence], axis=1),
        indices=np.tile([3, 40], (12, 1)),
        labels=np.tile([0, 1], (12, 1)),
        weights=np.stack([confidence, 1 - confidence], axis=1),
        classes=("a", "b"),
    )
    assert monitor.update(usage).evidence == pytest.approx(0.5533992447860642)
