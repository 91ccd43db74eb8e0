"""More about a decision: why not another class, and prototypes that are not copies of one another."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from protoattend.core.attention import attention_scores
from protoattend.database.store import CandidateDatabase
from protoattend.errors import UserError
from protoattend.explain.explanations import (
    Explanation,
    Explanations,
    Prototype,
    explanations_of,
    prototype_at,
    require_top,
    shown_prototypes,
)


@dataclass(frozen=True)
class Rival:
    """A candidate of the class asked about: its weight, and the weight at which it alone would turn the decision.

    `needed` is that weight if it took the same share from all other prototypes; infinite if its value argues for the
    predicted class as well. `score_gap` is how far its attention score lies below the largest one.
    """

    prototype: Prototype
    needed: float
    score_gap: float


@dataclass(frozen=True)
class Contrast:
    """Why a decision is not another label; `ProtoAttendClassifier.contrast` makes it.

    Attributes
    ----------
    explanation : Explanation
        Of the decision as it is.
    label : label
        The one asked about.
    behind : float
        How far its logit is behind that of the prediction.
    mass : float
        Its class mass: the prototype weight that it has.
    rivals : tuple of Rival
        The candidates of it with the highest scores: each with its `prototype`, the weight that it alone would have
        `needed`, and the `score_gap` to the largest score.

    Notes
    -----
    If a rival of weight p takes the same share from all others, the decision turns at weight w = lead / (lead + gain),
    where gain is its class score for the label above that for the prediction, and lead = (behind + p gain) / (1 - p).

    Examples
    --------
    >>> shown = Prototype(4, 0.2, "dog", preview="a dog")
    >>> decided = Explanation("cat", 0.8, (), np.array([0.8, 0.2]), preview="a pet")
    >>> Contrast(decided, "dog", behind=1.5, mass=0.2, rivals=(Rival(shown, needed=0.55, score_gap=0.1),))
    Contrast('cat' not 'dog', mass=0.20, rivals=[#4 0.20/0.55])
    """

    explanation: Explanation
    label: Any
    behind: float
    mass: float
    rivals: tuple[Rival, ...]

    def __repr__(self) -> str:
        shown = ", ".join(f"#{r.prototype.index} {r.prototype.weight:.2f}/{r.needed:.2f}" for r in self.rivals)
        return f"Contrast({self.explanation.prediction!r} not {self.label!r}, mass={self.mass:.2f}, rivals=[{shown}])"

    def plot(self, ax: Any = None) -> Any:
        """Draw the weights of prototypes and of rivals, and what the rivals would need.

        Parameters
        ----------
        ax : matplotlib axis or None, default=None
            Where to draw; None makes a new figure.

        Returns
        -------
        matplotlib axis
        """
        from protoattend.viz.charts import draw_contrast

        return draw_contrast(ax, self.explanation, self.rivals, label=self.label)


def contrast(
    database: CandidateDatabase, queries: Tensor, previews: list[Any], *, label: Any, top: int = 5
) -> list[Contrast]:
    """Return for queries `(n, d_att)` why each decision is not `label`, with the `top` best candidates of it."""
    asked = database.classes.number(label)
    of_label = database.rows.labels == asked
    deciding = of_label & database.deciding  # another can be no prototype
    places = (deciding if bool(deciding.any()) else of_label).nonzero().squeeze(1)
    if len(places) == 0:
        raise UserError(f"the database must hold candidates of {label!r}, but has none; add some.")
    require_top(top)
    found, scores = database.attend(queries), database.class_scores
    explained = explanations_of(database, found, previews, top=top)
    best = attention_scores(queries, database.keys[places], database.temperature).topk(min(top, len(places)), dim=1)
    items = []
    for i, (positions, weights) in enumerate(found.per_query()):
        predicted = int(found.logits[i].argmax())
        behind = float(found.logits[i, predicted] - found.logits[i, asked])
        near = places[best.indices[i]]
        gains = scores[near, asked] - scores[near, predicted]
        columns = (near, _weights_at(near, positions, weights), gains, found.largest_score[i] - best.values[i])
        rivals = tuple(
            Rival(prototype_at(database, place, weight, label), needed_weight(behind, gain, weight), max(gap, 0.0))
            for place, weight, gain, gap in zip(*(column.tolist() for column in columns), strict=True)
        )
        items.append(Contrast(explained[i], label, behind, float(found.class_mass[i, asked]), rivals))
    return items


def explain_diverse(database: CandidateDatabase, queries: Tensor, previews: list[Any], *, top: int = 5) -> Explanations:
    """Explain queries `(n, d_att)` with prototypes that differ: near-copies of one already shown come last.

    The first is the heaviest; each next one has the largest product of its weight and its distance, in keys and values,
    to those already shown. Weights stay what they are.
    """
    require_top(top)
    found = database.attend(queries)
    explained = explanations_of(database, found, previews, top=top)
    features = torch.cat([database.keys, database.rows.values], dim=1)
    items = []
    for explanation, (positions, weights) in zip(explained, found.per_query(), strict=True):
        chosen = diverse(weights, features[positions], top)
        shown = shown_prototypes(database, positions[chosen], weights[chosen])
        items.append(replace(explanation, prototypes=shown))
    return Explanations(tuple(items), explained.kind)


def diverse(weights: Tensor, features: Tensor, top: int) -> Tensor:
    """Return the positions of `top` rows, greedily by weight `(m,)` times distance to those chosen `(m, d)`.

    >>> diverse(torch.tensor([0.5, 0.4, 0.1]), torch.tensor([[0.0], [0.01], [1.0]]), 2)
    tensor([0, 2])
    """
    chosen = [int(weights.argmax())]
    distance = torch.full_like(weights, torch.inf)
    left = torch.ones(len(weights), dtype=torch.bool)
    while len(chosen) < min(top, len(weights)):
        left[chosen[-1]] = False
        distance = torch.minimum(distance, (features - features[chosen[-1]]).norm(dim=1))
        # Exact copies have distance 0: among them weight decides.
        gain = torch.where(left, weights * (distance + 1e-9), -torch.inf)
        chosen.append(int(gain.argmax()))
    return torch.tensor(chosen)


def needed_weight(behind: float, gain: float, weight: float) -> float:
    """Return the weight at which a candidate would close the gap, all other weights shrinking in proportion.

    The decision is `behind` now, the candidate has `weight` and adds `gain` times it. The others alone are behind by
    lead = (behind + weight gain) / (1 - weight); with weight w it is (1 - w) lead - w gain, which is 0 where it turns.

    >>> needed_weight(1.0, 1.0, 0.0)
    0.5
    """
    if weight >= 1:
        return 0.0 if behind <= 0 else np.inf
    lead = (behind + weight * gain) / (1 - weight)
    if lead <= 0:
        return 0.0
    return lead / (lead + gain) if gain > 0 else np.inf


def _weights_at(places: Tensor, positions: Tensor, weights: Tensor) -> Tensor:
    """Return the weights of candidates at some places, 0 where they are not among the prototypes' positions."""
    return torch.where(places[:, None] == positions[None, :], weights[None, :], 0.0).sum(1)
