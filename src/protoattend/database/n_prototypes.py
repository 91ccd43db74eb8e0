"""How many prototypes a decision rests on, set without training.

Training sees a batch of candidates, a decision the whole database, in which many more are near. Longer queries make the
weights sharper and shorter ones flatter; the order of the candidates stays as it was learned.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from protoattend.core.model import ProtoAttend
from protoattend.database.attention import Prototypes, Searchable
from protoattend.database.search import prototypes

ROWS = 512  # of the database, spread over it, whose prototypes are counted
SHARE = 0.95  # of a decision
STEP = 2**0.25
STEPS = 48  # at the most: queries 4,096 times as long


def sharpening(queries: Tensor, keys: Tensor, weights: Tensor, most: int, *, fewest_steps: int = -STEPS) -> float:
    """Return the least factor on queries at which `most` prototypes make 95 % of a decision by sparsemax.

    That is in the median over rows of a database, whose queries and keys `(D, d_att)` these are; `weights` `(D,)` is
    how many times each row counts, in the counting too. Where so few are out of reach, as where many rows are alike, it
    is the factor for the fewest possible. The least factor of all is STEP to the power of `fewest_steps`.
    """
    rows = torch.linspace(0, len(weights) - 1, min(ROWS, len(weights))).round().long()

    def count(steps: int) -> float:
        return _typical_count(STEP**steps * queries[rows], keys, weights, weights[rows])

    enough = max(most, count(STEPS))
    low, high = fewest_steps, STEPS
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if count(middle) <= enough else (middle + 1, high)
    return STEP**low


def lengthen_queries(model: ProtoAttend, factor: float) -> None:
    """Multiply every query of a model, in place, by a factor above 0, which a ReLU passes on."""
    layer = next(part for part in model.query.modules() if isinstance(part, nn.Linear))
    with torch.no_grad():
        layer.weight.mul_(factor)
        layer.bias.mul_(factor)


def _typical_count(queries: Tensor, keys: Tensor, weights: Tensor, of_queries: Tensor) -> float:
    """Return the median of the queries' prototypes, each query counted as often as its weight says."""
    nothing = keys.new_zeros(len(keys), 0)
    everything = Searchable(keys, nothing, torch.zeros(len(keys), dtype=torch.long), weights)
    found = prototypes(queries, everything, normalize="sparsemax")
    counts, order = torch.tensor([_count(each, weights) for each in found]).sort()
    reached = of_queries[order].cumsum(0)
    return float(counts[torch.searchsorted(reached, reached[-1] / 2)])


def _count(found: Prototypes, weights: Tensor) -> float:
    """Return how many prototypes make the share; one of weight w counts as w copies of it would."""
    copies = weights[found.positions]
    share, order = (found.weights / copies).sort(descending=True)
    copies = copies[order]
    missing = SHARE - (share * copies).cumsum(0)
    last = min(int((missing > 0).sum()), len(copies) - 1)
    return float(copies[:last].sum() + torch.ceil(copies[last] + missing[last] / share[last] - 1e-4))
