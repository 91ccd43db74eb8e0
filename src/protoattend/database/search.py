"""Exact attention over a database of any size, chunk by chunk: the matrix of all scores is never held.

Softmax keeps a running maximum and running sums. Sparsemax keeps the few candidates that can be in the support at all
(nothing 1 or more below the largest score can, nor anything below the threshold of those seen so far, which only rises)
and solves for the threshold on those. A candidate of weight w counts as w copies of itself would.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from protoattend.core.attention import attention_scores
from protoattend.core.normalize import ragged_threshold, require_a_finite_maximum, softmax
from protoattend.database.attention import Attention, Decisions, Prototypes, Searchable
from protoattend.database.single_query import SupportOfOne, support_of_one
from protoattend.errors import choose

SCORES = 1 << 20  # held at once: they stay in the cache, and one query takes a million candidates in one go
BLOCK = 64  # candidates of which only the largest score is looked at, unless that one contends
QUERIES = 256
FEW = 8  # queries for which a column of indicators for each class costs more than it saves
HELD = 1 << 22  # scores held at once when many candidates share the weight
MANY = 64  # contenders of a query that are kept before it is worth finding out which of them still are
SLACK = 1e-6  # of a threshold, for its rounding


def decide(
    queries: Tensor, candidates: Searchable, *, normalize: str, own: Tensor | None = None, chunk: int | None = None
) -> Decisions:
    """Return the decisions for queries `(B, d_att)`; `own` `(B,)` is where each may not attend, -1 for nowhere."""
    choose(normalize, ("softmax", "sparsemax"), "normalize")
    if normalize == "sparsemax":
        return _joined([kept.decide(candidates) for kept in _supports(queries, candidates, own, chunk)])
    return _joined([_decide_softmax(some, candidates, theirs, chunk) for some, theirs in _query_blocks(queries, own)])


def attend(queries: Tensor, candidates: Searchable, *, normalize: str, top: int = 10) -> Attention:
    """Return the decisions and, from the same scan, the `top` heaviest prototypes of each query."""
    choose(normalize, ("softmax", "sparsemax"), "normalize")
    if normalize == "softmax":
        heaviest = [weights.topk(min(top, weights.shape[1])) for weights in _softmax_weights(queries, candidates, None)]
        missing = (0, max(0, top - len(candidates.keys)))
        return Attention(
            decide(queries, candidates, normalize=normalize),
            F.pad(torch.cat([found.indices for found in heaviest]), missing),
            F.pad(torch.cat([found.values for found in heaviest]), missing),
        )
    supports = list(_supports(queries, candidates, None, None))
    positions, weights = zip(*[kept.heaviest(top) for kept in supports], strict=True)
    decisions = _joined([kept.decide(candidates) for kept in supports])
    return Attention(decisions, _together(positions), _together(weights))


def prototypes(
    queries: Tensor, candidates: Searchable, *, normalize: str, own: Tensor | None = None, chunk: int | None = None
) -> list[Prototypes]:
    """Return, for each query, all candidates with non-zero weight."""
    choose(normalize, ("softmax", "sparsemax"), "normalize")
    found: list[Prototypes] = []
    if normalize == "sparsemax":
        for kept in _supports(queries, candidates, own, chunk):
            found += kept.split()
        return found
    for weights in _softmax_weights(queries, candidates, own):
        ordered = weights.sort(dim=1, descending=True)
        found += [Prototypes(p[w > 0], w[w > 0]) for w, p in zip(ordered.values, ordered.indices, strict=True)]
    return found


@dataclass(frozen=True)
class _Supports:
    """Sparsemax weights of some queries as triples (row, position, weight), rows ascending."""

    n_rows: int
    rows: Tensor
    positions: Tensor
    weights: Tensor
    largest: Tensor

    def decide(self, candidates: Searchable) -> Decisions:
        n_classes = candidates.class_scores.shape[1]
        logits = self.weights.new_zeros(self.n_rows, n_classes)
        mass = torch.zeros_like(logits)
        step = max(1, HELD // n_classes)
        for start in range(0, len(self.rows), step):
            here = slice(start, start + step)
            rows, positions, weights = self.rows[here], self.positions[here], self.weights[here]
            logits.index_add_(0, rows, candidates.class_scores[positions] * weights[:, None])
            mass.view(-1).index_add_(0, rows * n_classes + candidates.labels[positions], weights)
        return Decisions(logits, mass, self.largest)

    def heaviest(self, top: int) -> tuple[Tensor, Tensor]:
        """Return positions and weights `(n_rows, top)` of each row's heaviest; where there are fewer, weight 0."""
        order = self.weights.argsort(descending=True, stable=True)
        order = order[self.rows[order].argsort(stable=True)]  # by row, then by weight
        counts = torch.bincount(self.rows, minlength=self.n_rows)
        place = torch.arange(top, device=order.device)
        there = place < counts[:, None]
        chosen = order[((counts.cumsum(0) - counts)[:, None] + place).clamp_(max=len(order) - 1)]
        return self.positions[chosen] * there, self.weights[chosen] * there

    def split(self) -> list[Prototypes]:
        counts = torch.bincount(self.rows, minlength=self.n_rows).tolist()
        split = []
        for weights, positions in zip(self.weights.split(counts), self.positions.split(counts), strict=True):
            order = weights.argsort(descending=True, stable=True)
            split.append(Prototypes(positions[order], weights[order]))
        return split


