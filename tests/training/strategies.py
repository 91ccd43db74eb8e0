"""Strategies as tests of training use them: over samples in memory, as they are."""

from __future__ import annotations

from protoattend.training.batches import Labelled
from protoattend.training.candidates import Candidates, make_candidates


def strategy_over(
    name: str, data: Labelled, *, batch_size: int, n_candidates: int | None = None, normalize: str = "softmax"
) -> Candidates:
    return make_candidates(
        name,
        fetch=lambda rows, generator: (data.samples[rows], data.labels[rows]),
        shuffled=data.shuffled,
        n_rows=len(data),
        n_candidates=n_candidates,
        batch_size=batch_size,
        reencode=normalize == "sparsemax",
    )
