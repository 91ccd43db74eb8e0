"""The report's section on data: classes, columns, sizes and lengths, in training and in the rows reported on."""

from __future__ import annotations

from typing import Any

import numpy as np

from protoattend.app.report.measured import Measured
from protoattend.data.inputs import ImageInputs, TextInputs
from protoattend.data.ngrams import NgramInputs
from protoattend.data.tables import UNKNOWN, Column, TableInputs
from protoattend.viz.blocks import Block, Cell, Fact, Facts, Section, Table
from protoattend.viz.text import counted, percent, plain

MOST_CLASSES, MOST_COLUMNS = 20, 30  # that are listed
EXAMPLES = {"images": 4, "text": 1, "table": 0}  # of a class


def data_section(m: Measured) -> Section:
    """Return what the classifier was trained on, beside the rows of the report."""
    database, inputs = m.clf.database_, m.clf.inputs_
    counts = np.bincount(database.rows.labels.numpy(), minlength=len(m.clf.classes_))
    blocks: list[Block] = [Facts(_facts(m, counts)), _classes(m, counts)]
    if isinstance(inputs, TableInputs):
        blocks.append(_columns(m, inputs))
    lead = (
        f"The database holds {counted(len(database), 'row')} of {counted(len(counts), 'class', 'classes')}; the "
        f"largest has {percent(counts.max() / counts.sum())} of them, the smallest "
        f"{percent(counts.min() / counts.sum())}."
    )
    return Section("Data", lead, blocks)


def _facts(m: Measured, counts: np.ndarray) -> tuple[Fact, ...]:
    inputs, database = m.clf.inputs_, m.clf.database_
    edited = int(database.rows.edited.sum())
    rows = (
        f"of which {counted(edited, 'row was', 'rows were')} added or relabelled by hand"
        if edited
        else "all from training"
    )
    facts = [Fact("Candidates", f"{len(database):,}", rows), Fact("Classes", f"{len(counts):,}", _balance(counts))]
    if isinstance(inputs, TableInputs):
        kinds = [column.kind for column in inputs.columns]
        named = {"number": ("number", "numbers"), "category": ("category", "categories"), "date": ("date", "dates")}
        note = ", ".join(counted(kinds.count(kind), *named[kind]) for kind in named if kind in kinds)
        facts.append(Fact("Columns", f"{len(kinds):,}", note))
    elif isinstance(inputs, ImageInputs):
        colour = "grey" if inputs.channels == 1 else f"{inputs.channels} channels"
        facts.append(Fact("Images", f"{inputs.height} × {inputs.width}", f"pixels, {colour}"))
    else:
        facts.append(_lengths(m))
    if not m.own_rows:
        known = "" if m.labels is None else f"{counted(len(m.known), 'has', 'have')} a known class"
        facts.append(Fact("Rows reported on", f"{len(m):,}", known or "without labels"))
    return tuple(facts)


def _balance(counts: np.ndarray) -> str:
    present = counts[counts > 0]
    return f"{int(present.min()):,} to {int(present.max()):,} rows each"


def _lengths(m: Measured) -> Fact:
    source, inputs, note, limit = m.source, m.clf.inputs_, "read by a tokenizer", None
    if isinstance(inputs, NgramInputs):
        note = f"read as up to {inputs.length:,} of {len(inputs.vocabulary):,} known words, pairs and parts of words"
    elif isinstance(inputs, TextInputs):
        note, limit = f"read up to {inputs.length} characters", inputs.length
    if source is None:
        return Fact("Texts", f"{len(m):,}", note)
    lengths = np.array([len(text) for text in source])
    if limit and (lengths > limit).any():
        note += f"; {percent((lengths > limit).mean())} are longer"
    return Fact("Median length", f"{np.median(lengths):.0f}", f"characters; {note}")


