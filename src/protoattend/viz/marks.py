"""The marks a figure is painted with, placed in inches: lines of text, boxes and pictures."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from typing import Any

import numpy as np

from protoattend.viz.palette import INK, TRACK
from protoattend.viz.png import LARGE, SMALL, shrink
from protoattend.viz.text import plain

SIZE = 9.0  # points of a line of text
MARGIN = 0.3  # inches around a figure


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


def inches(text: str, size: float = SIZE, *, bold: bool = False) -> float:
    """Estimate the width of a text: measuring needs a renderer, and an estimate is enough to place things."""
    return sum(map(_ems, text)) * size / 72 * (1.13 if bold else 1.0)


def _ems(letter: str) -> float:
    if unicodedata.east_asian_width(letter) in "WF":
        return 1.0
    if letter in "ijlI|.,:;'!()[]ft r-":
        return 0.36
    return 0.9 if letter in "mwMW@%" else 0.7 if letter.isupper() or not letter.isascii() else 0.62


def fit(text: str, width: float, size: float = SIZE, *, bold: bool = False) -> str:
    """Return the text on one line, cut with an ellipsis where it is wider than `width` inches."""
    line = " ".join(plain(text).split())
    if inches(line, size, bold=bold) <= width:
        return line
    while line and inches(line + "…", size, bold=bold) > width:
        line = line[:-1]
    return line + "…"


def wrap(text: str, width: float) -> list[str]:
    """Return the text in lines no wider than `width` inches; a word wider than that is cut."""
    lines = [""]
    for word in text.split(" "):
        if inches(f"{lines[-1]} {word}") <= width:
            lines[-1] = f"{lines[-1]} {word}".lstrip()
            continue
        lines.append("")
        for letter in word:
            if inches(lines[-1] + letter) > width:
                lines.append("")
            lines[-1] += letter
    return [line for line in lines if line]


def paint(axes: Any, block: Block, width: float) -> None:
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

    image = shrink(np.asarray(mark.image), LARGE)
    height, width = (mark.side * side / max(image.shape[:2]) for side in image.shape[:2])
    x, y = mark.x + (mark.side - width) / 2, mark.y + (mark.side - height) / 2
    look: dict[str, Any] = {"facecolor": TRACK, "linewidth": 2.5 if mark.frame else 0}
    look |= {"edgecolor": mark.frame or TRACK, "linestyle": (0, (3, 1.5)) if mark.dashed else "solid"}
    edge = 0.015 if mark.frame else 0.0  # the frame lies outside the square, where it covers no pixels
    corner, side = (mark.x - edge, mark.y - edge), mark.side + 2 * edge
    axes.add_patch(Rectangle(corner, side, side, clip_on=False, zorder=-1, **look))
    how = "nearest" if max(image.shape[:2]) < SMALL else "antialiased"
    axes.imshow(image, cmap="gray", vmin=0, vmax=255, extent=(x, x + width, y + height, y), interpolation=how)


PAINTERS: dict[type, Any] = {Words: _paint_words, Box: _paint_box, Picture: _paint_picture}
