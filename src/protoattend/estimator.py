"""The parameters of a classifier as scikit-learn sees them: what ProtoAttendClassifier and PlainClassifier share."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import fields, replace
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from torch import nn

from protoattend.arguments import check_length
from protoattend.config import RECIPES, Recipe, Settings
from protoattend.data.labels import column_of
from protoattend.data.weights import check_weights
from protoattend.encoders.pretrained import Pretrained
from protoattend.errors import UserError, choose

MOST_LETTERS, MOST_NAMES = 200, 6  # of a setting and of classes that are shown
_RECIPE = "recipe__"  # before the name of one of its fields, as in a grid search


class Estimator(ClassifierMixin, BaseEstimator):
    """Holds the parameters as they are given; `Settings` has their defaults, and checks them when they are used."""

    classes_: np.ndarray
    predict: Callable[[Any], np.ndarray]

    def __init__(
        self,
        encoder: str | nn.Module | Pretrained = Settings.encoder,
        normalize: str = Settings.normalize,
        objective: str = Settings.objective,
        recipe: str | Recipe = Settings.recipe,
        lambda_sparse: float = Settings.lambda_sparse,
        lambda_conf: float = Settings.lambda_conf,
        candidates: str = Settings.candidates,
        n_candidates: int | None = Settings.n_candidates,
        n_prototypes: int | None = Settings.n_prototypes,
        batch_size: int | str = Settings.batch_size,
        max_epochs: int | str = Settings.max_epochs,
        learning_rate: float | str = Settings.learning_rate,
        d_att: int = Settings.d_att,
        d_out: int = Settings.d_out,
        class_weight: Mapping[Any, float] | str | None = Settings.class_weight,
        undersample: Mapping[Any, float] | None = Settings.undersample,
        augment: Any = Settings.augment,
        categorical_features: Any = Settings.categorical_features,
        validation_fraction: float = Settings.validation_fraction,
        device: str = Settings.device,
        n_processes: int = Settings.n_processes,
        n_threads: int | str = Settings.n_threads,
        random_state: int | np.random.RandomState | None = Settings.random_state,
        verbose: int = Settings.verbose,
    ) -> None:
        self.encoder = encoder
        self.normalize = normalize
        self.objective = objective
        self.recipe = recipe
        self.lambda_sparse = lambda_sparse
        self.lambda_conf = lambda_conf
        self.candidates = candidates
        self.n_candidates = n_candidates
        self.n_prototypes = n_prototypes
        self.batch_size = batch_size
        self.max_epochs = max_epochs
        self.learning_rate = learning_rate
        self.d_att = d_att
        self.d_out = d_out
        self.class_weight = class_weight
        self.undersample = undersample
        self.augment = augment
        self.categorical_features = categorical_features
        self.validation_fraction = validation_fraction
        self.device = device
        self.n_processes = n_processes
        self.n_threads = n_threads
        self.random_state = random_state
        self.verbose = verbose

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters by name.

        Parameters
        ----------
        deep : bool, default=True
            Whether to add the fields of the recipe, as `recipe__mixup`.

        Returns
        -------
        params : dict {str: value}

        Examples
        --------
        >>> from protoattend import ProtoAttendClassifier
        >>> ProtoAttendClassifier(d_att=8).get_params()["d_att"]
        8
        """
        params = super().get_params(deep=deep)
        if deep:
            params |= {f"{_RECIPE}{each.name}": getattr(self._own_recipe(), each.name) for each in fields(Recipe)}
        return params

    def set_params(self, **params: Any) -> Self:
        """Set parameters by name.

        Parameters
        ----------
        **params
            Parameters, or fields of the recipe: `recipe__mixup=0.0` replaces one.

        Returns
        -------
        self : the classifier

        Raises
        ------
        ValueError
            If there is no such parameter or field.

        Examples
        --------
        >>> from protoattend import ProtoAttendClassifier
        >>> ProtoAttendClassifier().set_params(recipe__mixup=0.5).recipe.mixup
        0.5
        """
        changed = {name.removeprefix(_RECIPE): value for name, value in params.items() if name.startswith(_RECIPE)}
        super().set_params(**{name: value for name, value in params.items() if not name.startswith(_RECIPE)})
        for name in changed:
            choose(name, [each.name for each in fields(Recipe)], "a field of the recipe")
        if changed and self.recipe == "paper":
            raise UserError(
                f"recipe='paper' is what the paper says, but {_RECIPE}{next(iter(changed))} would change it; pass "
                "recipe=Recipe(...), as paper_settings(name) does."
            )
        if changed:
            self.recipe = replace(self._own_recipe(), **changed)
        return self

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the accuracy on labelled rows.

        Parameters
        ----------
        X : array-like, DataFrame, list of str or images
            n rows, of the kind given to `fit`.
        y : array-like of shape (n,)
            Their labels; rows of classes that were not seen in `fit` are never right.
        sample_weight : array-like of shape (n,), default=None
            How many times each row counts; None is once each.

        Returns
        -------
        accuracy : float
            From 0 to 1.

        Raises
        ------
        UserError
            If X and y differ in length, or no label is one of `classes_`.

        Examples
        --------
        >>> from sklearn.datasets import load_wine
        >>> from protoattend import ProtoAttendClassifier
        >>> X, y = load_wine(return_X_y=True)
        >>> clf = ProtoAttendClassifier(max_epochs=5, random_state=0, verbose=0).fit(X, y)
        >>> bool(clf.score(X, y) == (clf.predict(X) == y).mean())
        True
        """
        predicted = self.predict(X).tolist()
        labels = check_length(column_of(y), "y", len(predicted), "rows of X").tolist()
        known = set(self.classes_.tolist())
        if not any(isinstance(label, Hashable) and label in known for label in labels):
            some = self.classes_[:MOST_NAMES].tolist()
            raise UserError(f"y must hold labels such as {some}, but all are unknown, such as {labels[0]!r}; check y.")
        right = [label == decided for label, decided in zip(labels, predicted, strict=True)]
        return float(np.average(right, weights=check_weights(sample_weight, len(right))))

    def _own_recipe(self) -> Recipe:
        if isinstance(self.recipe, Recipe):
            return self.recipe
        return RECIPES["paper"] if isinstance(self.recipe, str) and self.recipe == "paper" else Recipe()

    def _settings(self) -> Settings:
        """Return the parameters, checked."""
        return Settings(**self.get_params(deep=False))

    def _html_repr(self) -> str:
        """Return what a notebook shows: once fitted, what came of it, and before that scikit-learn's diagram."""
        if not hasattr(self, "history_"):
            return super()._html_repr()
        from protoattend.viz.notebook import classifier_cell

        settings = as_words(changed_settings(self))
        title = f"{type(self).__name__}, fitted"
        return classifier_cell(self._facts(), self.history_.charts(), settings, title=title)

    def _facts(self) -> dict[str, tuple[str, str]]:
        """Return what came of a fit, by name: a number and what is to be known with it."""
        history = self.history_
        kept = history[history.best_epoch].metrics
        facts = {
            "Classes": (f"{len(self.classes_):,}", _listed(self.classes_)),
            "Epochs": (
                f"{len(history):,}",
                f"{history.seconds:.1f} s of steps; {history.outcome}",
            ),
        }
        if hasattr(self, "database_"):
            facts = {"Candidates": (f"{len(self.database_):,}", f"read as {self.inputs_.kind}")} | facts
        if kept is not None:
            facts["Right on rows held out"] = (f"{100 * kept.prototype_accuracy:.1f} %", f"of {kept.n_samples:,} rows")
        return facts

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True  # a missing value, handled
        tags.non_deterministic = self.random_state is None
        return tags


