"""Explanations as a matplotlib figure: every decision is laid out in inches, then painted."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from protoattend.errors import MissingExtra, choose
from protoattend.viz import html
from protoattend.viz.html import Comparison, Row, Shown, View, excerpt, percent
from protoattend.viz.png import shrink

if TYPE_CHECKING:
    from protoattend.explain.explanations import Explanation, Explanations

INK, QUIET, LINE, TRACK = "#18212c", "#5a6675", "#dfe4ea", "#e9edf2"
AGREES, DIFFERS, OFF, OFF_SOFT = "#1767ac", "#b4460a", "#6a3fa0", "#f0e9f8"
SIZE, SIZES = 9.0, (13, 11, 9)  # points, of all text and of a prediction
MARGIN, GAP, LEADING = 0.3, 0.3, 0.19  # inches: around the figure, between decisions, between lines of text
SIDE, INPUT_SIDE, PER_LINE = 1.2, 1.5, 6  # images
OWN_WIDTH, THEIR_WIDTH = 3.3, 5.9  # texts
NAME_WIDTH, CELL_WIDTH, ROW_HEIGHT, TABLE_ROWS = 1.9, 1.4, 0.23, 14


@dataclass(frozen=True)
class Words:
    """A line of text whose baseline is at `y`."""

    x: float
    y: float
    text: str
    colour: str = INK
    size: float = SIZE
    bold: bool = False


@dataclass(frozen=True)
class Box:
    """A filled box; a hatched one is for what disagrees, so that it is told without its colour too."""

    x: float
    y: float
    width: float
    height: float
    colour: str
    hatched: bool = False
    faint: bool = False


@dataclass(frozen=True)
class Picture:
    """An image in a square, with a frame where it has a colour."""

    x: float
    y: float
    side: float
    image: Any  # an array, or a file that becomes one
    frame: str = ""
    dashed: bool = False


Mark = Words | Box | Picture


@dataclass(frozen=True)
class Block:
    """One decision laid out, or the legend."""

    marks: list[Mark]
    width: float
    height: float


def draw(explanations: Explanations) -> Any:
    """Return a matplotlib Figure with one block for each decision, without touching the state of pyplot."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingExtra("matplotlib", "plot", "plotting explanations") from None
    kind = choose(explanations.kind, LAYOUTS, "kind of input")
    bodies: list[Any] = html.compare(explanations, TABLE_ROWS) if kind == "table" else list(explanations)
    decisions = enumerate(zip(map(html.view, explanations), bodies, strict=True), start=1)
    blocks = [LAYOUTS[kind](decision, body, f"Input {number}") for number, (decision, body) in decisions]
    blocks.insert(0, _legend(kind))
    width = max(block.width for block in blocks) + 2 * MARGIN
    height = sum(block.height for block in blocks) + GAP * (len(blocks) - 1) + 2 * MARGIN
    figure = Figure(figsize=(width, height), facecolor="white")
    top = MARGIN
    for number, block in enumerate(blocks):
        box = (0, 1 - (top + block.height) / height, 1, block.height / height)
        axes = figure.add_axes(box, label=f"input {number}" if number else "legend")
        _paint(axes, block, width)
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
        x += _inches(text) + 0.25
    return Block(marks, x - 0.25, 0.18)


