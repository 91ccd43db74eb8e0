"""Finding wrong labels: a sample whose prototypes, itself left out, agree on another label than its own."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from protoattend.errors import MissingExtra


@dataclass(frozen=True)
class LabelIssue:
    """One row whose label its prototypes dispute; score is in [0, 1], 1 when they all agree on the suggestion."""

    index: int
    given_label: Any
    suggested_label: Any
    score: float


@dataclass(frozen=True)
class LabelIssues:
    """The disputed rows, worst first."""

    issues: tuple[LabelIssue, ...]

    def __len__(self) -> int:
        return len(self.issues)

    def __iter__(self) -> Iterator[LabelIssue]:
        return iter(self.issues)

    def __getitem__(self, rank: int) -> LabelIssue:
        return self.issues[rank]

    @property
    def indices(self) -> np.ndarray:
        return np.array([issue.index for issue in self.issues], dtype=int)

    def to_frame(self) -> Any:
        try:
            import pandas as pd
        except ImportError:
            raise MissingExtra("pandas", "table", "to_frame") from None
        return pd.DataFrame([asdict(issue) for issue in self.issues])


def find_label_issues(
    class_mass: np.ndarray, labels: np.ndarray, *, indices: np.ndarray, classes: np.ndarray
) -> LabelIssues:
    """Return the rows whose leave-one-out class mass `(n, C)` puts another class above the given label `(n,)`."""
    rows = np.arange(len(labels))
    given = class_mass[rows, labels]
    others = class_mass.copy()
    others[rows, labels] = -np.inf
    suggested = others.argmax(1)
    score = (1 + others[rows, suggested] - given) / 2  # from 0, all for the given label, to 1, all against it
    disputed = np.flatnonzero(others[rows, suggested] > given)
    ranked = disputed[np.argsort(-score[disputed], kind="stable")]
    return LabelIssues(
        tuple(LabelIssue(int(indices[i]), classes[labels[i]], classes[suggested[i]], float(score[i])) for i in ranked)
    )
