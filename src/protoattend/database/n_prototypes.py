"""How many prototypes a decision rests on, set without training.

Training sees a batch of candidates, a decision the whole database, in which many more are near. A lower temperature
makes the weights sharper and a higher one flatter; the order of the candidates stays as it was learned.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from protoattend.database.search import attend
from protoattend.database.searchable import Searchable

ROWS = 512  # of the database, spread over it, whose prototypes are counted
ENOUGH = 100  # held-out rows for a median
SHARE = 0.95  # of a decision
BLOCK = 64  # of them at once: where many candidates decide, a table of all would be large
STEP = 2**0.25
STEPS = 48
HIGHEST = STEP**STEPS  # 4,096; the lowest temperature is 1 / 4,096


def temperature_for(
    queries: Tensor,
    keys: Tensor,
    sample_weight: Tensor,
    n: int,
    *,
    at_most: float = HIGHEST,
    held_out: Tensor | None = None,
) -> float:
    """Return the highest temperature at which `n` prototypes make 95 % of a decision by sparsemax.

    That is in the median over rows of a database, whose queries and keys `(D, d_att)` these are; `sample_weight` `(D,)`
    is how many times each row counts, in the counting too. Where so few are out of reach, as where many rows are alike,
    it is the temperature for the fewest possible. None is above `at_most`. Where enough rows were held out from
    training, at positions `held_out`, these are counted, as later inputs find their prototypes: among rows it has seen,
    some fit better.
    """
    positions = torch.arange(len(keys)) if held_out is None or len(held_out) < ENOUGH else held_out
    rows = positions[torch.linspace(0, len(positions) - 1, min(ROWS, len(positions))).round().long()]
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
    weights = _tables(found.weights, found.sizes)
    copies = _tables(candidates.sample_weight[found.positions], found.sizes)
    counts, order = torch.cat([_counts(*both) for both in zip(weights, copies, strict=True)]).sort()
    reached = candidates.sample_weight[rows][order].cumsum(0)
    return float(counts[torch.searchsorted(reached, reached[-1] / 2)])


def _tables(ragged: Tensor, sizes: Tensor) -> list[Tensor]:
    """Return what each query has as a row of a table, ended with zeros; a table holds a block of queries."""
    parts = ragged.split(sizes.tolist())
    return [pad_sequence(parts[i : i + BLOCK], batch_first=True) for i in range(0, len(parts), BLOCK)]


def _counts(weights: Tensor, copies: Tensor) -> Tensor:
    """Return how many prototypes of each row make the share; one that counts s times does as s copies of it would."""
    share, order = (weights / copies.clamp(min=torch.finfo(copies.dtype).tiny)).sort(1, descending=True)
    copies = copies.gather(1, order)
    missing = SHARE - (share * copies).cumsum(1)
    last = torch.minimum((missing > 0).sum(1), (share > 0).sum(1) - 1)[:, None]
    before = (copies.cumsum(1) - copies).gather(1, last)
    share, copies, missing = (each.gather(1, last) for each in (share, copies, missing))
    return (before + torch.ceil(copies + missing / share - 1e-4)).squeeze(1)
