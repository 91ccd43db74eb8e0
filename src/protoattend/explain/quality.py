"""How good prototypes are as explanations, in numbers, for any method that ranks training samples.

The paper leaves the question open. Each number answers one part of it: are prototypes alike in class, does the decision
rest on them, are they stable, do they come from what was learned, is the data used widely, and are they diverse?
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from protoattend.arguments import check_length
from protoattend.data.labels import column_of
from protoattend.errors import UserError
from protoattend.explain.quality_measures import (
    Curves,
    Decider,
    Ranker,
    TrainingSet,
    agreement,
    diversity,
    effective_share,
    faithfulness,
    overlap,
)

__all__ = ["PrototypeQuality", "TrainingSet", "prototype_quality", "small_noise"]

NOISE = 0.05  # standard deviations: a small change of an input


@dataclass(frozen=True)
class PrototypeQuality:
    """How good prototypes are, in numbers: means over inputs; NaN stands for what could not be measured.

    Attributes
    ----------
    same_class, same_subclass : float
        Share of the weight on samples of the input's own class and subclass.
    deletion, insertion : float
        How much faster the decision fades without the top prototypes than without random ones, and how much sooner it
        comes back from the top ones alone than from random ones (mean difference of the curves, up to 1).
    comprehensiveness : float
        How much more of the decision goes when the terms of the top prototypes are left out of the sum that it is, and
        nothing takes their place, than when those of random ones are: how much of it the explanation covers (DeYoung
        et al., 2020). By `deletion`, other training samples do take their place.
    stability : float
        Share of the weight that stays where it was under small changes of the input.
    learned : float
        Share of the weight that moves elsewhere when the model's parameters are shuffled.
    used, effective : float
        Share of the training samples that are a prototype at all, and the exponential of the entropy of their use as a
        share of all.
    busiest : float
        The largest share of all weight that one training sample gets.
    diversity : float
        Distance of an input's prototypes from one another beside that of random samples of the same classes.
    curves : Curves or None
        What deletion and insertion are means of.
    name : str, default=""
        What it is called.

    Examples
    --------
    >>> class Nearest:
    ...     def rank(self, X):
    ...         return np.array([[0, 1], [2, 1]]), np.array([[0.75, 0.25], [1.0, 0.0]])
    >>> found = prototype_quality(Nearest(), X=None, y=[0, 1], train=TrainingSet(np.array([0, 0, 1])))
    >>> found.same_class, round(found.busiest, 3), found.used
    (1.0, 0.5, 1.0)
    """

    same_class: float
    same_subclass: float
    deletion: float
    insertion: float
    comprehensiveness: float
    stability: float
    learned: float
    used: float
    effective: float
    busiest: float
    diversity: float
    curves: Curves | None
    name: str = ""

    def to_dict(self) -> dict[str, float]:
        """Return the figures by name.

        Returns
        -------
        dict of str to float
        """
        return {field.name: getattr(self, field.name) for field in fields(self) if field.type == "float"}

    def __str__(self) -> str:
        return "\n".join(f"{name:18}{value:.3f}" for name, value in self.to_dict().items())

    def plot(self, ax: Any = None) -> Any:
        """Draw how the decision fades without its top prototypes and comes back from them alone.

        Parameters
        ----------
        ax : matplotlib axis or None, default=None
            Where to draw; None makes a new figure.

        Returns
        -------
        matplotlib axis

        Raises
        ------
        UserError
            Where the ranker could not repeat decisions without some samples.
        """
        from protoattend.viz.charts import draw_faithfulness

        if self.curves is None:
            raise UserError("these decisions cannot be repeated without some samples, so there is no curve to draw.")
        return draw_faithfulness(ax, self.curves.counts, self.curves.by_name())


def prototype_quality(
    ranker: Ranker,
    X: Any,
    y: Any,
    *,
    train: TrainingSet,
    subclasses: Any = None,
    perturb: Callable[[Any, np.random.Generator], Any] | None = None,
    randomised: Ranker | None = None,
) -> PrototypeQuality:
    """Measure the prototypes that any method ranks for labelled inputs.

    Parameters
    ----------
    ranker : object with rank(X)
        It returns training rows `(n, k)`, most important first, and their weights; a weight of 0 fills up. One that
        also has `probabilities(X, *, without=None, only=None)` is measured by deletion and insertion too, and by
        comprehensiveness if it has `probabilities_less(X, rows)`.
    X : inputs, as the ranker takes them
    y : array-like of shape (n,)
        Their true labels, of the kind in `train.labels`.
    train : TrainingSet
        The ranked training samples.
    subclasses : array-like of shape (n,) or None, default=None
        Finer groups of the inputs, for `same_subclass`.
    perturb : callable (X, generator) -> X or None, default=None
        A small change of the inputs, for `stability`, such as `small_noise`.
    randomised : object with rank(X) or None, default=None
        The same method with shuffled parameters, for `learned`.

    Returns
    -------
    PrototypeQuality

    Raises
    ------
    UserError
        Where lengths do not fit together, or the ranker returns rows that do not exist.

    Examples
    --------
    >>> class Nearest:
    ...     def rank(self, X):
    ...         return np.zeros((len(X), 1), dtype=int), np.ones((len(X), 1))
    >>> prototype_quality(Nearest(), [[0.1], [0.9]], ["a", "b"], train=TrainingSet(np.array(["a", "b"]))).same_class
    0.5
    """
    labels = column_of(y)
    if len(labels) == 0:
        raise UserError("at least one labelled input is needed, but y is empty; pass some rows of X and y.")
    finer = None if subclasses is None else check_length(column_of(subclasses), "subclasses", len(labels), "inputs")
    rows, weights = _shares(*ranker.rank(X), n_train=len(train.labels))
    if len(labels) != len(rows):
        raise UserError(f"X and y must be of one length, but X has {len(rows)} rows and y has {len(labels)}.")
    generator = np.random.default_rng(0)
    curves = faithfulness(ranker, X, rows, weights, n_train=len(train.labels)) if isinstance(ranker, Decider) else None
    usage = np.bincount(rows.ravel(), weights.ravel(), minlength=len(train.labels)) / len(rows)
    return PrototypeQuality(
        same_class=agreement(rows, weights, train.labels, labels),
        same_subclass=np.nan
        if finer is None or train.subclasses is None
        else agreement(rows, weights, train.subclasses, finer),
        deletion=np.nan if curves is None else curves.deletion,
        insertion=np.nan if curves is None else curves.insertion,
        comprehensiveness=np.nan if curves is None else curves.comprehensiveness,
        stability=np.nan if perturb is None else overlap((rows, weights), _again(ranker, perturb(X, generator), train)),
        learned=np.nan if randomised is None else 1 - overlap((rows, weights), _again(randomised, X, train)),
        used=float((usage > 0).mean()),
        effective=effective_share(usage),
        busiest=float(usage.max()),
        diversity=np.nan if train.features is None else diversity(rows, weights, train),
        curves=curves,
    )


def small_noise(X: Any, generator: np.random.Generator, *, size: float = NOISE) -> Any:
    """Return an array with a little Gaussian noise.

    Parameters
    ----------
    X : array-like of numbers
        A table `(n, f)` or images.
    generator : numpy.random.Generator
    size : float, default=0.05
        Standard deviation of the noise, in standard deviations of each column, or of all pixels.

    Returns
    -------
    ndarray
        Of the dtype of X; whole numbers are rounded.

    Raises
    ------
    UserError
        Where X holds no numbers.

    Examples
    --------
    >>> X = np.array([[1.0, 10.0], [3.0, 30.0]])
    >>> bool(np.abs(small_noise(X, np.random.default_rng(0)) - X).max() < 5)
    True
    """
    values = np.asarray(X)
    if values.dtype.kind not in "fiu":
        raise UserError(f"small_noise needs an array of numbers, but got {values.dtype}; pass perturb=a function.")
    scale = np.nanstd(values, axis=0) if values.ndim == 2 else np.nanstd(values)
    noisy = values + size * scale * generator.standard_normal(values.shape)
    if values.dtype.kind == "f":
        return noisy.astype(values.dtype)
    limits = np.iinfo(values.dtype)
    return np.clip(np.round(noisy), limits.min, limits.max).astype(values.dtype)


def _again(ranker: Ranker, X: Any, train: TrainingSet) -> tuple[np.ndarray, np.ndarray]:
    return _shares(*ranker.rank(X), n_train=len(train.labels))


def _shares(rows: np.ndarray, weights: np.ndarray, *, n_train: int) -> tuple[np.ndarray, np.ndarray]:
    """Return checked rankings; negative weights count by their size, and those of an input sum to one."""
    found, sizes = np.asarray(rows), np.abs(np.asarray(weights, dtype=float))
    if found.shape != sizes.shape or found.ndim != 2:
        raise UserError(f"rank must return two arrays (n, k), but their shapes are {found.shape} and {sizes.shape}.")
    if not np.isfinite(sizes).all() or (sizes.sum(1) == 0).any():
        raise UserError("every input needs finite weights that are not all 0; look at what rank returns.")
    if found.dtype.kind not in "iu":
        raise UserError(f"rank must return rows of the training samples as integers, but got {found.dtype}.")
    outside = (sizes > 0) & ((found < 0) | (found >= n_train))
    if outside.any():
        raise UserError(
            f"rank must return rows of the {n_train} training samples, from 0 to {n_train - 1}, but got "
            f"{found[outside][0]}; give what only fills up a weight of 0."
        )
    return np.where(sizes > 0, found, 0), sizes / sizes.sum(1, keepdims=True)
