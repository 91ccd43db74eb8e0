"""The linear last layer under cross entropy: its gradients, its Hessian, its optimum, and the rows that matter most."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.special import log_softmax, softmax

BLOCK = 256  # inputs at a time whose scores of all training rows are held
NEWTON_STEPS = 100


def residuals(values: np.ndarray, weight: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """Return p - y `(n, C)`: the gradient of each row's cross entropy by its logits.

    The gradient by the weight is its outer product with the values.
    """
    return softmax(values @ weight.T, axis=1) - targets


def gradients(values: np.ndarray, errors: np.ndarray) -> np.ndarray:
    """Return the gradient of each row's loss by the weight, flattened `(n, C d)`."""
    return (errors[:, :, None] * values[:, None, :]).reshape(len(values), -1)


def hessian(values: np.ndarray, probabilities: np.ndarray) -> np.ndarray:
    """Return the mean over rows of the loss's second derivative by the weight `(C d, C d)`: (diag p - p p') x v v'."""
    n, d = values.shape
    n_classes = probabilities.shape[1]
    found = np.empty((n_classes, d, n_classes, d))
    for one in range(n_classes):
        for other in range(one, n_classes):
            curvature = probabilities[:, one] * ((one == other) - probabilities[:, other])
            block = values.T @ (values * curvature[:, None]) / n
            found[one, :, other, :] = block
            found[other, :, one, :] = block.T
    return found.reshape(n_classes * d, n_classes * d)


def solver(matrix: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    """Return what multiplies columns by the inverse of a positive definite matrix."""
    factor = cho_factor(matrix)
    return lambda columns: cho_solve(factor, columns)


def optimal_weight(values: np.ndarray, targets: np.ndarray, *, penalty: float) -> np.ndarray:
    """Return the weight `(C, d)` at which mean cross entropy + penalty * |weight|^2 is least: Newton's method.

    Targets `(n, C)` are probabilities. The loss is strictly convex, so each step goes down once it is short enough.
    """
    weight = np.zeros((targets.shape[1], values.shape[1]))

    def loss(at: np.ndarray) -> float:
        return float(-(targets * log_softmax(values @ at.T, axis=1)).sum(1).mean() + penalty * (at**2).sum())

    for _ in range(NEWTON_STEPS):
        probabilities = softmax(values @ weight.T, axis=1)
        slope = (probabilities - targets).T @ values / len(values) + 2 * penalty * weight
        if np.abs(slope).max() < 1e-12:
            break
        curvature = hessian(values, probabilities) + 2 * penalty * np.eye(weight.size)
        step = solver(curvature)(slope.ravel()).reshape(weight.shape)
        here, size, falls = loss(weight), 1.0, float((slope * step).sum())
        while loss(weight - size * step) > here - 1e-4 * size * falls and size > 1e-9:
            size /= 2
        weight = weight - size * step
        if falls < 1e-20:  # what is left to gain
            break
    return weight


def heaviest(
    scores_of: Callable[[np.ndarray], np.ndarray], values: np.ndarray, top: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows `(n, top)` of the highest scores, highest first, and as weights what of them is above 0.

    Where none is above 0, as where a gradient vanishes, all weigh the same: the order is all there is.
    """
    rows, weights = [], []
    for start in range(0, len(values), BLOCK):
        scores = scores_of(values[start : start + BLOCK])
        best = np.argsort(-scores, axis=1, kind="stable")[:, :top]
        above = np.maximum(np.take_along_axis(scores, best, axis=1), 0)
        rows.append(best)
        weights.append(np.where(above.sum(1, keepdims=True) > 0, above, 1.0))
    return np.concatenate(rows), np.concatenate(weights)
