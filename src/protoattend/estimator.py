"""The parameters of a classifier as scikit-learn sees them: what ProtoAttendClassifier and PlainClassifier share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from torch import nn

from protoattend.config import RECIPES, Recipe, Settings
from protoattend.encoders.pretrained import Pretrained
from protoattend.errors import UserError, choose

_RECIPE = "recipe__"  # before the name of one of its fields, as in a grid search


class Estimator(ClassifierMixin, BaseEstimator):
    """Holds the parameters as they are given; `Settings` has their defaults, and checks them when they are used."""

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

    def _own_recipe(self) -> Recipe:
        if isinstance(self.recipe, Recipe):
            return self.recipe
        return RECIPES["paper"] if self.recipe == "paper" else Recipe()

    def _settings(self) -> Settings:
        """Return the parameters, checked."""
        return Settings(**self.get_params(deep=False))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True  # a missing value, handled
        tags.non_deterministic = self.random_state is None
        return tags
