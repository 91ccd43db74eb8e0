"""Would the decision change? Suppose candidates away or labelled otherwise; find the fewest that a decision needs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from protoattend.arguments import check_count
from protoattend.core.sparsemax import sparsemax
from protoattend.database.rows import Rows
from protoattend.database.store import CandidateDatabase, Indices
from protoattend.explain.explanations import Explanations, Outcome, outcomes

TRIES = 4096  # sets of prototypes tried to prove that a set is the smallest
LOOKED_AT = 64  # heaviest prototypes of which each step removes one
HELD = 1 << 22  # weights held at once
TIED = 1e-5  # logits this close may change places by rounding alone
Removal = tuple[int, ...]


@dataclass(frozen=True)
class Counterfactual:
    """Prototypes whose removal changes the decision on one input; `ProtoAttendClassifier.counterfactuals` finds them.

    Attributes
    ----------
    indices : tuple of int
        The candidates to remove.
    before, after : Outcome
        What is decided with and without them: `prediction` and `confidence`.
    smallest : bool
        Whether no smaller set of candidates would do; otherwise only no part of this one would.

    Examples
    --------
    >>> flip = Counterfactual((4, 17), before=Outcome("cat", 0.9), after=Outcome("dog", 0.6), smallest=True)
    >>> flip.after.prediction
    'dog'
    """

    indices: tuple[int, ...]
    before: Outcome
    after: Outcome
    smallest: bool


def suppose(
    database: CandidateDatabase, *, without: Indices | None = None, with_labels: Mapping[int, Any] | None = None
) -> CandidateDatabase:
    """Return the database with other labels and without some candidates; itself where nothing is supposed."""
    if with_labels is not None:
        database = database.with_labels(with_labels)
    return database if without is None else database.without(without)


def with_before(
    explanations: Explanations, database: CandidateDatabase, queries: Tensor, *, own: Tensor | None = None
) -> Explanations:
    """Return the explanations of a supposition beside what `database`, as it is, decides for the same queries."""
    before = outcomes(database, database.decide(queries, own=own))
    items = (replace(e, before=outcome) for e, outcome in zip(explanations, before, strict=True))
    return Explanations(tuple(items), explanations.kind)


def counterfactuals(database: CandidateDatabase, queries: Tensor, *, at_most: int = 100) -> list[Counterfactual | None]:
    """Return, for each query `(B, d_att)`, the fewest prototypes found whose removal changes the prediction.

    None means that none was found among sets of `at_most`. Every flip is confirmed by deciding without its candidates.
    With softmax it is the smallest there is: removals act on the logits' differences one by one. With sparsemax
    a removal lets others in, so one of the heaviest after the other goes, each time the one whose removal, tried, helps
    most; what proves unneeded comes back; then all smaller sets are tried, and `smallest` says whether 4096 tries were
    enough for that. Logits closer than 1e-5 count as tied, which is no flip.
    """
    at_most = check_count(at_most, "at_most")
    search = _linear_removal if database.model.normalize == "softmax" else _sparse_removal
    most = min(at_most, int(database.deciding.sum()) - 1)
    found: list[Counterfactual | None] = []
    for query, before in zip(queries, outcomes(database, database.decide(queries)), strict=True):
        number = database.classes.number(before.prediction)
        removal, smallest = search(database.scores(query), database.rows, number, most)
        found.append(_confirmed(database, query, before, removal, smallest) if removal else None)
    return found


def _confirmed(
    database: CandidateDatabase, query: Tensor, before: Outcome, removal: Removal, smallest: bool
) -> Counterfactual | None:
    indices = database.rows.ids[list(removal)]
    without = database.without(indices)
    after = outcomes(without, without.decide(query[None]))[0]
    if after.prediction == before.prediction:
        return None
    return Counterfactual(tuple(indices.tolist()), before, after, smallest)


def _linear_removal(scores: Tensor, rows: Rows, predicted: int, at_most: int) -> tuple[Removal, bool]:
    """Softmax: a rival class wins when the sum of m_j (c_j predicted - c_j rival) over what stays falls below 0."""
    masses = (scores - scores.max()).exp() * rows.sample_weight
    best: Removal = ()
    for rival in range(rows.class_scores.shape[1]):
        if rival == predicted:
            continue
        lead = masses * (rows.class_scores[:, predicted] - rows.class_scores[:, rival])
        most = lead.topk(at_most)
        left, kept_mass = lead.sum() - most.values.cumsum(0), masses.sum() - masses[most.indices].cumsum(0)
        enough = (left < -TIED * kept_mass).nonzero()
        if len(enough) and (not best or int(enough[0]) + 1 < len(best)):
            best = tuple(most.indices[: int(enough[0]) + 1].tolist())
    return best, True


def _sparse_removal(scores: Tensor, rows: Rows, predicted: int, at_most: int) -> tuple[Removal, bool]:
    """Sparsemax: greedily, made irreducible, then against all smaller sets as far as TRIES go."""
    nearby = _Nearby.of(scores, rows, predicted, at_most)
    greedy = _irreducible(nearby, _greedy(nearby, at_most))
    if not greedy:
        return (), False
    tried = 0
    level: list[Removal] = [()]
    for _ in range(len(greedy) - 1):
        # Removing what has no weight changes nothing, so a smallest set grows by prototypes of what is left.
        larger = {tuple(sorted((*removed, j))) for removed, j in nearby.next_steps(level)}
        tried += len(larger)
        if tried > TRIES or tried * len(nearby.scores) > 16 * HELD:
            return nearby.named(greedy), False
        level = sorted(larger)
        leads = nearby.leads(level)
        if bool((leads < -TIED).any()):
            return nearby.named(level[int(leads.argmin())]), True
    return nearby.named(greedy), True


def _greedy(nearby: _Nearby, at_most: int) -> Removal:
    removed: Removal = ()
    for _ in range(at_most):
        heaviest = next(nearby.weights([removed]))[0].topk(min(LOOKED_AT, len(nearby.scores) - len(removed)))
        steps = [(*removed, j) for j in heaviest.indices[heaviest.values > 0].tolist()]
        leads = nearby.leads(steps)
        removed = steps[int(leads.argmin())]
        if bool(leads.min() < -TIED):
            return removed
    return ()


def _irreducible(nearby: _Nearby, removed: Removal) -> Removal:
    """Leave out of the set what it does not need, until it needs every one."""
    while len(removed) > 1:
        smaller = [removed[:i] + removed[i + 1 :] for i in range(len(removed))]
        leads = nearby.leads(smaller)
        if not bool(leads.min() < -TIED):
            break
        removed = smaller[int(leads.argmin())]
    return removed


@dataclass(frozen=True)
class _Nearby:
    """The candidates that can get weight from one query when at most so many others are removed."""

    positions: Tensor
    scores: Tensor
    class_scores: Tensor
    counts: Tensor
    predicted: int

    @classmethod
    def of(cls, scores: Tensor, rows: Rows, predicted: int, at_most: int) -> _Nearby:
        """Each candidate left, counting s times, has tau >= z - 1 / s, and m removals leave one of the best m + 1."""
        counts = rows.sample_weight.double()
        lowest = (scores - 1 / counts).topk(at_most + 1).values[-1]
        near = (scores > lowest).nonzero().squeeze(1)
        return cls(near, scores[near], rows.class_scores[near].double(), counts[near], predicted)

    def weights(self, removals: list[Removal]) -> Iterator[Tensor]:
        """Yield the sparsemax weights `(M, K)` without each of the sets, as many at once as memory allows."""
        size = max(1, HELD // len(self.scores))
        for start in range(0, len(removals), size):
            some = removals[start : start + size]
            gone = torch.zeros(len(some), len(self.scores), dtype=torch.bool)
            for row, removed in enumerate(some):
                gone[row, list(removed)] = True
            yield sparsemax(self.scores.expand(len(some), -1), exclude=gone, sample_weight=self.counts)

    def leads(self, removals: list[Removal]) -> Tensor:
        """Return how far the predicted class is ahead of the best other one without each of the sets `(M,)`."""
        logits = torch.cat([weights @ self.class_scores for weights in self.weights(removals)])
        rivals = logits.clone()
        rivals[:, self.predicted] = -torch.inf
        return logits[:, self.predicted] - rivals.amax(1)

    def next_steps(self, removals: list[Removal]) -> Iterator[tuple[Removal, int]]:
        """Yield each set with each prototype that the decision without it has."""
        sets = iter(removals)
        for weights in self.weights(removals):
            for row in weights:
                removed = next(sets)
                yield from ((removed, j) for j in (row > 0).nonzero().squeeze(1).tolist())

    def named(self, removed: Removal) -> Removal:
        return tuple(int(self.positions[j]) for j in removed)
