"""The flat reading of scores: class mass by softmax over all candidates, gathered chunk by chunk."""

from __future__ import annotations

import math
from dataclasses import replace

import torch
from torch import Tensor

from protoattend.core.attention import class_mass, label_votes, ragged_class_mass
from protoattend.database.attention import Attention
from protoattend.database.searchable import Searchable


class FlatMass:
    """Class mass `(B, C)` at another temperature than that of the scores, which it sees some candidates at a time.

    `ratio` is the temperature of the scores divided by that of the reading.
    """

    def __init__(self, n_queries: int, candidates: Searchable, ratio: float) -> None:
        self._candidates = candidates
        self._ratio = ratio * math.log2(math.e)  # so that 2 is what powers are taken of
        self._largest = torch.full((n_queries, 1), -torch.inf)
        self._memory: Tensor | None = None
        self._sums = torch.zeros(n_queries, candidates.class_scores.shape[1], dtype=torch.float64)

    def add(self, scores: Tensor, start: int) -> None:
        """Take in the scores `(B, n)` of the candidates from `start` on; beyond the last candidate they are -inf."""
        labels = self._candidates.labels[start : start + scores.shape[1]]
        seen = scores[:, : len(labels)]
        highest = torch.maximum(self._largest, seen.amax(1, keepdim=True).float())
        reference = highest.nan_to_num(neginf=0.0)  # until a first finite score is seen
        # In two passes, as exp2 takes a fourth of the time of exp, and in memory that is the same for every chunk.
        masses = torch.add(-self._ratio * reference, seen, alpha=self._ratio, out=self._memory_like(seen)).exp2_()
        if self._candidates.sample_weight is not None:
            masses = masses * self._candidates.sample_weight[start : start + len(labels)].to(masses.dtype)
        shrink = ((self._largest - reference) * self._ratio).exp2().double()
        self._sums = self._sums * shrink
        self._add_by_class(masses, labels, start)
        self._largest = highest

    def _memory_like(self, scores: Tensor) -> Tensor:
        if self._memory is None or self._memory.shape[1] < scores.shape[1]:
            self._memory = torch.empty_like(scores, memory_format=torch.contiguous_format)
        return self._memory[:, : scores.shape[1]]

    def _add_by_class(self, masses: Tensor, labels: Tensor, start: int) -> None:
        if self._candidates.label_starts is not None:  # a sum takes a tenth of the time of a product
            for label, own in self._candidates.of_labels(start, len(labels)):
                self._sums[:, label] += masses[:, own].sum(1)
            return
        n_classes = self._sums.shape[1]
        if len(masses) == 1:  # then a matrix of votes takes many times as long to make as to multiply with
            self._sums += ragged_class_mass(labels, masses[0], n_classes)
        else:
            self._sums += class_mass(masses, label_votes(labels, n_classes, masses.dtype))

    def of(self, attention: Attention) -> Attention:
        """Return the attention with the flat reading of all that was seen."""
        return with_flat_reading(attention, self._sums, (self._largest * self._ratio).squeeze(1).double())


def with_flat_reading(attention: Attention, sums: Tensor, scale: Tensor) -> Attention:
    """Return the attention with shares by class, and the logarithm of their total: sums `(B, C)` times 2 ** scale."""
    total = sums.sum(1)
    return replace(attention, flat_mass=sums / total[:, None], flat_total=total.log() + math.log(2) * scale)
