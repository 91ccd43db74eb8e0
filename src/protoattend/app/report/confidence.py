"""The report's section on confidence: when to answer, with which threshold, and what a confidence means."""

from __future__ import annotations

import numpy as np

from protoattend.app.report.measured import Measured
from protoattend.errors import UserError
from protoattend.uncertainty.selective import guaranteed_threshold
from protoattend.viz.blocks import Block, Charts, Notice, Prose, Section, Table
from protoattend.viz.svg_charts import Operating, risk_coverage_chart
from protoattend.viz.text import goal, percent, precise

TARGETS = (0.9, 0.95, 0.98, 0.99, 0.995, 0.999)
GUARANTEE = 0.95


def confidence_section(m: Measured, accuracy: float) -> Section:
    """Return risk against coverage with the threshold for an accuracy, thresholds for others, and reliability."""
    seen, chosen = m.assessment, operating(m, accuracy)
    curve = seen.risk_coverage()
    risk = risk_coverage_chart(curve.risk_of_most_confident(), aurc=curve.aurc, chosen=chosen)
    blocks: list[Block] = [Charts((risk, seen.reliability().chart()))]
    if chosen is None:
        lead = (
            f"No threshold of confidence makes {goal(accuracy)} of the answers right on these rows; the best reaches "
            f"{precise(curve.accuracy.max())}."
        )
    else:
        lead = (
            f"To be right on {goal(accuracy)} of what it answers, the classifier answers where confidence is at least "
            f"{chosen.threshold:.3f}: {percent(chosen.coverage)} of these rows."
        )
        blocks.append(_guarantee(m, accuracy))
    blocks.append(_thresholds(m))
    if m.own_rows:
        blocks.append(
            Notice("Rows of the database flatter: the encoder was trained on them. Measure thresholds on other rows.")
        )
    return Section("Confidence", lead, blocks)


def operating(m: Measured, accuracy: float) -> Operating | None:
    """Return the lowest threshold that gives this accuracy on the rows, with what it gives; None where none does."""
    curve = m.assessment.risk_coverage()
    enough = np.flatnonzero(curve.accuracy >= accuracy)
    if len(enough) == 0:
        return None
    at = enough[-1]
    return Operating(float(curve.thresholds[at]), float(curve.coverage[at]), float(curve.risk[at]))


def _guarantee(m: Measured, accuracy: float) -> Prose:
    """Return what is proven beyond these rows."""
    seen = m.assessment
    chosen_here = "The threshold was chosen on the rows it is measured on, so it holds for these. "
    try:
        proven = guaranteed_threshold(seen.confidence, seen.correct, accuracy=accuracy, guarantee=GUARANTEE)
    except UserError:
        return Prose(
            f"{chosen_here}For new rows, none is proven at a level of {goal(GUARANTEE)}: there are too few rows, or "
            "too many errors among the most confident."
        )
    answered = seen.confidence >= proven
    return Prose(
        f"{chosen_here}For new rows of the same kind a threshold of {proven:g} is proven, at a level of "
        f"{goal(GUARANTEE)}: it answers {percent(answered.mean())} of these rows."
    )


def _thresholds(m: Measured) -> Table:
    curve = m.assessment.risk_coverage()
    rows = []
    for target in TARGETS:
        found = operating(m, target)
        if found is None:
            rows.append((goal(target), "none", "0 %", "", ""))
            continue
        answered = round(found.coverage * len(m.known))
        wrong = round(found.risk * answered)
        rows.append((goal(target), f"{found.threshold:.3f}", percent(found.coverage), f"{answered:,}", f"{wrong:,}"))
    caption = (
        f"The lowest threshold for an accuracy among the answers; all {int(curve.answered[-1]):,} rows without one."
    )
    columns = ("Accuracy wanted", "Confidence at least", "Answered", "Rows", "Wrong")
    return Table(caption, columns, tuple(rows), frozenset(range(1, 5)))