def _image_block(decision: View, e: Explanation, name: str) -> Block:
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
            Picture(x, y, SIDE, prototype.preview, frame=_colour(shown.agrees), dashed=not shown.agrees),
            *_bar(shown, x, y + SIDE + 0.1, SIDE),
            _weight(shown, x, y + SIDE + 0.32),
        ]
    lines = max(-(-len(decision.prototypes) // PER_LINE), 1)
    foot = 0.3 + lines * tall
    marks += [Words(left, foot, text, QUIET) for text in _more(decision)]
    columns = min(max(len(decision.prototypes), 3), PER_LINE)
    return Block(marks, left + columns * step - 0.2, max(foot + 0.05, end - 0.1))


def _text_block(decision: View, e: Explanation, name: str) -> Block:
    own = _wrap(excerpt(e.preview, html.INPUT_LENGTH), OWN_WIDTH)
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
        lines = _wrap(excerpt(prototype.preview, html.PROTOTYPE_LENGTH), THEIR_WIDTH - 0.12)
        tall = 0.2 + len(lines) * LEADING
        marks += [
            Box(left, y - 0.13, 0.035, tall, _colour(shown.agrees), hatched=not shown.agrees),
            _signed(shown, left + 0.12, y, 2.05),
            *_bar(shown, left + 2.3, y - 0.08, 1.8),
            _weight(shown, left + 4.25, y),
            *(Words(left + 0.12, y + 0.21 + i * LEADING, line) for i, line in enumerate(lines)),
        ]
        y += tall + 0.18
    marks += [Words(left, y, text, QUIET) for text in _more(decision)]
    return Block(marks, left + THEIR_WIDTH, max(y + 0.1, 0.3 + len(own) * LEADING))


def _table_block(decision: View, comparison: Comparison, name: str) -> Block:
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
    for text in [*_not_in_view(comparison), *_more(decision)]:
        y += LEADING
        marks.append(Words(0, y, text, QUIET))
    return Block(marks, max(width, columns[0] + 3 * CELL_WIDTH), y + 0.08)


def _row(row: Row, columns: list[float], y: float) -> list[Mark]:
    """Return the marks of one feature whose upper edge is at y."""
    base, room = y + 0.155, CELL_WIDTH - 0.1
    marks: list[Mark] = [
        Words(0, base, _fit(row.name, NAME_WIDTH - 0.1), QUIET),
        Words(columns[0], base, _fit(row.value, room, bold=True), bold=True),
    ]
    for x, cell in zip(columns[1:], row.cells, strict=True):
        if cell.far:
            marks.append(Box(x - 0.06, y, CELL_WIDTH, ROW_HEIGHT - 0.012, OFF_SOFT))
        text = f"{cell.sign} {cell.text}" if cell.sign else cell.text
        marks.append(Words(x, base, _fit(text, room), OFF if cell.sign else QUIET))
    return marks


def _not_in_view(comparison: Comparison) -> list[str]:
    alike = comparison.alike if comparison.most else comparison.alike[TABLE_ROWS:]
    counts = [(len(comparison.less), "differ less"), (len(alike), "are alike")]
    told = " and ".join(f"{count} that {what}" for count, what in counts if count)
    return [f"Features not shown: {told}"] if told else []


def _prediction(decision: View, x: float, y: float, width: float) -> Words:
    """Return the prediction, in smaller letters where it is long."""
    fitting = (size for size in SIZES if _inches(decision.prediction, size, bold=True) <= width)
    size = next(fitting, SIZES[-1])
    return Words(x, y, _fit(decision.prediction, width, size, bold=True), size=size, bold=True)


def _facts(decision: View, x: float, y: float, width: float) -> tuple[list[Mark], float]:
    """Return the lines that sum up a decision, from baseline y on, and the baseline after the last."""
    plural = "" if decision.n_needed == 1 else "s"
    lines: list[Mark] = [
        Words(x, y, f"confidence {percent(decision.confidence)}", bold=True),
        Words(x, y + LEADING, f"{decision.n_needed:,} prototype{plural} for 95 %", QUIET),
    ]
    if decision.label is not None:
        text = f"{'✓' if decision.as_labelled else '✗'} known label {decision.label}"
        lines.append(Words(x, y + 2 * LEADING, _fit(text, width, bold=True), _colour(decision.as_labelled), bold=True))
    return lines, y + len(lines) * LEADING


def _more(decision: View) -> list[str]:
    if not decision.prototypes:
        return ["No prototypes are shown."]
    return [f"and {decision.more:,} more with {percent(decision.more_weight)}"] if decision.more else []


def _ribbon(decision: View, x: float, y: float, width: float) -> list[Mark]:
    """Return the decision as one bar of its pieces; the agreeing ones come first and are the confidence."""
    marks: list[Mark] = [Box(x, y, width, 0.11, TRACK)]
    for piece in decision.pieces:
        length = width * piece.weight
        shown = max(length - 0.015, 0.005)
        marks.append(Box(x, y, shown, 0.11, _colour(piece.agrees), not piece.agrees, not piece.shown))
        x += length
    return marks


def _bar(shown: Shown, x: float, y: float, width: float) -> list[Mark]:
    length = width * min(max(shown.weight, 0.01), 1.0)
    return [Box(x, y, width, 0.07, TRACK), Box(x, y, length, 0.07, _colour(shown.agrees), not shown.agrees)]


def _signed(shown: Shown, x: float, y: float, width: float) -> Words:
    text = f"{'✓' if shown.agrees else '✗'} {shown.label}"
    return Words(x, y, _fit(text, width, bold=True), _colour(shown.agrees), bold=True)


def _weight(shown: Shown, x: float, y: float) -> Words:
    return Words(x, y, f"{percent(shown.weight)}   #{shown.index}")


def _colour(agrees: bool) -> str:
    return AGREES if agrees else DIFFERS


def _inches(text: str, size: float = SIZE, *, bold: bool = False) -> float:
    """Estimate the width of a text: measuring needs a renderer, and an estimate is enough to place things."""
    return sum(map(_ems, text)) * size / 72 * (1.13 if bold else 1.0)


def _ems(letter: str) -> float:
    if unicodedata.east_asian_width(letter) in "WF":
        return 1.0
    if letter in "ijlI|.,:;'!()[]ft r-":
        return 0.36
    return 0.9 if letter in "mwMW@%" else 0.7 if letter.isupper() or not letter.isascii() else 0.62


def _fit(text: str, width: float, size: float = SIZE, *, bold: bool = False) -> str:
    """Return the text on one line, cut with an ellipsis where it is wider than `width` inches."""
    line = " ".join(html.plain(text).split())
    if _inches(line, size, bold=bold) <= width:
        return line
    while line and _inches(line + "…", size, bold=bold) > width:
        line = line[:-1]
    return line + "…"


def _wrap(text: str, width: float) -> list[str]:
    """Return the text in lines no wider than `width` inches; a word wider than that is cut."""
    lines = [""]
    for word in text.split(" "):
        if _inches(f"{lines[-1]} {word}") <= width:
            lines[-1] = f"{lines[-1]} {word}".lstrip()
            continue
        lines.append("")
        for letter in word:
            if _inches(lines[-1] + letter) > width:
                lines.append("")
            lines[-1] += letter
    return [line for line in lines if line]


def _paint(axes: Any, block: Block, width: float) -> None:
    """Paint the marks of a block; one unit of the axes is one inch, downwards from the top."""
    axes.set_axis_off()
    for mark in block.marks:
        PAINTERS[type(mark)](axes, mark)
    axes.set(xlim=(-MARGIN, width - MARGIN), ylim=(block.height, 0), aspect="auto")


def _paint_words(axes: Any, mark: Words) -> None:
    weight = "bold" if mark.bold else "normal"
    # Without parse_math=False a text with two dollar signs would be typeset as a formula.
    axes.text(mark.x, mark.y, mark.text, color=mark.colour, size=mark.size, weight=weight, parse_math=False)


def _paint_box(axes: Any, mark: Box) -> None:
    from matplotlib.patches import Rectangle

    look: dict[str, Any] = {"facecolor": mark.colour, "alpha": 0.5 if mark.faint else 1.0, "linewidth": 0}
    if mark.hatched:
        look |= {"facecolor": "white", "edgecolor": mark.colour, "hatch": "////////"}
    axes.add_patch(Rectangle((mark.x, mark.y), mark.width, mark.height, clip_on=False, **look))


def _paint_picture(axes: Any, mark: Picture) -> None:
    from matplotlib.patches import Rectangle

    image = shrink(np.asarray(mark.image), html.LARGE)
    height, width = (mark.side * side / max(image.shape[:2]) for side in image.shape[:2])
    x, y = mark.x + (mark.side - width) / 2, mark.y + (mark.side - height) / 2
    look: dict[str, Any] = {"facecolor": TRACK, "linewidth": 2.5 if mark.frame else 0}
    look |= {"edgecolor": mark.frame or TRACK, "linestyle": (0, (3, 1.5)) if mark.dashed else "solid"}
    edge = 0.015 if mark.frame else 0.0  # the frame lies outside the square, where it covers no pixels
    corner, side = (mark.x - edge, mark.y - edge), mark.side + 2 * edge
    axes.add_patch(Rectangle(corner, side, side, clip_on=False, zorder=-1, **look))
    how = "nearest" if max(image.shape[:2]) < html.SMALL else "antialiased"
    axes.imshow(image, cmap="gray", vmin=0, vmax=255, extent=(x, x + width, y + height, y), interpolation=how)


Layout = Callable[[View, Any, str], Block]
LAYOUTS: dict[str, Layout] = {"images": _image_block, "text": _text_block, "table": _table_block}
PAINTERS: dict[type, Any] = {Words: _paint_words, Box: _paint_box, Picture: _paint_picture}
