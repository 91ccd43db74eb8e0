"""The plain encoder: the same network and training, decided at alpha 0, without attention and prototypes."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch
from sklearn.utils.validation import check_is_fitted

from protoattend.config import Settings, TrainingPlan
from protoattend.data.samples import chunks
from protoattend.encoders.build import rows_at_once
from protoattend.estimator import Estimator
from protoattend.parallel import threads
from protoattend.training.budget import seconds_of_a_step, within_budget
from protoattend.training.evaluation import evaluate_plain, held_out_logs_of_own, judges_of
from protoattend.training.history import History
from protoattend.training.loop import train
from protoattend.training.losses import LossTerms, plain_terms
from protoattend.training.progress import progress_bar
from protoattend.training.setup import Setup, draw_seed, seeded, set_up
from protoattend.training.trials import Trial, Way, best_of, on_all_rows, refits, rounds_of, ways_to_try


class PlainClassifier(Estimator):
    """Conventional supervised learning with the encoder and the training that ProtoAttend has, to compare with.

    Parameters
    ----------
    **params
        Those of ProtoAttendClassifier, so that `PlainClassifier(**clf.get_params(deep=False))` is the plain encoder
        beside it; what is about attention, candidates and prototypes has no effect here.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels.
    model_ : ProtoAttend
        The trained model, of which encoder, value and decision are used.
    history_ : History
        What training saw, epoch by epoch.

    Notes
    -----
    The decision is that of eq. 2 at alpha = 0: the linear layer g of an input's own value, g(v_i).

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> X, y = load_wine(return_X_y=True)
    >>> PlainClassifier(max_epochs=10, random_state=0, verbose=0).fit(X, y).score(X, y) > 0.9
    True
    """

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> PlainClassifier:
        """Train on X and y.

        Parameters
        ----------
        X : array-like, DataFrame, list of str, images, ImageFiles or torch Dataset
            Training rows, as `ProtoAttendClassifier.fit` takes them.
        y : array-like of shape (n,), default=None
            Labels; not needed where X has them.
        sample_weight : array-like of shape (n,), default=None
            How many times each row counts; None is once each.

        Returns
        -------
        self : PlainClassifier

        Raises
        ------
        UserError
            If a parameter, a row of X or a label cannot be used.

        Examples
        --------
        >>> from sklearn.datasets import load_wine
        >>> X, y = load_wine(return_X_y=True)
        >>> PlainClassifier(max_epochs=2, random_state=0, verbose=0).fit(X, y).classes_
        array([0, 1, 2])
        """
        settings = _without_attention(self._settings())
        seed = draw_seed(settings.random_state)
        with seeded(seed) as generator:
            setup = set_up(settings, X, y, sample_weight, generator)
            ways = ways_to_try(settings, setup)
            setup = replace(setup, plan=_in_time(setup, ways, seed))
            with threads(setup.n_threads):
                setup, history = _trained(setup, ways, seed, settings.verbose)
        setup.end_training()
        setup.model.encoder = setup.encoder
        self.history_ = history
        self.model_, self.inputs_, self.classes_ = setup.model, setup.whole.inputs, setup.whole.classes.values
        return self

    def predict(self, X: Any) -> np.ndarray:
        """Return the label of each row.

        Parameters
        ----------
        X : array-like, DataFrame, list of str or images
            n rows, of the kind given to `fit`.

        Returns
        -------
        labels : ndarray of shape (n,)

        Examples
        --------
        >>> from sklearn.datasets import load_wine
        >>> X, y = load_wine(return_X_y=True)
        >>> PlainClassifier(max_epochs=2, random_state=0, verbose=0).fit(X, y).predict(X).shape
        (178,)
        """
        probabilities = self.predict_proba(X)
        return self.classes_[probabilities.argmax(1)]

    def predict_proba(self, X: Any) -> np.ndarray:
        """Return the class probabilities of each row: the softmax of the logits at alpha = 0.

        Parameters
        ----------
        X : array-like, DataFrame, list of str or images
            n rows, of the kind given to `fit`.

        Returns
        -------
        probabilities : ndarray of shape (n, n_classes)
            Columns are in the order of `classes_`.

        Examples
        --------
        >>> from sklearn.datasets import load_wine
        >>> X, y = load_wine(return_X_y=True)
        >>> PlainClassifier(max_epochs=2, random_state=0, verbose=0).fit(X, y).predict_proba(X).shape
        (178, 3)
        """
        check_is_fitted(self)
        samples = self.inputs_.tensor(self.inputs_.source(X))
        device = next(self.model_.parameters()).device
        with torch.no_grad():
            size = rows_at_once(self.model_.encoder, device)
            logits = [self.model_.self_logits(x.to(device)).cpu() for x in chunks(samples, size)]
        return torch.cat(logits).double().softmax(1).numpy()


def _trained(setup: Setup, ways: tuple[Way, ...], seed: int, verbose: int) -> tuple[Setup, History]:
    """Return the setup with its model trained as ours is: by the way that held-out rows choose, and on all rows."""
    if not ways and not refits(setup):
        return setup, _train(setup, seed, verbose)
    tried = best_of(ways, setup, partial(_tried, seed=seed, verbose=verbose))
    if not (refits(setup) and tried.history.last_is_best):
        return tried.setup, tried.history
    whole = on_all_rows(setup, tried.setup.plan)
    _train(whole, seed, verbose)
    return whole, replace(tried.history, refitted=True)


def _train(setup: Setup, seed: int, verbose: int) -> History:
    """Train the model of a setup, the epoch kept being chosen on held-out rows where there are any."""
    validation = setup.prepared.validation_rows(setup.class_weight)
    with progress_bar(verbose, setup.plan.max_epochs, "plain encoder") as on_step:
        return train(
            setup.model,
            setup.prepared.train,
            setup.plan,
            loss_terms=_terms(setup),
            evaluate=None if validation is None else partial(evaluate_plain, setup.model, validation),
            seed=seed,
            augment=setup.augment,
            on_step=on_step,
        )


def _tried(setup: Setup, *, seed: int, verbose: int) -> Trial:
    """Train the model of a setup, to be judged by what own values say of held-out labels."""
    history = _train(setup, seed, verbose)
    validation = setup.prepared.validation_rows(setup.class_weight)
    assert validation is not None, "nothing is tried without held-out rows"
    return Trial(setup, history, judges_of(validation).loss(held_out_logs_of_own(setup.model, validation)))


def _terms(setup: Setup) -> LossTerms:
    return plain_terms(setup.plan, setup.class_weight, setup.prepared.training_weight(setup.device))


def _in_time(setup: Setup, ways: tuple[Way, ...], seed: int) -> TrainingPlan:
    """Return the plan with as many epochs as the recipe's `max_minutes` allow."""
    if setup.plan.recipe.max_minutes is None:
        return setup.plan
    steps = max(1, setup.prepared.train.rows_of_an_epoch // setup.plan.batch_size)
    seconds = seconds_of_a_step(setup, _terms(setup), seed)
    return within_budget(setup.plan, steps, seconds, rounds_of(setup, ways))


def _without_attention(settings: Settings) -> Settings:
    """Return the settings of the plain encoder: the self term alone, and the smallest heads of attention."""
    return replace(settings, objective="self", normalize="softmax", d_att=1, lambda_sparse=0.0, lambda_conf=0.0)
