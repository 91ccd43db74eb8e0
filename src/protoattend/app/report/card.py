"""The report's last section, the model card: what it was trained on, with which settings, and its limits."""

from __future__ import annotations

from typing import Any

import protoattend
from protoattend.app.report.measured import Measured
from protoattend.estimator import as_words, changed_settings
from protoattend.viz.blocks import Block, Pairs, Section
from protoattend.viz.text import counted, plain

ALWAYS = ("encoder", "normalize", "objective", "n_prototypes", "random_state")
LIMITS = {
    "Accuracy": "It was measured on the rows of this report. Rows of another origin, time or population may fare "
    "worse.",
    "Confidence": "It is the weight of the candidates that agree, not a probability that was proven; see the section "
    "on it for how the two compare here.",
    "Prototypes": "They say what the decision is computed from. That they look alike to a person is likely, not "
    "certain; they are no causes.",
    "Labels": "Only the classes listed can be predicted: a row of another class gets one of them too. Abstain where "
    "confidence is low or the row is out-of-distribution.",
    "Privacy": "This file shows training rows and rows of the report. Share it as you would share these.",
}


def _chosen(refitted: bool) -> str:
    return "temperatures, and then learned too" if refitted else "the epoch and temperatures"


def card_section(m: Measured) -> Section:
    """Return the model card."""
    clf, database = m.clf, m.clf.database_
    history = clf.history_
    kept = history[history.best_epoch].metrics
    what = {
        "Kind of input": {"images": "images", "text": "texts", "table": "rows of a table"}[clf.inputs_.kind],
        "Classes": _listed([plain(label) for label in clf.classes_]),
        "Trained on": counted(len(database), "row") + " that are now the database",
        "Held out": "none"
        if kept is None
        else f"{counted(kept.n_samples, 'row')}, to choose {_chosen(history.refitted)}",
        "Read from a file": _reading(clf.reading_),
        "Calibrated": "no" if clf.recalibration_ is None else "yes, on rows of its own",
        "Model": f"fingerprint {database.fingerprint[:16]}, "
        f"{counted(sum(p.numel() for p in clf.model_.parameters()), 'parameter')}",
        "Made with": f"protoattend {protoattend.__version__}",
    }
    params = clf.get_params(deep=False)
    settings = as_words({name: params[name] for name in ALWAYS} | changed_settings(clf))
    blocks: list[Block] = [Pairs("What it is", what), Pairs("Settings", settings), Pairs("Limits", LIMITS)]
    lead = "All that was set by hand, and all that is to be kept in mind; settings not listed are the defaults."
    return Section("Model card", lead, blocks)


def _reading(reading: dict[str, Any] | None) -> str:
    columns = {"labels": (reading or {}).get("target"), "texts": (reading or {}).get("text")}
    return ", ".join(f"{what} in column {name!r}" for what, name in columns.items() if name) or "no"


def _listed(names: list[str], most: int = 12) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")
