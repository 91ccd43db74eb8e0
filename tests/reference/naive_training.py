"""The paper's training in plain loops over single numbers: encoders, loss, gradient, clipping, decay and Adam.

It shares nothing with the library, nor with torch, and follows the text of the paper and of its Appendix A.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .scalars import Scalar, dot, exp, log, power, relu, sigmoid, tanh, total, value

Nested = Any  # numbers in lists in lists, as deep as a parameter has dimensions
Rows = Sequence[Sequence[Any]]
# From parameters, samples and what dropout has kept of each, to features: one pass of a batch.
Encode = Callable[[Mapping[str, Nested], Sequence[Any], Sequence[Nested]], list[list[Any]]]


def standardized(image: Sequence[Sequence[float]]) -> list[list[float]]:
    """One grey image with mean 0 and variance 1 over its own pixels."""
    pixels = [pixel for row in image for pixel in row]
    mean = math.fsum(pixels) / len(pixels)
    deviation = math.sqrt(math.fsum((pixel - mean) ** 2 for pixel in pixels) / len(pixels))
    deviation = max(deviation, 1 / math.sqrt(len(pixels)))
    return [[(pixel - mean) / deviation for pixel in row] for row in image]


def convolved(image: Rows, filter_: Rows) -> list[list[Any]]:
    """Every window of the image as large as the filter, times the filter."""
    tall, wide = len(filter_), len(filter_[0])
    weights = [weight for row in filter_ for weight in row]
    return [
        [
            dot(weights, [image[top + i][left + j] for i in range(tall) for j in range(wide)])
            for left in range(len(image[0]) - wide + 1)
        ]
        for top in range(len(image) - tall + 1)
    ]


def batch_norm(maps: Sequence[Rows], gain: Any, shift: Any) -> list[list[list[Any]]]:
    """The maps of one filter over a batch, by their own mean and variance."""
    numbers = [number for one in maps for row in one for number in row]
    mean = total(numbers) * (1 / len(numbers))
    variance = total([(number - mean) * (number - mean) for number in numbers]) * (1 / len(numbers))
    scale = gain * power(variance + 1e-5, -0.5)
    return [[[(number - mean) * scale + shift for number in row] for row in one] for one in maps]


def conv_encoder(parameters: Mapping[str, Nested], images: Sequence[Any], masks: Sequence[Nested]) -> list[list[Any]]:
    """Standardise each image by itself; convolution, batch norm by this batch, ReLU; features filter by filter."""
    ready = [standardized(image) for image in images]
    by_filter = []
    for number, (filter_,) in enumerate(parameters["encoder.body.0.weight"]):
        maps = [convolved(image, filter_) for image in ready]
        gain, shift = (parameters[f"encoder.body.1.{name}"][number] for name in ("weight", "bias"))
        by_filter.append(batch_norm(maps, gain, shift))
    return [
        [relu(number) for maps in by_filter for row in maps[i] for number in row] for i in range(len(images))
    ]  # fmt: skip


def lstm_encoder(parameters: Mapping[str, Nested], rows: Sequence[Any], masks: Sequence[Nested]) -> list[list[Any]]:
    """Appendix A.3: the embedded row, through dropout, at each of four timesteps; the last output, through dropout."""
    of = {name.removeprefix("encoder.body."): each for name, each in parameters.items()}
    features = []
    for row, at_steps, at_end in zip(rows, *masks, strict=True):
        embedded = [relu(number) for number in layer(row, of["embed.weight"], of["embed.bias"])]
        hidden: list[Any] = [0.0] * len(embedded)
        cell: list[Any] = [0.0] * len(embedded)
        for kept in at_steps:
            seen = [number * k for number, k in zip(embedded, kept, strict=True)]
            of_input = layer(seen, of["lstm.weight_ih_l0"], of["lstm.bias_ih_l0"])
            of_hidden = layer(hidden, of["lstm.weight_hh_l0"], of["lstm.bias_hh_l0"])
            gates = [a + b for a, b in zip(of_input, of_hidden, strict=True)]
            n = len(hidden)
            for k in range(n):
                let_in, keep, new, let_out = (gates[k + part * n] for part in range(4))
                cell[k] = sigmoid(keep) * cell[k] + sigmoid(let_in) * tanh(new)
                hidden[k] = sigmoid(let_out) * tanh(cell[k])
        features.append([number * k for number, k in zip(hidden, at_end, strict=True)])
    return features


def layer(x: Sequence[Any], weight: Rows, bias: Sequence[Any]) -> list[Any]:
    return [dot(row, x) + b for row, b in zip(weight, bias, strict=True)]


def layer_norm(x: Sequence[Any], gain: Sequence[Any], shift: Sequence[Any]) -> list[Any]:
    mean = total(x) * (1 / len(x))
    variance = total([(number - mean) * (number - mean) for number in x]) * (1 / len(x))
    scale = power(variance + 1e-5, -0.5)
    return [(number - mean) * scale * g + s for number, g, s in zip(x, gain, shift, strict=True)]


def softmax(scores: Mapping[int, Any]) -> dict[int, Any]:
    top = max(map(value, scores.values()))
    masses = {j: exp(score - top) for j, score in scores.items()}
    together = total(list(masses.values()))
    return {j: mass / together for j, mass in masses.items()}


def sparsemax(scores: Mapping[int, Any]) -> dict[int, Any]:
    """The largest k scores less one threshold, where the k-th is still above it; all others have no weight."""
    ordered = sorted(scores, key=lambda j: -value(scores[j]))
    support = 1
    for k in range(1, len(ordered) + 1):
        if 1 + k * value(scores[ordered[k - 1]]) > math.fsum(value(scores[j]) for j in ordered[:k]):
            support = k
    threshold = (total([scores[j] for j in ordered[:support]]) - 1) * (1 / support)
    return {j: scores[j] - threshold for j in ordered[:support]}


NORMALIZERS = {"softmax": softmax, "sparsemax": sparsemax}


def cross_entropy(logits: Sequence[Any], label: int) -> Any:
    top = max(map(value, logits))
    return log(total([exp(logit - top) for logit in logits])) + top - logits[label]


@dataclass(frozen=True)
class Drawn:
    """The samples of one pass, their labels, their rows in the training set, and what dropout kept of them."""

    samples: Sequence[Any]
    labels: Sequence[int]
    rows: Sequence[int]
    masks: Sequence[Nested] = ()


@dataclass(frozen=True)
class NaiveTraining:
    """How the paper trains: the last objective of Table 1, both regularisers, and Adam with exponential decay."""

    encode: Encode
    normalize: str
    lambda_sparse: float
    lambda_conf: float
    learning_rate: float
    rate: float
    every: int
    clip: float
    weight_decay: float
    filters: Sequence[str] = ()
    moments: dict[str, list[list[float]]] = field(default_factory=dict)

    def losses(self, parameters: Mapping[str, Nested], inputs: Drawn, candidates: Drawn) -> dict[str, Any]:
        """Sect. 3: attention of inputs to candidates, each encoded in a pass of its own, and the terms of the loss."""
        of_inputs = self.encode(parameters, inputs.samples, inputs.masks)
        of_candidates = self.encode(parameters, candidates.samples, candidates.masks)
        queries = [self._head(parameters, "query", features) for features in of_inputs]
        keys = [self._head(parameters, "key", features) for features in of_candidates]
        own, others = ([self._value(parameters, x) for x in part] for part in (of_inputs, of_candidates))
        names = ("self", "prototype", "joint", "sparse", "conf")
        parts: dict[str, list[Any]] = {name: [] for name in names}
        for query, v, y, row in zip(queries, own, inputs.labels, inputs.rows, strict=True):
            scores = {
                j: dot(key, query) * (1 / math.sqrt(len(query)))
                for j, key in enumerate(keys)
                if candidates.rows[j] != row
            }
            p = NORMALIZERS[self.normalize](scores)
            mixture = [dot(list(p.values()), [others[j][k] for j in p]) for k in range(len(v))]
            for name, alpha in (("self", 0.0), ("prototype", 1.0), ("joint", 0.5)):
                blend = [a * (1 - alpha) + b * alpha for a, b in zip(v, mixture, strict=True)]
                parts[name].append(cross_entropy([dot(w, blend) for w in parameters["decision.weight"]], y))
            parts["sparse"].append(total([-weight * log(weight + 1e-8) for weight in p.values()]) * self.lambda_sparse)
            agreeing = [weight for j, weight in p.items() if candidates.labels[j] == y]
            parts["conf"].append(total(agreeing) * -self.lambda_conf)
        return {name: total(terms) * (1 / len(terms)) for name, terms in parts.items()}

    def step(
        self, state: Mapping[str, Nested], inputs: Drawn, candidates: Drawn, number: int
    ) -> tuple[dict[str, float], dict[str, list[float]], dict[str, list[float]]]:
        """Return loss terms, gradient and parameters after step `number`, from 0, the latter two as flat lists."""
        parameters = {name: _wrapped(each) for name, each in state.items()}
        terms = self.losses(parameters, inputs, candidates)
        total(list(terms.values())).backward()
        flat = {name: _flat(each) for name, each in parameters.items()}
        gradient = {name: [number.grad for number in each] for name, each in flat.items()}
        norm = math.sqrt(math.fsum(g * g for each in gradient.values() for g in each))
        shrink = min(1.0, self.clip / (norm + 1e-6))
        rate = self.learning_rate * self.rate ** (number // self.every)
        after = {}
        for name, numbers in flat.items():
            decay = self.weight_decay if name in self.filters else 0.0
            m, v = self.moments.setdefault(name, [[0.0] * len(numbers), [0.0] * len(numbers)])
            moved = []
            for k, each in enumerate(numbers):
                g = shrink * gradient[name][k] + decay * each.value
                m[k] = 0.9 * m[k] + 0.1 * g
                v[k] = 0.999 * v[k] + 0.001 * g * g
                first, second = m[k] / (1 - 0.9 ** (number + 1)), v[k] / (1 - 0.999 ** (number + 1))
                moved.append(each.value - rate * first / (math.sqrt(second) + 1e-8))
            after[name] = moved
        return {name: value(term) for name, term in terms.items()}, gradient, after

    def _head(self, parameters: Mapping[str, Nested], name: str, features: Sequence[Any]) -> list[Any]:
        outputs = layer(features, parameters[f"{name}.0.weight"], parameters[f"{name}.0.bias"])
        return [relu(number) for number in outputs]

    def _value(self, parameters: Mapping[str, Nested], features: Sequence[Any]) -> list[Any]:
        gain, shift = parameters["value.2.weight"], parameters["value.2.bias"]
        return layer_norm(self._head(parameters, "value", features), gain, shift)


def _wrapped(nested: Nested) -> Nested:
    return [_wrapped(each) for each in nested] if isinstance(nested, list) else Scalar(nested)


def _flat(nested: Nested) -> list[Scalar]:
    return [number for each in nested for number in _flat(each)] if isinstance(nested, list) else [nested]
