"""How many prototypes a decision rests on, set without training.

Training sees a batch of candidates, a decision the whole database, in which many more are near. A lower temperature
makes the weights sharper and a higher one flatter; the order of the candidates stays as it was learned.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from protoattend.database.search import attend
from protoattend.database.searchable import Searchable

ROWS = 512  # of the database, spread over it, whose prototypes are counted
SHARE = 0.95  # of a decision
STEP = 2**0.25
STEPS = 48
HIGHEST = STEP**STEPS  # 4,096; the lowest temperature is 1 / 4,096


def temperature_for(queries: Tensor, keys: Tensor, sample_weight: Tensor, n: int, *, at_most: float = HIGHEST) -> float:
    """Return the highest temperature at which `n` prototypes make 95 % of a decision by sparsemax.

    That is in the median over rows of a database, whose queries and keys `(D, d_att)` these are; `sample_weight` `(D,)`
    is how many times each row counts, in the counting too. Where so few are out of reach, as where many rows are alike,
    it is the temperature for the fewest possible. None is above `at_most`.
    """
    rows = torch.linspace(0, len(keys) - 1, min(ROWS, len(keys))).round().long()
    candidates = _only_counted(keys, sample_weight, queries.dtype)

    def count(steps: int) -> float:
        return _typical_count(queries[rows], candidates, rows, STEP**-steps)

    enough = max(n, count(STEPS))
    low, high = -round(math.log(at_most, STEP)), STEPS
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if count(middle) <= enough else (middle + 1, high)
    return STEP**-low


def _only_counted(keys: Tensor, sample_weight: Tensor, dtype: torch.dtype) -> Searchable:
    """Return candidates of one class, for what they decide does not matter here."""
    nothing = torch.zeros(1, 1, dtype=dtype).expand(len(keys), 1)
    return Searchable(keys, nothing, torch.zeros(1, dtype=torch.long).expand(len(keys)), sample_weight)


def _typical_count(queries: Tensor, candidates: Searchable, rows: Tensor, temperature: float) -> float:
    """Return the median of the prototypes of these rows, each without itself and counted as often as the row is."""
    found = attend(queries, candidates, normalize="sparsemax", temperature=temperature, own=rows)
    assert candidates.sample_weight is not None
    copies = candidates.sample_weight[found.positions].split(found.sizes.tolist())
    of_each = [_count(weights, own) for (_, weights), own in zip(found.per_query(), copies, strict=True)]
    counts, order = torch.tensor(of_each).sort()
    reached = candidates.sample_weight[rows][order].cumsum(0)
    return float(counts[torch.searchsorted(reached, reached[-1] / 2)])


def _count(weights: Tensor, copies: Tensor) -> float:
    """Return how many prototypes make the share; one that counts s times does as s copies of it would."""
    share, order = (weights / copies).sort(descending=True)
    copies = copies[order]
    missing = SHARE - (share * copies).cumsum(0)
    last = min(int((missing > 0).sum()), len(copies) - 1)
    return float(copies[:last].sum() + torch.ceil(copies[last] + missing[last] / share[last] - 1e-4))
