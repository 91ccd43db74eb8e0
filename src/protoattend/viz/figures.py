"""Explanations as a matplotlib figure: every decision is laid out in inches, then painted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from protoattend.errors import MissingExtra, choose
from protoattend.viz.decisions import Decision, Entry, Explained, ExplainedInputs, shown_decision
from protoattend.viz.marks import MARGIN, Block, Box, Mark, Picture, Words, fit, inches, paint, wrap
from protoattend.viz.palette import AGREES, DIFFERS, LINE, OFF, OFF_SOFT, QUIET, TRACK, colour_of
from protoattend.viz.tables import Comparison, Row, compare
from protoattend.viz.text import INPUT_LENGTH, PROTOTYPE_LENGTH, excerpt, percent

SIZES = (13, 11, 9)  # points of a prediction: the first at which it has room
GAP, LEADING = 0.3, 0.19  # inches between decisions, and between lines of text
SIDE, INPUT_SIDE, PER_LINE = 1.2, 1.5, 6  # images
OWN_WIDTH, THEIR_WIDTH = 3.3, 5.9  # texts
NAME_WIDTH, CELL_WIDTH, ROW_HEIGHT, TABLE_ROWS = 1.9, 1.4, 0.23, 14


def draw(explanations: ExplainedInputs) -> Any:
    """Return a matplotlib Figure with one block for each decision, without touching the state of pyplot."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingExtra("matplotlib", "plot", "plotting explanations") from None
    kind = choose(explanations.kind, LAYOUTS, "kind of input")
    bodies: list[Any] = compare(explanations, TABLE_ROWS) if kind == "table" else list(explanations)
    decisions = enumerate(zip(map(shown_decision, explanations), bodies, strict=True), start=1)
    blocks = [LAYOUTS[kind](decision, body, f"Input {number}") for number, (decision, body) in decisions]
    blocks.insert(0, _legend(kind))
    width = max(block.width for block in blocks) + 2 * MARGIN
    height = sum(block.height for block in blocks) + GAP * (len(blocks) - 1) + 2 * MARGIN
    figure = Figure(figsize=(width, height), facecolor="white")
    top = MARGIN
    for number, block in enumerate(blocks):
        box = (0, 1 - (top + block.height) / height, 1, block.height / height)
        axes = figure.add_axes(box, label=f"input {number}" if number else "legend")
        paint(axes, block, width)
        top += block.height + GAP
    return figure


def _legend(kind: str) -> Block:
    parts = [("Prototypes: the training samples a decision rests on, heaviest first.", QUIET)]
    parts += [("✓ has the predicted label", AGREES), ("✗ has another label", DIFFERS)]
    parts += [("▲ ▼ ≠ differs from the input", OFF)] if kind == "table" else []
    marks: list[Mark] = []
    x = 0.0
    for text, colour in parts:
        marks.append(Words(x, 0.13, text, colour))
        x += inches(text) + 0.25
    return Block(marks, x - 0.25, 0.18)


