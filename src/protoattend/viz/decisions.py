"""What a person is shown of one decision, whatever the kind of input; pages and figures are drawn from it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from protoattend.viz.text import plain

SHARE = 0.95  # the share of a decision whose prototypes are counted


class PrototypeShown(Protocol):
    """A training sample as it is handed in; `preview` is an image, a text, or the values of a table by name."""

    @property
    def index(self) -> int: ...
    @property
    def weight(self) -> float: ...
    @property
    def label(self) -> Any: ...
    @property
    def preview(self) -> Any: ...


class Explained(Protocol):
    """One explained decision as it is handed in; `weights` are those of all prototypes, also of those not shown."""

    @property
    def prediction(self) -> Any: ...
    @property
    def confidence(self) -> float: ...
    @property
    def prototypes(self) -> Sequence[PrototypeShown]: ...
    @property
    def weights(self) -> np.ndarray: ...
    @property
    def preview(self) -> Any: ...
    @property
    def label(self) -> Any: ...
    @property
    def agreement(self) -> float: ...
    @property
    def against(self) -> Sequence[PrototypeShown]: ...
    @property
    def notes(self) -> Sequence[str]: ...
    def n_prototypes(self, share: float) -> int: ...


class ExplainedInputs(Protocol):
    """Several explained decisions on inputs of one kind: "images", "text" or "table"."""

    @property
    def kind(self) -> str: ...
    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[Explained]: ...


@dataclass(frozen=True)
class Entry:
    """One prototype as a person sees it; `agrees` says whether its label is the predicted one."""

    label: str
    weight: float
    index: int
    agrees: bool


@dataclass(frozen=True)
class Piece:
    """A piece of a decision: one prototype, or all those that are not shown."""

    weight: float
    agrees: bool
    what: str
    shown: bool = True


@dataclass(frozen=True)
class Decision:
    """One decision as a person sees it; the `more` fields are about the prototypes not shown."""

    prediction: str
    confidence: float
    n_needed: int
    label: str | None
    as_labelled: bool
    prototypes: tuple[Entry, ...]
    more: int
    more_weight: float
    more_agreeing: float
    agreement: float
    note: str
    against: tuple[Entry, ...]

    @property
    def pieces(self) -> list[Piece]:
        """Return what the decision is made of; the agreeing pieces, first, add up to the agreement."""
        pieces = [Piece(p.weight, p.agrees, f"#{p.index}, {p.label}") for p in self.prototypes]
        if self.more:
            differing = self.more_weight - self.more_agreeing
            pieces.append(Piece(self.more_agreeing, True, "agreeing prototypes not shown", shown=False))
            pieces.append(Piece(differing, False, "other prototypes not shown", shown=False))
        return sorted((piece for piece in pieces if piece.weight > 0), key=lambda piece: not piece.agrees)


def shown_decision(explanation: Explained) -> Decision:
    """Return what is shown of one decision, whatever its kind of input."""
    e = explanation
    shown = tuple(
        Entry(plain(p.label), float(p.weight), int(p.index), bool(p.label == e.prediction)) for p in e.prototypes
    )
    # Agreement is the weight of all that agree, so it also tells how much of those not shown does.
    more_weight = max(1.0 - sum(p.weight for p in shown), 0.0)
    more_agreeing = float(e.agreement) - sum(p.weight for p in shown if p.agrees)
    return Decision(
        prediction=plain(e.prediction),
        confidence=float(e.confidence),
        n_needed=e.n_prototypes(SHARE),
        label=None if e.label is None else plain(e.label),
        as_labelled=e.label is None or bool(e.label == e.prediction),
        prototypes=shown,
        more=max(int(np.count_nonzero(e.weights)) - len(shown), 0),
        more_weight=more_weight,
        more_agreeing=min(max(more_agreeing, 0.0), more_weight),
        agreement=float(e.agreement),
        note=plain(" ".join(e.notes)),
        against=tuple(Entry(plain(p.label), float(p.weight), int(p.index), False) for p in e.against),
    )
