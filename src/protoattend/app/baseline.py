"""The plain encoder beside a saved classifier: trained on the samples its folder keeps, with the same settings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from protoattend.baselines.plain import PlainClassifier
from protoattend.classifier import ProtoAttendClassifier
from protoattend.config import Recipe
from protoattend.data.images import ImageFiles
from protoattend.data.inputs import ImageInputs
from protoattend.data.tables import TableInputs


def fit_baseline(clf: ProtoAttendClassifier, *, verbose: int) -> Callable[[Any], np.ndarray]:
    """Return a function from X, as the classifier takes it, to the plain encoder's probabilities `(n, n_classes)`."""
    inputs, rows = clf.inputs_, clf.database_.rows
    plain = PlainClassifier(**clf.get_params(deep=False)).set_params(verbose=verbose)
    if isinstance(inputs, TableInputs):  # the rows are encoded already: numbers first, then the codes of categories
        codes = [i for i, column in enumerate(inputs.learned) if column.kind == "category"]
        plain.set_params(categorical_features=codes)
        if isinstance(clf.recipe, Recipe):
            plain.set_params(recipe=replace(clf.recipe, fixed_columns=None))
    plain.fit(_as_X(clf, rows.source), clf.database_.labels, rows.sample_weight.numpy())
    columns = [clf.classes_.tolist().index(label) for label in plain.classes_.tolist()]

    def probabilities(X: Any) -> np.ndarray:
        found = plain.predict_proba(_as_X(clf, inputs.source(X)))
        whole = np.zeros((len(found), len(clf.classes_)))  # a class may have lost all its candidates
        whole[:, columns] = found
        return whole

    return probabilities


def _as_X(clf: ProtoAttendClassifier, source: np.ndarray) -> Any:
    """Return rows as the database keeps them in the form that fit takes."""
    inputs = clf.inputs_
    if isinstance(inputs, ImageInputs) and source.dtype == object:
        return ImageFiles(source, inputs.channels, inputs.height, inputs.width)
    if isinstance(inputs, TableInputs):
        return inputs.tensor(source).numpy()
    return source.tolist() if inputs.kind == "text" else source
