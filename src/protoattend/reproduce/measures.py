"""What is said of a classifier or of a confidence: counts of prototypes, curves and examples, small enough for JSON."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import numpy as np
import torch
from torch import Tensor

from protoattend.classifier import ProtoAttendClassifier
from protoattend.data.inputs import count_rows, take_rows
from protoattend.database.encode import encode
from protoattend.uncertainty.calibration import reliability
from protoattend.uncertainty.selective import risk_coverage
from protoattend.viz.png import png_bytes

SHARES = (0.5, 0.9, 0.95)  # of a decision
COUNTED = 500  # test rows whose prototypes are counted
COVERAGES = np.linspace(0.5, 1, 26)
EXAMPLES, WRONG, PROTOTYPES = 6, 4, 5
LETTERS = 160


def queries_of(clf: ProtoAttendClassifier, X: Any) -> Tensor:
    """Return the queries of inputs."""
    return encode(clf.model_, clf.inputs_.tensor(clf.inputs_.source(X))).queries


def prototype_counts(clf: ProtoAttendClassifier, X: Any) -> dict[str, float]:
    """Return the median number of prototypes that make 50, 90 and 95 % of a decision, over some rows of X."""
    rows = np.unique(np.linspace(0, count_rows(X) - 1, COUNTED).astype(int))
    found = clf.database_.attend(queries_of(clf, take_rows(X, rows)))
    return {f"{share:.0%}": float(np.median(found.counts(share).numpy())) for share in SHARES}


def as_learned(clf: ProtoAttendClassifier, X: Any, y: np.ndarray) -> dict[str, Any]:
    """Return accuracy and counts with the scores as training left them, at temperature 1; all is then as before."""
    temperature = clf.model_.temperature
    before = float(temperature)
    temperature.fill_(1.0)
    try:
        return {"accuracy": float(np.mean(clf.predict(X) == y)), "prototypes": prototype_counts(clf, X)}
    finally:
        temperature.fill_(before)


def selective(confidence: np.ndarray, correct: np.ndarray) -> dict[str, Any]:
    """Return AURC, and the accuracy when only the most confident half, and up to all, of the rows are answered."""
    curve = risk_coverage(confidence, correct)
    risks = curve.risk_of_most_confident()
    places = np.maximum(1, np.round(COVERAGES * len(risks))).astype(int) - 1
    return {"aurc": curve.aurc, "coverage": rounded(COVERAGES), "accuracy": rounded(1 - risks[places])}


def reliable(confidence: np.ndarray, correct: np.ndarray) -> dict[str, Any]:
    """Return ten bins of confidence, with how many rows are in each and how often they are right."""
    found = reliability(confidence, correct)
    return {"ece": found.ece, "counts": found.counts.tolist(), "accuracy": rounded(found.accuracy)}


def examples(clf: ProtoAttendClassifier, X: Any, y: np.ndarray) -> list[dict[str, Any]]:
    """Return the first right decisions of some classes, of few classes several, with their heaviest prototypes."""
    right, labels = clf.predict(X) == y, np.unique(y)
    firsts = [np.flatnonzero(right & (y == label))[: max(1, EXAMPLES // len(labels))] for label in labels]
    return _explained(clf, X, y, np.concatenate(firsts)[:EXAMPLES])


def wrong_examples(clf: ProtoAttendClassifier, X: Any, y: np.ndarray) -> list[dict[str, Any]]:
    """Return the first wrong decisions: their prototypes have the wrong label."""
    return _explained(clf, X, y, np.flatnonzero(clf.predict(X) != y)[:WRONG])


def _explained(clf: ProtoAttendClassifier, X: Any, y: np.ndarray, rows: np.ndarray) -> list[dict[str, Any]]:
    if len(rows) == 0:
        return []
    rows = np.sort(rows)
    explained = clf.explain(take_rows(X, rows), top=PROTOTYPES)
    return [
        {
            "input": shown(each.preview),
            "label": str(label),
            "prediction": str(each.prediction),
            "confidence": round(float(each.confidence), 3),
            "prototypes": [
                {"weight": round(float(p.weight), 3), "label": str(p.label), "input": shown(p.preview)}
                for p in each.prototypes
            ],
        }
        for each, label in zip(explained, y[rows], strict=True)
    ]


def shown(preview: Any) -> Any:
    """Return what a person sees of a sample: an image as PNG in base64, the beginning of a text, a row by column."""
    if isinstance(preview, str):
        return preview[:LETTERS]
    if isinstance(preview, dict):
        return {str(name): str(value) for name, value in preview.items()}
    image = np.asarray(preview)
    if image.dtype != np.uint8:
        low, high = image.min(), max(image.max(), image.min() + 1e-9)
        image = ((image - low) / (high - low) * 255).astype(np.uint8)
    if image.ndim == 3 and image.shape[2] == 1:
        image = image[..., 0]
    return {"png": b64encode(png_bytes(np.ascontiguousarray(image))).decode("ascii")}


def rounded(values: Any, digits: int = 4) -> list[float]:
    """Return numbers as a list, short enough to be committed."""
    return [round(float(value), digits) for value in np.asarray(values).tolist()]


def share_above(confidence: np.ndarray, levels: np.ndarray) -> list[float]:
    """Return the share of rows of at least so much confidence, for each level."""
    return rounded([(confidence >= level).mean() for level in levels])


def parameters_of(module: torch.nn.Module) -> int:
    """Return how many numbers a module learns."""
    return sum(parameter.numel() for parameter in module.parameters())
