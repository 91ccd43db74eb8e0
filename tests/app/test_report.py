"""Reports: complete pages whose numbers are the classifier's, for every kind of input and for awkward data."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from protoattend import PlainClassifier, ProtoAttendClassifier
from protoattend.app.cli import app
from protoattend.app.report.comparison import comparison_section
from protoattend.app.report.confidence import operating
from protoattend.app.report.decisions import choose_examples
from protoattend.app.report.measured import class_numbers, measure, measure_database
from protoattend.app.report.write import write_report
from protoattend.errors import UserError
from protoattend.viz.text import precise

from ..viz.pages import Reader

SECTIONS = [
    *("Summary", "Data", "Training", "Comparison", "Prototypes", "Decisions", "Confidence", "Errors", "Label errors"),
    *("Use of the database", "Model card"),
]


def read(path: Path) -> Reader:
    return Reader(path.read_text(encoding="utf-8"))


def headings(page: Reader) -> list[str]:
    return [text for level, text in page.headings if level == "h2"]


def test_every_kind_of_input_makes_a_whole_page(any_kind: Any, tmp_path: Path) -> None:
    clf, X, y = any_kind
    path = write_report(clf, X[:60], y[:60], tmp_path / "report.html")
    html = path.read_text(encoding="utf-8")
    page = read(path)
    assert headings(page) == SECTIONS
    assert not re.search(r"https?:|//[a-z]|@import|url\(", re.sub(r"base64,[^\"]+", "", html))
    assert not page.named("script")
    assert all(image["src"].startswith("data:image/png;base64,") and image["alt"] for image in page.named("img"))
    assert all(drawing["role"] == "img" and drawing["aria-label"] for drawing in page.named("svg"))
    assert all(cell["scope"] in ("row", "col") for cell in page.named("th"))
    assert not re.search(r"<t[hd][^>]*>\s*</th>", html)
    assert len(page.named("caption")) == page.classed("list").count("table")
    right = (clf.predict(X[:60]) == y[:60]).mean()
    assert f"{precise(right)} of 60 decisions are right" in page.text
    assert measure(clf, X[:60], y[:60]).copies == 60
    assert "60 rows are in the training data too, of 60" in page.text
    levels = [int(level[1]) for level, _ in page.headings]
    assert levels[0] == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))


def test_what_is_read_alike_is_no_copy(text_classifier: ProtoAttendClassifier, texts: Any) -> None:
    alike = [f"{texts[0][0]} qqqq", texts[0][1]]  # the first has a word that is not known
    assert np.allclose(text_classifier.predict_proba(alike[:1]), text_classifier.predict_proba(texts[0][:1]), atol=1e-3)
    assert measure(text_classifier, alike, None).copies == 1


def test_printed_pages_have_margins(wine_classifier: ProtoAttendClassifier, tmp_path: Path) -> None:
    write_report(wine_classifier, path=tmp_path / "report.html")
    assert re.search(r"@page \{ margin: \d+mm", (tmp_path / "report.html").read_text())


def test_links_of_the_contents_lead_to_sections(wine_classifier: ProtoAttendClassifier, tmp_path: Path) -> None:
    page = read(write_report(wine_classifier, path=tmp_path / "r.html"))
    ids = [section["id"] for section in page.named("section")]
    assert [link["href"] for link in page.named("a")] == [f"#{name}" for name in ids]
    assert len(set(ids)) == len(ids)


def test_without_data_the_rows_of_the_database_are_decided_without_themselves(
    wine_classifier: ProtoAttendClassifier, wine: Any, tmp_path: Path
) -> None:
    measured = measure_database(wine_classifier)
    explained = wine_classifier.explain(None)
    assert (wine_classifier.classes_[measured.decided.predicted] == [e.prediction for e in explained]).all()
    shown = measured.explained(np.array([5, 0]))
    for e, row in zip(shown, (5, 0), strict=True):
        assert row not in [p.index for p in e.prototypes]
        assert [p.index for p in e.prototypes] == [p.index for p in explained[row].prototypes]
        assert e.label == wine[1][row]
    page = read(write_report(wine_classifier, path=tmp_path / "r.html"))
    assert "No data was given" in page.text
    assert "Missing here" not in page.text


def test_a_database_of_excerpts_is_enough(text_classifier: ProtoAttendClassifier, tmp_path: Path) -> None:
    text_classifier.save(tmp_path / "model", excerpts=True)
    loaded = ProtoAttendClassifier.load(tmp_path / "model")
    page = read(write_report(loaded, path=tmp_path / "r.html"))
    assert headings(page) == SECTIONS
    assert "is old and good" in page.text or "is new and good" in page.text


def test_without_labels_nothing_is_said_of_right_and_wrong(
    wine_classifier: ProtoAttendClassifier, wine: Any, tmp_path: Path
) -> None:
    page = read(write_report(wine_classifier, wine[0][:20], path=tmp_path / "r.html"))
    assert headings(page) == [name for name in SECTIONS if name not in ("Comparison", "Confidence", "Errors")]
    assert "how often rightly is not known" in page.text


def test_labels_never_seen_are_counted_apart(wine_classifier: ProtoAttendClassifier, wine: Any, tmp_path: Path) -> None:
    X, y = wine
    labels = y[:40].astype(object)
    labels[:3] = "port"
    measured = measure(wine_classifier, X[:40], labels)
    assert measured.unseen == ("port",)
    assert len(measured.known) == 37
    assert measured.correct.mean() == (wine_classifier.predict(X[3:40]) == y[3:40]).mean()
    page = read(write_report(wine_classifier, X[:40], labels, tmp_path / "r.html"))
    assert "3 rows of 40 carry labels never seen in training (port)" in page.text
    with pytest.raises(UserError, match="some labels must be classes seen in fit"):
        measure(wine_classifier, X[:3], labels[:3])


def test_labels_are_found_by_name_where_types_differ() -> None:
    numbers, unseen = class_numbers(np.array(["a", "b"]), np.array(["b", "a", "c"]))
    assert (numbers.tolist(), unseen) == ([1, 0, -1], ("c",))
    assert class_numbers(np.array([1, 2]), ["2", 1.0])[0].tolist() == [1, 0]
    with pytest.raises(UserError, match="1 of 2 are missing, the first of them y\\[1\\]"):
        class_numbers(np.array([1, 2]), [1, None])


def test_one_class_and_no_error(wine_classifier: ProtoAttendClassifier, wine: Any, tmp_path: Path) -> None:
    X, y = wine
    right = np.flatnonzero((y == 0) & (wine_classifier.predict(X) == 0))[:20]
    page = read(write_report(wine_classifier, X[right], y[right], tmp_path / "r.html"))
    assert "All rows are of one class, 0" in page.text
    assert "None of the 20 decisions is wrong" in page.text
    assert "Every decision on a row with a known class is right." in page.text
    assert "20 rows with labels are few" in page.text


def test_missing_cells_are_counted(wine_classifier: ProtoAttendClassifier, wine: Any, tmp_path: Path) -> None:
    X, y = wine[0][:40].copy(), wine[1][:40]
    X[:10, 0] = np.nan
    X[0] = np.nan
    page = read(write_report(wine_classifier, X, y, tmp_path / "r.html"))
    assert "(missing)" in page.text
    assert "0 % 25 %" in page.text  # of column 0, in training and here


def test_two_hundred_classes_and_very_long_names(tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    names = np.array([f"<b>class {'long ' * 30}{i}" for i in range(200)])
    y = np.repeat(names, 2)
    X = generator.normal(size=(400, 5)) + np.repeat(generator.normal(size=(200, 5)) * 4, 2, axis=0)
    clf = ProtoAttendClassifier(max_epochs=1, random_state=0, verbose=0).fit(X, y)
    page = read(write_report(clf, X[::2], y[::2], tmp_path / "r.html"))
    assert "The 20 largest classes; 180 more have 2 to 2 rows." in page.text
    assert not page.classed("matrix")
    assert "<b>class long" in page.text  # as text, not as a tag
    assert (tmp_path / "r.html").stat().st_size < 2_000_000


def test_very_long_texts_are_cut(text_classifier: ProtoAttendClassifier, tmp_path: Path) -> None:
    texts = ["this apple is old and good " * 4000, "", "this hammer is new"] * 12
    page = read(write_report(text_classifier, texts, ["fruit", "tool", "tool"] * 12, tmp_path / "r.html"))
    assert f"of {len(text_classifier.inputs_.vocabulary)} known words" in page.text
    assert "Median length 18" in page.text
    assert (tmp_path / "r.html").stat().st_size < 400_000


def test_texts_read_as_characters_tell_how_many_are_longer(texts: Any, tmp_path: Path) -> None:
    clf = ProtoAttendClassifier(encoder="char-cnn", max_epochs=1, random_state=0, verbose=0).fit(texts[0], texts[1])
    page = read(write_report(clf, [texts[0][0] * 50, texts[0][1]], texts[1][:2], tmp_path / "r.html"))
    assert f"read up to {clf.inputs_.length} characters; 50 % are longer" in page.text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"y": [1]}, "y is about rows of X, but X is None"),
        ({"baseline": object()}, "baseline is about rows of X"),
        ({"X": [[0.0] * 13] * 2, "y": [1]}, "X has 2 rows and y has 1"),
        ({"accuracy": 1.2}, "accuracy must be"),
        ({"path": "no/such/folder/r.html"}, "must exist, but it does not"),
    ],
)
def test_what_cannot_be_reported_is_said(
    wine_classifier: ProtoAttendClassifier, arguments: dict[str, Any], message: str
) -> None:
    with pytest.raises(UserError, match=message):
        write_report(wine_classifier, **arguments)


def test_the_baseline_stands_beside(wine_classifier: ProtoAttendClassifier, wine: Any) -> None:
    X, y = wine
    plain = PlainClassifier(max_epochs=2, random_state=0, verbose=0).fit(X, y)
    measured = measure(wine_classifier, X, y)
    [table] = comparison_section(measured, X, plain).blocks
    assert [row[1] for row in table.rows] == [  # type: ignore[union-attr]
        precise(wine_classifier.score(X, y)),
        precise((measured.own_probabilities.argmax(1) == y).mean()),
        precise(plain.score(X, y)),
    ]
    other = PlainClassifier(max_epochs=1, random_state=0, verbose=0).fit(X, y + 1)
    with pytest.raises(UserError, match="baseline must know the classes"):
        comparison_section(measured, X, other)


def test_the_threshold_is_that_of_the_classifier(wine_classifier: ProtoAttendClassifier, wine: Any) -> None:
    X, y = wine
    noisy = np.where(np.arange(len(y)) % 7 == 0, (y + 1) % 3, y)
    chosen = operating(measure(wine_classifier, X, noisy), 0.9)
    assert chosen is not None
    assert chosen.threshold == pytest.approx(wine_classifier.threshold_for(X, noisy, accuracy=0.9))
    answered = wine_classifier.confidence(X) >= chosen.threshold
    assert chosen.coverage == pytest.approx(answered.mean())
    assert chosen.risk == pytest.approx((wine_classifier.predict(X) != noisy)[answered].mean())
    assert operating(measure(wine_classifier, X, (y + 1) % 3), 0.9) is None


def test_examples_are_what_their_headings_say(wine_classifier: ProtoAttendClassifier, wine: Any) -> None:
    X, y = wine
    noisy = np.where(np.arange(len(y)) % 7 == 0, (y + 1) % 3, y)
    measured = measure(wine_classifier, X, noisy)
    chosen = {title: places for (title, _), places in choose_examples(measured).items()}
    wrong, confidence = wine_classifier.predict(X) != noisy, wine_classifier.confidence(X)
    assert not wrong[chosen["Right"]].any()
    assert wrong[chosen["Wrong, and most confident"]].all()
    assert confidence[chosen["Wrong, and most confident"]].min() >= np.sort(confidence[wrong])[-3]
    every = np.concatenate(list(chosen.values()))
    assert len(set(every.tolist())) == len(every)
    left = np.setdiff1d(np.arange(len(X)), np.concatenate([chosen["Right"], chosen["Wrong, and most confident"]]))
    assert chosen["Least confident"][0] == left[np.argmin(confidence[left])]
    scores = wine_classifier.ood_score(X, "neighbours")
    left = np.setdiff1d(left, chosen["Least confident"])
    assert chosen["Most out-of-distribution"][0] == left[np.argmax(scores[left])]


def test_the_command(wine_classifier: ProtoAttendClassifier, wine: Any, tmp_path: Path) -> None:
    X, y = wine
    wine_classifier.save(tmp_path / "model")
    data = tmp_path / "test.csv"
    np.savetxt(data, np.column_stack([X[:40], y[:40]]), delimiter=",", header=",".join([*map(str, range(13)), "kind"]))
    data.write_text(data.read_text().removeprefix("# "))
    out = tmp_path / "report.html"
    arguments = ["report", str(tmp_path / "model"), "--data", str(data), "--target", "kind", "--out", str(out)]
    first = CliRunner().invoke(app, arguments)
    assert first.exit_code == 0, first.output
    assert first.output.split() == ["Report:", str(out)]
    assert "test.csv" in read(out).text
    again = CliRunner().invoke(app, arguments)
    assert again.exit_code == 1
    assert "--force" in again.output
    beside = CliRunner().invoke(app, [*arguments, "--force", "--baseline", "--json"])
    assert beside.exit_code == 0, beside.output
    assert "Plain encoder, trained without attention" in read(out).text
    alone = CliRunner().invoke(
        app, ["report", str(tmp_path / "model"), "--baseline", "--out", str(tmp_path / "b.html")]
    )
    assert alone.exit_code == 1
    assert "pass --data too" in alone.output