def _classes(m: Measured, counts: np.ndarray) -> Table:
    """Return the classes, largest first, with rows in the database and in the report, and some samples."""
    kind = m.clf.inputs_.kind
    shown = np.argsort(-counts, kind="stable")[:MOST_CLASSES]
    here = None if m.own_rows or not m.labelled else np.bincount(m.labels[m.known], minlength=len(counts))  # type: ignore[index]
    samples = EXAMPLES[kind]
    columns = [
        "Class",
        "In the database",
        *(["In this report"] if here is not None else []),
        *(["Examples"] if samples else []),
    ]
    rows = []
    for c in shown:
        row: list[Cell | str] = [plain(m.clf.classes_[c]), Cell(f"{counts[c]:,}", bar=counts[c] / counts.max())]
        if here is not None:
            row.append(f"{here[c]:,}")
        if samples:
            row.append(Cell("", samples=tuple(_samples(m, int(c), samples))))
        rows.append(tuple(row))
    caption = "Rows of each class."
    if len(counts) > len(shown):
        rest = np.sort(counts)[: len(counts) - len(shown)]
        sizes = f"{int(rest.min()):,} to {int(rest.max()):,}"
        caption = f"The {len(shown)} largest classes; {len(rest):,} more have {sizes} rows."
    numbers = {1, 2} if here is not None else {1}
    return Table(caption, tuple(columns), tuple(rows), frozenset(numbers), kind)


def _samples(m: Measured, c: int, count: int) -> list[Any]:
    positions = np.flatnonzero(m.clf.database_.rows.labels.numpy() == c)
    spread = np.unique(np.linspace(0, len(positions) - 1, min(count, len(positions))).round().astype(int))
    return [m.clf.database_.preview_at(int(position)) for position in positions[spread]]


def _columns(m: Measured, inputs: TableInputs) -> Table:
    """Return the columns: what they hold, what is missing, and how far the report's rows lie from training."""
    trained = m.clf.database_.rows.source
    here = None if m.own_rows else m.source
    order = {name: place for place, name in enumerate(inputs.names)}
    places = sorted(range(len(inputs.columns)), key=lambda i: order[inputs.columns[i].name])
    shifts = {i: _shift(inputs.columns[i], trained[:, i], here[:, i]) if here is not None else 0.0 for i in places}
    caption = "Columns, with the share of missing or unknown values."
    if here is not None:
        caption += (
            " Shift is how far the mean of this report's rows lies from that of training, in standard deviations; of "
            "categories, the share of rows that would have to change."
        )
    if len(places) > MOST_COLUMNS:
        kept = sorted(places, key=lambda i: -abs(shifts[i]))[:MOST_COLUMNS]
        places = [i for i in places if i in set(kept)]
        what = "that shifted most" if here is not None else "first listed"
        caption += f" {MOST_COLUMNS} of {len(inputs.columns)} are shown, those {what}."
    rows = []
    for i in places:
        column = inputs.columns[i]
        row: list[Cell | str] = [column.name, column.kind, _holds(column), percent(_missing(column, trained[:, i]))]
        if here is not None:
            row += [
                percent(_missing(column, here[:, i])),
                f"{shifts[i]:+.2f}" if column.kind != "category" else f"{shifts[i]:.2f}",
            ]
        rows.append(tuple(row))
    columns = ("Column", "Kind", "In training", "Missing in training", "Missing here", "Shift")
    return Table(caption, columns if here is not None else columns[:4], tuple(rows), frozenset({3, 4, 5}))


def _holds(column: Column) -> str:
    if column.kind == "category":
        some = ", ".join(column.categories[:3]) + (", …" if len(column.categories) > 3 else "")
        return f"{counted(len(column.categories), 'category', 'categories')}: {some}"
    if column.kind == "date":
        return f"around {column.show(0.0)}"
    if column.log_offset is not None:
        return f"around {column.show(0.0)}"
    return f"{column.mean:.4g} ± {column.scale:.3g}"


def _missing(column: Column, values: np.ndarray) -> float:
    return float((values == UNKNOWN).mean() if column.kind == "category" else np.isnan(values).mean())


def _shift(column: Column, trained: np.ndarray, here: np.ndarray) -> float:
    if column.kind == "category":
        size = len(column.categories) + 1
        both = [np.bincount(part.astype(int), minlength=size) / len(part) for part in (trained, here)]
        return float(np.abs(both[0] - both[1]).sum() / 2)
    there, now = trained[~np.isnan(trained)], here[~np.isnan(here)]
    return float(now.mean() - there.mean()) if len(there) and len(now) else 0.0
