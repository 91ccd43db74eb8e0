"""Wrong decisions: which candidates pull which classes into which errors, and where more data is needed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from protoattend.arguments import check_count
from protoattend.database.attention import Attention
from protoattend.database.search import QUERIES
from protoattend.database.store import CandidateDatabase
from protoattend.errors import MissingExtra, UserError

EXAMPLES = 10  # rows named in a suggestion
CULPRITS = 5  # candidates named for a confusion


@dataclass(frozen=True)
class Harmful:
    """A candidate by the errors it takes part in; `index` is its row in the training X.

    `pull` sums, over the errors, what it adds to the logit of the wrong class above that of the right one, and `push`
    what it adds to right decisions above their runner-up. `fixed` and `broken` count, exactly, the decisions that
    become right and wrong without it.
    """

    index: int
    label: Any
    pull: float
    push: float
    errors: int
    fixed: int
    broken: int
    preview: Any


@dataclass(frozen=True)
class Confusion:
    """Samples of one class taken for another; `culprits` are the candidates (by index) that pull most, with their pull.

    `rows` are the samples' rows in the labelled set.
    """

    label: Any
    taken_for: Any
    rows: np.ndarray
    culprits: tuple[tuple[int, float], ...]


@dataclass(frozen=True)
class Wanted:
    """A class that lacks candidates: its errors have only `mass` of their weight on candidates of their own label.

    Samples like those at `rows` of the labelled set, whose own class has the least weight, would help first.
    """

    label: Any
    errors: int
    mass: float
    rows: np.ndarray


@dataclass(frozen=True)
class ErrorAnalysis:
    """What went wrong on a labelled set; `ProtoAttendClassifier.error_analysis` makes it.

    Attributes
    ----------
    counts : ndarray of int of shape (n_classes, n_classes)
        The confusion matrix; rows are true classes.
    classes : ndarray of shape (n_classes,)
        Their labels.
    confusions : tuple of Confusion
        Which class was taken for which, most frequent first, and by which candidates.
    harmful : tuple of Harmful
        Candidates by the errors they take part in, worst first.
    wanted : tuple of Wanted
        The classes to collect more of, those first that lack most weight.

    Notes
    -----
    A candidate pulls on a decision by p_ij (s_j,predicted - s_j,true), s_j = W v_j being its class scores: the decision
    is linear, so these sum to the difference of the two logits (eq. 2 with alpha = 1).

    Examples
    --------
    >>> found = ErrorAnalysis(np.array([[8, 2], [1, 9]]), np.array(["cat", "dog"]), (), (), ())
    >>> found.n_wrong
    3
    """

    counts: np.ndarray
    classes: np.ndarray
    confusions: tuple[Confusion, ...]
    harmful: tuple[Harmful, ...]
    wanted: tuple[Wanted, ...]

    @property
    def n_wrong(self) -> int:
        """How many decisions were wrong."""
        return int(self.counts.sum() - np.trace(self.counts))

    def to_frame(self) -> Any:
        """Return the harmful candidates as a table.

        Returns
        -------
        DataFrame
            With columns "index", "label", "pull", "push", "errors", "fixed" and "broken".

        Raises
        ------
        MissingExtra
            Where pandas is not installed.
        """
        try:
            import pandas as pd
        except ImportError:
            raise MissingExtra("pandas", "table", "to_frame") from None
        columns = ["index", "label", "pull", "push", "errors", "fixed", "broken"]
        return pd.DataFrame([{name: getattr(h, name) for name in columns} for h in self.harmful], columns=columns)

    def plot(self, ax: Any = None) -> Any:
        """Draw who is taken for whom, errors only, as shares of the true class.

        Parameters
        ----------
        ax : matplotlib axis or None, default=None
            Where to draw; None makes a new figure.

        Returns
        -------
        matplotlib axis
        """
        from protoattend.viz.charts import draw_confusions

        return draw_confusions(ax, self.counts, self.classes)


@dataclass(frozen=True)
class _Answers:
    """What was decided on labelled samples; `rival` is the truth of a wrong decision, the runner-up of a right one.

    `found` has all prototypes, but with softmax none: every candidate is one of every input, which is too many to hold.
    """

    database: CandidateDatabase
    queries: Tensor
    labels: Tensor
    found: Attention
    rival: Tensor

    @cached_property
    def predicted(self) -> Tensor:
        return self.found.predicted

    @property
    def right(self) -> Tensor:
        return self.predicted == self.labels

    def pulls(self, rows: Tensor) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        """Yield, some inputs at a time, every use of a candidate: input, its position, how far it pulls.

        That is what it adds to the logit of the prediction above that of its rival.
        """
        scores = self.database.class_scores
        for inputs, positions, weights in self._uses(rows):
            difference = scores[positions, self.predicted[inputs]] - scores[positions, self.rival[inputs]]
            yield inputs, positions, weights * difference

    def _uses(self, rows: Tensor) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        if _holds_all(self.database):
            asked = torch.zeros(len(self.queries), dtype=torch.bool)
            asked[rows] = True
            inside = asked[self.found.rows]
            yield self.found.rows[inside], self.found.positions[inside], self.found.weights[inside]
            return
        for some in rows.split(QUERIES) if len(rows) else ():
            found = self.database.attend(self.queries[some])
            yield some[found.rows], found.positions, found.weights

    def total_pull(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Return how far each candidate pulls on all these inputs together, and how many it is a prototype of."""
        total = torch.zeros(len(self.database), dtype=torch.float64)
        count = torch.zeros(len(self.database), dtype=torch.long)
        for _, positions, strength in self.pulls(rows):
            total.index_add_(0, positions, strength.double())
            count += torch.bincount(positions, minlength=len(count))
        return total, count


