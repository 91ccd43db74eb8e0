"""The report's section on the use of the database: which candidates carry the decisions, and which classes do."""

from __future__ import annotations

import numpy as np

from protoattend.app.report.measured import Measured
from protoattend.viz.blocks import Block, Cell, Fact, Facts, Section, Table
from protoattend.viz.text import counted, percent, plain, precise

MOST = 10  # candidates that are listed


def database_section(m: Measured) -> Section:
    """Return which candidates decisions rest on most."""
    database, usage, deciding = m.clf.database_, m.decided.usage, m.decided.deciding
    used = int((deciding > 0).sum())
    heaviest = np.argsort(-usage, kind="stable")[:MOST]
    typical = int(database.deciding.sum())
    facts = (
        Fact("Used at least once", percent(used / len(usage)), f"{used:,} of {counted(len(usage), 'candidate')}"),
        Fact("May decide", percent(typical / len(usage)), "typical candidates, whose value argues for their label"),
        Fact(
            "Most used candidate",
            precise(float(usage.max())),
            f"of all weight, in {percent(deciding.max() / len(m))} of decisions",
        ),
        Fact("Temperature", f"{database.temperature:.3g}", "lower means fewer prototypes"),
    )
    rows = tuple(
        (
            f"#{database.rows.ids[i]}",
            plain(database.labels[i]),
            Cell(precise(float(usage[i])), bar=float(usage[i] / usage.max())),
            f"{deciding[i]:,}",
            Cell("", samples=(database.preview_at(int(i)),)),
        )
        for i in heaviest
        if usage[i] > 0
    )
    caption = f"The {len(rows)} candidates that carry most of these decisions."
    columns = ("Row", "Label", "Share of all weight", "Decisions", "Sample")
    blocks: list[Block] = [Facts(facts), Table(caption, columns, rows, frozenset({2, 3}), m.clf.inputs_.kind)]
    lead = (
        f"{percent(used / len(usage))} of the candidates take part in these {counted(len(m), 'decision')}; the ten "
        f"most used carry {percent(float(usage[heaviest].sum()))} of all weight. Few rows that decide everything "
        "would be a sign of hubness."
    )
    return Section("Use of the database", lead, blocks)
