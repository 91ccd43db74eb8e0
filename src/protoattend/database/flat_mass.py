"""The flat reading of scores: class mass by softmax over all candidates, gathered chunk by chunk."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from protoattend.core.attention import class_mass, label_votes, ragged_class_mass
from protoattend.core.self_exclusion import without_own
from protoattend.database.attention import Attention
from protoattend.database.searchable import Searchable


@dataclass(frozen=True)
class Flat:
    """How scores are read flatly: at this temperature, by the first `width` numbers of queries and keys.

    Those are the learned ones, and behind them come those of likeness; None is all of them.
    """

    temperature: float
    width: int | None = None

    def beside(self, temperature: float) -> Flat:
        """Return the reading of scores that have a temperature already."""
        return replace(self, temperature=self.temperature / temperature)


def flat_scores(queries: Tensor, keys: Tensor, flat: Flat) -> Tensor:
    """Return the scores `(B, D)` in a flat reading of queries `(B, d_att)` and keys `(D, d_att)`."""
    one = math.sqrt(queries.shape[1]) * flat.temperature
    return queries[:, : flat.width] @ keys[:, : flat.width].T / one


class FlatMass:
    """Class mass `(B, C)` of scaled queries by a flat reading of their scores, seen some candidates at a time.

    `own` `(B,)` is the row that each query may not attend to, -1 none.
    """

    def __init__(self, queries: Tensor, candidates: Searchable, own: Tensor | None, flat: Flat) -> None:
        self._candidates = candidates
        self._ratio = math.log2(math.e) / flat.temperature  # so that 2 is what powers are taken of
        self._largest = torch.full((len(queries), 1), -torch.inf)
        self._memory: Tensor | None = None
        self._sums = torch.zeros(len(queries), candidates.class_scores.shape[1], dtype=torch.float64)
        self._own, self._flat = own, flat
        self._learned = None if flat.width is None else queries[:, : flat.width].contiguous()

    def add(self, scores: Tensor, start: int) -> None:
        """Take in the scores `(B, n)` of the candidates from `start` on; beyond the last candidate they are -inf."""
        labels = self._candidates.labels[start : start + scores.shape[1]]
        seen = scores[:, : len(labels)]
        if self._learned is not None:
            keys = self._candidates.keys[start : start + len(labels), : self._learned.shape[1]]
            learned = torch.mm(self._learned, keys.to(seen.dtype).T, out=self._memory_like(seen))
            seen = without_own(learned, self._own, start)
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
        if self._memory.shape[1] == scores.shape[1]:
            return self._memory
        return self._memory.flatten()[: scores.numel()].view(scores.shape)

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
        scale = (self._largest * self._ratio).squeeze(1).double()
        return with_flat_reading(attention, self._sums, scale, self._flat)


def with_flat_reading(attention: Attention, sums: Tensor, scale: Tensor, flat: Flat) -> Attention:
    """Return the attention with shares by class, and the logarithm of their total: sums `(B, C)` times 2 ** scale.

    Learned scores do not tell how far an input is from all candidates: where they are read alone, the largest
    score of those that decide, likeness included, stands for the total.
    """
    total = sums.sum(1)
    log_total = total.log() + math.log(2) * scale if flat.width is None else total_of_nearest(attention, flat)
    return replace(attention, flat_mass=sums / total[:, None], flat_total=log_total)


def total_of_nearest(attention: Attention, flat: Flat) -> Tensor:
    """Return what is the logarithm of the total where the nearest candidate alone counts `(B,)`."""
    return attention.largest_score.double() / flat.temperature
