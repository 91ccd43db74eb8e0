"""What is drawn: the map of the candidates and the risk-coverage curve."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from protoattend.app.server.tables import Table, spread
from protoattend.database.store import CandidateDatabase
from protoattend.uncertainty.risk_coverage import risk_coverage
from protoattend.uncertainty.selective import GRID

POINTS = 4000  # candidates on a map
LEARNED = 20_000  # candidates that the directions of a map are learned from
CURVE = 240  # points of a curve
GUARANTEE = 0.95
SIDE = 1000  # a map's coordinates go from 0 to this


@dataclass(frozen=True)
class Map:
    """Candidates in two dimensions: the principal components of their values. A picture; the weights are the truth."""

    indices: np.ndarray
    labels: np.ndarray
    mean: np.ndarray
    directions: np.ndarray
    low: np.ndarray
    scale: float

    @classmethod
    def of(cls, database: CandidateDatabase) -> Map:
        rows = database.rows
        values = rows.blocks.take("values", spread(len(database), LEARNED)).numpy().astype(np.float64)
        mean = values.mean(0)
        _, _, directions = np.linalg.svd(np.cov((values - mean).T))
        directions = directions[:2]
        places = (values - mean) @ directions.T
        low, high = np.quantile(places, 0.005, axis=0), np.quantile(places, 0.995, axis=0)
        shown = spread(len(database), POINTS)
        scale = 0.92 * SIDE / max(float((high - low).max()), 1e-9)
        middle = (low + high) / 2 - SIDE / 2 / scale
        return cls(rows.ids[shown], rows.labels.numpy()[shown], mean, directions, middle, scale)

    def places(self, values: np.ndarray) -> list[list[int]]:
        """Return where values lie."""
        found = ((values - self.mean) @ self.directions.T - self.low) * self.scale
        return np.clip(found, 0, SIDE).round().astype(int).tolist()

    def points(self, database: CandidateDatabase) -> dict[str, Any]:
        positions = database.rows.positions(self.indices)
        values = database.rows.blocks.take("values", positions).numpy()
        return {
            "side": SIDE,
            "indices": self.indices.tolist(),
            "labels": self.labels.tolist(),
            "places": self.places(values),
            "count": len(database),
        }

    def at(self, database: CandidateDatabase, indices: list[int]) -> list[list[int]]:
        """Return where candidates lie."""
        return self.places(database.rows.blocks.take("values", database.rows.positions(indices)).numpy())


def curve(table: Table, *, unseen: bool) -> dict[str, Any]:
    """Return error and coverage at every threshold of the grid, and the curve between; `unseen` rows prove a bound.

    The bound is of the error among answers to new rows drawn alike. It holds for all thresholds of the grid at once
    with probability 0.95, so that one may choose among them after having looked: each is an exact binomial
    (Clopper-Pearson) bound at an equal part of the remaining 0.05.
    """
    from scipy.stats import beta

    known = table.known & (table.rows.labels >= 0)
    if not known.any():
        return {"rows": 0, "stops": [], "curve": [], "unseen": unseen, "guarantee": GUARANTEE}
    confidence = table.confidence[known]
    wrong = table.predicted[known] != table.rows.labels[known]
    levels = (1 - GUARANTEE) / len(GRID)
    stops = []
    for threshold in sorted(GRID):
        answered = int((confidence >= threshold).sum())
        errors = int(wrong[confidence >= threshold].sum())
        bound = float(beta.ppf(1 - levels, errors + 1, answered - errors)) if unseen and answered > errors else None
        stops.append({"threshold": threshold, "answered": answered, "errors": errors, "bound": bound})
    found = risk_coverage(confidence, ~wrong)
    some = spread(len(found.thresholds), CURVE)
    points = np.column_stack([found.coverage[some], found.risk[some], found.thresholds[some]]).round(6)
    return {
        "rows": len(confidence),
        "stops": stops,
        "curve": points.tolist(),
        "unseen": unseen,
        "guarantee": GUARANTEE,
        "aurc": round(found.aurc, 6),
    }
