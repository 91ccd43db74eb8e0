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
ENOUGH = 100  # held-out rows to count by
MOST = 0.6  # of the rows have so few: later inputs find a little more, and half of them should not find too many
SHARE = 0.95  # of a decision
BLOCK = 64  # of them at once: where many candidates decide, a table of all would be large
STEP = 2**0.25
STEPS = 48
HIGHEST = STEP**STEPS  # 4,096; the lowest temperature is 1 / 4,096


def temperature_for(
    queries: Tensor, candidates: Searchable, n: int, *, at_most: float = HIGHEST, held_out: Tensor | None = None
) -> float:
    """Return the highest temperature at which `n` prototypes make 95 % of a decision by sparsemax.

    That is for most rows of a database, whose queries `(D, d_att)` these are; a row that counts several times does so
    in the counting too. Where so few are out of reach, as where many rows are alike, it is the temperature for
    the fewest possible. None is above `at_most`. Where enough rows were held out from training, at positions
    `held_out`, these are counted, as later inputs find their prototypes: among rows it has seen, some fit better.
    """
    positions = torch.arange(len(queries)) if held_out is None or len(held_out) < ENOUGH else held_out
    rows = positions[torch.linspace(0, len(positions) - 1, min(ROWS, len(positions))).round().long()]

    def count(steps: int) -> float:
        return _typical_count(queries[rows], candidates, rows, STEP**-steps)

    enough = max(n, count(STEPS))
    low, high = -round(math.log(at_most, STEP)), STEPS
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if count(middle) <= enough else (middle + 1, high)
    return STEP**-low


def _typical_count(queries: Tensor, candidates: Searchable, rows: Tensor, temperature: float) -> float:
    """Return how many prototypes most of these rows have, each without itself and counted as often as the row is."""
    found = attend(queries, candidates, normalize="sparsemax", temperature=temperature, own=rows)
    counts_of = torch.ones(len(candidates.labels)) if candidates.sample_weight is None else candidates.sample_weight
    weights = _tables(found.weights, found.sizes)
    copies = _tables(counts_of[found.positions], found.sizes)
    counts, order = torch.cat([_counts(*both) for both in zip(weights, copies, strict=True)]).sort()
    reached = counts_of[rows][order].cumsum(0)
    return float(counts[torch.searchsorted(reached, MOST * reached[-1])])


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
