"""The report's section on training: learning curves, and what was kept."""

from __future__ import annotations

from protoattend.app.report.measured import Measured
from protoattend.viz.blocks import Charts, Fact, Facts, Section
from protoattend.viz.text import counted, precise


def training_section(m: Measured) -> Section:
    """Return how training went."""
    history = m.clf.history_
    kept = history[history.best_epoch].metrics
    facts = [
        Fact("Epochs", f"{len(history)}", history.outcome),
        Fact("Time of the steps", duration(history.seconds), f"{history.seconds / len(history):.2g} s an epoch"),
        Fact("Parameters", f"{sum(p.numel() for p in m.clf.model_.parameters()):,}", "encoder, attention and decision"),
    ]
    if kept is not None:
        note = f"of {counted(kept.n_samples, 'row')} held out, decided by prototypes"
        facts.insert(1, Fact("Right on rows held out", precise(kept.prototype_accuracy), note))
    lead = f"It was trained for {counted(len(history), 'epoch')} in {duration(history.seconds)}."
    if kept is None:
        lead += " No rows were held out, so the last epoch was kept and no accuracy was measured on the way."
    else:
        lead += (
            f" On {counted(kept.n_samples, 'row')} held out, prototypes decide {precise(kept.prototype_accuracy)} "
            f"rightly and the encoder's own values {precise(kept.self_accuracy)}, both before the number of "
            "prototypes was set."
        )
    if history.refitted:
        lead += " Then all rows were learned, those held out too, for as many epochs; that is what decides here."
    if history.settled:
        lead += (
            " In the end queries and keys learned on while the encoder stood still, and prototypes told the labels of "
            "the rows held out better than before."
        )
    return Section("Training", lead, [Facts(tuple(facts)), Charts(history.charts())])


def duration(seconds: float) -> str:
    """Return a time as a person says it.

    >>> duration(0.84), duration(75), duration(8000)
    ('0.8 s', '75 s', '2.2 h')
    """
    if seconds < 10:
        return f"{seconds:.1f} s"
    return (
        f"{seconds:.0f} s"
        if seconds < 120
        else f"{seconds / 60:.0f} min"
        if seconds < 7200
        else f"{seconds / 3600:.1f} h"
    )
