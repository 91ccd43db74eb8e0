"""ProtoAttend in plain Python: loops over lists of floats, from the paper, sharing nothing with the library.

Slow and obvious on purpose. Sparsemax is found by bisection, and a second time by trying every support in
exact arithmetic; the library does neither.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from typing import Any

Vector = Sequence[float]
Matrix = Sequence[Vector]

# Table 1, row by row: the weight of each alpha at a progress from 0 to 1.
OBJECTIVES: dict[str, Callable[[float], dict[float, float]]] = {
    "self": lambda progress: {0.0: 1.0},
    "prototype": lambda progress: {1.0: 1.0},
    "joint": lambda progress: {0.5: 1.0},
    "self+prototype": lambda progress: {0.0: 1.0, 1.0: 1.0},
    "annealed": lambda progress: {0.0: 1.0 - progress, 1.0: progress},
    "self+prototype+joint": lambda progress: {0.0: 1.0, 0.5: 1.0, 1.0: 1.0},
}


def dot(a: Vector, b: Vector) -> float:
    return math.fsum(x * y for x, y in zip(a, b, strict=True))


def linear(x: Vector, weight: Matrix, bias: Vector | None = None) -> list[float]:
    out = [dot(row, x) for row in weight]
    return out if bias is None else [o + b for o, b in zip(out, bias, strict=True)]


def relu(x: Vector) -> list[float]:
    return [v if v > 0 else 0.0 for v in x]


def layer_norm(x: Vector, gain: Vector, shift: Vector, epsilon: float = 1e-5) -> list[float]:
    mean = math.fsum(x) / len(x)
    variance = math.fsum((v - mean) ** 2 for v in x) / len(x)
    return [(v - mean) / math.sqrt(variance + epsilon) * g + s for v, g, s in zip(x, gain, shift, strict=True)]


def of_one_length(key: Vector, epsilon: float = sys.float_info.epsilon) -> list[float]:
    return [v / math.sqrt(dot(key, key) / len(key) + epsilon) for v in key]


def score(query: Vector, key: Vector) -> float:
    """Eq. 1 before n(): the scaled product of a query and a key."""
    return dot(query, key) / math.sqrt(len(query))


def softmax(scores: Vector, exclude: Sequence[bool] | None = None) -> list[float]:
    allowed = _allowed(scores, exclude)
    top = max(scores[j] for j in allowed)
    masses = {j: math.exp(scores[j] - top) for j in allowed}
    total = math.fsum(masses.values())
    return [masses[j] / total if j in masses else 0.0 for j in range(len(scores))]


def sparsemax(scores: Vector, exclude: Sequence[bool] | None = None) -> list[float]:
    """p_j = max(z_j - tau, 0), with tau found by halving an interval until floats cannot halve it further."""
    allowed = _allowed(scores, exclude)
    top = max(scores[j] for j in allowed)
    shifted = {j: scores[j] - top for j in allowed if scores[j] - top > -1}
    low, high = -1.0, 0.0  # the sum of weights is at least 1 at low and 0 at high
    while low < (middle := (low + high) / 2) < high:
        if math.fsum(max(z - middle, 0.0) for z in shifted.values()) >= 1:
            low = middle
        else:
            high = middle
    return [max(shifted[j] - low, 0.0) if j in shifted else 0.0 for j in range(len(scores))]


def sparsemax_by_enumeration(scores: Vector) -> list[float]:
    """The same by trying every support with exact fractions: right is the one that its tau separates."""
    allowed = _allowed(scores, None)
    exact = {j: Fraction(scores[j]) for j in allowed}
    for size in range(1, len(allowed) + 1):
        for support in combinations(allowed, size):
            tau = (sum(exact[j] for j in support) - 1) / size
            if all((exact[j] > tau) == (j in support) for j in allowed):
                return [float(exact[j] - tau) if j in support else 0.0 for j in range(len(scores))]
    raise AssertionError("exactly one support is right, but none was found")


def _allowed(scores: Vector, exclude: Sequence[bool] | None) -> list[int]:
    return [j for j, s in enumerate(scores) if s != -math.inf and not (exclude is not None and exclude[j])]


NORMALIZERS = {"softmax": softmax, "sparsemax": sparsemax}


def mix(weights: Vector, values: Matrix) -> list[float]:
    return [math.fsum(p * v[k] for p, v in zip(weights, values, strict=True)) for k in range(len(values[0]))]


def class_mass(weights: Vector, labels: Sequence[int], n_classes: int) -> list[float]:
    return [math.fsum(p for p, y in zip(weights, labels, strict=True) if y == c) for c in range(n_classes)]


def argmax(x: Vector) -> int:
    return max(range(len(x)), key=lambda k: (x[k], -k))


def prototype_count(weights: Vector, share: float) -> int:
    """The smallest k such that the k heaviest weights add up to `share`."""
    ordered = sorted(weights, reverse=True)
    for k in range(1, len(ordered) + 1):
        if math.fsum(ordered[:k]) >= share - 1e-6:
            return k
    return len(ordered)


def cross_entropy(logits: Matrix, y: Sequence[int], class_weight: Vector | None = None) -> float:
    """The mean of -log softmax at the label; with class weights, the weighted mean."""
    total, weight_sum = 0.0, 0.0
    for row, label in zip(logits, y, strict=True):
        top = max(row)
        log_sum = top + math.log(math.fsum(math.exp(v - top) for v in row))
        weight = 1.0 if class_weight is None else class_weight[label]
        total += weight * (log_sum - row[label])
        weight_sum += weight
    return total / weight_sum


def sparsity_loss(weights: Matrix, epsilon: float = 1e-8) -> float:
    return -math.fsum(p * math.log(p + epsilon) for row in weights for p in row) / len(weights)


def confidence_loss(weights: Matrix, candidate_labels: Sequence[int], y: Sequence[int]) -> float:
    agreeing = 0.0
    for i, row in enumerate(weights):
        for j, p in enumerate(row):
            agreeing += p if candidate_labels[j] == y[i] else 0.0
    return -agreeing / len(weights)


@dataclass(frozen=True)
class NaiveEncoded:
    queries: Matrix
    keys: Matrix
    values: Matrix


@dataclass(frozen=True)
class NaiveOutput:
    encoded: NaiveEncoded
    weights: Matrix
    mixture: Matrix
    logits: Mapping[float, Matrix]  # by alpha


@dataclass(frozen=True)
class NaiveProtoAttend:
    """The model around an encoder of one linear layer with ReLU; `parameters` are nested lists by name."""

    parameters: Mapping[str, Any]
    normalize: str
    free_keys: bool = False

    def encode(self, x: Matrix) -> NaiveEncoded:
        features = [relu(self._layer("encoder.1", row)) for row in x]
        keys = [relu(self._layer("key.0", f)) for f in features]
        gain, shift = self.parameters["value.2.weight"], self.parameters["value.2.bias"]
        return NaiveEncoded(
            queries=[relu(self._layer("query.0", f)) for f in features],
            keys=[key if self.free_keys else of_one_length(key) for key in keys],
            values=[layer_norm(relu(self._layer("value.0", f)), gain, shift) for f in features],
        )

    def decision(self, value: Vector) -> list[float]:
        return linear(value, self.parameters["decision.weight"])

    def forward(self, x: Matrix, keys: Matrix, values: Matrix, exclude: Sequence[Sequence[bool]]) -> NaiveOutput:
        encoded = self.encode(x)
        weights = [
            NORMALIZERS[self.normalize]([score(query, key) for key in keys], excluded)
            for query, excluded in zip(encoded.queries, exclude, strict=True)
        ]
        mixture = [mix(row, values) for row in weights]
        logits = {
            alpha: [
                # Eq. 2 to the letter: the convex combination goes through the decision.
                self.decision([(1 - alpha) * v + alpha * m for v, m in zip(own, mixed, strict=True)])
                for own, mixed in zip(encoded.values, mixture, strict=True)
            ]
            for alpha in (0.0, 0.5, 1.0)
        }
        return NaiveOutput(encoded, weights, mixture, logits)

    def _layer(self, name: str, x: Vector) -> list[float]:
        return linear(x, self.parameters[f"{name}.weight"], self.parameters[f"{name}.bias"])


def objective_loss(
    output: NaiveOutput,
    y: Sequence[int],
    *,
    objective: str,
    progress: float,
    class_weight: Vector | None = None,
) -> dict[float, float]:
    """The weighted cross entropies of an objective, by alpha."""
    return {
        alpha: weight * cross_entropy(output.logits[alpha], y, class_weight)
        for alpha, weight in OBJECTIVES[objective](progress).items()
    }
