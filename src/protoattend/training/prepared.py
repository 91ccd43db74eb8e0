"""X and y before the first step: checked, encoded as samples and class numbers, and split."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from protoattend.data.images import ImageFiles
from protoattend.data.inputs import Inputs, Source, count_rows, require_rows, take_rows, unpack_dataset
from protoattend.data.labels import Classes
from protoattend.data.weights import check_weights, choose_rows, class_shares
from protoattend.errors import UserError
from protoattend.training.batches import Labelled
from protoattend.training.evaluation import VALIDATION_CANDIDATES


@dataclass(frozen=True)
class Prepared:
    """Everything learned from X and y before the first step; `train` and `validation` are parts of the same rows.

    `used` are the rows of X that `source` and `everything` hold: those whose sample weight is above 0. `sample_weight`
    is how many times each row of X counts as a candidate of the database; one of weight 0 is left out.
    """

    inputs: Inputs
    classes: Classes
    sample_weight: np.ndarray
    used: np.ndarray
    source: Source
    everything: Labelled
    held_out: Tensor

    @cached_property
    def train(self) -> Labelled:
        return self.everything.at(~self.held_out) if self.held_out.any() else self.everything

    @cached_property
    def validation(self) -> Labelled | None:
        return self.everything.at(self.held_out) if self.held_out.any() else None

    def candidates(self) -> Labelled:
        """Return the rows of the database."""
        positions = self._in_database()
        whole = len(positions) == len(self.used)
        return self.everything if whole else self.everything.at(torch.from_numpy(positions))

    def candidate_source(self) -> Source:
        """Return the same rows as they are kept there."""
        return take_rows(self.source, self._in_database())

    def held_out_candidates(self) -> Tensor:
        """Return which rows of the database training has not seen: their positions there."""
        return self.held_out[torch.from_numpy(self._in_database())].nonzero().squeeze(1)

    def with_database_of(self, size: int | None, generator: torch.Generator) -> Prepared:
        """Return the same with so many rows in the database at the most, chosen at random; None leaves it as it is."""
        rows = np.flatnonzero(self.sample_weight)
        if size is None or size >= len(rows):
            return self
        left_out = rows[torch.randperm(len(rows), generator=generator)[size:].numpy()]
        counts = self.sample_weight.copy()
        counts[left_out] = 0
        return replace(self, sample_weight=counts)

    def _in_database(self) -> np.ndarray:
        return np.searchsorted(self.used, np.flatnonzero(self.sample_weight))

    def validation_candidates(self, generator: torch.Generator) -> Labelled:
        """Return the training rows that validation attends to: the same ones each time."""
        return self.train.at(self.train.shuffled(generator)[:VALIDATION_CANDIDATES])

    def validation_rows(self, class_weight: Tensor | None) -> Labelled | None:
        """Return the validation rows, each weighing as much as its like do in training.

        All are there, as frequent as they are; but by plain accuracy the epoch kept would be one that says the frequent
        class of everything (breast cancer made 1 : 20, class_weight="balanced": recall 0 in one of four trainings).
        """
        if self.validation is None:
            return None
        of_class = None if class_weight is None else class_weight.cpu()[self.validation.labels]
        counts = _product(self.validation.sample_weight, self.validation.shares, of_class)
        return replace(self.validation, sample_weight=counts)

    def training_weight(self, device: torch.device) -> Tensor | None:
        """Return how many times each training row counts `(n,)`; None is once each."""
        return None if self.train.sample_weight is None else self.train.sample_weight.to(device)


def prepare(
    X: Any,
    y: Any,
    *,
    learn_inputs: Callable[[Any], Inputs],
    validation_fraction: float,
    generator: torch.Generator,
    sample_weight: Any = None,
    undersample: Mapping[Any, float] | None = None,
) -> Prepared:
    """Validate X and y and split off the validation rows, the same share of every class.

    Rows of weight 0 take no part in anything. Undersampling leaves the validation rows as frequent as they are.
    """
    if isinstance(X, torch.utils.data.Dataset):
        X, y = unpack_dataset(X)
    if y is None and isinstance(X, ImageFiles):
        y = X.y
    if y is None:
        raise UserError("fit requires y to be passed, but the target y is None; pass one label for each row of X.")
    require_rows(X)
    if count_rows(X) != count_rows(y):
        raise UserError(
            f"X and y must be of one length, but X has {count_rows(X)} rows and y has {count_rows(y)}; "
            "pass one label for each row."
        )
    weights = check_weights(sample_weight, count_rows(X))
    rows = np.flatnonzero(weights)
    used_X, used_y = take_rows(X, rows), take_rows(y, rows)
    inputs = learn_inputs(used_X)
    source = inputs.source(used_X)
    classes = Classes.fit(used_y)
    labels = classes.encode(used_y)
    counts = None if (weights[rows] == 1).all() else torch.from_numpy(weights[rows])
    shares = class_shares(undersample, labels, classes)
    everything = Labelled(inputs.tensor(source), labels, counts, shares)
    held_out = _validation_rows(labels, validation_fraction, generator)
    if shares is not None:
        candidates = rows[choose_rows(labels, shares, generator).numpy()]
        weights[np.setdiff1d(rows, candidates)] = 0
    return Prepared(inputs, classes, weights, rows, source, everything, held_out)


def class_weights(
    class_weight: Mapping[Any, float] | str | None,
    train: Labelled,
    classes: Classes,
    device: torch.device,
) -> Tensor | None:
    """Return the weight of each class in the loss: "balanced" makes all classes, as they are drawn, count the same."""
    if class_weight is None:
        return None
    if isinstance(class_weight, str):
        counts = torch.bincount(
            train.labels, _product(train.sample_weight, train.shares), minlength=len(classes)
        ).float()
        return (float(counts.sum()) / (len(classes) * counts)).to(device)
    weights = torch.ones(len(classes))
    for label, weight in class_weight.items():
        weights[classes.number(label, "class_weight")] = weight
    if not (weights > 0).any():
        raise UserError(
            f"class_weight must give some class a weight above 0, but got {dict(class_weight)!r} for all "
            f"{len(classes)} classes; leave classes out of the rows instead."
        )
    return weights.to(device)


def _product(*factors: Tensor | None) -> Tensor | None:
    """Return the product of what is there; None where nothing is."""
    given = [factor.float() for factor in factors if factor is not None]
    return torch.stack(given).prod(0) if given else None


def _validation_rows(labels: Tensor, fraction: float, generator: torch.Generator) -> Tensor:
    """Return a mask of the held-out rows; a class always keeps at least one row for training."""
    held_out = torch.zeros(len(labels), dtype=torch.bool)
    for c in labels.unique():
        rows = (labels == c).nonzero().squeeze(1)
        count = min(round(fraction * len(rows)), len(rows) - 1)
        held_out[rows[torch.randperm(len(rows), generator=generator)[:count]]] = True
    return held_out
