"""Drift: a monitor that is fed with batches, raises an alarm when decisions have changed, and says how they have."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from protoattend.arguments import check_count, check_path, check_seed
from protoattend.errors import BadFile, UserError
from protoattend.files.known import MONITOR
from protoattend.files.meta import read_meta, write_meta
from protoattend.files.writing import described, require_as_described, write_tensors
from protoattend.folders import atomic_folder, read_whole
from protoattend.monitoring.change_test import ChangeTest
from protoattend.monitoring.drift_report import Change, DriftReport
from protoattend.monitoring.usage import ARRAYS, PrototypeUsage
from protoattend.uncertainty.checks import check_share

__all__ = ["DriftMonitor", "DriftReport"]

VERSION = 1
STATE = "state.safetensors"
FEWEST = 20  # reference samples
SIGNS = ("confidence", "familiarity of prototypes", "classes of prototypes")
TRAIL = ("n_seen", "mean confidence", "evidence", *SIGNS)  # columns; evidence as log10


class DriftMonitor:
    """Watches decisions for change against a reference, sample by sample, in batches of any size.

    Parameters
    ----------
    reference : PrototypeUsage
        Of at least 20 decisions as they should be; `ProtoAttendClassifier.drift_monitor` makes it of rows.
    false_alarm : float, default=0.01
        The probability of ever raising an alarm while nothing changes, above 0 and below 1.
    recent : int, default=300
        How many of the last samples a report sums up.
    seed : int, default=0
        Of the halves of the reference, and of ties.

    Attributes
    ----------
    alarm_at : int or None
        The sample that raised the alarm, counted from 1.
    false_alarm, recent
        As passed.

    Raises
    ------
    UserError
        Where a parameter is out of range, or the reference too small.

    Notes
    -----
    Three signs are tested, each at a third of `false_alarm`: the confidence; how familiar the prototypes are, that is
    how much the reference used them; and the weight on each class. While new samples come independently from the
    distribution of the reference, the probability that an alarm is *ever* raised is at most `false_alarm`, however long
    it watches (`monitoring.change_test`).

    The reference must not be training data: the model is more confident of that than of anything new. One half of it
    tells which prototypes are familiar and the other half what is to be expected, so that both are fair to new samples.
    New samples join the latter; after an alarm, or an edit of the database, begin again with a new reference.

    Examples
    --------
    >>> from protoattend.monitoring.usage import PrototypeUsage
    >>> def usage(level: float, n: int = 200) -> PrototypeUsage:
    ...     confidence = np.clip(np.random.default_rng(0).normal(level, 0.05, n), 0, 1)
    ...     mass, one = np.column_stack([confidence, 1 - confidence]), np.zeros((n, 1), dtype=int)
    ...     return PrototypeUsage(confidence, mass, one, one, np.ones((n, 1)), ("cat", "dog"))
    >>> monitor = DriftMonitor(usage(0.8))
    >>> monitor.update(usage(0.5)).alarm
    True
    """

    def __init__(
        self, reference: PrototypeUsage, *, false_alarm: float = 0.01, recent: int = 300, seed: int = 0
    ) -> None:
        _require_usage(reference, "reference")
        if len(reference) < FEWEST:
            raise UserError(f"a reference must have at least {FEWEST} samples, but has {len(reference)}; use more.")
        self.false_alarm = check_share(false_alarm, "false_alarm", below_one=True)
        self.recent = check_count(recent, "recent")
        self.alarm_at: int | None = None
        self._generator = np.random.default_rng(check_seed(seed, "seed"))
        order = self._generator.permutation(len(reference))
        familiar, expected = order[: len(order) // 2], order[len(order) // 2 :]
        self._reference = reference
        self._familiar = reference.at(familiar).shares()
        n_classes = len(reference.classes)
        shares = np.array([1, 1, *[1 / n_classes] * n_classes]) / len(SIGNS)
        self._test = ChangeTest.start(_scores(reference.at(expected), self._familiar), shares)
        self._recent = reference.at(slice(0, 0))
        self._trail = np.zeros((0, len(TRAIL)))

    @property
    def n_seen(self) -> int:
        """How many samples it was fed."""
        return self._test.n_tested

    @property
    def alarm(self) -> bool:
        """Whether the alarm was raised."""
        return self.alarm_at is not None

    @property
    def trail(self) -> dict[str, np.ndarray]:
        """After each batch: samples seen, its mean confidence, and log10 of the evidence and of each sign."""
        return dict(zip(TRAIL, self._trail.T, strict=True))

    def update(self, usage: PrototypeUsage) -> DriftReport:
        """Take in a batch of decisions.

        Parameters
        ----------
        usage : PrototypeUsage
            Of at least one decision; `ProtoAttendClassifier.prototype_usage` makes it of rows.

        Returns
        -------
        DriftReport

        Raises
        ------
        UserError
            Where the batch is empty, or of a classifier of other classes.
        """
        _require_usage(usage, "usage")
        if len(usage) == 0:
            raise UserError("a batch must have at least one sample, but it is empty; leave it out.")
        if usage.classes != self._reference.classes:
            raise UserError(
                f"a batch must be of the classifier that made the reference, of classes {self._reference.classes[:9]}, "
                f"but it has {usage.classes[:9]}; begin a new monitor."
            )
        n_before = self.n_seen
        self._test, evidence, alone = self._test.after(_scores(usage, self._familiar), self._generator)
        over = np.flatnonzero(evidence >= -np.log(self.false_alarm))
        if self.alarm_at is None and len(over):
            self.alarm_at = n_before + int(over[0]) + 1
        of_confidence, of_prototypes, *by_class = alone[-1]
        logs = [evidence[-1], of_confidence, of_prototypes, max(by_class) - np.log(len(by_class))]
        row = [self.n_seen, usage.confidence.mean(), *np.array(logs) / np.log(10)]
        self._trail = np.concatenate([self._trail, [row]])
        self._recent = self._recent.followed_by(usage).at(slice(-self.recent, None))
        return self.report()

    def report(self) -> DriftReport:
        """Return what the samples seen so far say.

        Returns
        -------
        DriftReport

        Raises
        ------
        UserError
            Where there have been none.
        """
        if self.n_seen == 0:
            raise UserError("a report needs samples, but the monitor has seen none; call update with a batch first.")
        old, new = self._reference, self._recent
        mass = zip(old.classes, old.class_mass.mean(0), new.class_mass.mean(0), strict=True)
        return DriftReport(
            n_seen=self.n_seen,
            alarm_at=self.alarm_at,
            false_alarm=self.false_alarm,
            evidence=float(self._trail[-1, 2]),
            signs=dict(zip(SIGNS, self._trail[-1, 3:].tolist(), strict=True)),
            n_recent=len(new),
            confidence=Change("mean confidence", float(old.confidence.mean()), float(new.confidence.mean())),
            classes=tuple(Change(name, float(before), float(now)) for name, before, now in mass),
            prototypes=_took_over(old, new),
        )

    def plot(self, ax: Any = None) -> Any:
        """Draw the evidence of change over the samples seen, with the limit of the alarm.

        Parameters
        ----------
        ax : matplotlib axis or None, default=None
            Where to draw; None makes a new figure.

        Returns
        -------
        matplotlib axis
        """
        from protoattend.viz.charts import draw_drift_evidence

        n_seen, _, evidence, *signs = self._trail.T
        by_name = dict(zip(SIGNS, signs, strict=True))
        alarm_at, false_alarm = self.alarm_at, self.false_alarm
        return draw_drift_evidence(ax, n_seen, evidence, signs=by_name, false_alarm=false_alarm, alarm_at=alarm_at)

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write the whole state into a folder, wholly or not at all; a loaded monitor goes on as if never stopped.

        Parameters
        ----------
        folder : str or path
            New, empty, or saved into before.
        """
        # "usual" is what version 1 of the format calls the familiar prototypes.
        arrays = {"trail": self._trail, "usual_indices": self._familiar[0], "usual_shares": self._familiar[1]}
        arrays |= {name: getattr(self._test, name) for name in ("seen", "log_capital", "shares")}
        for kind, usage in (("reference", self._reference), ("recent", self._recent)):
            arrays |= {f"{kind}.{name}": getattr(usage, name) for name in ARRAYS}
        meta = {
            "what": MONITOR,
            "version": VERSION,
            "classes": list(self._reference.classes),
            "false_alarm": self.false_alarm,
            "recent": self.recent,
            "alarm_at": self.alarm_at,
            "n_seen": self.n_seen,
            "generator": self._generator.bit_generator.state,
        }
        contiguous = {name: np.ascontiguousarray(value) for name, value in arrays.items()}
        with atomic_folder(folder, MONITOR) as fresh:
            write_tensors(fresh / STATE, lambda path: save_file(contiguous, path))
            write_meta(fresh, meta | {"files": {STATE: described(fresh / STATE)}})

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> DriftMonitor:
        """Read a saved monitor.

        Parameters
        ----------
        folder : str or path

        Returns
        -------
        DriftMonitor

        Raises
        ------
        BadFile
            Where the folder holds no monitor, or a file is damaged.
        """
        path = Path(check_path(folder, "folder"))
        return read_whole(path, lambda: cls._load(path))

    @classmethod
    def _load(cls, path: Path) -> DriftMonitor:
        meta = read_meta(path, MONITOR, VERSION)
        require_as_described(path, meta.get("files", {}))
        try:
            arrays = load_file(path / STATE)
            reference, recent = (
                PrototypeUsage(**{name: arrays[f"{kind}.{name}"] for name in ARRAYS}, classes=tuple(meta["classes"]))
                for kind in ("reference", "recent")
            )
            monitor = cls(reference, false_alarm=meta["false_alarm"], recent=meta["recent"])
            monitor.alarm_at, monitor._recent, monitor._trail = meta["alarm_at"], recent, arrays["trail"]
            monitor._familiar = arrays["usual_indices"], arrays["usual_shares"]
            monitor._test = ChangeTest(arrays["seen"], arrays["log_capital"], arrays["shares"], meta["n_seen"])
            monitor._generator.bit_generator.state = meta["generator"]
        except (OSError, SafetensorError, KeyError, ValueError, TypeError, IndexError) as error:
            raise BadFile(f"{path} must hold a drift monitor, but cannot be read ({error}); restore it.") from None
        return monitor


