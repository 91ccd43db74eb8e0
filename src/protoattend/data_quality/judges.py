"""Who judges a label: the database with the row left out, or a model that never saw the row (cross-fitting)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from sklearn.base import clone
from sklearn.utils import check_random_state
from torch import Tensor

from protoattend.data.inputs import count_rows, require_rows, take_rows
from protoattend.data.labels import Classes
from protoattend.data_quality.label_errors import LabelIssue, LabelIssues, find_label_issues
from protoattend.database.encode import encode
from protoattend.database.store import CandidateDatabase
from protoattend.errors import UserError
from protoattend.explain.explanations import Explanation, shown_prototypes

SHOWN = 5  # prototypes of a disputed row


@dataclass(frozen=True)
class Judge:
    """A database with rows to be judged: their queries, and `preview` that shows the one at a place.

    `own` `(n,)` are their positions in the database, where it holds them; `rows` and `names` say what the judged rows
    and those of the database are called.
    """

    database: CandidateDatabase
    queries: Tensor
    preview: Callable[[int], Any]
    rows: np.ndarray
    names: np.ndarray
    own: Tensor | None = None

    def prototypes(self, issues: Sequence[LabelIssue]) -> list[LabelIssue]:
        """Return disputed rows with their prototypes, the suggested label as the prediction."""
        if not issues:
            return []
        database = self.database
        places = torch.from_numpy(np.searchsorted(self.rows, [issue.index for issue in issues]))
        found = database.attend(self.queries[places], own=None if self.own is None else self.own[places])
        mass = found.class_mass.clamp(max=1.0)  # a sum of weights may round above one
        explained = []
        for i, (issue, (positions, weights)) in enumerate(zip(issues, found.per_query(), strict=True)):
            shown = shown_prototypes(database, positions[:SHOWN], weights[:SHOWN])
            explanation = Explanation(
                prediction=issue.suggested_label,
                confidence=float(found.support[i, database.classes.number(issue.suggested_label)].clamp(max=1.0)),
                agreement=float(mass[i, database.classes.number(issue.suggested_label)]),
                prototypes=tuple(replace(p, index=int(self.names[p.index])) for p in shown),
                weights=weights.numpy(),
                preview=self.preview(int(places[i])),
                label=issue.given_label,
            )
            explained.append(replace(issue, explanation=explanation))
        return explained


def leave_one_out_issues(database: CandidateDatabase) -> LabelIssues:
    """Return the rows of the database whose label the others dispute.

    What speaks for a class is its share of all candidates by the flat reading, the row itself left out. Nothing is
    trained, and the label that the encoder has learned by heart has hardly a say: values know it, scores do not.
    """
    rows = database.rows
    own = torch.arange(len(rows))
    support = database.decide(rows.queries, own=own).support.numpy()
    found = find_label_issues(support, rows.labels.numpy(), indices=rows.ids, classes=database.classes.values)
    names = np.arange(database.indices[-1] + 1)  # prototypes keep their names
    judge = Judge(database, rows.queries, database.preview_at, rows.ids, names, own)
    return replace(found, issues=tuple(judge.prototypes(found.issues)), kind=database.inputs.kind)


def cross_fit_issues(estimator: Any, X: Any, y: Any, *, cv: int = 5) -> LabelIssues:
    """Return the rows of X whose label is disputed by `cv` clones of the estimator, each trained without some rows."""
    said = cross_fit_opinions(estimator, X, y, cv=cv)
    found = find_label_issues(
        said.support, said.labels, indices=np.arange(len(said.labels)), classes=said.classes.values
    )
    by_judge = (judge.prototypes([i for i in found if i.index in judge.rows]) for judge in said.judges)
    ranked = sorted((issue for part in by_judge for issue in part), key=lambda issue: (-issue.score, issue.index))
    return replace(found, issues=tuple(ranked), kind=said.judges[0].database.inputs.kind)


@dataclass(frozen=True)
class Opinions:
    """What cross-fitted judges say of labelled rows, each `(n, C)` sums to one over the classes.

    `by_prototypes` and `by_value` are the decisions at alpha 1 and 0 of the judge that never saw the row: its class
    probabilities, cross-validated. `left_out` is the mean decision at alpha 1 of the others, the row left out.
    """

    labels: np.ndarray
    classes: Classes
    by_prototypes: np.ndarray
    by_value: np.ndarray
    left_out: np.ndarray
    judges: tuple[Judge, ...]

    @property
    def support(self) -> np.ndarray:
        """What speaks for each class: the mean of the three."""
        total = self.by_prototypes + self.by_value + self.left_out
        return total / total.sum(1, keepdims=True)


def cross_fit_opinions(estimator: Any, X: Any, y: Any, *, cv: int = 5) -> Opinions:
    """Train `cv` clones of the estimator, each without some rows, and let them judge all rows."""
    if y is None:
        raise UserError("labels of X are needed to judge them, but y is None; pass one label for each row of X.")
    require_rows(X)
    if count_rows(X) != count_rows(y):
        raise UserError(f"X and y must be of one length, but X has {count_rows(X)} rows and y has {count_rows(y)}.")
    classes = Classes.fit(y)
    labels = classes.encode(y).numpy()
    folds = stratified_folds(labels, cv, check_random_state(estimator.random_state))
    by_prototypes, by_value, left_out = np.zeros((3, len(labels), len(classes)))
    judges = []
    for fold in range(cv):
        train, held_out = np.flatnonzero(folds != fold), np.flatnonzero(folds == fold)
        database: CandidateDatabase = clone(estimator).fit(take_rows(X, train), take_rows(y, train)).database_
        source = database.inputs.source(take_rows(X, held_out))
        encoded = encode(database.model, database.inputs.tensor(source))
        by_prototypes[held_out] = _by_prototypes(database, encoded.queries)
        by_value[held_out] = _by_value(database, encoded.values)
        places = torch.arange(len(database))
        left_out[train[database.indices]] += _by_prototypes(database, database.rows.queries, places) / (cv - 1)
        shown = partial(_preview, database, source)
        judges.append(Judge(database, encoded.queries, shown, held_out, train))
    return Opinions(labels, classes, by_prototypes, by_value, left_out, tuple(judges))


def stratified_folds(labels: np.ndarray, cv: int, random_state: np.random.RandomState) -> np.ndarray:
    """Return the fold of each row `(n,)`: rows are shuffled and dealt out class by class, so that no fold lacks one."""
    if not isinstance(cv, (int, np.integer)) or not 2 <= cv <= len(labels):
        raise UserError(f"cv must be an integer from 2 to the number of rows, {len(labels)}, but got {cv!r}.")
    if (np.bincount(labels) == 1).any():
        raise UserError(
            "a model trained without a row can judge it only if its class has others, but "
            f"{int((np.bincount(labels) == 1).sum())} classes have one row; leave these out, or merge them with others."
        )
    order = random_state.permutation(len(labels))
    order = order[np.argsort(labels[order], kind="stable")]
    folds = np.empty(len(labels), dtype=int)
    folds[order] = np.arange(len(labels)) % cv
    return folds


def _preview(database: CandidateDatabase, source: np.ndarray, place: int) -> Any:
    return database.inputs.preview(source[place])


def _by_prototypes(database: CandidateDatabase, queries: Tensor, own: Tensor | None = None) -> np.ndarray:
    """Return the class probabilities at alpha 1 `(n, C)`."""
    return database.decide(queries, own=own).probabilities.numpy()


def _by_value(database: CandidateDatabase, values: Tensor) -> np.ndarray:
    """Return the class probabilities at alpha 0 `(n, C)`."""
    return (values @ database.model.decision.weight.detach().cpu().T).double().softmax(1).numpy()
