"""The blocks that reports and notebook cells are made of; templates/blocks.html draws each by its `form`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from markupsafe import Markup

from protoattend.viz.decisions import ExplainedInputs
from protoattend.viz.text import plain


@dataclass(frozen=True)
class Fact:
    """One number in large letters, its name, and what is to be known with it."""

    name: str
    value: str
    note: str = ""


@dataclass(frozen=True)
class Facts:
    """A few numbers side by side."""

    items: tuple[Fact, ...]
    form: ClassVar[str] = "facts"


@dataclass(frozen=True)
class Prose:
    """A paragraph."""

    text: str
    form: ClassVar[str] = "prose"


@dataclass(frozen=True)
class Notice:
    """A paragraph that must not be missed: what limits all that is said."""

    text: str
    form: ClassVar[str] = "notice"


@dataclass(frozen=True)
class Heading:
    """A heading within a section."""

    text: str
    form: ClassVar[str] = "heading"


@dataclass(frozen=True)
class Chart:
    """A chart with its title, and the sentence that says in numbers what it shows."""

    title: str
    drawing: Markup
    sentence: str


@dataclass(frozen=True)
class Charts:
    """One chart, or two side by side."""

    items: tuple[Chart, ...]
    form: ClassVar[str] = "charts"


@dataclass(frozen=True)
class Cell:
    """A cell of a table: text, with a bar of this share of the cell's width below it, or samples to be shown.

    `shade` (from 0 to 1) colours the cell's ground; `samples` are what a person is shown of rows.
    """

    text: str
    bar: float | None = None
    shade: float = 0.0
    samples: tuple[Any, ...] = ()


@dataclass(frozen=True)
class Table:
    """A table: its caption, a heading for each column, and rows of cells, the first of which names the row.

    Columns of numbers, by their place, are set flush right. `kind` is that of samples in cells.
    """

    caption: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell | str, ...], ...]
    numbers: frozenset[int] = frozenset()
    kind: str = ""
    look: str = ""
    form: ClassVar[str] = "table"

    @property
    def cells(self) -> list[list[Cell]]:
        return [[cell if isinstance(cell, Cell) else Cell(plain(cell)) for cell in row] for row in self.rows]


@dataclass(frozen=True)
class Pairs:
    """Names with what is said of each, as in a card of a library."""

    caption: str
    items: Mapping[str, str]
    form: ClassVar[str] = "pairs"


@dataclass(frozen=True)
class Examples:
    """Explained decisions under a heading, with a sentence on how they were chosen; `names` is what rows are called."""

    title: str
    sentence: str
    explanations: ExplainedInputs
    names: tuple[str, ...]
    form: ClassVar[str] = "examples"


@dataclass(frozen=True)
class Link:
    """A link to another file beside this one."""

    text: str
    file: str
    form: ClassVar[str] = "link"


@dataclass(frozen=True)
class Legend:
    """How to read the explained decisions that follow, by the kind of input."""

    kind: str
    form: ClassVar[str] = "legend"


Block = Facts | Prose | Notice | Heading | Charts | Table | Pairs | Examples | Link | Legend


@dataclass(frozen=True)
class Section:
    """A part of a report: what it is called, the one sentence that sums it up, and its blocks."""

    title: str
    lead: str
    blocks: Sequence[Block]

    @property
    def anchor(self) -> str:
        return "".join(letter if letter.isalnum() else "-" for letter in self.title.lower())


@dataclass(frozen=True)
class Page:
    """A report: a title, what it is about, and sections."""

    title: str
    subtitle: str
    sections: Sequence[Section]
    footer: str = ""
