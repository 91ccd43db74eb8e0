"""What a person is shown of each decision, as HTML: a page that works alone, or a notebook's cell."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined

from protoattend.errors import choose
from protoattend.viz.png import data_uri, shrink

if TYPE_CHECKING:
    from protoattend.explain.explanations import Explanation, Explanations

SHARE = 0.95  # the share of a decision whose prototypes are counted
CLOSE, FAR = (
    0.25,
    1.0,
)  # in standard deviations of the values shown: nearer numbers are alike, others far apart
MOST_ROWS = 20  # features of a table in view; those that differ less are folded away
INPUT_LENGTH, PROTOTYPE_LENGTH = 600, 300  # characters of a text in view
SMALL, LARGE = 96, 320  # pixels: images below are enlarged with hard edges, images above are shrunk
WORD = re.compile(r"[^\W\d_]{4,}")
RULE = re.compile(r"([^\w\s])\1{3,}")  # a row of dashes or the like
UNSAFE = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]")  # neither HTML nor fonts have these


@dataclass(frozen=True)
class Shown:
    """One prototype as a person sees it; `agrees` says whether its label is the predicted one."""

    label: str
    weight: float
    index: int
    agrees: bool


@dataclass(frozen=True)
class Piece:
    """A piece of a decision: one prototype, or all those that are not shown."""

    weight: float
    agrees: bool
    what: str
    shown: bool = True


@dataclass(frozen=True)
class View:
    """One decision as a person sees it; the `more` fields are about the prototypes not shown."""

    prediction: str
    confidence: float
    n_needed: int
    label: str | None
    as_labelled: bool
    prototypes: tuple[Shown, ...]
    more: int
    more_weight: float
    more_agreeing: float

    @property
    def pieces(self) -> list[Piece]:
        """Return what the decision is made of; the agreeing pieces, first, add up to the confidence."""
        pieces = [Piece(p.weight, p.agrees, f"#{p.index}, {p.label}") for p in self.prototypes]
        if self.more:
            differing = self.more_weight - self.more_agreeing
            pieces.append(Piece(self.more_agreeing, True, "agreeing prototypes not shown", shown=False))
            pieces.append(Piece(differing, False, "other prototypes not shown", shown=False))
        return sorted((piece for piece in pieces if piece.weight > 0), key=lambda piece: not piece.agrees)


@dataclass(frozen=True)
class Cell:
    """A value of a table; `sign` tells how it differs from the input's; it is empty where they are alike."""

    text: str
    sign: str
    far: bool


@dataclass(frozen=True)
class Row:
    """One feature: the input's value and the cells of the prototypes."""

    name: str
    value: str
    cells: tuple[Cell, ...]
    difference: float


@dataclass(frozen=True)
class Comparison:
    """The features of one decision, in their own order: those that differ most, differ less, are alike."""

    most: list[Row]
    less: list[Row]
    alike: list[Row]


def page(explanations: Explanations, title: str) -> str:
    """Return one complete HTML page that needs nothing from outside."""
    return _render("page.html", explanations, title=plain(title))


def fragment(explanations: Explanations) -> str:
    """Return the same as a fragment for notebooks, whose styles touch nothing else."""
    return _render("fragment.html", explanations)


def view(explanation: Explanation) -> View:
    """Return what is shown of one decision, whatever its kind of input."""
    e = explanation
    shown = tuple(
        Shown(plain(p.label), float(p.weight), int(p.index), bool(p.label == e.prediction)) for p in e.prototypes
    )
    # Confidence is the weight of all that agree (eq. 3), so it also tells how much of those not shown does.
    more_weight = max(1.0 - sum(p.weight for p in shown), 0.0)
    more_agreeing = float(e.confidence) - sum(p.weight for p in shown if p.agrees)
    return View(
        prediction=plain(e.prediction),
        confidence=float(e.confidence),
        n_needed=e.n_prototypes(SHARE),
        label=None if e.label is None else plain(e.label),
        as_labelled=e.label is None or bool(e.label == e.prediction),
        prototypes=shown,
        more=max(int(np.count_nonzero(e.weights)) - len(shown), 0),
        more_weight=more_weight,
        more_agreeing=min(max(more_agreeing, 0.0), more_weight),
    )


def percent(share: float) -> str:
    """Return a share as percent, with a decimal where rounding would make it nothing or everything.

    >>> percent(0.5), percent(0.996), percent(0.0123), percent(0.0001)
    ('50 %', '99.6 %', '1.2 %', '< 0.1 %')
    """
    if 0 < share < 0.001:
        return "< 0.1 %"
    if share >= 0.9995 or share <= 0:
        return "100 %" if share > 0 else "0 %"
    return f"{100 * share:.1f} %" if share < 0.0995 or share >= 0.99 else f"{100 * share:.0f} %"


def plain(value: Any) -> str:
    """Return any label or text as a str without the characters that no page and no font can show."""
    return UNSAFE.sub("\N{REPLACEMENT CHARACTER}", str(value))