def _joined(parts: list[Decisions]) -> Decisions:
    if len(parts) == 1:
        return parts[0]
    return Decisions(
        torch.cat([part.logits for part in parts]),
        torch.cat([part.class_mass for part in parts]),
        torch.cat([part.largest_score for part in parts]),
    )


def _together(parts: tuple[Tensor, ...]) -> Tensor:
    return parts[0] if len(parts) == 1 else torch.cat(parts)


def _chunk(n_queries: int) -> int:
    """Return how many candidates are scored at a time: whole blocks, and about SCORES scores."""
    return max(1, SCORES // (n_queries * BLOCK)) * BLOCK


def _query_blocks(queries: Tensor, own: Tensor | None, size: int = QUERIES) -> Iterator[tuple[Tensor, Tensor | None]]:
    for start in range(0, len(queries), size):
        yield queries[start : start + size], None if own is None else own[start : start + size]


def _without_own(scores: Tensor, own: Tensor | None, start: int) -> Tensor:
    """Set to -inf, in place, the score of each query with its own row, where that lies in this chunk."""
    if own is not None:
        inside = ((own >= start) & (own < start + scores.shape[1])).nonzero().squeeze(1)
        scores[inside, own[inside] - start] = -torch.inf
    return scores


def _softmax_weights(queries: Tensor, candidates: Searchable, own: Tensor | None) -> Iterator[Tensor]:
    """Yield the weights of all candidates `(b, D)`, for as many queries at a time as memory allows."""
    for some, theirs in _query_blocks(queries, own, max(1, HELD // len(candidates.keys))):
        scores = _without_own(attention_scores(some, candidates.keys.to(some.dtype)), theirs, 0)
        yield softmax(scores, weights=candidates.weights)


def _decide_softmax(queries: Tensor, candidates: Searchable, own: Tensor | None, chunk: int | None) -> Decisions:
    n_classes = candidates.class_scores.shape[1]
    largest = queries.new_full((len(queries), 1), -torch.inf)
    sums = queries.new_zeros(len(queries), 2 * n_classes)
    length = chunk or _chunk(len(queries))
    for start in range(0, len(candidates.keys), length):
        here = slice(start, start + length)
        scores = _without_own(attention_scores(queries, candidates.keys[here].to(queries.dtype)), own, start)
        highest = torch.maximum(largest, scores.amax(1, keepdim=True))
        # Until a first finite score is seen, highest is -inf and -inf - -inf would be NaN.
        reference = highest.nan_to_num(neginf=0.0)
        shrink = torch.exp(largest - reference)
        masses = scores.sub_(reference).exp_()
        if len(queries) <= FEW:
            part = _sums_of_few(masses, candidates, here)
        else:
            part = masses @ _columns(candidates, here, masses.dtype)
        sums = sums * shrink + part
        largest = highest
    require_a_finite_maximum(largest)
    mass = sums[:, n_classes:]
    total = mass.sum(1, keepdim=True)  # every candidate has one label
    return Decisions(sums[:, :n_classes] / total, mass / total, largest.squeeze(1))


def _columns(candidates: Searchable, here: slice, dtype: torch.dtype) -> Tensor:
    """Return class scores and indicators of the label `(n, 2 C)`, counted as often as each candidate is."""
    labels = F.one_hot(candidates.labels[here], candidates.class_scores.shape[1]).to(dtype)
    columns = torch.cat([candidates.class_scores[here], labels], dim=1)
    return columns if candidates.weights is None else candidates.weights[here, None].to(dtype) * columns


def _sums_of_few(masses: Tensor, candidates: Searchable, here: slice) -> Tensor:
    """Return masses times those columns, without making them: for few queries that would cost more than the product."""
    if candidates.weights is not None:
        masses = masses * candidates.weights[here].to(masses.dtype)
    labels, n_classes = candidates.labels[here], candidates.class_scores.shape[1]
    # In float64: a running sum of millions, unlike a product, would lose digits.
    by_label = [torch.bincount(labels, row.double(), n_classes) for row in masses]
    return torch.cat([masses @ candidates.class_scores[here], torch.stack(by_label).to(masses.dtype)], dim=1)


def _supports(
    queries: Tensor, candidates: Searchable, own: Tensor | None, chunk: int | None
) -> Iterator[_Supports | SupportOfOne]:
    """Yield the sparsemax supports of the queries in order, in as many pieces as memory asks for."""
    if queries.shape[0] == 1 and candidates.weights is None and chunk is None:
        yield support_of_one(queries, candidates, -1 if own is None else int(own))
        return
    for some, theirs in _query_blocks(queries, own):
        yield from _supports_of_block(some, candidates, theirs, chunk)


def _supports_of_block(
    queries: Tensor, candidates: Searchable, own: Tensor | None, chunk: int | None
) -> Iterator[_Supports | SupportOfOne]:
    contenders = _contenders(queries, candidates, own, chunk)
    if contenders is None:  # flat scores: nearly all candidates contend, so take fewer queries at a time
        half = len(queries) // 2
        for part in (slice(0, half), slice(half, None)):
            yield from _supports(queries[part], candidates, None if own is None else own[part], chunk)
        return
    rows, positions, scores, largest, reach = contenders
    shifted = (scores - largest[rows]).double()
    counts = None if candidates.weights is None else candidates.weights[positions].double()
    weights = shifted - ragged_threshold(shifted, rows, -reach.double(), counts)[rows]
    if counts is not None:
        weights *= counts
    inside = weights > 0
    yield _Supports(len(queries), rows[inside], positions[inside], weights[inside].to(queries.dtype), largest)


def _contenders(
    queries: Tensor, candidates: Searchable, own: Tensor | None, chunk: int | None
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor] | None:
    """Return rows, positions and scores within `reach` of each row's largest, that, and reach; None if too many.

    A candidate of weight w gets at most all of the decision, w (z - tau) <= 1, so tau is at least z - 1 / w. With the
    largest score for z, nothing 1 / w or more below it gets any. Further candidates only raise tau, so neither does
    anything below the tau of some of them.
    """
    counts = candidates.weights
    largest = queries.new_full((len(queries),), -torch.inf)
    reach = torch.ones_like(largest)
    kept: list[tuple[Tensor, Tensor, Tensor]] = []
    n_kept, enough = 0, min(MANY * len(queries), HELD)
    for start, scores in _scored_chunks(queries, candidates.keys, own, chunk or _chunk(len(queries))):
        blocks = scores.view(len(queries), -1, BLOCK)
        highest = blocks.amax(2)
        peak = highest.amax(1)
        better = (peak > largest).nonzero().squeeze(1)
        of_one = 1.0 if counts is None else 1 / counts[start + scores[better].argmax(1)].to(reach.dtype)
        reach[better] = (reach + (peak - largest))[better].clamp_(max=of_one)
        largest = torch.maximum(largest, peak)
        # Differences, not a floor to compare with: among huge scores largest - 1 rounds to largest.
        of_block, block = (highest - largest[:, None] > -reach[:, None]).nonzero(as_tuple=True)
        near = blocks[of_block, block]
        which, place = (near - largest[of_block, None] > -reach[of_block, None]).nonzero(as_tuple=True)
        kept.append((of_block[which], start + block[which] * BLOCK + place, near[which, place]))
        n_kept += len(which)
        if n_kept > enough:
            reach = _tightened(kept, largest, reach, counts)
            kept = [_still_contending(kept, largest, reach)]
            n_kept = len(kept[0][0])
            enough = min(max(enough, 2 * n_kept), HELD)
            if n_kept > HELD and len(queries) > 1:
                return None
    require_a_finite_maximum(largest)
    # What is in one piece was compared with the final largest already.
    rows, positions, scores = kept[0] if len(kept) == 1 else _still_contending(kept, largest, reach)
    if len(queries) > 1:
        order = rows.argsort(stable=True)
        rows, positions, scores = rows[order], positions[order], scores[order]
    return rows, positions, scores, largest, reach


def _scored_chunks(queries: Tensor, keys: Tensor, own: Tensor | None, chunk: int) -> Iterator[tuple[int, Tensor]]:
    """Yield where each chunk of candidates starts and its scores `(B, n)`, n filled up to whole blocks with -inf.

    The memory is the same for every chunk, for fresh one costs more than the product itself.
    """
    scaled = queries / math.sqrt(queries.shape[1])
    length = min(chunk, len(keys))
    memory = queries.new_empty(len(queries), length)
    for start in range(0, len(keys), length):
        part = keys[start : start + length].to(scaled.dtype)
        if len(part) == length and length % BLOCK == 0:
            scores = torch.mm(scaled, part.T, out=memory)
        else:
            scores = F.pad(scaled @ part.T, (0, -len(part) % BLOCK), value=-torch.inf)
        yield start, _without_own(scores, own, start)


def _tightened(
    kept: list[tuple[Tensor, Tensor, Tensor]], largest: Tensor, reach: Tensor, counts: Tensor | None
) -> Tensor:
    """Return how far below its largest score each row's threshold is at the most, by the candidates kept so far."""
    rows, positions, scores = _still_contending(kept, largest, reach)
    shifted = (scores - largest[rows]).double()
    tau = ragged_threshold(shifted, rows, -reach.double(), None if counts is None else counts[positions].double())
    return torch.minimum(reach, ((1 + SLACK) * -tau).to(reach.dtype))


def _still_contending(
    kept: list[tuple[Tensor, Tensor, Tensor]], largest: Tensor, reach: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    rows, positions, scores = (torch.cat(column) for column in zip(*kept, strict=True))
    inside = scores - largest[rows] > -reach[rows]
    return rows[inside], positions[inside], scores[inside]
