"""What notebooks show of a classifier, an assessment and a database: the blocks of reports, one cell each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from protoattend.viz.blocks import Block, Cell, Chart, Charts, Fact, Facts, Pairs, Table
from protoattend.viz.html import cell
from protoattend.viz.svg_charts import interval, risk_coverage_chart
from protoattend.viz.text import counted, percent, plain, precise

MOST_CLASSES = 12  # that are listed


def classifier_cell(
    facts: Mapping[str, tuple[str, str]], charts: Sequence[Chart], settings: Mapping[str, str], *, title: str
) -> str:
    """Return a fitted classifier: numbers by name with a note each, learning curves, and settings that were changed."""
    items = tuple(Fact(name, value, note) for name, (value, note) in facts.items())
    blocks: list[Block] = [Facts(items), Charts(tuple(charts))]
    if settings:
        blocks.append(Pairs("Settings that are not the defaults", settings))
    return cell(title, blocks)


def assessment_cell(
    name: str, metrics: Mapping[str, float], risk: np.ndarray, *, aurc: float, reliability: Chart
) -> str:
    """Return an assessment: its metrics, the risk `(n,)` of the k most confident rows, and reliability."""
    n = len(risk)
    low, high = interval(round(metrics["accuracy"] * n), n)
    facts = (
        Fact(
            "Right",
            precise(metrics["accuracy"]),
            f"of {counted(n, 'row')}; 95 % interval {precise(low)} to {precise(high)}",
        ),
        Fact("Answered at 99 % right", percent(metrics["coverage_at_accuracy_99"]), "of the rows, by a threshold"),
        Fact("Right of the most confident 90 %", precise(metrics["accuracy_at_coverage_90"])),
        Fact("Calibration error", precise(metrics["ece"]), "of the confidence, in the mean over bins"),
    )
    charts = Charts((risk_coverage_chart(risk, aurc=aurc, chosen=None), reliability))
    return cell(f"Assessment of {plain(name)}" if name else "Assessment", [Facts(facts), charts])


def database_cell(
    classes: np.ndarray, counts: np.ndarray, *, edited: int, sample: Callable[[int], Any], kind: str
) -> str:
    """Return a database: how many candidates each class has, largest first, each with the `sample` of its number."""
    order = np.argsort(-counts, kind="stable")[:MOST_CLASSES]
    rows = []
    for c in order:
        shown = sample(int(c))
        samples = () if shown is None else (shown,)
        size = Cell(f"{counts[c]:,}", bar=float(counts[c] / max(counts.max(), 1)))
        rows.append((plain(classes[c]), size, Cell("", samples=samples)))
    caption = "Candidates of each class."
    if len(classes) > len(order):
        caption = f"The {len(order)} largest of {len(classes)} classes."
    facts = (
        Fact("Candidates", f"{int(counts.sum()):,}", f"{edited:,} added or relabelled by hand" if edited else ""),
        Fact("Classes", f"{len(classes):,}"),
    )
    table = Table(caption, ("Class", "Candidates", "Example"), tuple(rows), frozenset({1}), kind)
    return cell("Candidate database", [Facts(facts), table])
