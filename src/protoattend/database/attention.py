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

    Parameters
    ----------
    rows, positions : Tensor of int of shape (N,)
        Of each triple the query it is of, and its place in the database's `rows`. Queries are ascending.
    weights : Tensor of shape (N,)
        p_ij of eq. 1, the heaviest of each query first. Triples are of all candidates with non-zero weight, or of as
        many of each query as were asked for.
    logits : Tensor of shape (B, C)
        Eq. 2 at alpha = 1, always of all candidates.
    class_mass : Tensor of shape (B, C)
        sum_j p_ij 1[y_j = c], always of all candidates.
    largest_score : Tensor of shape (B,)
        The largest attention score of each query.
    exact : bool, default=True
        Whether all candidates were looked at exactly.
    missed : Tensor of shape (B,) or None, default=None
        Where known, a bound on the weight of candidates left out.
    flat_mass : Tensor of shape (B, C) or None, default=None
        The class mass by the flat reading, which confidence is read from, where that was asked for.
    flat_total : Tensor of shape (B,) or None, default=None
        The logarithm of the total that `flat_mass` was divided by, or where learned scores alone are read, of what the
        nearest deciding candidate would add to it with likeness: the further all candidates are, the less it is.
    probability_temperature : float, default=1.0
        By which logits are divided for probabilities.
    familiar_from : Tensor of shape (C,) or None, default=None
        For each predicted class the `flat_total` from which on an input is as near to candidates as nearly all rows.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from protoattend import ProtoAttendClassifier
    >>> X, y = load_wine(return_X_y=True)
    >>> clf = ProtoAttendClassifier(max_epochs=2, random_state=0, verbose=0).fit(X, y)
    >>> attention = clf.database_.attend(clf.database_.rows.queries[:5])
    >>> positions, weights = next(attention.per_query())
    >>> len(attention), float(weights.sum().round(decimals=4))
    (5, 1.0)
    """

    rows: Tensor
    positions: Tensor
    weights: Tensor
    logits: Tensor
    class_mass: Tensor
    largest_score: Tensor
    exact: bool = True
    missed: Tensor | None = None
    flat_mass: Tensor | None = None
    flat_total: Tensor | None = None
    probability_temperature: float = 1.0
    familiar_from: Tensor | None = None

    def __len__(self) -> int:
        return len(self.logits)

    @property
    def predicted(self) -> Tensor:
        """The number of the class decided for: Tensor of int of shape (B,)."""
        return self.logits.argmax(1)

    @property
    def confidence(self) -> Tensor:
        """C_i of eq. 3 `(B,)`: the weight of candidates whose label is the predicted one, by the flat reading.

        Where there is none, as with softmax, it is by the weights that decide. It is less for unfamiliar inputs.
        """
        return _rounded(confidence(self.support, self.predicted) * self.familiarity)

    @property
    def familiarity(self) -> Tensor:
        """How familiar inputs are `(B,)`: 1 for nearly all that are like training rows, near 0 far from all candidates.

        Labels of candidates far away may agree as well as those of near ones, so weights that always sum to one cannot
        tell. In the flat reading they are divided by their total or by `familiar_from`, whichever is more; this is what
        they sum to.
        """
        if self.flat_total is None or self.familiar_from is None:
            return self.support.new_ones(len(self))
        return (self.flat_total - self.familiar_from[self.predicted]).clamp(max=0.0).exp()

    @property
    def agreement(self) -> Tensor:
        """The share `(B,)` of the prototypes' weight whose label is the predicted one."""
        return _rounded(confidence(self.class_mass, self.predicted))

    @property
    def support(self) -> Tensor:
        """What confidence is read from `(B, C)`: the class mass by the flat reading, or by the weights that decide."""
        return self.class_mass if self.flat_mass is None else self.flat_mass

    @property
    def probabilities(self) -> Tensor:
        """The softmax of the logits `(B, C)` at the temperature of probabilities, in float64."""
        return (self.logits.double() / self.probability_temperature).softmax(1)

    @property
    def sizes(self) -> Tensor:
        """How many triples each query has `(B,)`."""
        return torch.bincount(self.rows, minlength=len(self))

    def per_query(self) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield positions and weights of each query's prototypes, heaviest first."""
        sizes = self.sizes.tolist()
        yield from zip(self.positions.split(sizes), self.weights.split(sizes), strict=True)

    def heaviest(self, top: int) -> tuple[Tensor, Tensor]:
        """Return each query's heaviest prototypes as matrices.

        Parameters
        ----------
        top : int
            How many of each.

        Returns
        -------
        positions, weights : Tensor of shape (B, top)
            Heaviest first; where there are fewer, position 0 and weight 0.

        Examples
        --------
        >>> from sklearn.datasets import load_wine
        >>> from protoattend import ProtoAttendClassifier
        >>> X, y = load_wine(return_X_y=True)
        >>> clf = ProtoAttendClassifier(max_epochs=2, random_state=0, verbose=0).fit(X, y)
        >>> positions, weights = clf.database_.attend(clf.database_.rows.queries[:5]).heaviest(2)
        >>> weights.shape, bool((weights[:, 0] >= weights[:, 1]).all())
        (torch.Size([5, 2]), True)
        """
        sizes = self.sizes
        place = torch.arange(top, device=sizes.device)
        there = place < sizes[:, None]
        chosen = ((sizes.cumsum(0) - sizes)[:, None] + place).clamp_(max=len(self.rows) - 1)
        return self.positions[chosen] * there, self.weights[chosen] * there

    def counts(self, share: float) -> Tensor:
        """Return how many of its prototypes carry `share` of each decision `(B,)`: the fewest that do."""
        return ragged_prototype_counts(self.weights, self.rows, len(self), share)


def _rounded(shares: Tensor) -> Tensor:
    """Return shares to six digits: weights sum to one only up to rounding, and what is unanimous must be exactly 1."""
    return torch.round(shares, decimals=6)


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
        rows[kept],
        positions[kept],
        weights[kept],
        logits,
        mass,
        largest_score,
        exact=missed is None,
        missed=missed,
    )


def joined(parts: Sequence[Attention]) -> Attention:
    """Return the attention of several lots of queries as one."""
    if len(parts) == 1:
        return parts[0]
    starts = [0]
    for part in parts:
        starts.append(starts[-1] + len(part))
    missed = [part.missed for part in parts if part.missed is not None]
    flat = [part.flat_mass for part in parts if part.flat_mass is not None]
    totals = [part.flat_total for part in parts if part.flat_total is not None]
    return Attention(
        torch.cat([part.rows + start for part, start in zip(parts, starts[:-1], strict=True)]),
        torch.cat([part.positions for part in parts]),
        torch.cat([part.weights for part in parts]),
        torch.cat([part.logits for part in parts]),
        torch.cat([part.class_mass for part in parts]),
        torch.cat([part.largest_score for part in parts]),
        exact=all(part.exact for part in parts),
        missed=torch.cat(missed) if missed else None,
        flat_mass=torch.cat(flat) if flat else None,
        flat_total=torch.cat(totals) if totals else None,
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
