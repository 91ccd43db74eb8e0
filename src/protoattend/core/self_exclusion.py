"""Never attend to oneself: what an input may not use, in training and in a search."""

from __future__ import annotations

import torch
from torch import Tensor


def rows_in_common(parents: Tensor, candidate_parents: Tensor) -> Tensor:
    """Return `(B, D)`, true where inputs made of rows `(B, 2)` have one in common with candidates made of `(D, 2)`.

    Nothing may attend to itself, and where inputs are blended, to none of its parts.

    >>> rows_in_common(torch.tensor([[0, 0], [1, 2]]), torch.tensor([[0, 0], [2, 2]]))
    tensor([[ True, False],
            [False,  True]])
    """
    same = [own[:, None] == other[None, :] for own in parents.unbind(1) for other in candidate_parents.unbind(1)]
    return torch.stack(same).any(0)


def without_own(scores: Tensor, own: Tensor | None, start: int = 0) -> Tensor:
    """Set to -inf, in place, the score of each query with its own row; return the scores `(B, n)`.

    They are of the candidates from `start` on. `own` `(B,)` is each query's row, -1 for none; None is none for all.
    """
    if own is not None:
        inside = ((own >= start) & (own < start + scores.shape[1])).nonzero().squeeze(1)
        scores[inside, own[inside] - start] = -torch.inf
    return scores
