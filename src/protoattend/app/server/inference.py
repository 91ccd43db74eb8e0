"""Rows decided for clients: labels, probabilities, confidence and prototypes, counted as they go."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from protoattend.app.server.metrics import Metrics, Watch
from protoattend.app.server.tensors import Tensor, TensorForm
from protoattend.app.server.workbench import Workbench
from protoattend.data.labels import Classes
from protoattend.database.encode import encode
from protoattend.monitoring.usage import PrototypeUsage, prototype_usage
from protoattend.viz.text import plain

TOP = 8  # prototypes of an answer
LEAST_REFERENCE = 20  # rows that a drift monitor needs


@dataclass(frozen=True)
class Row:
    """What was decided of one row; fewer prototypes than `TOP` are filled up with index -1 and weight 0."""

    predicted: int
    probabilities: np.ndarray
    confidence: float
    indices: np.ndarray
    weights: np.ndarray
    labels: np.ndarray


class Inference:
    """A workbench's model, asked for many rows at once, in the worker's thread."""

    def __init__(self, bench: Workbench, metrics: Metrics, *, least: float | None) -> None:
        self.bench, self.metrics, self._least = bench, metrics, least or 0.0
        self._watch: Watch | None = None

    def watch(self) -> None:
        """Begin to watch for drift, with the rows of the file that is shown as reference."""
        table = self.bench.data
        if self._watch is None and table is not None and table.finished and table.done >= LEAST_REFERENCE:
            self._watch = Watch(prototype_usage(self.bench.database, table.queries[table.known]), self.metrics)

    def decide(self, source: np.ndarray) -> list[Row]:
        """Decide rows in their canonical form."""
        bench = self.bench
        database = bench.database
        encoded = encode(bench.classifier.model_, database.inputs.tensor(source))
        found = database.attend(encoded.queries, top=TOP)
        positions, weights = (part.numpy() for part in found.heaviest(TOP))
        confidence = found.confidence.double().numpy()
        there = weights > 0
        indices = np.where(there, database.rows.ids[positions], -1)
        labels = np.where(there, database.rows.labels.numpy()[positions], -1)
        self.metrics.decided(confidence, bench.distances.p_values(encoded.values), self._least)
        if self._watch is not None:
            names = tuple(str(label) for label in database.classes.values.tolist())
            mass = found.support.double().numpy()
            self._watch.see(
                PrototypeUsage(confidence, mass, np.maximum(indices, 0), labels, weights.astype(float), names)
            )
        probabilities = found.probabilities.numpy()
        columns = (found.predicted.tolist(), probabilities, confidence.tolist(), indices, weights, labels)
        return [Row(*row) for row in zip(*columns, strict=True)]

    def outputs(self) -> list[TensorForm]:
        """Return the tensors of an answer."""
        label = _datatype(self.bench.database.classes)
        return [
            TensorForm("label", label, (-1,)),
            TensorForm("proba", "FP64", (-1, len(self.bench.database.classes))),
            TensorForm("confidence", "FP64", (-1,)),
            TensorForm("prototype_index", "INT64", (-1, TOP)),
            TensorForm("prototype_weight", "FP64", (-1, TOP)),
            TensorForm("prototype_label", label, (-1, TOP)),
        ]

    def tensors(self, rows: list[Row]) -> list[Tensor]:
        """Return decided rows as the tensors of an answer, elements flat."""
        classes = self.bench.database.classes
        names = [_named(value, classes) for value in classes.values.tolist()]
        nobody = "" if _datatype(classes) == "BYTES" else -1
        data: dict[str, list[Any]] = {
            "label": [names[row.predicted] for row in rows],
            "proba": [share for row in rows for share in row.probabilities.tolist()],
            "confidence": [row.confidence for row in rows],
            "prototype_index": [index for row in rows for index in row.indices.tolist()],
            "prototype_weight": [weight for row in rows for weight in row.weights.tolist()],
            "prototype_label": [nobody if c < 0 else names[c] for row in rows for c in row.labels.tolist()],
        }
        return [
            Tensor(form.name, (len(rows), *form.shape[1:]), form.datatype, data[form.name]) for form in self.outputs()
        ]


def _datatype(classes: Classes) -> str:
    whole = all(isinstance(value, int) and not isinstance(value, bool) for value in classes.values.tolist())
    return "INT64" if whole else "BYTES"


def _named(value: Any, classes: Classes) -> Any:
    return value if _datatype(classes) == "INT64" else plain(value)
