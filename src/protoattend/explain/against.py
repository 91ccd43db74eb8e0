"""What speaks against a decision: the heaviest candidates of the runner-up, in the reading that confidence is of."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from protoattend.database.store import CandidateDatabase

AGAINST = 3  # candidates named that speak against a decision
LEAST = 1e-4  # flat weight of such a candidate
HELD = 1 << 22  # weights held at once


def speaking_against(
    database: CandidateDatabase, queries: Tensor, predicted: Tensor, *, own: Tensor | None = None
) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield for each query positions and flat weights of the heaviest candidates of the runner-up.

    That is the label with most flat weight after `predicted`.
    """
    labels, n_classes = database.rows.labels, len(database.classes)
    size = max(1, HELD // len(database))
    for start in range(0, len(queries), size):
        here = slice(start, start + size)
        weights = database.flat_weights(queries[here], own=None if own is None else own[here])
        mass = torch.zeros(len(weights), n_classes).index_add_(1, labels, weights)
        runner_up = mass.scatter_(1, predicted[here, None], -1.0).argmax(1)
        others = weights.masked_fill(labels != runner_up[:, None], 0.0)
        found = others.topk(min(AGAINST, others.shape[1]), dim=1)
        for positions, shares in zip(found.indices, found.values, strict=True):
            yield positions[shares > LEAST], shares[shares > LEAST]
