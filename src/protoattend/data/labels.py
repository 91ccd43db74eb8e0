"""Labels of any hashable kind as class numbers, and back."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
import torch
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d
from torch import Tensor

from protoattend.errors import UserError


class Classes:
    """The known classes in a fixed order: class number c is `values[c]`."""

    def __init__(self, values: np.ndarray) -> None:
        self.values = values
        self._numbers: dict[Hashable, int] = {value: c for c, value in enumerate(values.tolist())}

    @classmethod
    def fit(cls, y: Any) -> Classes:
        labels = _column(y)
        if labels.dtype == object:
            return cls._fit_objects(labels.tolist())
        check_classification_targets(labels)
        return cls(_at_least_two(np.unique(labels)))

    @classmethod
    def _fit_objects(cls, labels: Sequence[Any]) -> Classes:
        for i, label in enumerate(labels):
            if label is None or label != label or not isinstance(label, Hashable):
                raise UserError(
                    f"every label must be a known, hashable value, but y[{i}] is {label!r}; drop or fix it."
                )
        seen = list(dict.fromkeys(labels))
        try:
            seen.sort()
        except TypeError:
            seen.sort(key=lambda label: (type(label).__name__, str(label)))  # labels of mixed types
        if all(isinstance(label, str) for label in seen):
            return cls(_at_least_two(np.array(seen)))
        values = np.empty(len(seen), dtype=object)
        values[:] = seen
        return cls(_at_least_two(values))

    def __len__(self) -> int:
        return len(self.values)

    def encode(self, y: Any) -> Tensor:
        """Return labels as class numbers `(n,)`; an unknown one is an error."""
        labels = _column(y).tolist()
        unknown = [label for label in labels if label not in self._numbers]
        if unknown:
            raise UserError(
                f"every label must be a class seen in fit, but {unknown[0]!r} is not among {self.values.tolist()[:9]}; "
                "fit again with samples of the new class."
            )
        return torch.tensor([self._numbers[label] for label in labels], dtype=torch.long)

    def number(self, label: Any) -> int:
        return int(self.encode([label])[0])

    def decode(self, numbers: Tensor | np.ndarray) -> np.ndarray:
        return self.values[np.asarray(numbers)]


def _column(y: Any) -> np.ndarray:
    if isinstance(y, Tensor):
        y = y.detach().cpu().numpy()
    if isinstance(y, (list, tuple)) and any(isinstance(label, (tuple, frozenset)) for label in y):
        column = np.empty(len(y), dtype=object)
        column[:] = y
        return column
    array = np.asarray(y)
    if array.dtype.kind == "f" and np.isnan(array).any():
        raise UserError(
            f"every label must be known, but y contains NaN at row {int(np.isnan(array.ravel()).argmax())}."
        )
    if isinstance(y, (list, tuple)) and array.dtype.kind in "US" and not all(isinstance(label, str) for label in y):
        array = np.array(y, dtype=object)  # numpy would silently turn the numbers of a mixed list into strings
    return column_or_1d(array, warn=True)


def _at_least_two(values: np.ndarray) -> np.ndarray:
    if len(values) < 2:
        raise UserError(
            f"a classifier needs samples of at least two classes, but y has only one class: {values.tolist()}; "
            "check that the labels were read correctly."
        )
    return values
