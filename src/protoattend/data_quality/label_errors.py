"""Finding wrong labels: a sample whose prototypes, itself left out, agree on another label than its own."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from protoattend.errors import MissingExtra, UserError
from protoattend.explain.explanations import Explanation, Explanations, Prototype

COLUMNS = ["index", "given_label", "suggested_label", "score"]


@dataclass(frozen=True)
class LabelIssue:
    """One row whose label is disputed; score is in [0, 1], 1 when nothing speaks for the given label.

    `explanation`, where there is one, has the suggestion for its prediction and the given label for its label.
    """

    index: int
    given_label: Any
    suggested_label: Any
    score: float
    explanation: Explanation | None = None

    @property
    def prototypes(self) -> tuple[Prototype, ...]:
        """The shown prototypes that say so: those whose label is the suggested one."""
        shown = () if self.explanation is None else self.explanation.prototypes
        return tuple(prototype for prototype in shown if prototype.label == self.suggested_label)


@dataclass(frozen=True)
class LabelIssues:
    """The disputed rows, worst first, and the score of every row: `scores[i]` is that of the one called `rows[i]`.

    A label is disputed where more speaks for another one. Its score may be lower than that of one not disputed,
    where what speaks against it is of many minds.
    """

    issues: tuple[LabelIssue, ...]
    rows: np.ndarray
    scores: np.ndarray
    kind: str = "table"

    def __len__(self) -> int:
        return len(self.issues)

    def __iter__(self) -> Iterator[LabelIssue]:
        return iter(self.issues)

    def __getitem__(self, rank: int) -> LabelIssue:
        return self.issues[rank]

    @property
    def indices(self) -> np.ndarray:
        return np.array([issue.index for issue in self.issues], dtype=int)

    def corrected(self, y: Any) -> np.ndarray:
        """Return the labels y `(n,)` of the rows that were judged, with the suggestion for each disputed one."""
        labels = np.array(y)
        if len(labels) <= max(self.rows, default=-1):
            raise UserError(
                f"y must have a label for every row that was judged, but it has {len(labels)}, and row "
                f"{max(self.rows)} was judged; pass the labels that were fitted on."
            )
        for issue in self.issues:
            labels[issue.index] = issue.suggested_label
        return labels

    def to_frame(self) -> Any:
        try:
            import pandas as pd
        except ImportError:
            raise MissingExtra("pandas", "table", "to_frame") from None
        return pd.DataFrame(
            [{name: getattr(issue, name) for name in COLUMNS} for issue in self.issues], columns=COLUMNS
        )

    def plot(self, path: str | os.PathLike[str] | None = None, *, n: int = 8) -> Any:
        """Draw the `n` worst rows with their prototypes; return the figure, or save it to `path` as well."""
        explained = [issue.explanation for issue in self.issues[:n] if issue.explanation is not None]
        return Explanations(tuple(explained), self.kind).plot(path, n=n)


@dataclass(frozen=True)
class NoisyLabels:
    """Labels of which some were made wrong: `labels` `(n,)`, and `flipped` `(n,)`, true where they were."""

    labels: np.ndarray
    flipped: np.ndarray


def inject_label_noise(y: Any, rate: float, *, random_state: int | None = None) -> NoisyLabels:
    """Return the labels with `rate` of them replaced, uniformly by one of the other classes (Appendix A.1).

    Others draw from all classes, so that of their noise 1 / C is none.

    >>> noisy = inject_label_noise(["a", "b", "c", "a"], 0.5, random_state=0)
    >>> int(noisy.flipped.sum()), bool((noisy.labels[~noisy.flipped] == np.array(list("abca"))[~noisy.flipped]).all())
    (2, True)
    """
    labels = np.array(y)
    classes, codes = np.unique(labels, return_inverse=True)
    if labels.ndim != 1 or len(classes) < 2:
        raise UserError(
            f"y must be one-dimensional with at least two classes, but has shape {labels.shape} and {len(classes)} "
            "of them; there is no other class to flip a label to."
        )
    if not 0 <= rate <= 1:
        raise UserError(f"rate must be from 0 to 1, but got {rate}; 0.1 makes every tenth label wrong.")
    generator = np.random.default_rng(random_state)
    chosen = generator.choice(len(labels), round(rate * len(labels)), replace=False)
    steps = generator.integers(1, len(classes), len(chosen))
    labels[chosen] = classes[(codes[chosen] + steps) % len(classes)]
    flipped = np.zeros(len(labels), dtype=bool)
    flipped[chosen] = True
    return NoisyLabels(labels, flipped)


def label_error_scores(support: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return how likely each label is an error `(n,)`, as a score, and the best of the other classes `(n,)`.

    `support` `(n, C)` sums to one over the classes; `labels` are class numbers. The score goes from 0, when everything
    speaks for the given label, to 1, when nothing does. If a wrong label may be any other with the same chance, how
    likely it is to be wrong depends on the support of the given one alone, and not on how the rest is divided.
    """
    if support.ndim != 2 or support.shape[1] < 2 or len(support) != len(labels):
        raise UserError(
            f"support must be (n, at least 2 classes) with one label for each row, but has shape {support.shape} and "
            f"there are {len(labels)} labels."
        )
    if not np.isfinite(support).all():
        rows = np.flatnonzero(~np.isfinite(support).all(1))
        raise UserError(f"support must be finite, but {len(rows)} rows, the first of them {rows[0]}, are not.")
    rows = np.arange(len(labels))
    others = support.copy()
    others[rows, labels] = -np.inf
    return 1 - support[rows, labels], others.argmax(1)


def find_label_issues(
    support: np.ndarray, labels: np.ndarray, *, indices: np.ndarray, classes: np.ndarray
) -> LabelIssues:
    """Return the rows for which `support` `(n, C)` puts another class above the given one `(n,)`, worst first."""
    scores, suggested = label_error_scores(support, labels)
    rows = np.arange(len(labels))
    disputed = np.flatnonzero(support[rows, suggested] > support[rows, labels])
    ranked = disputed[np.argsort(-scores[disputed], kind="stable")]
    issues = tuple(
        LabelIssue(int(indices[i]), classes[labels[i]], classes[suggested[i]], float(scores[i])) for i in ranked
    )
    return LabelIssues(issues, np.asarray(indices), scores)
