"""Exact attention over a database of any size, chunk by chunk: the matrix of all scores is never held.

Softmax keeps a running maximum and running sums. Sparsemax keeps the few candidates that can be in the support at all
(nothing 1 or more below the largest score can, nor anything below the threshold of those seen so far, which only rises)
and solves for the threshold on those. A candidate of sample weight s counts as s copies of itself would.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn import functional as F

from protoattend.core.attention import class_mass, label_votes, ragged_class_mass
from protoattend.core.checks import require_a_finite_maximum
from protoattend.core.normalize import softmax
from protoattend.core.self_exclusion import without_own
from protoattend.core.sparsemax import ragged_threshold
from protoattend.database.attention import Attention, attention_of, joined
from protoattend.database.flat_mass import Flat, FlatMass
from protoattend.database.searchable import Searchable
from protoattend.database.single_query import attend_one
from protoattend.errors import choose

SCORES = 1 << 20  # held at once: they stay in the cache, and one query takes a million candidates in one go
BLOCK = 64  # candidates of which only the largest score is looked at, unless that one contends
QUERIES = 256
FEW = 8  # queries for which a column of indicators for each class costs more than it saves
HELD = 1 << 22  # scores held at once when many candidates share the weight
MANY = 64  # contenders of a query that are kept before it is worth finding out which of them still are
SLACK = 1e-6  # of a threshold, for its rounding


def attend(
    queries: Tensor,
    candidates: Searchable,
    *,
    normalize: str,
    temperature: float = 1.0,
    own: Tensor | None = None,
    top: int | None = None,
    flat: Flat | None = None,
    chunk: int | None = None,
) -> Attention:
    """Return what queries `(B, d_att)` attend to and decide; `own` `(B,)` is the row each may not attend to, -1 none.

    The triples are of all candidates with non-zero weight, or with `top` of the heaviest of each query, which with
    softmax takes far less memory; 0 is none. Decisions are of all candidates in any case. With sparsemax, `flat` is a
    reading that is made in the same pass over all candidates.
    """
    choose(normalize, ("softmax", "sparsemax"), "normalize")
    one = math.sqrt(queries.shape[1]) * temperature  # what 1 is among products of queries and keys
    if normalize == "sparsemax":
        asked = _Asked(top, chunk, None if flat is None else flat.beside(temperature))
        by_label = candidates.by_label  # without a flat reading too, so that decisions are the same to the last bit
        if by_label is None:
            return _sparsemax(queries, candidates, own, one, asked)
        places = None if own is None else torch.where(own >= 0, by_label.places[own], own)
        found = _sparsemax(queries, by_label.candidates, places, one, asked)
        return replace(found, positions=by_label.positions[found.positions])
    scaled = queries / one
    if top is None:
        return joined(list(_whole_softmax(scaled, candidates, own)))
    blocks = _query_blocks(scaled, own)
    return joined([_streamed_softmax(some, candidates, theirs, top, chunk) for some, theirs in blocks])


def _chunk(n_queries: int) -> int:
    """Return how many candidates are scored at a time: whole blocks, and about SCORES scores."""
    return max(1, SCORES // (n_queries * BLOCK)) * BLOCK


def _query_blocks(queries: Tensor, own: Tensor | None, size: int = QUERIES) -> Iterator[tuple[Tensor, Tensor | None]]:
    for start in range(0, len(queries), size):
        yield queries[start : start + size], None if own is None else own[start : start + size]


def _whole_softmax(queries: Tensor, candidates: Searchable, own: Tensor | None) -> Iterator[Attention]:
    """Yield the attention to all candidates, for as many queries at a time as memory allows."""
    keys = candidates.keys.to(queries.dtype)
    votes = label_votes(candidates.labels, candidates.class_scores.shape[1], queries.dtype)
    for some, theirs in _query_blocks(queries, own, max(1, HELD // len(keys))):
        scores = without_own(some @ keys.T, theirs)
        weights = softmax(scores, sample_weight=candidates.sample_weight)
        logits, mass = weights @ candidates.class_scores, class_mass(weights, votes)
        ordered = weights.sort(dim=1, descending=True, stable=True)
        yield _of_sorted(ordered.values, ordered.indices, logits, mass, scores.amax(1))


def _streamed_softmax(
    queries: Tensor, candidates: Searchable, own: Tensor | None, top: int, chunk: int | None
) -> Attention:
    """Return the decisions and the `top` heaviest prototypes, a chunk of candidates at a time."""
    n_classes = candidates.class_scores.shape[1]
    largest = queries.new_full((len(queries), 1), -torch.inf)
    sums = queries.new_zeros(len(queries), 2 * n_classes)
    best: tuple[Tensor, Tensor] | None = None
    length = chunk or _chunk(len(queries))
    for start in range(0, len(candidates.keys), length):
        here = slice(start, start + length)
        scores = without_own(queries @ candidates.keys[here].to(queries.dtype).T, own, start)
        if top:
            best = _best_so_far(best, scores, candidates, here, top)
        highest = torch.maximum(largest, scores.amax(1, keepdim=True))
        # Until a first finite score is seen, highest is -inf and -inf - -inf would be NaN.
        reference = highest.nan_to_num(neginf=0.0)
        shrink = torch.exp(largest - reference)
        masses = scores.sub_(reference).exp_()
        sums = sums * shrink + (_sums_of_few if len(queries) <= FEW else _sums)(masses, candidates, here)
        largest = highest
    require_a_finite_maximum(largest)
    mass = sums[:, n_classes:]
    total = mass.sum(1, keepdim=True)  # every candidate has one label
    decided = sums[:, :n_classes] / total, mass / total, largest.squeeze(1)
    if best is None:
        none = candidates.labels[:0]
        return Attention(none, none, queries.new_empty(0), *decided)
    return _of_sorted((best[0] - largest).exp() / total, best[1], *decided)


def _best_so_far(
    best: tuple[Tensor, Tensor] | None, scores: Tensor, candidates: Searchable, here: slice, top: int
) -> tuple[Tensor, Tensor]:
    """Return scores, heeding sample weights, and positions `(B, top)` of the heaviest up to and with this chunk."""
    counted = scores
    if candidates.sample_weight is not None:
        counted = scores + candidates.sample_weight[here].to(scores.dtype).log()
    found = counted.topk(min(top, counted.shape[1]))
    if best is None:
        return found.values, found.indices + here.start
    values = torch.cat([best[0], found.values], dim=1)
    kept = values.topk(min(top, values.shape[1]))
    return kept.values, torch.cat([best[1], found.indices + here.start], dim=1).gather(1, kept.indices)


def _of_sorted(weights: Tensor, positions: Tensor, logits: Tensor, mass: Tensor, largest: Tensor) -> Attention:
    """Return the attention where weights and positions are given as matrices, heaviest first; 0 is no prototype."""
    inside = weights > 0
    return Attention(inside.nonzero()[:, 0], positions[inside], weights[inside], logits, mass, largest)


def _sums(masses: Tensor, candidates: Searchable, here: slice) -> Tensor:
    """Return sums of class scores and, in the same product, the class mass `(B, 2 C)`, by unnormalised weights."""
    n_classes = candidates.class_scores.shape[1]
    votes = label_votes(candidates.labels[here], n_classes, masses.dtype)
    columns = torch.cat([candidates.class_scores[here], votes], dim=1)
    if candidates.sample_weight is not None:
        columns = candidates.sample_weight[here, None].to(masses.dtype) * columns
    return class_mass(masses, columns)


def _sums_of_few(masses: Tensor, candidates: Searchable, here: slice) -> Tensor:
    """Return the same without making the columns: for few queries that would cost more than the product."""
    if candidates.sample_weight is not None:
        masses = masses * candidates.sample_weight[here].to(masses.dtype)
    labels, n_classes = candidates.labels[here], candidates.class_scores.shape[1]
    by_label = torch.cat([ragged_class_mass(labels, row, n_classes) for row in masses])
    return torch.cat([masses @ candidates.class_scores[here], by_label], dim=1)


def _is_simple(queries: Tensor, candidates: Searchable) -> bool:
    """Whether there is a faster way of its own: for one query to candidates that count once."""
    return queries.shape[0] == 1 and candidates.sample_weight is None


@dataclass(frozen=True)
class _Asked:
    """How many prototypes are named, how many candidates scored at a time, and how those scores are read flatly."""

    top: int | None
    chunk: int | None
    flat: Flat | None


def _sparsemax(queries: Tensor, candidates: Searchable, own: Tensor | None, one: float, asked: _Asked) -> Attention:
    """Return the attention of queries to candidates, `one` being what 1 is among their products."""
    if asked.chunk is None and _is_simple(queries, candidates):
        alone = -1 if own is None else int(own)
        return attend_one(queries, candidates, one=one, own=alone, top=asked.top, flat=asked.flat)
    blocks = _query_blocks(queries / one, own)
    return joined([part for some, theirs in blocks for part in _sparsemax_block(some, candidates, theirs, asked)])


def _sparsemax_block(queries: Tensor, candidates: Searchable, own: Tensor | None, asked: _Asked) -> Iterator[Attention]:
    """Yield the attention of scaled queries in order, in as many pieces as memory asks for."""
    if asked.chunk is None and _is_simple(queries, candidates):
        alone = -1 if own is None else int(own)
        yield attend_one(queries, candidates, one=1.0, own=alone, top=asked.top, flat=asked.flat)
        return
    flat = None if asked.flat is None else FlatMass(queries, candidates, own, asked.flat)
    contenders = _contenders(queries, candidates, own, asked.chunk, flat)
    if contenders is None:  # flat scores: nearly all candidates contend, so take fewer queries at a time
        half = len(queries) // 2
        for part in (slice(0, half), slice(half, None)):
            yield from _sparsemax_block(queries[part], candidates, None if own is None else own[part], asked)
        return
    rows, positions, scores, largest, reach = contenders
    shifted = (scores - largest[rows]).double()
    counts = None if candidates.sample_weight is None else candidates.sample_weight[positions].double()
    weights = shifted - ragged_threshold(shifted, rows, -reach.double(), counts)[rows]
    if counts is not None:
        weights *= counts
    inside = weights > 0
    weights = weights[inside].to(queries.dtype)
    found = attention_of(rows[inside], positions[inside], weights, candidates, largest_score=largest, top=asked.top)
    yield found if flat is None else flat.of(found)


def _contenders(
    queries: Tensor, candidates: Searchable, own: Tensor | None, chunk: int | None, flat: FlatMass | None
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor] | None:
    """Return rows, positions and scores within `reach` of each row's largest, that, and reach; None if too many.

    A candidate that counts s times gets at most all of the decision, s (z - tau) <= 1, so tau is at least z - 1 / s.
    With the largest score for z, nothing 1 / s or more below it gets any. Further candidates only raise tau, so neither
    does anything below the tau of some of them. On the way, `flat` sees the scores of all candidates.
    """
    counts = candidates.sample_weight
    largest = queries.new_full((len(queries),), -torch.inf)
    reach = torch.ones_like(largest)
    kept: list[tuple[Tensor, Tensor, Tensor]] = []
    n_kept, enough = 0, min(MANY * len(queries), HELD)
    for start, scores in _scored_chunks(queries, candidates.keys, own, chunk or _chunk(len(queries))):
        if flat is not None:
            flat.add(scores, start)
        if len(away := candidates.atypical_in(start, scores.shape[1])):
            scores[:, away] = -torch.inf
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
    # Those of equal weight come in the order of the database, whatever the order they are searched in.
    names = positions if candidates.positions is None else candidates.positions[positions]
    order = (rows * len(candidates.keys) + names).argsort()
    rows, positions, scores = rows[order], positions[order], scores[order]
    return rows, positions, scores, largest, reach


def _scored_chunks(queries: Tensor, keys: Tensor, own: Tensor | None, chunk: int) -> Iterator[tuple[int, Tensor]]:
    """Yield where each chunk of candidates starts and its scores `(B, n)`, n filled up to whole blocks with -inf.

    Queries are scaled already. The memory is the same for every chunk: fresh one costs more than the product itself.
    """
    length = min(chunk, len(keys))
    memory = queries.new_empty(len(queries), length)
    for start in range(0, len(keys), length):
        part = keys[start : start + length].to(queries.dtype)
        if len(part) == length and length % BLOCK == 0:
            scores = torch.mm(queries, part.T, out=memory)
        else:
            scores = F.pad(queries @ part.T, (0, -len(part) % BLOCK), value=-torch.inf)
        yield start, without_own(scores, own, start)


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
