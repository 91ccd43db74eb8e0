"""Explanations as HTML: a page that works alone, a notebook's cell, or a report of several parts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, Protocol

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from protoattend.errors import choose
from protoattend.viz.decisions import ExplainedInputs, shown_decision
from protoattend.viz.png import LARGE, SMALL, data_uri, shrink
from protoattend.viz.tables import compare
from protoattend.viz.text import INPUT_LENGTH, PROTOTYPE_LENGTH, excerpt, highlight, percent, plain, words


class ReportSection(Protocol):
    """A section of a report as it is handed in: what was asked, the figures measured, explanations by heading."""

    @property
    def title(self) -> str: ...
    @property
    def question(self) -> str: ...
    @property
    def facts(self) -> Mapping[str, str]: ...
    @property
    def parts(self) -> Sequence[tuple[str, ExplainedInputs]]: ...


def page(explanations: ExplainedInputs, title: str) -> str:
    """Return one complete HTML page that needs nothing from outside."""
    return _render("page.html", explanations, title=plain(title))


def fragment(explanations: ExplainedInputs) -> str:
    """Return the same as a fragment for notebooks, whose styles touch nothing else."""
    return _render("fragment.html", explanations)


def report(title: str, sections: Sequence[ReportSection]) -> str:
    """Return one complete HTML page of several sections; explanations of nothing are left out."""
    shown = [
        {
            "title": section.title,
            "question": section.question,
            "facts": section.facts,
            "parts": [(name, Markup(fragment(some))) for name, some in section.parts if len(some)],
        }
        for section in sections
    ]
    return _environment().get_template("report.html").render(title=title, sections=shown)


def _image_bodies(explanations: ExplainedInputs) -> list[list[dict[str, Any]]]:
    """Return for each decision the images of the input and of the prototypes."""

    def picture(preview: Any) -> dict[str, Any]:
        image = np.asarray(preview)
        return {"uri": data_uri(shrink(image, LARGE)), "small": max(image.shape[:2]) < SMALL}

    return [[picture(e.preview), *(picture(p.preview) for p in e.prototypes)] for e in explanations]


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


def _render(template: str, explanations: ExplainedInputs, **more: str) -> str:
    kind = choose(explanations.kind, BODIES, "kind of input")
    decisions = list(zip(map(shown_decision, explanations), BODIES[kind](explanations), strict=True))
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
