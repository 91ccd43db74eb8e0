"""One self-contained HTML report of explanations, section by section."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from protoattend.explain.explanations import Explanations
from protoattend.files.writing import write_text
from protoattend.viz.html import report


@dataclass(frozen=True)
class Section:
    """A data set in the report: its question, the figures measured, and explanations under headings."""

    title: str
    question: str
    facts: dict[str, str]
    parts: tuple[tuple[str, Explanations], ...]


def write_report(path: Path, title: str, sections: list[Section]) -> Path:
    """Write the report to `path` and return it."""
    write_text(path, report(title, sections))
    return path