def changed_settings(estimator: Estimator) -> dict[str, Any]:
    """Return the parameters that differ from their defaults; fields of the recipe as `recipe__mixup`.

    >>> changed_settings(Estimator(d_att=8, recipe=Recipe(mixup=0.5)))
    {'d_att': 8, 'recipe__mixup': 0.5}
    """
    params, recipe = estimator.get_params(deep=False), estimator._own_recipe()
    own = [each for each in fields(Settings) if each.name not in ("recipe", "verbose")]
    changed = {each.name: params[each.name] for each in own if _differs(params[each.name], each.default)}
    for each in fields(Recipe):
        if _differs(getattr(recipe, each.name), each.default):
            changed[f"{_RECIPE}{each.name}"] = getattr(recipe, each.name)
    return changed


def as_words(settings: Mapping[str, Any]) -> dict[str, str]:
    """Return settings as a person reads them; a module of one's own is named by its class."""
    return {name: _written(value) for name, value in settings.items()}


def _differs(value: Any, default: Any) -> bool:
    return value is not default and not (isinstance(value, type(default)) and bool(value == default))


def _written(value: Any) -> str:
    text = type(value).__name__ if isinstance(value, nn.Module) else str(value)
    return text if len(text) <= MOST_LETTERS else text[:MOST_LETTERS] + " …"


def _listed(classes: np.ndarray) -> str:
    more = len(classes) - MOST_NAMES
    return ", ".join(map(str, classes[:MOST_NAMES])) + (f" and {more:,} more" if more > 0 else "")
