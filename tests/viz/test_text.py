"""Numbers and texts as a person reads them."""

from __future__ import annotations

from protoattend.viz.text import excerpt, highlight, percent, words


def test_percent_never_rounds_to_all_or_nothing():
    assert [percent(x) for x in (0, 0.0001, 0.0123, 0.5, 0.994, 0.9994, 1.0)] == [
        "0 %",
        "< 0.1 %",
        "1.2 %",
        "50 %",
        "99.4 %",
        "99.9 %",
        "100 %",
    ]


def test_words_are_compared_without_case_and_text_is_kept_whole():
    assert words("Straße und Über 1234 abc") == {"strasse", "über"}
    assert "".join(piece for piece, _ in highlight("a final, FINAL!", {"final"})) == "a final, FINAL!"


def test_long_texts_are_cut_after_a_word():
    cut = excerpt("some words " * 100, 300)
    assert len(cut) <= 302
    assert cut.endswith("words …") or cut.endswith("some …")
    assert excerpt("x" * 500, 300) == "x" * 300 + " …"
    assert excerpt(" \n ", 300) == "(empty text)"
    assert excerpt("Title\n-----\n1 ... 2", 300) == "Title --- 1 ... 2"
