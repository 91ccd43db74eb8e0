"""Pages of explanations: complete, inert, and saying what the explanations say."""

from __future__ import annotations

import io
import re
from base64 import b64decode

import numpy as np
import pytest
from PIL import Image

from protoattend.errors import UserError
from protoattend.explain.explanations import Explanation, Explanations, Prototype
from protoattend.viz.decisions import shown_decision
from protoattend.viz.html import fragment, page

from .pages import Reader


def explained(kind, own, others, *, prediction="cat", label=None, more=()):
    """One explanation; others are (label, weight, preview), more are weights of prototypes not shown."""
    prototypes = tuple(Prototype(10 + i, w, name, shown) for i, (name, w, shown) in enumerate(others))
    weights = np.array([p.weight for p in prototypes] + list(more))
    confidence = sum(p.weight for p in prototypes if p.label == prediction)
    return Explanations((Explanation(prediction, confidence, prototypes, weights, own, label),), kind)


def images(count: int = 3, *, channels: int = 0) -> list[np.ndarray]:
    shape = (8, 6, 3) if channels == 3 else (8, 6)
    generator = np.random.default_rng(0)
    return [generator.integers(0, 256, shape, dtype=np.uint8) for _ in range(count)]


def of_each_kind() -> list[Explanations]:
    own, first, second = images()
    row = {"age": "39", "work": "State"}
    return [
        explained("images", own, [("cat", 0.7, first), ("dog", 0.3, second)]),
        explained("text", "a small cat", [("cat", 0.7, "another cat"), ("dog", 0.3, "small dogs")]),
        explained("table", row, [("cat", 0.7, row), ("dog", 0.3, {"age": "50", "work": "Private"})]),
    ]


@pytest.mark.parametrize("explanations", of_each_kind(), ids=lambda e: e.kind)
def test_page_is_complete_and_needs_nothing_from_outside(explanations):
    html = page(explanations, "Why")
    read = Reader(html)
    assert html.startswith("<!DOCTYPE html>")
    assert [tag for tag, _ in read.tags].count("html") == 1
    assert not re.search(r"https?:|//[a-z]|@import|url\(", html)
    assert not read.named("script")
    assert not read.named("link")
    assert all(image["src"].startswith("data:image/png;base64,") for image in read.named("img"))
    assert "prefers-color-scheme: dark" in html
    assert any(meta.get("name") == "viewport" for meta in read.named("meta"))
    for told in ("cat", "dog", "70 %", "30 %", "#10", "#11", "2 prototypes carry 95 %"):
        assert told in read.text


@pytest.mark.parametrize("explanations", of_each_kind(), ids=lambda e: e.kind)
def test_fragment_says_the_same_and_its_styles_stay_inside(explanations):
    html = fragment(explanations)
    assert Reader(html).text in Reader(page(explanations, "Why")).text
    assert "<html" not in html
    assert "<body" not in html
    styles = re.sub(r"/\*.*?\*/", "", re.search(r"<style>(.*?)</style>", html, re.S)[1], flags=re.S)
    selectors = [part for rule in re.findall(r"([^{}]+)\{", styles) for part in rule.split(",") if part.strip()]
    assert selectors
    assert all(".protoattend" in part or part.strip().startswith("@media") for part in selectors)


@pytest.mark.parametrize("explanations", of_each_kind(), ids=lambda e: e.kind)
def test_disagreeing_prototypes_are_marked_by_class_sign_and_word(explanations):
    html = fragment(explanations)
    body = html[html.index("<article") :]
    tags = re.findall(r'<span class="tag (\w+)" title="([^"]*)">(.*?)</bdi>', body)
    assert [(name, "✓" in inside, "✗" in inside) for name, _, inside in tags] == [
        ("agrees", True, False),
        ("differs", False, True),
    ]
    assert [title.split()[0] for _, title, _ in tags] == ["agrees", "differs"]


def test_images_are_the_pixels_given():
    for channels in (0, 3):
        own, *others = images(channels=channels)
        explanations = explained("images", own, [("cat", 0.5, other) for other in others])
        shown = [
            np.asarray(Image.open(io.BytesIO(b64decode(image["src"].split(",")[1]))))
            for image in Reader(page(explanations, "")).named("img")
        ]
        for pixels, given in zip(shown, [own, *others], strict=True):
            np.testing.assert_array_equal(pixels, given)


def test_small_images_keep_hard_edges_and_large_ones_are_shrunk():
    large = np.full((700, 500), 9, dtype=np.uint8)
    read = Reader(page(explained("images", images(1)[0], [("cat", 1.0, large)]), ""))
    small, shrunk = read.named("img")
    assert small["class"] == "small"
    assert "class" not in shrunk
    assert Image.open(io.BytesIO(b64decode(shrunk["src"].split(",")[1]))).size == (166, 233)


