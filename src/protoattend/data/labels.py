"""Labels of any hashable kind as class numbers, and back."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d
from torch import Tensor

from protoattend.arguments import as_array
from protoattend.data.tables import is_missing
from protoattend.errors import LISTED, BadFile, UserError

MANY, FEW = 50, 10  # more distinct numbers with fewer samples of each are measurements rather than classes
MOST = 1000  # more distinct numbers are measurements, however many samples each has
LABEL_BYTES = 1 << 28  # of all labels read from a file


class Classes:
    """The known classes in a fixed order: class number c is `values[c]`."""

    def __init__(self, values: np.ndarray) -> None:
        self.values = values
        self._numbers: dict[Hashable, int] = {value: c for c, value in enumerate(values.tolist())}

    @classmethod
    def fit(cls, y: Any) -> Classes:
        labels = column_of(y)
        if labels.dtype == object:
            return cls._fit_objects(labels.tolist())
        _require_classes(labels)
        try:
            check_classification_targets(labels)
        except TypeError:
            raise UserError(
                f"labels must be texts or numbers, but y holds bytes, such as {labels[0]!r}; decode them, as in "
                "y.astype(str)."
            ) from None
        except ValueError as error:
            raise UserError(f"{error}; pass one class for each row.") from None
        return cls(_at_least_two(np.unique(labels)))

    @classmethod
    def _fit_objects(cls, labels: Sequence[Any]) -> Classes:
        for i, label in enumerate(labels):
            if not isinstance(label, Hashable):
                raise UserError(f"every label must be a hashable value, but y[{i}] is {label!r}; convert it first.")
        if all(isinstance(label, (int, float, np.number)) for label in labels):
            _require_classes(np.array(labels, dtype=np.float64))
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
        labels = column_of(y).tolist()
        unknown = [label for label in labels if not isinstance(label, Hashable) or label not in self._numbers]
        if unknown:
            raise UserError(
                f"every label must be a class seen in fit, but {unknown[0]!r} is not among {self.values.tolist()[:9]}; "
                "fit again with samples of the new class."
            )
        return torch.tensor([self._numbers[label] for label in labels], dtype=torch.long)

    def number(self, label: Any, setting: str | None = None) -> int:
        """Return the class number of one label; an unknown one, in a setting by class or elsewhere, is an error."""
        number = self._numbers.get(label) if isinstance(label, Hashable) else None
        if number is None and setting is not None:
            listing = ", ".join(repr(value) for value in self.values[:LISTED].tolist())
            more = f" and {len(self) - LISTED} more" if len(self) > LISTED else ""
            raise UserError(
                f"{setting} must name classes of y, {listing}{more}, but got {label!r}; check the spelling, and "
                "whether it is a number or a text."
            )
        return int(self.encode([label])[0]) if number is None else number

    def decode(self, numbers: Tensor | np.ndarray) -> np.ndarray:
        return self.values[np.asarray(numbers)]


def column_of(y: Any) -> np.ndarray:
    """Return labels as one column `(n,)` in which none is missing, or say what is wrong with them."""
    if isinstance(y, Tensor):
        y = as_array(y, "y")
    if isinstance(y, (list, tuple)) and any(isinstance(label, (tuple, frozenset)) for label in y):
        column = np.empty(len(y), dtype=object)
        column[:] = y
        _require_known(column)
        return column
    array = as_array(y, "y")
    if array.dtype.kind == "T":  # numpy's texts of any length, which scikit-learn does not know
        array = array.astype(object)
    if isinstance(y, (list, tuple)) and any(isinstance(label, str) and label.endswith("\0") for label in y):
        raise UserError("labels must not end in a zero byte, which arrays of texts lose, but some do; strip them.")
    if isinstance(y, (list, tuple)) and array.dtype.kind in "US" and not all(isinstance(label, str) for label in y):
        array = np.array(y, dtype=object)  # numpy would silently turn the numbers of a mixed list into strings
    try:
        column = column_or_1d(array, warn=True)
    except ValueError as error:
        raise UserError(f"{error} Pass one label for each row; of one-hot rows y.argmax(axis=1).") from None
    _require_known(column)
    return column


def _require_known(labels: np.ndarray) -> None:
    if labels.dtype.kind not in "fOmM":
        return
    missing = np.flatnonzero([is_missing(label) for label in labels] if labels.dtype == object else labels != labels)
    if len(missing):
        what = "y contains NaN:" if labels.dtype.kind == "f" else "y has missing labels:"
        raise UserError(
            f"every label must be known, but {what} {len(missing)} of {len(labels)} are missing, the first of them "
            f"y[{missing[0]}] is {labels[missing[0]]}; drop these rows of X and y, or fill in the labels."
        )


def _require_classes(labels: np.ndarray) -> None:
    """Raise where numbers look like measurements: fractions, many values with few samples of each, or very many."""
    if labels.dtype.kind not in "fiu":
        return
    distinct = len(np.unique(labels))
    fractions = labels[labels != np.floor(labels)]
    if len(fractions):
        found = f"numbers with fractions (continuous values), such as {fractions[0]:g}; it has {distinct} distinct ones"
    elif distinct > MOST or (distinct > MANY and len(labels) < FEW * distinct):
        found = f"{distinct} distinct numbers in {len(labels)} rows, from {labels.min():g} to {labels.max():g}"
    else:
        return
    raise UserError(
        f"Unknown label type: y must hold classes, but it holds {found}. Is this regression? Make classes of it by "
        "binning, as in numpy.digitize(y, numpy.quantile(y, [1/3, 2/3])); if the numbers are names of classes, pass "
        "y.astype(str)."
    )


def _at_least_two(values: np.ndarray) -> np.ndarray:
    if len(values) < 2:
        raise UserError(
            f"a classifier needs samples of at least two classes, but y has only one class: {values.tolist()}; "
            "check that the labels were read correctly."
        )
    return values


def classes_to_json(classes: np.ndarray) -> dict[str, Any]:
    """Return labels as JSON can hold them."""
    values = classes.tolist()
    for value in values:
        if not isinstance(value, (str, int, float, bool)):
            raise UserError(
                f"only str, int, float and bool labels can be saved, but there is {value!r}; rename it first."
            )
    return {"dtype": classes.dtype.str, "values": values}


def classes_from_json(content: Mapping[str, Any]) -> np.ndarray:
    """Return what `classes_to_json` was given."""
    dtype, listed = np.dtype(content["dtype"]), content["values"]
    if len(listed) * dtype.itemsize > LABEL_BYTES:
        raise BadFile(f"labels must take at most {LABEL_BYTES} bytes, but meta.json says {dtype}; restore it.")
    values = np.empty(len(listed), dtype=dtype)
    values[:] = listed
    if values.tolist() != listed:
        raise BadFile(f"labels must be of the dtype that meta.json says, {dtype}, but they are not; restore it.")
    return values
