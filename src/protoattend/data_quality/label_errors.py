"""Finding wrong labels: a sample whose prototypes, itself left out, agree on another label than its own."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from protoattend.arguments import as_array, check_number, check_seed
from protoattend.data.labels import column_of
from protoattend.data_quality.label_noise import likelihoods
from protoattend.errors import MissingExtra, UserError
from protoattend.explain.explanations import Explanation, Explanations, Prototype

COLUMNS = ["index", "given_label", "suggested_label", "score", "odds"]


@dataclass(frozen=True)
class LabelIssue:
    """One row whose label is disputed.

    Attributes
    ----------
    index : int
        The row: of the training X, or of the X that was judged.
    given_label, suggested_label : label
        What it has, and what more speaks for.
    score : float
        From 0 to 1, where nothing speaks for the given label.
    explanation : Explanation or None, default=None
        It has the suggestion for its prediction and the given label for its label.
    odds : float, default=inf
        How many times likelier the suggestion is right than the given label, in view of how many labels are wrong.

    Examples
    --------
    >>> LabelIssue(index=3, given_label="cat", suggested_label="dog", score=0.97).prototypes
    ()
    """

    index: int
    given_label: Any
    suggested_label: Any
    score: float
    explanation: Explanation | None = None
    odds: float = math.inf

    @property
    def prototypes(self) -> tuple[Prototype, ...]:
        """The shown prototypes that say so: those whose label is the suggested one."""
        shown = () if self.explanation is None else self.explanation.prototypes
        return tuple(prototype for prototype in shown if prototype.label == self.suggested_label)


@dataclass(frozen=True)
class LabelIssues:
    """The disputed rows, worst first: a sequence of `LabelIssue`.

    A label is disputed where more speaks for another one. Its score may be lower than that of one not disputed, where
    what speaks against it is of many minds.

    Attributes
    ----------
    issues : tuple of LabelIssue
    rows : ndarray of int of shape (n,)
        All rows that were judged.
    scores : ndarray of shape (n,)
        `scores[i]` is that of the row called `rows[i]`.
    kind : str, default="table"
        Of input, which tells how rows are drawn.
    certainty : ndarray of shape (n,) or None, default=None
        How likely the label that `corrected` returns is right, row by row; as `sample_weight` of `fit`, rows of which
        nobody knows count little.

    Examples
    --------
    >>> issue = LabelIssue(index=1, given_label="cat", suggested_label="dog", score=0.97)
    >>> issues = LabelIssues((issue,), rows=np.arange(3), scores=np.array([0.1, 0.97, 0.2]))
    >>> len(issues), issues.indices.tolist(), issues.corrected(["cat", "cat", "dog"]).tolist()
    (1, [1], ['cat', 'dog', 'dog'])
    """

    issues: tuple[LabelIssue, ...]
    rows: np.ndarray
    scores: np.ndarray
    kind: str = "table"
    certainty: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.issues)

    def __iter__(self) -> Iterator[LabelIssue]:
        return iter(self.issues)

    def __getitem__(self, rank: int) -> LabelIssue:
        return self.issues[rank]

    @property
    def indices(self) -> np.ndarray:
        """The disputed rows, worst first."""
        return np.array([issue.index for issue in self.issues], dtype=int)

    def corrected(self, y: Any) -> np.ndarray:
        """Return labels with the suggestion where it is likelier to be right than the given one.

        That takes more than a dispute where few labels are wrong at all, or where the judges know little: see
        `data_quality.label_noise`.

        Parameters
        ----------
        y : array-like of shape (n,)
            The labels of the rows that were judged.

        Returns
        -------
        ndarray of shape (n,)

        Raises
        ------
        UserError
            Where y is too short for the rows that were judged.
        """
        labels = np.array(as_array(y, "y"))
        if labels.ndim != 1 or len(labels) <= max(self.rows, default=-1):
            raise UserError(
                f"y must have a label for every row that was judged, but its shape is {labels.shape}, and row "
                f"{max(self.rows)} was judged; pass the labels that were fitted on."
            )
        for issue in self.issues:
            if issue.odds > 1:
                labels[issue.index] = issue.suggested_label
        return labels

    def to_frame(self) -> Any:
        """Return the disputed rows as a table.

        Returns
        -------
        DataFrame
            With columns "index", "given_label", "suggested_label", "score" and "odds".

        Raises
        ------
        MissingExtra
            Where pandas is not installed.
        """
        try:
            import pandas as pd
        except ImportError:
            raise MissingExtra("pandas", "table", "to_frame") from None
        return pd.DataFrame(
            [{name: getattr(issue, name) for name in COLUMNS} for issue in self.issues], columns=COLUMNS
        )

    def plot(self, path: str | os.PathLike[str] | None = None, *, n: int = 8) -> Any:
        """Draw the worst rows with their prototypes.

        Parameters
        ----------
        path : str, path or None, default=None
            A file to save the figure to.
        n : int, default=8
            How many rows.

        Returns
        -------
        matplotlib figure
        """
        explained = [issue.explanation for issue in self.issues[:n] if issue.explanation is not None]
        return Explanations(tuple(explained), self.kind).plot(path, n=n)


@dataclass(frozen=True)
class NoisyLabels:
    """Labels of which some were made wrong.

    Attributes
    ----------
    labels : ndarray of shape (n,)
    flipped : ndarray of bool of shape (n,)
        Which of them were.

    Examples
    --------
    >>> noisy = inject_label_noise([0, 1, 0, 1], 0.5, random_state=0)
    >>> noisy.labels.shape, int(noisy.flipped.sum())
    ((4,), 2)
    """

    labels: np.ndarray
    flipped: np.ndarray


def inject_label_noise(y: Any, rate: float, *, random_state: int | None = None) -> NoisyLabels:
    """Make a share of the labels wrong, each uniformly one of the other classes (Appendix A.1).

    Parameters
    ----------
    y : array-like of shape (n,)
        Labels of at least two classes.
    rate : float
        The share, from 0 to 1.
    random_state : int or None, default=None
        The seed.

    Returns
    -------
    NoisyLabels

    Raises
    ------
    UserError
        Where y has one class only, or rate is out of range.

    Notes
    -----
    Others draw from all classes, so that of their noise 1 / C is none.

    Examples
    --------
    >>> noisy = inject_label_noise(["a", "b", "c", "a"], 0.5, random_state=0)
    >>> (noisy.labels != np.array(["a", "b", "c", "a"])).tolist() == noisy.flipped.tolist()
    True
    """
    labels = np.array(column_of(y))
    try:
        classes, codes = np.unique(labels, return_inverse=True)
    except TypeError as error:
        raise UserError(f"y must hold labels of one kind, but they have no order ({error}); convert them.") from None
    if labels.ndim != 1 or len(classes) < 2:
        raise UserError(
            f"y must be one-dimensional with at least two classes, but has shape {labels.shape} and {len(classes)} "
            "of them; there is no other class to flip a label to."
        )
    if not 0 <= check_number(rate, "rate") <= 1:
        raise UserError(f"rate must be from 0 to 1, but got {rate}; 0.1 makes every tenth label wrong.")
    generator = np.random.default_rng(check_seed(random_state, "random_state"))
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
    likely = likelihoods(support, labels)
    odds = likely[rows, suggested] / likely[rows, labels]
    issues = tuple(
        LabelIssue(int(indices[i]), classes[labels[i]], classes[suggested[i]], float(scores[i]), odds=float(odds[i]))
        for i in ranked
    )
    return LabelIssues(issues, np.asarray(indices), scores, certainty=likely.max(1))