def error_analysis(database: CandidateDatabase, queries: Tensor, labels: Tensor, *, top: int = 20) -> ErrorAnalysis:
    """Return what went wrong on samples with queries `(n, d_att)` and class numbers `(n,)`.

    `top` is how many harmful candidates are listed, each with the decisions that would change without it.
    """
    if len(queries) != len(labels):
        raise UserError(f"X and y must be of one length, but X has {len(queries)} rows and y has {len(labels)}.")
    top = check_count(top, "top")
    found = database.attend(queries, top=None if _holds_all(database) else 0)
    predicted = found.predicted
    runner_up = found.logits.scatter(1, predicted[:, None], -torch.inf).argmax(1)
    rival = torch.where(predicted == labels, runner_up, labels)
    answers = _Answers(database, queries, labels, found, rival)
    n_classes = len(database.classes)
    counts = torch.bincount(labels * n_classes + predicted, minlength=n_classes**2)
    return ErrorAnalysis(
        counts=counts.view(n_classes, n_classes).numpy(),
        classes=database.classes.values,
        confusions=_confusions(answers),
        harmful=_harmful(answers, top),
        wanted=_wanted(answers),
    )


def _holds_all(database: CandidateDatabase) -> bool:
    return database.model.normalize == "sparsemax"


def _confusions(answers: _Answers) -> tuple[Confusion, ...]:
    database, found = answers.database, []
    wrong = (~answers.right).nonzero().squeeze(1)
    pairs = torch.stack([answers.labels[wrong], answers.predicted[wrong]], dim=1)
    for true, predicted in pairs.unique(dim=0).tolist():
        rows = wrong[(pairs == torch.tensor([true, predicted])).all(1)]
        total, _ = answers.total_pull(rows)
        strongest = total.argsort(descending=True)[:CULPRITS]
        culprits = [(int(database.rows.ids[i]), float(total[i])) for i in strongest if total[i] > 0]
        values = database.classes.values
        found.append(Confusion(values[true], values[predicted], rows.numpy(), tuple(culprits)))
    return tuple(sorted(found, key=lambda confusion: -len(confusion.rows)))


def _harmful(answers: _Answers, top: int) -> tuple[Harmful, ...]:
    database, right = answers.database, answers.right
    pull, errors = answers.total_pull((~right).nonzero().squeeze(1))
    push, _ = answers.total_pull(right.nonzero().squeeze(1))
    suspects = (pull - push).where(pull > 0, -torch.inf).argsort(descending=True)[:top]
    suspects = suspects[pull[suspects] > 0]
    labels = database.labels
    found = []
    for suspect, inputs in zip(suspects.tolist(), _users(answers, suspects), strict=True):
        without = database.decide(answers.queries[inputs], own=torch.full_like(inputs, suspect)).predicted
        then, now = without == answers.labels[inputs], right[inputs]
        found.append(
            Harmful(
                index=int(database.rows.ids[suspect]),
                label=labels[suspect],
                pull=float(pull[suspect]),
                push=float(push[suspect]),
                errors=int(errors[suspect]),
                fixed=int((then & ~now).sum()),
                broken=int((now & ~then).sum()),
                preview=database.preview_at(suspect),
            )
        )
    return tuple(sorted(found, key=lambda harmful: (harmful.broken - harmful.fixed, harmful.push - harmful.pull)))


def _users(answers: _Answers, suspects: Tensor) -> list[Tensor]:
    """Return for each of these candidates the inputs it is a prototype of: without it no other decision changes."""
    if not _holds_all(answers.database):
        return [torch.arange(len(answers.queries))] * len(suspects)
    found = answers.found
    return [found.rows[found.positions == suspect] for suspect in suspects]


def _wanted(answers: _Answers) -> tuple[Wanted, ...]:
    own_mass = answers.found.class_mass.gather(1, answers.labels[:, None]).squeeze(1)
    found = []
    for c, label in enumerate(answers.database.classes.values):
        rows = ((answers.labels == c) & ~answers.right).nonzero().squeeze(1)
        if len(rows):
            furthest = rows[own_mass[rows].argsort(stable=True)]
            found.append(Wanted(label, len(rows), float(own_mass[rows].mean()), furthest[:EXAMPLES].numpy()))
    return tuple(sorted(found, key=lambda wanted: -wanted.errors * (1 - wanted.mass)))
