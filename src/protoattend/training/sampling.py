"""Which rows an epoch draws: each once, or as often as its weight and its class's share say.

Drawing rows, rather than weighing their losses, brings rare but heavy rows into every batch: there each finds
candidates of its own kind.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor


def drawing_rates(weights: Tensor | None, shares: Tensor | None) -> Tensor | None:
    """Return how often an epoch draws each row on average `(n,)`; None is once each.

    Weights count by their ratios; the epoch stays as long as the shares leave it. No row is drawn more often than all
    others together: they are its candidates.

    >>> drawing_rates(torch.tensor([3.0, 1.0, 1.0, 1.0]), None)
    tensor([2.0000, 0.6667, 0.6667, 0.6667], dtype=torch.float64)
    """
    if weights is None:
        return shares
    kept = torch.ones_like(weights, dtype=torch.float64) if shares is None else shares
    rates = weights * kept
    rates = rates.clamp(max=float(rates.sum() - rates.max()))
    return rates * (kept.sum() / rates.sum())


def epoch_length(n_rows: int, rates: Tensor | None) -> int:
    """Return how many rows an epoch draws."""
    return n_rows if rates is None else round(float(rates.sum()))


def draw_rows(n_rows: int, count: int, generator: torch.Generator, rates: Tensor | None = None) -> Tensor:
    """Return `count` of `n_rows` rows in random order, none twice; with `rates` `(n,)`, each as often as its rate says.

    Rows lie in random order along a line, each as long as its rate, and are drawn at even distances from a random
    start: a row comes up count * rate / sum(rates) times, rounded up or down. So does it among every k-th of the rows
    drawn, for their own count.
    """
    order = torch.randperm(n_rows, generator=generator)
    if rates is None:
        return order[:count]
    ends = rates[order].cumsum(0)
    places = torch.arange(count, dtype=ends.dtype) + torch.rand(1, generator=generator, dtype=ends.dtype)
    return order[torch.searchsorted(ends, places * (ends[-1] / count), right=True).clamp(max=n_rows - 1)]


def epoch_batches(
    n_rows: int, batch_size: int, generator: torch.Generator, rates: Tensor | None = None
) -> Iterator[Tensor]:
    """Yield the rows of each batch in random order; a last, smaller batch is left to the next epoch's shuffle."""
    steps = max(1, epoch_length(n_rows, rates) // batch_size)
    drawn = draw_rows(n_rows, steps * batch_size, generator, rates)
    # Copies of a heavy row are drawn one after the other: dealt out like cards, they come into different batches.
    yield from drawn.split(batch_size) if rates is None else drawn.view(batch_size, steps).T
