"""How many prototypes a decision rests on, set after training.

Training sees a batch of candidates, a decision the whole database, in which many more are near. Where that makes the
prototypes too many, longer queries make the weights sharper: the order of the candidates stays as it was learned.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor, nn

from protoattend.core.model import Encoded, ProtoAttend
from protoattend.database.answers import Prototypes, Searchable
from protoattend.database.search import prototypes

ROWS = 512  # of the database, spread over it, whose prototypes are counted
SHARE = 0.95  # of a decision
STEP = 2**0.25
STEPS = 48  # at the most: queries 4,096 times as long


def sharpen(model: ProtoAttend, encoded: Encoded, weights: Tensor, most: int) -> Encoded:
    """Lengthen the model's queries until, in the median over rows, `most` prototypes make 95 % of a decision.

    `encoded` are the rows of the database, and `weights` `(D,)` how many times each counts, in the counting too. Returns
    the rows as the model now encodes them. Only sparsemax gets sharper: softmax gives weight to everything anyway.
    """
    if model.normalize != "sparsemax":
        return encoded
    rows = torch.linspace(0, len(weights) - 1, min(ROWS, len(weights))).round().long()
    low, high = 0, STEPS
    while low < high:
        middle = (low + high) // 2
        few = _typical_count(STEP**middle * encoded.queries[rows], encoded.keys, weights, weights[rows]) <= most
        low, high = (low, middle) if few else (middle + 1, high)
    factor = STEP**low
    layer = next(part for part in model.query.modules() if isinstance(part, nn.Linear))
    with torch.no_grad():  # a ReLU passes factors above 0 on
        layer.weight *= factor
        layer.bias *= factor
    return replace(encoded, queries=factor * encoded.queries)


def _typical_count(queries: Tensor, keys: Tensor, weights: Tensor, of_queries: Tensor) -> int:
    """Return the median of the queries' prototypes, each query counted as often as its weight says."""
    nothing = keys.new_zeros(len(keys), 0)
    everything = Searchable(keys, nothing, torch.zeros(len(keys), dtype=torch.long), weights)
    found = prototypes(queries, everything, normalize="sparsemax")
    counts, order = torch.tensor([_count(each, weights) for each in found]).sort()
    reached = of_queries[order].cumsum(0)
    return int(counts[torch.searchsorted(reached, reached[-1] / 2)])


def _count(found: Prototypes, weights: Tensor) -> float:
    """Return how many prototypes make the share; one of weight w counts as w copies of it would."""
    copies = weights[found.positions]
    share, order = (found.weights / copies).sort(descending=True)
    copies = copies[order]
    missing = SHARE - (share * copies).cumsum(0)
    last = int((missing <= 0).nonzero()[0]) if bool((missing <= 0).any()) else len(copies) - 1
    return float(copies[:last].sum() + torch.ceil(copies[last] + missing[last] / share[last] - 1e-4))
