"""What training saw, epoch by epoch, and its picture."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # what draws is imported when something is drawn
    from protoattend.viz.blocks import Chart


@dataclass(frozen=True)
class Metrics:
    """How good a model is on labelled samples.

    Parameters
    ----------
    n_samples : int
        How many there were.
    self_accuracy, prototype_accuracy : float
        Accuracy of the decision on an input's own value (alpha = 0 in eq. 2), and on its prototypes (alpha = 1).
    median_prototypes : float
        How many prototypes make 95 % of a decision, in the median.
    dead_queries : float, default=0.0
        Share of inputs whose query is all zero, so that all candidates weigh the same.

    Examples
    --------
    >>> metrics = Metrics(n_samples=100, self_accuracy=0.9, prototype_accuracy=0.89, median_prototypes=7.0)
    >>> metrics.good_enough(best_accuracy=0.9)
    True
    """

    n_samples: int
    self_accuracy: float
    prototype_accuracy: float
    median_prototypes: float
    dead_queries: float = 0.0

    def good_enough(self, best_accuracy: float) -> bool:
        """Return whether this later state is to be kept, though an earlier one may have been a little more accurate.

        Later states have learned at smaller steps. On small validation sets single samples decide who is best, so
        within one standard error the later one is kept.
        """
        error = (best_accuracy * (1 - best_accuracy) / self.n_samples) ** 0.5
        return self.prototype_accuracy >= best_accuracy - error


@dataclass(frozen=True)
class EpochRecord:
    """One epoch of a training.

    Parameters
    ----------
    epoch : int
        Its number, from 0.
    seconds : float
        How long its steps took.
    losses : dict {str: float}
        The mean of each term of the loss, by its name.
    metrics : Metrics or None
        On the rows held out, where there are any.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from protoattend import ProtoAttendClassifier
    >>> X, y = load_wine(return_X_y=True)
    >>> clf = ProtoAttendClassifier(max_epochs=2, random_state=0, verbose=0).fit(X, y)
    >>> record = clf.history_[0]
    >>> sorted(record.losses), record.metrics.n_samples
    (['joint', 'prototype', 'self'], 18)
    """

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
    """All epochs of one training, and which one was kept: a sequence of `EpochRecord`.

    Parameters
    ----------
    records : tuple of EpochRecord
        One for each epoch.
    best_epoch : int
        The number of the epoch whose parameters were kept, or found best where it is `refitted`.
    refitted : bool, default=False
        Whether all rows, those held out too, were learned after this training, for as many epochs (`Recipe.refit`). Of
        that nothing is recorded.
    settled : bool, default=False
        Whether queries and keys learned on when the encoder was trained (`Recipe.settle`), so that prototypes decide
        better than the records say.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from protoattend import ProtoAttendClassifier
    >>> X, y = load_wine(return_X_y=True)
    >>> clf = ProtoAttendClassifier(max_epochs=2, random_state=0, verbose=0).fit(X, y)
    >>> len(clf.history_), 0 <= clf.history_.best_epoch < 2
    (2, True)
    """

    records: tuple[EpochRecord, ...]
    best_epoch: int
    refitted: bool = False
    settled: bool = False

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> History:
        """Return what `asdict` made this of."""
        records = tuple(map(EpochRecord.from_json, content["records"]))
        return cls(
            records, content["best_epoch"], content.get("refitted", False), settled=content.get("settled", False)
        )

    def __len__(self) -> int:
        return len(self.records)

    def __iter__(self) -> Iterator[EpochRecord]:
        return iter(self.records)

    def __getitem__(self, epoch: int) -> EpochRecord:
        return self.records[epoch]

    @property
    def last_is_best(self) -> bool:
        """Whether the last epoch was kept, so that the schedule did no harm to its end."""
        return self.best_epoch == len(self) - 1

    @property
    def seconds(self) -> float:
        """How long the steps of all epochs took."""
        return sum(record.seconds for record in self.records)

    @property
    def outcome(self) -> str:
        """What became of the epochs, in words."""
        epoch = "then again with all rows" if self.refitted else f"epoch {self.best_epoch + 1} was kept"
        return f"{epoch}, and attention settled" if self.settled else epoch

    def plot(self, ax: Any = None) -> Any:
        """Draw the terms of the loss, and the accuracies on the rows held out on a second axis.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw; None makes a figure.

        Returns
        -------
        ax : matplotlib Axes

        Raises
        ------
        MissingExtra
            If matplotlib is not installed.

        Examples
        --------
        >>> from sklearn.datasets import load_wine
        >>> from protoattend import ProtoAttendClassifier
        >>> X, y = load_wine(return_X_y=True)
        >>> clf = ProtoAttendClassifier(max_epochs=2, random_state=0, verbose=0).fit(X, y)
        >>> ax = clf.history_.plot()
        >>> ax.get_xlabel()
        'epoch'
        """
        from protoattend.viz.charts import draw_learning_curves

        return draw_learning_curves(ax, **self._curves())

    def charts(self) -> tuple[Chart, ...]:
        """Return the same curves as reports and notebooks show them."""
        from protoattend.viz.svg_charts import learning_charts

        return learning_charts(**self._curves())

    def _curves(self) -> dict[str, Any]:
        measured = [(record.epoch, record.metrics) for record in self.records if record.metrics is not None]
        return {
            "epochs": [record.epoch for record in self.records],
            "losses": {name: [record.losses[name] for record in self.records] for name in self.records[0].losses},
            "validated": [epoch for epoch, _ in measured],
            "accuracies": {
                "own value": [metrics.self_accuracy for _, metrics in measured],
                "prototypes": [metrics.prototype_accuracy for _, metrics in measured],
            },
            "best_epoch": self.best_epoch,
        }
