"""Monte Carlo dropout (Gal and Ghahramani, 2016): the mean of many decisions, each without some of the network."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from scipy.special import softmax
from torch import nn
from torch.nn.modules.dropout import _DropoutNd

from protoattend.baselines.network import read_layers
from protoattend.baselines.plain import PlainClassifier
from protoattend.data.inputs import require_rows
from protoattend.errors import UserError
from protoattend.training.setup import seeded


@dataclass(frozen=True)
class MonteCarloDropout:
    """Dropout at test time: probabilities are means over passes in which some of the network is left out.

    Parameters
    ----------
    read : callable (X, draw) -> ndarray of shape (n, d)
        The values of inputs in the draw of this number; `of` makes it of a classifier.
    weight : ndarray of shape (n_classes, d)
        The linear decision.
    classes : ndarray of shape (n_classes,)
        The labels.
    rate : float, default=0.1
        Share of the values that is left out.
    n_draws : int, default=32
        Passes.

    Raises
    ------
    UserError
        Where the rate is not in [0, 1), or there is no draw.

    Notes
    -----
    Where the encoder has dropout of its own, it is on; in every case `rate` of the values, which the last layer reads,
    is left out and the others are scaled up. For a network that was trained without dropout that is dropout injected
    after training (Ledda et al., 2023).

    Examples
    --------
    >>> dropout = MonteCarloDropout(lambda X, draw: np.asarray(X), np.eye(2), np.array(["a", "b"]), rate=0.5)
    >>> dropout.confidence([[0.0, 0.0], [9.0, 0.0]]).round(1).tolist()
    [0.5, 0.7]
    """

    read: Callable[[Any, int], np.ndarray]
    weight: np.ndarray
    classes: np.ndarray
    rate: float = 0.1
    n_draws: int = 32

    def __post_init__(self) -> None:
        if not 0 <= self.rate < 1:
            raise UserError(f"rate must be at least 0 and below 1, but got rate={self.rate}; pass rate=0.1.")
        if self.n_draws < 1:
            raise UserError(f"n_draws must be at least 1, but got n_draws={self.n_draws}; pass n_draws=32.")

    @classmethod
    def of(cls, classifier: PlainClassifier, *, rate: float = 0.1, n_draws: int = 32) -> MonteCarloDropout:
        """Take a fitted classifier.

        Parameters
        ----------
        classifier : PlainClassifier
            Fitted.
        rate : float, default=0.1
        n_draws : int, default=32

        Returns
        -------
        MonteCarloDropout

        Examples
        --------
        >>> from sklearn.datasets import load_wine
        >>> X, y = load_wine(return_X_y=True)
        >>> classifier = PlainClassifier(max_epochs=1, random_state=0, verbose=0).fit(X, y)
        >>> MonteCarloDropout.of(classifier, n_draws=4).confidence(X).shape
        (178,)
        """
        weight = classifier.model_.decision.weight.detach().cpu().double().numpy()
        return cls(partial(values_in_draw, classifier), weight, classifier.classes_, rate, n_draws)

    def probabilities(self, X: Any) -> np.ndarray:
        """Return the mean of the probabilities over all draws.

        Parameters
        ----------
        X : inputs, as in fit

        Returns
        -------
        ndarray of shape (n, n_classes)
        """
        total: Any = 0.0
        for draw in range(self.n_draws):
            values = self.read(X, draw)
            kept = np.random.default_rng(draw).random(values.shape) >= self.rate
            total = total + softmax((values * kept / (1 - self.rate)) @ self.weight.T, axis=1)
        return total / self.n_draws

    def predict(self, X: Any) -> np.ndarray:
        """Return the label of each row by the mean probabilities.

        Parameters
        ----------
        X : inputs, as in fit

        Returns
        -------
        ndarray of shape (n,)
        """
        return self.classes[self.probabilities(X).argmax(1)]

    def confidence(self, X: Any) -> np.ndarray:
        """Return the largest mean probability of each row.

        Parameters
        ----------
        X : inputs, as in fit

        Returns
        -------
        ndarray of shape (n,)
        """
        return self.probabilities(X).max(1)


def values_in_draw(classifier: PlainClassifier, X: Any, draw: int) -> np.ndarray:
    """Return the values `(n, d)` of inputs with the encoder's own dropout on; each draw has masks of its own."""
    require_rows(X)
    samples = classifier.inputs_.tensor(classifier.inputs_.source(X))
    with seeded(draw), _dropping(classifier.model_.encoder):
        return read_layers(classifier.model_, samples)[-1]


@contextmanager
def _dropping(encoder: nn.Module) -> Iterator[None]:
    """Put what drops out in training mode, and nothing else: batch statistics stay those of training."""
    dropping = [module for module in encoder.modules() if _drops_out(module)]
    before = [module.training for module in dropping]
    for module in dropping:
        module.training = True
    try:
        yield
    finally:
        for module, training in zip(dropping, before, strict=True):
            module.training = training


def _drops_out(module: nn.Module) -> bool:
    # Some modules have a rate and drop out by a function, without a module for it.
    return isinstance(module, _DropoutNd) or isinstance(getattr(module, "dropout", None), float)
