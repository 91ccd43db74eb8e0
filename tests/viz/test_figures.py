"""Figures of explanations: every kind is drawn, agreement is visible, and nothing global is touched."""

from __future__ import annotations

import io
import sys

import numpy as np
import pytest
from PIL import Image

from protoattend.errors import MissingExtra, UserError
from protoattend.explain.explanations import Explanation, Explanations, Prototype
from protoattend.viz.figures import draw
from protoattend.viz.marks import SIZE, fit, inches, wrap
from protoattend.viz.palette import AGREES, DIFFERS

PREVIEWS = {
    "images": [np.full((8, 8), shade, np.uint8) for shade in (0, 100, 200)],
    "text": ["a small cat", "another cat", "small dogs"],
    "table": [
        {"age": "39", "work": "State"},
        {"age": "39", "work": "Private"},
        {"age": "60", "work": "State"},
    ],
}
KINDS = list(PREVIEWS)


def explained(kind, *, labels=("cat", "dog"), label=None, count=1, previews=None):
    own, *others = previews or PREVIEWS[kind]
    weights = np.array([0.6, 0.3, 0.06, 0.04])
    prototypes = tuple(
        Prototype(i, float(w), name, other)
        for i, (w, name, other) in enumerate(zip(weights, labels, others, strict=False))
    )
    return Explanations((Explanation("cat", 0.65, prototypes, weights, own, label),) * count, kind)


def texts(figure):
    return [text for axes in figure.axes for text in axes.texts]


def told(figure):
    return [text.get_text() for text in texts(figure)]


def pixels(figure):
    buffer = io.BytesIO()
    figure.savefig(buffer, dpi=50, format="png")
    return np.asarray(Image.open(buffer).convert("RGB"))


@pytest.mark.parametrize("kind", KINDS)
def test_figure_tells_the_decision(kind):
    figure = draw(explained(kind, label="dog", count=2))
    assert [axes.get_label() for axes in figure.axes] == ["legend", "input 1", "input 2"]
    lines = told(figure)
    assert lines.count("cat") == 2
    assert lines.count("confidence 65 %") == 2
    assert lines.count("3 prototypes for 95 %") == 2
    assert lines.count("✗ known label dog") == 2
    assert lines.count("60 %   #0") == 2
    assert lines.count("and 2 more with 10 %") == 2
    assert pixels(figure).std() > 0


@pytest.mark.parametrize("kind", KINDS)
def test_disagreement_is_told_by_sign_and_colour(kind):
    colours = {text.get_text(): text.get_color() for text in texts(draw(explained(kind)))}
    assert colours["✓ cat"] == AGREES
    assert colours["✗ dog"] == DIFFERS


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_lies_outside_the_figure(kind):
    long = {
        "images": None,
        "text": ["word " * 300] * 3,
        "table": [{"long name " * 9: "long value " * 9 + n} for n in "abc"],
    }
    figure = draw(explained(kind, labels=("cat", "a very long label " * 5), label="d" * 90, previews=long[kind]))
    figure.savefig(io.BytesIO())
    width, height = figure.get_size_inches() * figure.dpi
    for text in texts(figure):
        box = text.get_window_extent()
        assert box.x0 >= 0
        assert box.y0 >= 0
        assert box.x1 <= width, text.get_text()
        assert box.y1 <= height


def test_images_are_drawn_as_given_with_a_frame_for_each_prototype():
    figure = draw(explained("images"))
    [axes] = figure.axes[1:]
    for drawn, given in zip(axes.images, PREVIEWS["images"], strict=True):
        np.testing.assert_array_equal(drawn.get_array(), given)
    edges = [patch.get_linestyle() for patch in axes.patches if patch.get_linewidth() > 0]
    assert len(edges) == 2
    assert edges[0] != edges[1]


def test_more_images_than_a_line_holds_go_on_the_next():
    image = PREVIEWS["images"][0]
    prototypes = tuple(Prototype(i, 0.1, "cat", image) for i in range(10))
    e = Explanation("cat", 1.0, prototypes, np.full(10, 0.1), image)
    one, two = draw(Explanations((e,), "images")), draw(explained("images"))
    assert one.get_size_inches()[1] > two.get_size_inches()[1]
    assert one.get_size_inches()[0] < 12


def test_table_marks_what_differs():
    lines = told(draw(explained("table")))
    assert "≠ Private" in lines
    assert "▲ 60" in lines
    assert "39" in lines


@pytest.mark.parametrize("kind", KINDS)
def test_no_prototypes_and_no_explanations(kind):
    alone = Explanation("cat", 1.0, (), np.array([1.0]), PREVIEWS[kind][0])
    assert "No prototypes are shown." in told(draw(Explanations((alone,), kind)))
    assert len(draw(Explanations((), kind)).axes) == 1


def test_dollar_signs_are_no_formula_and_odd_characters_do_no_harm():
    odd = "costs $\\frac$ \x00 \ud800 é"
    figure = draw(explained("text", labels=(odd, odd), previews=[odd, odd, odd]))
    assert pixels(figure).std() > 0
    assert any("$\\frac$" in line for line in told(figure))


def test_lines_fit_their_width():
    text = "several words of a text, " * 8 + "x" * 200 + " 日本語" * 40
    lines = wrap(text, 3.0)
    assert all(inches(line) <= 3.0 for line in lines)
    assert "".join(lines).replace(" ", "") == text.replace(" ", "")
    assert fit("short", 3.0) == "short"
    assert fit("long " * 50, 1.0).endswith("…")
    assert inches(fit("long " * 50, 1.0, SIZE)) <= 1.0


def test_pyplot_stays_as_it_was():
    import matplotlib.pyplot as plt

    before = plt.get_fignums(), dict(plt.rcParams)
    draw(explained("images"))
    assert (plt.get_fignums(), dict(plt.rcParams)) == before


def test_without_matplotlib_the_message_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(MissingExtra, match=r"plotting explanations needs matplotlib.*\[plot\]"):
        draw(explained("text"))


def test_unknown_kind_is_refused():
    with pytest.raises(UserError, match="kind of input must be one of"):
        draw(Explanations((), "sounds"))
