"""How good prototypes are as explanations, in numbers, for any method that ranks training samples.

The paper leaves the question open. Each number answers one part of it: are prototypes alike in class, does the decision
rest on them, are they stable, do they come from what was learned, is the data used widely, and are they diverse?
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, Protocol, runtime_checkable

import numpy as np
from scipy.spatial.distance import cdist

from protoattend.errors import UserError
from protoattend.viz import style as display

NOISE = 0.05  # standard deviations: a small change of an input
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


@dataclass(frozen=True)
class TrainingSet:
    """What is known of the ranked training samples: labels `(N,)`, and where given subclasses and features `(N, d)`."""

    labels: np.ndarray
    subclasses: np.ndarray | None = None
    features: np.ndarray | None = None


@dataclass(frozen=True)
class PrototypeQuality:
    """The report; weights are averaged over inputs, and NaN stands for what could not be measured.

    same_class, same_subclass: share of the weight on samples of the input's own class and subclass.
    deletion, insertion: how much faster the decision fades without the top prototypes than without random ones, and how
    much sooner it comes back from the top ones alone than from random ones (mean difference of the curves, up to 1).
    stability: share of the weight that stays where it was under small changes of the input.
    learned: share of the weight that moves elsewhere when the model's parameters are shuffled.
    used, effective: share of the training samples that are a prototype at all, and 2 to the power of the entropy of
    their use as a share of all.
    busiest: the largest share of all weight that one training sample gets.
    diversity: distance of an input's prototypes from one another beside that of random samples of the same classes.
    """

    same_class: float
    same_subclass: float
    deletion: float
    insertion: float
    stability: float
    learned: float
    used: float
    effective: float
    busiest: float
    diversity: float
    curves: Curves | None
    name: str = ""

    def to_dict(self) -> dict[str, float]:
        """Return the figures by name."""
        return {field.name: getattr(self, field.name) for field in fields(self) if field.type == "float"}

    def __str__(self) -> str:
        return "\n".join(f"{name:14}{value:.3f}" for name, value in self.to_dict().items())

    def plot(self, ax: Any = None) -> Any:
        """Draw how the decision fades without its top prototypes and comes back from them alone; return the axis."""
        ax = display.axes(ax, "plotting prototype quality")
        if self.curves is None:
            raise UserError("these decisions cannot be repeated without some samples, so there is no curve to draw.")
        self.curves.draw(ax)
        return ax


@dataclass(frozen=True)
class Curves:
    """Mean probability of the original decision without, and with only, `counts` prototypes: the top or random ones."""

    counts: np.ndarray
    without_top: np.ndarray
    without_random: np.ndarray
    only_top: np.ndarray
    only_random: np.ndarray

    @property
    def deletion(self) -> float:
        return float((self.without_random - self.without_top)[1:].mean())

    @property
    def insertion(self) -> float:
        return float((self.only_top - self.only_random)[1:].mean())

    def draw(self, ax: Any) -> None:
        places = np.arange(len(self.counts))
        shown = (
            ("without the top ones", self.without_top, 0),
            ("without random ones", self.without_random, 0),
            ("by the top ones alone", self.only_top, 1),
            ("by random ones alone", self.only_random, 1),
        )
        for name, curve, start in shown:
            ax.plot(places[start:], curve[start:], label=name, marker=".", **display.next_look(ax))
        display.dress(ax, title="Does the decision rest on them?", xlabel="prototypes", ylabel="its probability")
        ax.set_xticks(places, self.counts)
        ax.set(ylim=(0, 1.02))
        ax.legend(loc="best", frameon=False)


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
    """Measure the prototypes of inputs with true labels `(n,)`, and with `subclasses` `(n,)` where there are some.

    `perturb` changes inputs a little, and `randomised` is the same method with shuffled parameters.
    """
    labels = np.asarray(y)
    if len(labels) == 0:
        raise UserError("at least one labelled input is needed, but y is empty; pass some rows of X and y.")
    rows, weights = _shares(*ranker.rank(X), n_train=len(train.labels))
    if len(labels) != len(rows):
        raise UserError(f"X and y must be of one length, but X has {len(rows)} rows and y has {len(labels)}.")
    if subclasses is not None and len(subclasses) != len(rows):
        raise UserError(f"every input needs a subclass, but there are {len(subclasses)} for {len(rows)} of them.")
    generator = np.random.default_rng(0)
    curves = faithfulness(ranker, X, rows, weights, n_train=len(train.labels)) if isinstance(ranker, Decider) else None
    usage = np.bincount(rows.ravel(), weights.ravel(), minlength=len(train.labels)) / len(rows)
    return PrototypeQuality(
        same_class=agreement(rows, weights, train.labels, labels),
        same_subclass=np.nan
        if subclasses is None or train.subclasses is None
        else agreement(rows, weights, train.subclasses, np.asarray(subclasses)),
        deletion=np.nan if curves is None else curves.deletion,
        insertion=np.nan if curves is None else curves.insertion,
        stability=np.nan if perturb is None else overlap((rows, weights), _again(ranker, perturb(X, generator), train)),
        learned=np.nan if randomised is None else 1 - overlap((rows, weights), _again(randomised, X, train)),
        used=float((usage > 0).mean()),
        effective=effective_share(usage),
        busiest=float(usage.max()),
        diversity=np.nan if train.features is None else diversity(rows, weights, train),
        curves=curves,
    )


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
    drops, keeps = (
        [
            [kept(decider.probabilities(X, **{how: which[:, :count]})) for count in counts[1:]]
            for which in (ranked, random)
        ]
        for how in ("without", "only")
    )
    (top, other), (top_alone, other_alone) = ([np.array([start, *curve]) for curve in part] for part in (drops, keeps))
    return Curves(np.array(counts), top, other, top_alone, other_alone)


def small_noise(X: Any, generator: np.random.Generator, *, size: float = NOISE) -> Any:
    """Return an array with Gaussian noise of `size` standard deviations of each column added, or of all pixels."""
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