EVIL = "<script>alert('x')</script><img src=x onerror=alert(1)>\" onload=\"x"


@pytest.mark.parametrize("kind", ["images", "text", "table"])
def test_whatever_users_write_comes_out_inert(kind):
    own, other = {"images": images(2), "text": [EVIL, EVIL], "table": [{EVIL: EVIL}, {EVIL: EVIL + "2"}]}[kind]
    explanations = explained(kind, own, [(EVIL + "!", 1.0, other)], prediction=EVIL, label=EVIL + "?")
    clean = Reader(page(of_each_kind()[["images", "text", "table"].index(kind)], "title"))
    for html in (page(explanations, EVIL), fragment(explanations)):
        read = Reader(html)
        assert not read.named("script")
        assert {tag for tag, _ in read.tags} <= {tag for tag, _ in clean.tags} | {"mark"}
        assert not any(name.startswith("on") for _, attributes in read.tags for name in attributes)
        assert EVIL in read.text


def test_known_label_is_told_where_it_differs():
    rows = [("cat", 1.0, "one cat")]
    differing = Reader(fragment(explained("text", "x", rows, label="dog")))
    same = Reader(fragment(explained("text", "x", rows, label="cat")))
    unknown = Reader(fragment(explained("text", "x", rows)))
    assert "known label dog differs from the prediction" in differing.text
    assert differing.classed("contradicted")
    assert "known label cat" in same.text
    assert not same.classed("contradicted")
    assert "known label" not in unknown.text


def test_what_is_not_shown_is_counted():
    read = Reader(fragment(explained("text", "x", [("cat", 0.8, "y")], more=[0.15, 0.05])))
    assert "and 2 more with 20 %" in read.text
    assert "more with" not in Reader(fragment(explained("text", "x", [("cat", 1.0, "y")]))).text
    nothing = Reader(fragment(explained("text", "x", [], more=[0.6, 0.4])))
    assert "No prototypes are shown, 2 carry the decision." in nothing.text


@pytest.mark.parametrize("kind", ["images", "text", "table"])
def test_no_prototypes_and_no_explanations(kind):
    own = {"images": images(1)[0], "text": "", "table": {"age": "39"}}[kind]
    assert "No prototypes are shown." in Reader(page(explained(kind, own, []), "")).text
    assert "No explanations" in Reader(page(Explanations((), kind), "")).text


def test_unknown_kind_is_refused():
    with pytest.raises(UserError, match="kind of input must be one of"):
        page(Explanations((), "sounds"), "")


def test_pieces_of_a_decision_put_those_that_agree_first():
    [e] = explained("text", "x", [("dog", 0.5, ""), ("cat", 0.2, "")], more=[0.2, 0.1])
    e = Explanation(e.prediction, 0.4, e.prototypes, e.weights, e.preview)  # 0.2 of those not shown agrees
    pieces = [(round(piece.weight, 6), piece.agrees, piece.shown) for piece in shown_decision(e).pieces]
    assert pieces == [(0.2, True, True), (0.2, True, False), (0.5, False, True), (0.1, False, False)]


def test_labels_of_any_type_are_compared_as_they_are():
    explanations = explained("text", "x", [(np.int64(3), 0.6, "y"), ("3", 0.4, "z")], prediction=3)
    assert [p.agrees for p in shown_decision(explanations[0]).prototypes] == [True, False]


def test_shared_words_are_marked_whatever_their_case():
    html = fragment(explained("text", "The FINAL was lost, this time", [("cat", 1.0, "A final of this team")]))
    assert re.findall("<mark>(.*?)</mark>", html[html.index("<article") :]) == ["FINAL", "final"]


def test_long_texts_are_cut():
    read = Reader(page(explained("text", "long " * 1000, [("cat", 1.0, "text " * 1000)]), ""))
    assert len(read.text) < 2500


def test_any_character_can_be_written_as_utf8():
    odd = "日本語 العربية 🐈 \x00 \ud800 é"
    html = page(explained("text", odd, [(odd, 1.0, odd)], prediction=odd), odd)
    assert "日本語 العربية 🐈 \ufffd \ufffd é" in Reader(html.encode("utf-8").decode("utf-8")).text


def table(own, *others):
    return explained("table", own, [("cat", 1 / len(others), other) for other in others])


def test_many_features_are_folded_away():
    names = [f"feature {i:02d}" for i in range(60)]
    own = dict.fromkeys(names, "0")
    other = {name: "0" if i < 20 else str(i) for i, name in enumerate(names)}
    explanations = table(own, other, own)
    read = Reader(page(explanations, ""))
    assert len(read.named("details")) == 2
    assert "20 features where they differ less" in read.text
    assert "20 features where all are alike" in read.text
    assert len(read.classed("off")) == 40 + 3  # the legend has three
