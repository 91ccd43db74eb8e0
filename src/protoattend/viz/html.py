"""Explanations and reports as HTML: a page that works alone, a notebook's cell, or a report of many blocks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from protoattend.errors import choose
from protoattend.viz.blocks import Block, Examples, Page
from protoattend.viz.decisions import ExplainedInputs, shown_decision
from protoattend.viz.palette import DARK, LIGHT, as_css
from protoattend.viz.png import LARGE, SMALL, data_uri, shrink
from protoattend.viz.tables import compare
from protoattend.viz.text import INPUT_LENGTH, PROTOTYPE_LENGTH, excerpt, glued, highlight, percent, plain, words

THUMBNAIL, LINE_LENGTH = 96, 140  # pixels of an image and characters of a text in a table's cell


def page(explanations: ExplainedInputs, title: str) -> str:
    """Return one complete HTML page that needs nothing from outside."""
    return _render("page.html", explanations, title=plain(title))


def fragment(explanations: ExplainedInputs) -> str:
    """Return the same as a fragment for notebooks, whose styles touch nothing else."""
    return _render("fragment.html", explanations)


def report(content: Page) -> str:
    """Return a report as one complete HTML page that needs nothing from outside."""
    return _environment().get_template("report.html").render(page=content)


def cell(title: str, blocks: Sequence[Block]) -> str:
    """Return blocks as a fragment for notebooks, whose styles touch nothing else."""
    return _environment().get_template("cell.html").render(title=plain(title), blocks=blocks)


def _image_bodies(explanations: ExplainedInputs) -> list[list[dict[str, Any]]]:
    """Return for each decision the images of the input and of the prototypes."""
    return [[_picture(e.preview, LARGE), *(_picture(p.preview, LARGE) for p in e.prototypes)] for e in explanations]


def _picture(preview: Any, limit: int) -> dict[str, Any]:
    image = np.asarray(preview)
    return {"uri": data_uri(shrink(image, limit)), "small": max(image.shape[:2]) < SMALL}


def _text_bodies(explanations: ExplainedInputs) -> list[list[list[tuple[str, bool]]]]:
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


BODIES: dict[str, Callable[[ExplainedInputs], list[Any]]] = {
    "images": _image_bodies,
    "text": _text_bodies,
    "table": compare,
}


def _render(template: str, explanations: ExplainedInputs, *, names: Sequence[str] = (), **more: str) -> str:
    kind = choose(explanations.kind, BODIES, "kind of input")
    called = names or [f"Input {number}" for number in range(1, len(explanations) + 1)]
    decisions = list(zip(called, map(shown_decision, explanations), BODIES[kind](explanations), strict=True))
    return _environment().get_template(template).render(kind=kind, decisions=decisions, **more)


def _decisions(examples: Examples) -> Markup:
    """Return the decisions of a block, without styles and legend, which a report has once."""
    return Markup(_render("decisions.html", examples.explanations, names=examples.names))


def _sample(preview: Any, kind: str) -> dict[str, Any]:
    """Return a sample as a cell of a table shows it: an image in small, or one line of text."""
    if kind == "images":
        return _picture(preview, THUMBNAIL) | {"text": "training sample"}
    if isinstance(preview, dict):
        preview = ", ".join(f"{name} {value}" for name, value in preview.items())
    return {"uri": "", "small": False, "text": excerpt(preview, LINE_LENGTH)}


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("protoattend.viz"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"percent": percent, "glued": glued, "decisions": _decisions, "sample": _sample}
    colours = {"themes": {"light": LIGHT, "dark": DARK}, "light": Markup(as_css(LIGHT)), "dark": Markup(as_css(DARK))}
    environment.globals |= colours
    return environment
