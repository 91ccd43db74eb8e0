"""Explanations: for each decision its prototypes, their labels and how much of the decision each one carries."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from protoattend.arguments import check_count, check_number
from protoattend.core.attention import prototype_counts
from protoattend.database.attention import Attention
from protoattend.database.store import CandidateDatabase
from protoattend.errors import MissingExtra, UserError
from protoattend.explain.against import speaking_against
from protoattend.explain.prototypes import Outcome, Prototype
from protoattend.files.writing import write_text

UNFAMILIAR = 0.995  # below it, an explanation says so: it would be shown as less than all


@dataclass(frozen=True)
class Explanation:
    """Why one input got its prediction.

    Attributes
    ----------
    prediction : label
    confidence : float
        C_i of eq. 3: the weight of candidates that carry the predicted label, by the flat reading of all of them.
    prototypes : tuple of Prototype
        The heaviest ones, as many as were asked for.
    weights : ndarray of shape (k,)
        Of all prototypes, heaviest first, also those not shown.
    preview : object
        The input as a person is shown it.
    label : label or None, default=None
        The true label, where it is known.
    before : Outcome or None, default=None
        Of a supposition, what is decided with the database as it is: `before.prediction`, `before.confidence`.
    agreement : float
        The share of the prototypes' weight that is on the predicted label.
    against : tuple of Prototype
        What speaks against: the heaviest candidates of the runner-up, with their weights in the flat reading.
    heaviest_label : label or None
        The label that most of the prototypes' weight is on, where it is known.
    familiarity : float, default=1.0
        1 where the input is as near to candidates as nearly all rows of the database are; near 0 far from all of them.
        It is a factor of the confidence.

    Examples
    --------
    >>> weights = np.array([0.6, 0.3, 0.1])
    >>> shown = (Prototype(17, 0.6, "cat", "a small cat"), Prototype(4, 0.3, "cat", "a cat"))
    >>> explanation = Explanation("cat", 0.9, shown, weights, preview="my cat")
    >>> explanation
    Explanation('cat', confidence=0.90, prototypes=[#17 'cat' 0.60, #4 'cat' 0.30])
    >>> explanation.n_prototypes(0.85)
    2
    """

    prediction: Any
    confidence: float
    prototypes: tuple[Prototype, ...]
    weights: np.ndarray  # of all prototypes, heaviest first, also those not shown
    preview: Any
    label: Any = None  # the true label, where it is known
    before: Outcome | None = None
    agreement: float = math.nan
    against: tuple[Prototype, ...] = ()
    heaviest_label: Any = None
    familiarity: float = 1.0

    def __post_init__(self) -> None:
        if math.isnan(self.agreement):  # where there is one reading, they are the same
            object.__setattr__(self, "agreement", self.confidence)

    @property
    def note(self) -> str:
        """Where the prediction is not what most of the prototypes are, a sentence that says so; else empty."""
        if self.heaviest_label is None or self.heaviest_label == self.prediction:
            return ""
        return (
            f"Most weight is on prototypes labelled {self.heaviest_label}, but together their values argue for "
            f"{self.prediction}."
        )

    @property
    def notes(self) -> tuple[str, ...]:
        """What a person should know of the decision beside its prototypes: `note`, and where it is unfamiliar."""
        unfamiliar = (
            f"Attention finds no candidate as near to the input as nearly all of them have one, which leaves "
            f"{self.familiarity:.0%} of the confidence that the labels would give."
        )
        return tuple(filter(None, (self.note, unfamiliar if self.familiarity < UNFAMILIAR else "")))

    @property
    def changed(self) -> bool:
        """Whether the supposition changes the prediction."""
        return self.before is not None and self.before.prediction != self.prediction

    def n_prototypes(self, share: float = 0.95) -> int:
        """Return how many prototypes carry a share of the decision: the smallest k whose weights add up to it.

        Parameters
        ----------
        share : float, default=0.95
            Above 0 and at most 1.

        Returns
        -------
        int

        Raises
        ------
        UserError
            Where share is out of range.
        """
        wanted = check_number(share, "share")
        if not 0 < wanted <= 1:
            raise UserError(
                f"share must be above 0 and at most 1, but got {share}; 0.95 asks for 95 % of the decision."
            )
        return int(prototype_counts(torch.from_numpy(self.weights).double(), wanted))

    def __repr__(self) -> str:
        shown = ", ".join(f"#{p.index} {p.label!r} {p.weight:.2f}" for p in self.prototypes[:5])
        before = f" (before: {self.before.prediction!r})" if self.before is not None and self.changed else ""
        return f"Explanation({self.prediction!r}{before}, confidence={self.confidence:.2f}, prototypes=[{shown}])"


@dataclass(frozen=True)
class Explanations:
    """The explanations of several inputs: a sequence of `Explanation`.

    Attributes
    ----------
    items : tuple of Explanation
    kind : {"images", "text", "table"}
        Of input, which tells how they are drawn.

    Examples
    --------
    >>> shown = (Prototype(17, 1.0, "cat", "a small cat"),)
    >>> explanations = Explanations((Explanation("cat", 1.0, shown, np.ones(1), preview="my cat"),), kind="text")
    >>> len(explanations), explanations[0].prototypes[0].index, "a small cat" in explanations.to_html()
    (1, 17, True)
    """

    items: tuple[Explanation, ...]
    kind: str

    def __len__(self) -> int:
        return len(self.items)

    def __iter__(self) -> Iterator[Explanation]:
        return iter(self.items)

    def __getitem__(self, which: int | slice | Sequence[int] | np.ndarray) -> Any:
        """Return one explanation, or Explanations of several.

        Parameters
        ----------
        which : int, slice or sequence of int

        Returns
        -------
        Explanation or Explanations
        """
        if isinstance(which, (int, np.integer)):
            return self.items[which]
        chosen = self.items[which] if isinstance(which, slice) else tuple(self.items[int(i)] for i in which)
        return Explanations(chosen, self.kind)

    def plot(self, path: str | os.PathLike[str] | None = None, *, n: int = 8) -> Any:
        """Draw the first explanations.

        Parameters
        ----------
        path : str, path or None, default=None
            A file to save the figure to.
        n : int, default=8
            How many.

        Returns
        -------
        matplotlib figure

        Raises
        ------
        MissingExtra
            Where matplotlib is not installed.
        """
        from protoattend.viz.figures import draw

        figure = draw(self[:n])
        if path is not None:
            figure.savefig(path, dpi=110)
        return figure

    def to_html(self, path: str | os.PathLike[str] | None = None, *, title: str = "Explanations") -> str:
        """Return one self-contained HTML page.

        Parameters
        ----------
        path : str, path or None, default=None
            A file to write it to.
        title : str, default="Explanations"

        Returns
        -------
        str
        """
        from protoattend.viz.html import page

        html = page(self, title)
        if path is not None:
            write_text(path, html)
        return html

    def _repr_html_(self) -> str:
        from protoattend.viz.html import fragment

        return fragment(self[:8])

    def to_frame(self) -> Any:
        """Return a table with one row for each shown prototype of each input.

        Returns
        -------
        DataFrame
            With columns "input", "prediction", "confidence", "rank", "index", "weight" and "label".

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
            [
                {
                    "input": i,
                    "prediction": e.prediction,
                    "confidence": e.confidence,
                    "rank": rank,
                    "index": p.index,
                    "weight": p.weight,
                    "label": p.label,
                }
                for i, e in enumerate(self.items)
                for rank, p in enumerate(e.prototypes)
            ],
            columns=["input", "prediction", "confidence", "rank", "index", "weight", "label"],
        )


def explain(
    database: CandidateDatabase,
    queries: Tensor,
    previews: list[Any],
    *,
    top: int = 5,
    own: Tensor | None = None,
) -> Explanations:
    """Explain queries `(B, d_att)`; with `own` `(B,)` they are the database's rows there, each without itself."""
    require_top(top)
    found = database.attend(queries, own=own)
    explained = explanations_of(database, found, previews, top=top)
    labels = [None] * len(explained) if own is None else database.classes.decode(database.rows.labels[own])
    against = speaking_against(database, queries, found.predicted, own=own)
    items = (
        replace(e, label=label, against=shown_prototypes(database, *others))
        for e, label, others in zip(explained, labels, against, strict=True)
    )
    return Explanations(tuple(items), explained.kind)


def explanations_of(database: CandidateDatabase, found: Attention, previews: list[Any], *, top: int) -> Explanations:
    """Return explanations of what a search of the database found, all prototypes of each query."""
    decided, used = outcomes(database, found), found.per_query()
    items = (
        Explanation(
            prediction=outcome.prediction,
            confidence=outcome.confidence,
            prototypes=shown_prototypes(database, positions[:top], weights[:top]),
            weights=weights.numpy(),
            preview=preview,
            agreement=agreement,
            heaviest_label=heaviest,
            familiarity=familiarity,
        )
        for outcome, (positions, weights), preview, agreement, heaviest, familiarity in zip(
            decided,
            used,
            previews,
            found.agreement.tolist(),
            database.classes.decode(found.class_mass.argmax(1)),
            found.familiarity.tolist(),
            strict=True,
        )
    )
    return Explanations(tuple(items), database.inputs.kind)


def outcomes(database: CandidateDatabase, decided: Attention) -> list[Outcome]:
    """Return what a search of the database decided, with the labels' names."""
    labels = database.classes.decode(decided.predicted)
    return [Outcome(*pair) for pair in zip(labels, decided.confidence.tolist(), strict=True)]


def shown_prototypes(database: CandidateDatabase, positions: Tensor, weights: Tensor) -> tuple[Prototype, ...]:
    """Return candidates of these weights as a person is shown them."""
    labels = database.classes.decode(database.rows.labels[positions])
    found = zip(positions.tolist(), weights.tolist(), labels, strict=True)
    return tuple(prototype_at(database, position, weight, label) for position, weight, label in found)


def require_top(top: int) -> None:
    top = check_count(top, "top")


def prototype_at(database: CandidateDatabase, position: int, weight: float, label: Any) -> Prototype:
    """Return the candidate at a position of the database as a person is shown it."""
    argues = database.class_scores[position].double().softmax(0)
    argued = int(argues.argmax())
    preview, name = database.preview_at(position), database.classes.values[argued]
    return Prototype(int(database.rows.ids[position]), weight, label, preview, name, float(argues[argued]))
