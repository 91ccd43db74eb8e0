"""What a drift monitor reports: whether decisions have changed, and how."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np


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

    Attributes
    ----------
    n_seen : int
        How many samples it was fed.
    alarm_at : int or None
        The sample at which evidence reached 1 / false_alarm; the alarm stays.
    false_alarm : float
        The probability of ever raising an alarm while nothing has changed.
    evidence : float
        Of a change, as log10.
    signs : dict of str to float
        The capital won by betting on a change of the confidence, of the prototypes and of their classes, as log10; of
        classes it is that of the strongest divided by their number, and so is `evidence` of the signs
        (`monitoring.change_test` says why).
    n_recent : int
        Of how many samples the changes below are.
    confidence : Change
        The mean confidence, before (of the reference) and now (of the last samples).
    classes : tuple of Change
        The prototype weight on each class.
    prototypes : tuple of Change
        Those that took over most, named "#index (label)".

    Examples
    --------
    >>> change = Change("mean confidence", 0.95, 0.6)
    >>> report = DriftReport(100, 42, 0.01, 3.5, {"confidence": 3.9}, 100, change, (change,), ())
    >>> print(str(report).splitlines()[0])
    Drift: alarm at sample 42 of 100. Evidence 10^3.5, alarm at 10^2.0.
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
        """Whether the alarm was raised."""
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
        """Draw the prototypes that took over, with their share of the decisions before and now.

        Parameters
        ----------
        ax : matplotlib axis or None, default=None
            Where to draw; None makes a new figure.

        Returns
        -------
        matplotlib axis
        """
        from protoattend.viz.charts import draw_taken_over

        return draw_taken_over(ax, self.prototypes, n_recent=self.n_recent)
