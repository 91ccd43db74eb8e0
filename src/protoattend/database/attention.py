"""The one result of attention: which candidates each query attends to, and what that decides."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from protoattend.core.attention import confidence, ragged_class_mass, ragged_prototype_counts
from protoattend.database.searchable import Searchable

HELD = 1 << 22  # class scores gathered at once


@dataclass(frozen=True)
class Attention:
    """For B queries: triples (row, position, weight) of their prototypes, and what all candidates together decide.

    Triples `(N,)` are rows ascending, and the heaviest of each row first; they are of all candidates with non-zero
    weight, or of as many of each query as were asked for. Always of all candidates are the logits at alpha 1 and the
    class mass `(B, C)`; `largest_score` is `(B,)`. Where a search has not looked at all candidates exactly, it is not
    `exact`, and `missed` `(B,)`, where known, bounds the weight of those left out.
    """

    rows: Tensor
    positions: Tensor
    weights: Tensor
    logits: Tensor
    class_mass: Tensor
    largest_score: Tensor
    exact: bool = True
    missed: Tensor | None = None

    def __len__(self) -> int:
        return len(self.logits)

    @property
    def predicted(self) -> Tensor:
        """The number of the class decided for `(B,)`."""
        return self.logits.argmax(1)

    @property
    def confidence(self) -> Tensor:
        """C_i of eq. 3 `(B,)`: the share of prototype weight whose label is the predicted one."""
        return confidence(self.class_mass, self.predicted)

    @property
    def probabilities(self) -> Tensor:
        """The softmax of the logits `(B, C)`, in float64."""
        return self.logits.double().softmax(1)

    @property
    def sizes(self) -> Tensor:
        """How many triples each query has `(B,)`."""
        return torch.bincount(self.rows, minlength=len(self))

    def per_query(self) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield positions and weights of each query's prototypes, heaviest first."""
        sizes = self.sizes.tolist()
        yield from zip(self.positions.split(sizes), self.weights.split(sizes), strict=True)

    def heaviest(self, top: int) -> tuple[Tensor, Tensor]:
        """Return positions and weights `(B, top)` of each query's heaviest; where there are fewer, weight 0."""
        sizes = self.sizes
        place = torch.arange(top, device=sizes.device)
        there = place < sizes[:, None]
        chosen = ((sizes.cumsum(0) - sizes)[:, None] + place).clamp_(max=len(self.rows) - 1)
        return self.positions[chosen] * there, self.weights[chosen] * there

    def counts(self, share: float) -> Tensor:
        """Return how many of its prototypes carry `share` of each decision `(B,)`: the fewest that do."""
        return ragged_prototype_counts(self.weights, self.rows, len(self), share)


def attention_of(
    rows: Tensor,
    positions: Tensor,
    weights: Tensor,
    candidates: Searchable,
    *,
    largest_score: Tensor,
    top: int | None,
    missed: Tensor | None = None,
) -> Attention:
    """Return what triples of all non-zero weights, rows ascending, decide; of each query the `top` heaviest are kept.

    Where there is a bound on the weight that is `missed`, it is not exact.
    """
    logits, mass = _decided(rows, positions, weights, candidates, len(largest_score))
    if top == 0:
        kept = rows[:0]
    else:
        kept = weights.argsort(descending=True, stable=True)
        kept = kept[rows[kept].argsort(stable=True)]
    if top:
        sizes = torch.bincount(rows, minlength=len(largest_score))
        place = torch.arange(len(rows), device=rows.device) - (sizes.cumsum(0) - sizes)[rows]
        kept = kept[place < top]
    return Attention(
        rows[kept], positions[kept], weights[kept], logits, mass, largest_score, exact=missed is None, missed=missed
    )


def joined(parts: Sequence[Attention]) -> Attention:
    """Return the attention of several lots of queries as one."""
    if len(parts) == 1:
        return parts[0]
    starts = [0]
    for part in parts:
        starts.append(starts[-1] + len(part))
    missed = [part.missed for part in parts if part.missed is not None]
    return Attention(
        torch.cat([part.rows + start for part, start in zip(parts, starts[:-1], strict=True)]),
        torch.cat([part.positions for part in parts]),
        torch.cat([part.weights for part in parts]),
        torch.cat([part.logits for part in parts]),
        torch.cat([part.class_mass for part in parts]),
        torch.cat([part.largest_score for part in parts]),
        exact=all(part.exact for part in parts),
        missed=torch.cat(missed) if missed else None,
    )


def _decided(
    rows: Tensor, positions: Tensor, weights: Tensor, candidates: Searchable, n_rows: int
) -> tuple[Tensor, Tensor]:
    """Return logits and class mass `(n_rows, C)`; the class scores of many prototypes are gathered some at a time."""
    n_classes = candidates.class_scores.shape[1]
    logits = weights.new_zeros(n_rows, n_classes)
    step = max(1, HELD // n_classes)
    for start in range(0, len(rows), step):
        here = slice(start, start + step)
        logits.index_add_(0, rows[here], candidates.class_scores[positions[here]] * weights[here, None])
    return logits, ragged_class_mass(candidates.labels[positions], weights, n_classes, rows, n_rows)
