"""Colours: letters are legible on every ground, and what agrees is told from what differs in any colour blindness."""

from __future__ import annotations

import re
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

from protoattend.viz.palette import DARK, LIGHT, LOOKS

VIZ = Path(__file__).parents[2] / "src" / "protoattend" / "viz"
LETTERS = [
    *((letters, ground) for letters in ("ink", "quiet", "agrees", "differs", "off") for ground in ("ground", "card")),
    *(("agrees", "agrees-soft"), ("differs", "differs-soft"), ("off", "off-soft"), ("ink", "mark")),
]
# Linear RGB as it is seen without one kind of cone (Machado et al., 2009, severity 1).
BLINDNESS = {
    "protan": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deutan": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "tritan": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
}


def linear(colour: str) -> np.ndarray:
    values = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    return np.where(values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4)


def contrast(one: str, other: str) -> float:
    darker, lighter = sorted(float(linear(colour) @ [0.2126, 0.7152, 0.0722]) for colour in (one, other))
    return (lighter + 0.05) / (darker + 0.05)


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=["light", "dark"])
@pytest.mark.parametrize(("letters", "ground"), LETTERS)
def test_letters_are_legible(theme: dict[str, str], letters: str, ground: str) -> None:
    assert contrast(theme[letters], theme[ground]) >= 4.5


@pytest.mark.parametrize("matrix", BLINDNESS.values(), ids=BLINDNESS)
@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=["light", "dark"])
def test_what_agrees_is_told_from_what_differs(theme: dict[str, str], matrix: list[list[float]]) -> None:
    seen = [np.array(matrix) @ linear(theme[name]) for name in ("agrees", "differs")]
    assert np.abs(seen[0] - seen[1]).max() > 0.15


def test_curves_differ_in_style_as_in_colour() -> None:
    for (colour, style), (other, another) in combinations(LOOKS, 2):
        assert colour != other
        assert style != another


def test_both_themes_have_the_same_names() -> None:
    assert list(LIGHT) == list(DARK)


def test_no_other_file_has_colours_of_its_own() -> None:
    for path in [*VIZ.glob("*.py"), *VIZ.glob("templates/*")]:
        if path.name != "palette.py":
            assert not re.findall(r"#[0-9a-fA-F]{6}\b|#[0-9a-fA-F]{3}\b", path.read_text()), path.name