def _image_block(decision: Decision, e: Explained, name: str) -> Block:
    below, left, step, tall = INPUT_SIDE + 0.6, INPUT_SIDE + 0.45, SIDE + 0.2, SIDE + 0.9
    facts, end = _facts(decision, 0, below + 0.3, left - 0.15)
    marks: list[Mark] = [
        Words(0, 0.13, f"{name}, predicted", QUIET),
        _prediction(decision, 0, 0.38, INPUT_SIDE),
        Picture(0, 0.48, INPUT_SIDE, e.preview),
        *_ribbon(decision, 0, below, INPUT_SIDE),
        *facts,
    ]
    for place, (shown, prototype) in enumerate(zip(decision.prototypes, e.prototypes, strict=True)):
        x, y = left + place % PER_LINE * step, 0.48 + place // PER_LINE * tall
        marks += [
            _signed(shown, x, y - 0.1, SIDE),
            Picture(x, y, SIDE, prototype.preview, frame=colour_of(shown.agrees), dashed=not shown.agrees),
            *_bar(shown, x, y + SIDE + 0.1, SIDE),
            _weight(shown, x, y + SIDE + 0.32),
        ]
    lines = max(-(-len(decision.prototypes) // PER_LINE), 1)
    foot = 0.3 + lines * tall
    marks += [Words(left, foot, text, QUIET) for text in _more(decision)]
    columns = min(max(len(decision.prototypes), 3), PER_LINE)
    return Block(marks, left + columns * step - 0.2, max(foot + 0.05, end - 0.1))


def _text_block(decision: Decision, e: Explained, name: str) -> Block:
    own = wrap(excerpt(e.preview, INPUT_LENGTH), OWN_WIDTH)
    left = OWN_WIDTH + 0.45
    facts, y = _facts(decision, left, 0.38, THEIR_WIDTH)
    marks: list[Mark] = [
        Words(0, 0.13, name, QUIET),
        *(Words(0, 0.38 + i * LEADING, line) for i, line in enumerate(own)),
        Words(left, 0.13, "predicted", QUIET),
        _prediction(decision, left + 0.75, 0.15, 1.5),
        *_ribbon(decision, left + 2.3, 0.04, THEIR_WIDTH - 2.3),
        *facts,
    ]
    y += 0.1
    for shown, prototype in zip(decision.prototypes, e.prototypes, strict=True):
        lines = wrap(excerpt(prototype.preview, PROTOTYPE_LENGTH), THEIR_WIDTH - 0.12)
        tall = 0.2 + len(lines) * LEADING
        marks += [
            Box(left, y - 0.13, 0.035, tall, colour_of(shown.agrees), hatched=not shown.agrees),
            _signed(shown, left + 0.12, y, 2.05),
            *_bar(shown, left + 2.3, y - 0.08, 1.8),
            _weight(shown, left + 4.25, y),
            *(Words(left + 0.12, y + 0.21 + i * LEADING, line) for i, line in enumerate(lines)),
        ]
        y += tall + 0.18
    marks += [Words(left, y, text, QUIET) for text in _more(decision)]
    return Block(marks, left + THEIR_WIDTH, max(y + 0.1, 0.3 + len(own) * LEADING))


def _table_block(decision: Decision, comparison: Comparison, name: str) -> Block:
    columns = [NAME_WIDTH + CELL_WIDTH * place for place in range(len(decision.prototypes) + 1)]
    width = columns[-1] + CELL_WIDTH
    facts, y = _facts(decision, 0, 0.4, NAME_WIDTH + CELL_WIDTH)
    marks: list[Mark] = [
        Words(0, 0.13, f"{name}, predicted", QUIET),
        _prediction(decision, 1.25, 0.15, NAME_WIDTH + CELL_WIDTH - 1.4),
        *_ribbon(decision, columns[0] + CELL_WIDTH, 0.04, 2 * CELL_WIDTH - 0.2),
        *facts,
    ]
    y += 0.16
    marks.append(Words(columns[0], y + 0.35, "input", bold=True))
    for x, shown in zip(columns[1:], decision.prototypes, strict=True):
        marks.append(_signed(shown, x, y, CELL_WIDTH - 0.15))
        marks += [*_bar(shown, x, y + 0.1, CELL_WIDTH - 0.2), _weight(shown, x, y + 0.35)]
    y += 0.45
    marks.append(Box(0, y - 0.015, width, 0.015, QUIET))
    for row in comparison.most or comparison.alike[:TABLE_ROWS]:
        marks += _row(row, columns, y)
        y += ROW_HEIGHT
        marks.append(Box(0, y - 0.012, width, 0.012, LINE))
    for text in [*_not_shown(comparison), *_more(decision)]:
        y += LEADING
        marks.append(Words(0, y, text, QUIET))
    return Block(marks, max(width, columns[0] + 3 * CELL_WIDTH), y + 0.08)


def _row(row: Row, columns: list[float], y: float) -> list[Mark]:
    """Return the marks of one feature whose upper edge is at y."""
    base, room = y + 0.155, CELL_WIDTH - 0.1
    marks: list[Mark] = [
        Words(0, base, fit(row.name, NAME_WIDTH - 0.1), QUIET),
        Words(columns[0], base, fit(row.value, room, bold=True), bold=True),
    ]
    for x, cell in zip(columns[1:], row.cells, strict=True):
        if cell.far:
            marks.append(Box(x - 0.06, y, CELL_WIDTH, ROW_HEIGHT - 0.012, OFF_SOFT))
        text = f"{cell.sign} {cell.text}" if cell.sign else cell.text
        marks.append(Words(x, base, fit(text, room), OFF if cell.sign else QUIET))
    return marks


def _not_shown(comparison: Comparison) -> list[str]:
    alike = comparison.alike if comparison.most else comparison.alike[TABLE_ROWS:]
    counts = [(len(comparison.less), "differ less"), (len(alike), "are alike")]
    told = " and ".join(f"{count} that {what}" for count, what in counts if count)
    return [f"Features not shown: {told}"] if told else []


def _prediction(decision: Decision, x: float, y: float, width: float) -> Words:
    """Return the prediction, in smaller letters where it is long."""
    fitting = (size for size in SIZES if inches(decision.prediction, size, bold=True) <= width)
    size = next(fitting, SIZES[-1])
    return Words(x, y, fit(decision.prediction, width, size, bold=True), size=size, bold=True)


def _facts(decision: Decision, x: float, y: float, width: float) -> tuple[list[Mark], float]:
    """Return the lines that sum up a decision, from baseline y on, and the baseline after the last."""
    plural = "" if decision.n_needed == 1 else "s"
    lines: list[Mark] = [
        Words(x, y, f"confidence {percent(decision.confidence)}", bold=True),
        Words(x, y + LEADING, f"{decision.n_needed:,} prototype{plural} for 95 %", QUIET),
        Words(x, y + 2 * LEADING, f"{percent(decision.agreement)} of their weight agrees", QUIET),
    ]
    if decision.label is not None:
        text = f"{'✓' if decision.as_labelled else '✗'} known label {decision.label}"
        lines.append(Words(x, y + 3 * LEADING, fit(text, width, bold=True), colour_of(decision.as_labelled), bold=True))
    return lines, y + len(lines) * LEADING


def _more(decision: Decision) -> list[str]:
    if not decision.prototypes:
        return ["No prototypes are shown."]
    return [f"and {decision.more:,} more with {percent(decision.more_weight)}"] if decision.more else []


def _ribbon(decision: Decision, x: float, y: float, width: float) -> list[Mark]:
    """Return the decision as one bar of its pieces; the agreeing ones come first and are the agreement."""
    marks: list[Mark] = [Box(x, y, width, 0.11, TRACK)]
    for piece in decision.pieces:
        length = width * piece.weight
        shown = max(length - 0.015, 0.005)
        marks.append(Box(x, y, shown, 0.11, colour_of(piece.agrees), not piece.agrees, not piece.shown))
        x += length
    return marks


def _bar(shown: Entry, x: float, y: float, width: float) -> list[Mark]:
    length = width * min(max(shown.weight, 0.01), 1.0)
    return [Box(x, y, width, 0.07, TRACK), Box(x, y, length, 0.07, colour_of(shown.agrees), not shown.agrees)]


def _signed(shown: Entry, x: float, y: float, width: float) -> Words:
    text = f"{'✓' if shown.agrees else '✗'} {shown.label}"
    return Words(x, y, fit(text, width, bold=True), colour_of(shown.agrees), bold=True)


def _weight(shown: Entry, x: float, y: float) -> Words:
    return Words(x, y, f"{percent(shown.weight)}   #{shown.index}")


Layout = Callable[[Decision, Any, str], Block]
LAYOUTS: dict[str, Layout] = {"images": _image_block, "text": _text_block, "table": _table_block}
