"""The measures behind `prototype_quality`: what two rankings share, how widely samples are used, how decisions fade."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, runtime_checkable

import numpy as np
from scipy.spatial.distance import cdist

DROPPED = (0, 1, 2, 3, 5, 10, 20, 50)  # top prototypes taken away, or kept alone (none is not kept)


class Ranker(Protocol):
    """A method that ranks training samples for each input."""

    def rank(self, X: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return the training rows `(n, k)`, most important first, and their weights; a weight of 0 fills up."""


@runtime_checkable
class Decider(Protocol):
    """A ranker whose decisions can be repeated with some training samples only: what faithfulness needs."""

    def probabilities(self, X: Any, *, without: np.ndarray | None = None, only: np.ndarray | None = None) -> np.ndarray:
        """Return probabilities `(n, C)`, input i deciding without rows `without[i]`, or by `only[i]`; -1 is none."""


@runtime_checkable
class Additive(Protocol):
    """A decider whose decision is a sum with a term of each training sample."""

    def probabilities_less(self, X: Any, rows: np.ndarray) -> np.ndarray:
        """Return probabilities `(n, C)` without the terms of `rows[i]`, whose place nothing takes; -1 is none."""


@dataclass(frozen=True)
class TrainingSet:
    """What is known of the ranked training samples.

    Attributes
    ----------
    labels : ndarray of shape (N,)
    subclasses : ndarray of shape (N,) or None, default=None
        Finer groups than labels.
    features : ndarray of shape (N, d) or None, default=None
        What distances are taken in, for `diversity`.

    Examples
    --------
    >>> TrainingSet(labels=np.array([0, 0, 1])).features is None
    True
    """

    labels: np.ndarray
    subclasses: np.ndarray | None = None
    features: np.ndarray | None = None


@dataclass(frozen=True)
class Curves:
    """Mean probability of the original decision without, and with only, `counts` prototypes: the top or random ones.

    Without the top ones the next ones take their place; `less_top` and `less_random` are what is left of the sum
    itself, and None where a decision is none.
    """

    counts: np.ndarray
    without_top: np.ndarray
    without_random: np.ndarray
    only_top: np.ndarray
    only_random: np.ndarray
    less_top: np.ndarray | None = None
    less_random: np.ndarray | None = None

    @property
    def deletion(self) -> float:
        return float((self.without_random - self.without_top)[1:].mean())

    @property
    def insertion(self) -> float:
        return float((self.only_top - self.only_random)[1:].mean())

    @property
    def comprehensiveness(self) -> float:
        if self.less_top is None or self.less_random is None:
            return float("nan")
        return float((self.less_random - self.less_top)[1:].mean())

    def by_name(self) -> dict[str, np.ndarray]:
        """Return the curves as they are named in a figure; of no prototypes alone there is nothing to show."""
        return {
            "without the top ones": self.without_top,
            "without random ones": self.without_random,
            "by the top ones alone": self.only_top[1:],
            "by random ones alone": self.only_random[1:],
        }


def agreement(rows: np.ndarray, weights: np.ndarray, of_train: np.ndarray, of_inputs: np.ndarray) -> float:
    """Return the mean weight on training samples that are in the input's own group."""
    return float((weights * (of_train[rows] == of_inputs[:, None])).sum(1).mean())


def overlap(ours: tuple[np.ndarray, np.ndarray], theirs: tuple[np.ndarray, np.ndarray]) -> float:
    """Return the mean over inputs of sum_j min(p_j, q_j): the weight two rankings give to the same samples."""
    shared = []
    for rows, weights, other_rows, other_weights in zip(*ours, *theirs, strict=True):
        _, here, there = np.intersect1d(rows[weights > 0], other_rows[other_weights > 0], return_indices=True)
        shared.append(np.minimum(weights[weights > 0][here], other_weights[other_weights > 0][there]).sum())
    return float(np.mean(shared))


def effective_share(usage: np.ndarray) -> float:
    """Return 2 to the entropy of how use is spread over the samples, as a share of their number: 1 when evenly.

    >>> effective_share(np.array([0.5, 0.5, 0.0, 0.0]))
    0.5
    """
    p = usage[usage > 0] / usage.sum()
    return float(np.exp(-(p * np.log(p)).sum()) / len(usage))


def diversity(rows: np.ndarray, weights: np.ndarray, train: TrainingSet) -> float:
    """Return the mean distance of an input's prototypes by weight, sum_jk p_j p_k d(j, k), beside that of random ones.

    The random ones are of the same classes, one for each prototype. 0 is copies only, 1 as diverse as the classes are.
    """
    features = np.asarray(train.features, dtype=float).reshape(len(train.labels), -1)
    generator = np.random.default_rng(0)
    of_class = {label: np.flatnonzero(train.labels == label) for label in np.unique(train.labels)}
    distances, expected = 0.0, 0.0
    for found, p in zip(rows, weights, strict=True):
        found, p = found[p > 0], p[p > 0]
        like = np.array([generator.choice(of_class[label]) for label in train.labels[found]])
        distances += p @ cdist(features[found], features[found]) @ p
        expected += p @ cdist(features[like], features[like]) @ p
    return distances / expected if expected > 0 else float("nan")  # one prototype each has no pairs


def faithfulness(decider: Decider, X: Any, rows: np.ndarray, weights: np.ndarray, *, n_train: int) -> Curves:
    """Return how the decision fades without its top prototypes and comes back from them alone, beside random ones.

    Random ones are drawn from all training samples, prototypes included: of few samples, all may be prototypes.
    """
    generator = np.random.default_rng(0)
    ranked = np.where(weights > 0, rows, -1)
    counts = [count for count in DROPPED if count < n_train and (count <= ranked.shape[1] or count == 1)]
    random = np.stack([generator.choice(n_train, max(counts), replace=False) for _ in rows])
    full = decider.probabilities(X)
    decided = full.argmax(1)

    def kept(probabilities: np.ndarray) -> float:
        return float(probabilities[np.arange(len(decided)), decided].mean())

    start = kept(full)

    def curves(decide: Callable[[np.ndarray], np.ndarray]) -> list[np.ndarray]:
        """Return the curves of the top rows and of random ones."""
        return [
            np.array([start, *(kept(decide(which[:, :count])) for count in counts[1:])]) for which in (ranked, random)
        ]

    return Curves(
        np.array(counts),
        *curves(lambda rows: decider.probabilities(X, without=rows)),
        *curves(lambda rows: decider.probabilities(X, only=rows)),
        *(curves(partial(decider.probabilities_less, X)) if isinstance(decider, Additive) else ()),
    )
