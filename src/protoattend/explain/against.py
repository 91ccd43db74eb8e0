"""What speaks against a decision: the heaviest candidates of other labels, in the reading that confidence is of."""

from __future__ import annotations

from collections.abc import Iterator

from torch import Tensor

from protoattend.database.store import CandidateDatabase

AGAINST = 3  # candidates named that speak against a decision
LEAST = 1e-4  # flat weight of such a candidate
HELD = 1 << 22  # weights held at once


def speaking_against(
    database: CandidateDatabase, queries: Tensor, predicted: Tensor, *, own: Tensor | None = None
) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield for each query positions and flat weights of the heaviest candidates of other labels than `predicted`."""
    size = max(1, HELD // len(database))
    for start in range(0, len(queries), size):
        here = slice(start, start + size)
        weights = database.flat_weights(queries[here], own=None if own is None else own[here])
        others = weights.masked_fill(database.rows.labels == predicted[here, None], 0.0)
        found = others.topk(min(AGAINST, others.shape[1]), dim=1)
        for positions, shares in zip(found.indices, found.values, strict=True):
            yield positions[shares > LEAST], shares[shares > LEAST]
