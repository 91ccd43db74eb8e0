"""The colours of every figure and page, and nowhere else: told apart in any common colour blindness, and on paper.

Blue is the one accent, for what agrees; orange is for what differs or is wrong, and never says so alone: it comes with
a sign, a dash or a hatching. Violet marks values of a table that differ.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

LIGHT: Mapping[str, str] = MappingProxyType(
    {
        "ground": "#f3f5f8",
        "card": "#ffffff",
        "ink": "#18212c",
        "quiet": "#5a6675",
        "line": "#dfe4ea",
        "track": "#e9edf2",
        "agrees": "#1767ac",
        "agrees-soft": "#e2eefa",
        "differs": "#b4460a",
        "differs-soft": "#fdeadc",
        "mark": "#dcebd0",
        "off": "#6a3fa0",
        "off-soft": "#f0e9f8",
    }
)
DARK: Mapping[str, str] = MappingProxyType(
    {
        "ground": "#11151b",
        "card": "#1a2028",
        "ink": "#e7ecf2",
        "quiet": "#9ba8b7",
        "line": "#2e3843",
        "track": "#2a333e",
        "agrees": "#6cb4f5",
        "agrees-soft": "#19324a",
        "differs": "#ffa063",
        "differs-soft": "#45290f",
        "mark": "#33492a",
        "off": "#c9a8f2",
        "off-soft": "#352a47",
    }
)

# Figures by matplotlib have a white ground, in a dark notebook too.
INK, QUIET, LINE, TRACK = LIGHT["ink"], LIGHT["quiet"], LIGHT["line"], LIGHT["track"]
AGREES, DIFFERS, OFF, OFF_SOFT = LIGHT["agrees"], LIGHT["differs"], LIGHT["off"], LIGHT["off-soft"]

# Colour and line style change together, so that curves are told apart without colours too.
LOOKS = ((AGREES, "-"), (DIFFERS, "--"), ("#2b7a4b", "-."), (OFF, (0, (1, 1.2))), ("#8a6d00", (0, (6, 1.5, 1, 1.5))))


def colour_of(agrees: bool) -> str:
    """Return the colour of what agrees with the prediction, or of what differs from it."""
    return AGREES if agrees else DIFFERS


def as_css(theme: Mapping[str, str]) -> str:
    """Return the colours as custom properties of a style sheet.

    >>> as_css({"ink": "#000000"})
    '--ink: #000000;'
    """
    return " ".join(f"--{name}: {colour};" for name, colour in theme.items())
