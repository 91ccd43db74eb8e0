"""Rows whose labels say how good what was said of them is, and whether one way is better than another."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

ERRORS = 2.0  # standard errors by which a gain is no chance
FEWEST = 10.0  # who count alike, or as many: of fewer, a standard error says little


@dataclass(frozen=True)
class Judges:
    """Rows of known labels `(n,)`, and how much each of them counts `(n,)`."""

    labels: Tensor
    weights: Tensor

    @property
    def count(self) -> float:
        """How many who count alike would know a mean as well (Kish)."""
        return float(self.weights.double().sum() ** 2 / self.weights.double().square().sum())

    def losses(self, logs: Tensor) -> Tensor:
        """Return minus the log likelihood of each row, given logarithms of shares `(n, C)`.

        A share of 1 / (n + 2) is of the other labels (the rule of succession): where all of n rows are right, that is
        how often one more may be wrong, and without it the best would be to be certain.
        """
        wrong = 1 / (float(self.weights.sum()) + 2)
        own = logs.gather(1, self.labels[:, None]).squeeze(1)
        others = (logs.sum(1) - own) / max(1, logs.shape[1] - 1)
        return -((1 - wrong) * own + wrong * others)

    def loss(self, logs: Tensor) -> float:
        """Return the mean of the losses of all rows."""
        return self._mean(self.losses(logs))

    def prefer(self, logs: Tensor, to: Tensor) -> bool:
        """Return whether they find these logarithms of shares better than others, by more than chance makes of it."""
        gains = self.losses(to) - self.losses(logs)
        gain = self._mean(gains)
        weights = self.weights.double()
        error = float((weights * (gains - gain)).norm()) / float(weights.sum())
        return self.count >= FEWEST and gain > ERRORS * error * (self.count / (self.count - 1)) ** 0.5

    def _mean(self, numbers: Tensor) -> float:
        return float(numbers.double() @ self.weights.double()) / float(self.weights.sum())