def excerpt(text: str, length: int) -> str:
    """Return the text on one line, without long rules, cut after a word at about `length` characters.

    >>> excerpt("A title\\n=======\\nand text", 40)
    'A title === and text'
    """
    line = RULE.sub(r"\1\1\1", " ".join(plain(text).split()))
    if len(line) <= length:
        return line or "(empty text)"
    cut = line[:length]
    return (cut.rsplit(" ", 1)[0] if " " in cut[length // 2 :] else cut) + " …"


def words(text: str) -> set[str]:
    """Return the words of a text worth comparing: four letters or more, without case, no function words."""
    from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

    return {word.casefold() for word in WORD.findall(text)} - ENGLISH_STOP_WORDS


def highlight(text: str, shared: set[str]) -> list[tuple[str, bool]]:
    """Return the text in pieces, each with whether it is a shared word.

    >>> highlight("Good wine.", {"wine"})
    [('Good ', False), ('wine', True), ('.', False)]
    """
    pieces, end = [], 0
    for match in WORD.finditer(text):
        if match.group().casefold() in shared:
            pieces += [(text[end : match.start()], False), (match.group(), True)]
            end = match.end()
    return [(piece, mark) for piece, mark in [*pieces, (text[end:], False)] if piece]


def compare(explanations: Iterable[Explanation], most_rows: int = MOST_ROWS) -> list[Comparison]:
    """Compare each input's features with its prototypes'; what is close is judged by all values shown."""
    items = list(explanations)
    previews = [row for e in items for row in (e.preview, *(p.preview for p in e.prototypes))]
    values: dict[str, list[float]] = defaultdict(list)
    for row in previews:
        for name, text in row.items():
            if (number := _number(text)) is not None:
                values[name].append(number)
    scales = {name: float(np.std(numbers)) for name, numbers in values.items()}
    return [_fold(_rows(e, scales), most_rows) for e in items]


def _rows(e: Explanation, scales: dict[str, float]) -> list[Row]:
    rows = []
    for name, value in e.preview.items():
        others = [p.preview.get(name, "(missing)") for p in e.prototypes]
        steps = [_step(value, other, scales.get(name, 0.0)) for other in others]
        cells = tuple(
            Cell(plain(other), _sign(value, other, step), step >= FAR)
            for other, step in zip(others, steps, strict=True)
        )
        difference = sum(p.weight * min(step, 3.0) for p, step in zip(e.prototypes, steps, strict=True))
        rows.append(Row(plain(name), plain(value), cells, difference))
    return rows


def _fold(rows: list[Row], most_rows: int) -> Comparison:
    differing = [row for row in rows if any(cell.sign for cell in row.cells)]
    furthest = sorted(differing, key=lambda row: -row.difference)[:most_rows]
    in_view = {id(row) for row in furthest}
    return Comparison(
        most=[row for row in differing if id(row) in in_view],
        less=[row for row in differing if id(row) not in in_view],
        alike=[row for row in rows if not any(cell.sign for cell in row.cells)],
    )


def _step(value: str, other: str, scale: float) -> float:
    """Return how far two values are apart: in standard deviations for numbers, 0 or 1 for anything else."""
    a, b = _number(value), _number(other)
    if a is None or b is None or scale == 0:
        return float(value != other)
    return abs(a - b) / scale


def _sign(value: str, other: str, step: float) -> str:
    a, b = _number(value), _number(other)
    if a is None or b is None:
        return "≠" if step else ""
    return "" if step <= CLOSE else "▲" if b > a else "▼"


def _number(text: str) -> float | None:
    try:
        number = float(text.replace(",", ""))
    except ValueError:
        return None
    return number if np.isfinite(number) else None


def _image_bodies(explanations: Explanations) -> list[list[dict[str, Any]]]:
    """Return for each decision the images of the input and of the prototypes."""

    def picture(preview: Any) -> dict[str, Any]:
        image = np.asarray(preview)
        return {"uri": data_uri(shrink(image, LARGE)), "small": max(image.shape[:2]) < SMALL}

    return [[picture(e.preview), *(picture(p.preview) for p in e.prototypes)] for e in explanations]


def _text_bodies(explanations: Explanations) -> list[list[list[tuple[str, bool]]]]:
    """Return for each decision the texts of the input and of the prototypes, their shared words marked."""
    bodies = []
    for e in explanations:
        texts = [excerpt(p.preview, PROTOTYPE_LENGTH) for p in e.prototypes]
        own = words(e.preview)
        theirs = set().union(*map(words, texts))
        bodies.append(
            [
                highlight(excerpt(e.preview, INPUT_LENGTH), own & theirs),
                *(highlight(text, own) for text in texts),
            ]
        )
    return bodies


BODIES: dict[str, Callable[[Explanations], list[Any]]] = {
    "images": _image_bodies,
    "text": _text_bodies,
    "table": compare,
}


def _render(template: str, explanations: Explanations, **more: str) -> str:
    kind = choose(explanations.kind, BODIES, "kind of input")
    decisions = list(zip(map(view, explanations), BODIES[kind](explanations), strict=True))
    return _environment().get_template(template).render(kind=kind, decisions=decisions, **more)


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("protoattend.viz"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["percent"] = percent
    return environment
