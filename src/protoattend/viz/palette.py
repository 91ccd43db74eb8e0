"""The colours of every figure; the pages have the same ones in templates/style.html."""

from __future__ import annotations

INK, QUIET, LINE, TRACK = "#18212c", "#5a6675", "#dfe4ea", "#e9edf2"
AGREES, DIFFERS, OFF, OFF_SOFT = "#1767ac", "#b4460a", "#6a3fa0", "#f0e9f8"

# Colour and line style change together, so that curves are told apart without colours too.
LOOKS = ((AGREES, "-"), (DIFFERS, "--"), ("#2b7a4b", "-."), (OFF, (0, (1, 1.2))), ("#8a6d00", (0, (6, 1.5, 1, 1.5))))


def colour_of(agrees: bool) -> str:
    """Return the colour of what agrees with the prediction, or of what differs from it."""
    return AGREES if agrees else DIFFERS
