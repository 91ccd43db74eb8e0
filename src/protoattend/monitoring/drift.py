"""Drift: a monitor that is fed with batches, raises an alarm when decisions have changed, and says how they have."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from protoattend.errors import BadFile, UserError
from protoattend.folders import atomic_folder, read_meta, write_json
from protoattend.monitoring.change_test import ChangeTest
from protoattend.monitoring.usage import ARRAYS, PrototypeUsage
from protoattend.uncertainty.checks import require_share

WHAT, VERSION = "protoattend drift monitor", 1
FEWEST = 20  # reference samples
SIGNS = ("confidence", "familiarity of prototypes", "classes of prototypes")
TRAIL = ("n_seen", "mean confidence", "evidence", *SIGNS)  # columns; evidence as log10


@dataclass(frozen=True)
class Change:
    """A share of the decisions, before (reference) and now (recent samples)."""

    name: str
    before: float
    now: float

    def __str__(self) -> str:
        return f"{self.name} {100 * self.before:.1f} % -> {100 * self.now:.1f} %"


@dataclass(frozen=True)
class DriftReport:
    """What a monitor has seen: whether decisions changed, since when that is proven, and what is different.

    `signs` are the capital won by betting on a change of each, as log10; of classes it is that of the strongest divided
    by their number, and so is `evidence` of the signs (`monitoring.change_test` says why). The alarm is raised when
    evidence reaches 1 / false_alarm, and stays; `alarm_at` is the sample that raised it. `classes` is the prototype
    weight on each class, `prototypes` those that took over most, named "#index (label)".
    """

    n_seen: int
    alarm_at: int | None
    false_alarm: float
    evidence: float
    signs: dict[str, float]
    n_recent: int
    confidence: Change
    classes: tuple[Change, ...]
    prototypes: tuple[Change, ...]

    @property
    def alarm(self) -> bool:
        return self.alarm_at is not None

    def __str__(self) -> str:
        limit = -np.log10(self.false_alarm)
        found = f"Drift: alarm at sample {self.alarm_at:,}" if self.alarm_at is not None else "No drift so far"
        lines = [f"{found} of {self.n_seen:,}. Evidence 10^{self.evidence:.1f}, alarm at 10^{limit:.1f}."]
        strongest = max(self.signs, key=lambda name: self.signs[name])
        lines.append(f"Strongest sign: {strongest} (10^{self.signs[strongest]:.1f}).")
        lines.append(f"Of the last {self.n_recent:,} samples: {self.confidence}")
        moved = sorted(self.classes, key=lambda change: -abs(change.now - change.before))[:3]
        lines.append(f"Classes of prototypes: {', '.join(map(str, moved))}")
        lines.append(f"Prototypes that took over: {', '.join(map(str, self.prototypes[:5])) or 'none'}")
        return "\n".join(lines)

    def plot(self, ax: Any = None) -> Any:
        """Draw the prototypes that took over, with their share of the decisions before and now; return the axis."""
        from protoattend.viz.charts import draw_taken_over

        return draw_taken_over(ax, self.prototypes, n_recent=self.n_recent)


class DriftMonitor:
    """Watches decisions for change against a reference, sample by sample, in batches of any size.

    Three signs are tested, each at a third of `false_alarm`: the confidence; how familiar the prototypes are, that is
    how much the reference used them; and the weight on each class. While new samples come independently from the
    distribution of the reference, the probability that an alarm is *ever* raised is at most `false_alarm`, however long
    it watches (`monitoring.change_test`).

    The reference must not be training data: the model is more confident of that than of anything new. One half of it
    tells which prototypes are familiar and the other half what is to be expected, so that both are fair to new samples.
    New samples join the latter; after an alarm, or an edit of the database, begin again with a new reference.
    """

    def __init__(
        self, reference: PrototypeUsage, *, false_alarm: float = 0.01, recent: int = 300, seed: int = 0
    ) -> None:
        require_share(false_alarm, "false_alarm", below_one=True)
        if len(reference) < FEWEST:
            raise UserError(f"a reference must have at least {FEWEST} samples, but has {len(reference)}; use more.")
        if recent < 1:
            raise UserError(f"recent must be at least 1, but got {recent}; it is how many samples are summed up.")
        self.false_alarm = false_alarm
        self.recent = recent
        self.alarm_at: int | None = None
        self._generator = np.random.default_rng(seed)
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
        return self._test.n_tested

    @property
    def alarm(self) -> bool:
        return self.alarm_at is not None

    @property
    def trail(self) -> dict[str, np.ndarray]:
        """After each batch: samples seen, its mean confidence, and log10 of the evidence and of each sign."""
        return dict(zip(TRAIL, self._trail.T, strict=True))

    def update(self, usage: PrototypeUsage) -> DriftReport:
        """Take in a batch of decisions and return the state of things."""
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
        """Return what the samples seen so far say; some must have been."""
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
        """Draw the evidence of change over the samples seen, with the limit of the alarm; return the axis."""
        from protoattend.viz.charts import draw_drift_evidence

        n_seen, _, evidence, *signs = self._trail.T
        by_name = dict(zip(SIGNS, signs, strict=True))
        alarm_at, false_alarm = self.alarm_at, self.false_alarm
        return draw_drift_evidence(ax, n_seen, evidence, signs=by_name, false_alarm=false_alarm, alarm_at=alarm_at)

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write the whole state into `folder`, wholly or not at all; a loaded monitor goes on as if never stopped."""
        # "usual" is what version 1 of the format calls the familiar prototypes.
        arrays = {"trail": self._trail, "usual_indices": self._familiar[0], "usual_shares": self._familiar[1]}
        arrays |= {name: getattr(self._test, name) for name in ("seen", "log_capital", "shares")}
        for kind, usage in (("reference", self._reference), ("recent", self._recent)):
            arrays |= {f"{kind}.{name}": getattr(usage, name) for name in ARRAYS}
        meta = {
            "what": WHAT,
            "version": VERSION,
            "classes": list(self._reference.classes),
            "false_alarm": self.false_alarm,
            "recent": self.recent,
            "alarm_at": self.alarm_at,
            "n_seen": self.n_seen,
            "generator": self._generator.bit_generator.state,
        }
        with atomic_folder(folder) as fresh:
            save_file(
                {name: np.ascontiguousarray(value) for name, value in arrays.items()}, fresh / "state.safetensors"
            )
            write_json(fresh / "meta.json", meta)

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> DriftMonitor:
        """Read a saved monitor."""
        path = Path(folder)
        meta = read_meta(path, WHAT, VERSION)
        try:
            arrays = load_file(path / "state.safetensors")
            reference, recent = (
                PrototypeUsage(**{name: arrays[f"{kind}.{name}"] for name in ARRAYS}, classes=tuple(meta["classes"]))
                for kind in ("reference", "recent")
            )
            monitor = cls(reference, false_alarm=meta["false_alarm"], recent=meta["recent"])
            monitor.alarm_at, monitor._recent, monitor._trail = meta["alarm_at"], recent, arrays["trail"]
            monitor._familiar = arrays["usual_indices"], arrays["usual_shares"]
            monitor._test = ChangeTest(arrays["seen"], arrays["log_capital"], arrays["shares"], meta["n_seen"])
            monitor._generator.bit_generator.state = meta["generator"]
        except (OSError, SafetensorError, KeyError) as error:
            raise BadFile(f"{path} must hold a drift monitor, but cannot be read ({error}); restore it.") from None
        return monitor


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