def _require_usage(usage: Any, name: str) -> None:
    if not isinstance(usage, PrototypeUsage):
        raise UserError(
            f"{name} must be what prototype_usage(X) returns, but got {type(usage).__name__}; call it with your rows."
        )


def _scores(usage: PrototypeUsage, familiar: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    """Return the scores to be tested `(n, 2 + C)`: confidence, familiarity of the prototypes, mass on each class."""
    return np.column_stack([usage.confidence, familiarity(usage, *familiar), usage.class_mass])


def familiarity(usage: PrototypeUsage, indices: np.ndarray, shares: np.ndarray) -> np.ndarray:
    """Return how familiar the prototypes of each decision are `(n,)`: the weighted mean of the log of their shares.

    `indices` are those of the familiar prototypes, ascending; one that is not among them counts as half the rarest.
    """
    place = np.searchsorted(indices, usage.indices).clip(max=len(indices) - 1)
    known = indices[place] == usage.indices
    logs = np.log(np.where(known, shares[place], shares.min() / 2))
    return (usage.weights * logs).sum(1) / usage.weights.sum(1)


def _took_over(old: PrototypeUsage, new: PrototypeUsage, top: int = 20) -> tuple[Change, ...]:
    """Return the prototypes whose share of the decisions grew most."""
    before = dict(zip(*(column.tolist() for column in old.shares()), strict=True))
    grown = [(now - before.get(index, 0.0), index, now) for index, now in zip(*new.shares(), strict=True)]
    largest = sorted(grown, key=lambda change: (-change[0], change[1]))[:top]
    return tuple(
        Change(f"#{index} ({new.label_of(index)})", before.get(index, 0.0), float(now))
        for growth, index, now in largest
        if growth > 0
    )
