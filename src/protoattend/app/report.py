"""One self-contained HTML report of explanations, section by section."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from protoattend.explain.explanations import Explanations
from protoattend.viz.html import fragment


@dataclass(frozen=True)
class Section:
    """A data set in the report: its question, the figures measured, and explanations under headings."""

    title: str
    question: str
    facts: dict[str, str]
    parts: tuple[tuple[str, Explanations], ...]


def write_report(path: Path, title: str, sections: list[Section]) -> Path:
    """Write the report to `path` and return it."""
    environment = Environment(
        loader=PackageLoader("protoattend.app"), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    html = environment.get_template("report.html").render(
        title=title,
        sections=[
            {
                "title": section.title,
                "question": section.question,
                "facts": section.facts,
                "parts": [(name, Markup(fragment(some))) for name, some in section.parts if len(some)],
            }
            for section in sections
        ],
    )
    path.write_text(html, encoding="utf-8")
    return path
