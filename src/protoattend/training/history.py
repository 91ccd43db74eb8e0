"""What training saw, epoch by epoch, and its picture."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Metrics:
    """How good the model is on `n_samples` labelled samples: both accuracies, and prototypes for 95 % (median)."""

    n_samples: int
    self_accuracy: float
    prototype_accuracy: float
    median_prototypes: float
    dead_queries: float = 0.0  # share of inputs whose query is all zero, so that all candidates weigh the same

    def good_enough(self, best_accuracy: float) -> bool:
        """Return whether this later state is to be kept, though an earlier one may have been a little more accurate.

        Later states have learned at smaller steps. On small validation sets single samples decide who is best, so
        within one standard error the later one is kept.
        """
        error = (best_accuracy * (1 - best_accuracy) / self.n_samples) ** 0.5
        return self.prototype_accuracy >= best_accuracy - error


@dataclass(frozen=True)
class EpochRecord:
    """One epoch: mean loss of each term, time its steps took, and metrics where they were taken."""

    epoch: int
    seconds: float
    losses: Mapping[str, float]
    metrics: Metrics | None

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> EpochRecord:
        metrics = content.get("metrics", content.get("measures"))  # as they were called before
        own = {name: content[name] for name in ("epoch", "seconds", "losses")}
        return cls(**own, metrics=metrics and Metrics(**metrics))


@dataclass(frozen=True)
class History:
    """All epochs of one training, and which one was kept."""

    records: tuple[EpochRecord, ...]
    best_epoch: int

    def __len__(self) -> int:
        return len(self.records)

    def __iter__(self) -> Iterator[EpochRecord]:
        return iter(self.records)

    def __getitem__(self, epoch: int) -> EpochRecord:
        return self.records[epoch]

    @property
    def seconds(self) -> float:
        return sum(record.seconds for record in self.records)

    def plot(self, ax: Any = None) -> Any:
        """Draw the loss terms, and the validation accuracies on a second axis; return the axis."""
        from protoattend.viz.charts import draw_learning_curves

        epochs = [record.epoch for record in self.records]
        losses = {name: [record.losses[name] for record in self.records] for name in self.records[0].losses}
        measured = [(record.epoch, record.metrics) for record in self.records if record.metrics is not None]
        accuracies = {
            "self accuracy": [metrics.self_accuracy for _, metrics in measured],
            "prototype accuracy": [metrics.prototype_accuracy for _, metrics in measured],
        }
        validated = [epoch for epoch, _ in measured]
        best = self.best_epoch
        return draw_learning_curves(ax, epochs, losses, validated=validated, accuracies=accuracies, best_epoch=best)
