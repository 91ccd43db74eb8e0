"""The command line on files: fit, predict, explain and evaluate, end to end."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from PIL import Image
from sklearn.datasets import load_wine

from protoattend import ProtoAttendClassifier
from protoattend.errors import BadFile

from .running import failed, rows, run, succeeded


def test_fit_says_what_it_read_and_made(place: Path, tmp_path: Path) -> None:
    before = sorted(place.iterdir())
    made = run("fit", place / "wine.csv", "--target", "kind", "--epochs", 1, "--to", tmp_path / "made", "--seed", 3)
    shown = made.stdout
    assert "wine.csv: 140 rows of 13 columns, target 'kind' of 3 classes." in made.stderr
    assert "Taken as a table with columns of 13 numbers." in made.stderr
    assert re.search(r"[\d.]+% of 1\d samples held out", shown)
    assert "carry 95 % of a typical decision" in shown
    assert "1 epoch in" in shown
    assert shown.endswith(f"{tmp_path / 'made'}\n")
    clf = ProtoAttendClassifier.load(tmp_path / "made")
    assert clf.random_state == 3
    assert clf.classes_.tolist() == ["class_0", "class_1", "class_2"]
    assert sorted(place.iterdir()) == before
    assert list(tmp_path.iterdir()) == [tmp_path / "made"]


def test_fit_names_its_folder_after_the_file(place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    succeeded("fit", place / "wine.csv", "--target", "kind", "--epochs", 1, "--encoder", "features")
    assert [path.name for path in tmp_path.iterdir()] == ["wine-model"]
    assert ProtoAttendClassifier.load("wine-model").encoder == "features"


def test_predict_a_table(place: Path, tmp_path: Path) -> None:
    clf = ProtoAttendClassifier.load(place / "wine-model")
    new = pd.read_csv(place / "wine-new.csv")
    printed = rows(succeeded("predict", place / "wine-model", place / "wine-new.csv"))
    assert [row["row"] for row in printed] == [str(i) for i in range(len(new))]
    assert [row["label"] for row in printed] == clf.predict(new).tolist()
    np.testing.assert_allclose([float(row["confidence"]) for row in printed], clf.confidence(new), atol=1e-4)
    out = tmp_path / "predictions.csv"
    quiet = succeeded("predict", place / "wine-model", place / "wine-new.csv", "--out", out, "--min-confidence", 0.9)
    assert quiet == ""
    written = rows(out.read_text())
    assert [row["answered"] for row in written] == ["yes" if share >= 0.9 else "no" for share in clf.confidence(new)]
    assert [row["label"] for row in written] == [row["label"] for row in printed]


def test_predict_and_explain_texts_by_the_column_of_fit(place: Path) -> None:
    printed = rows(succeeded("predict", place / "texts-model", place / "texts.csv"))
    assert len(printed) == 40
    assert {row["label"] for row in printed} <= {"fruit", "tool"}
    assert "this melon is a" in succeeded("explain", place / "texts-model", place / "texts.csv", "--row", 10)


def test_predict_images(place: Path, tmp_path: Path) -> None:
    printed = rows(succeeded("predict", place / "digits-model", place / "digits" / "digit 3"))
    assert [row["file"] for row in printed] == [str(path) for path in sorted((place / "digits" / "digit 3").iterdir())]
    (one,) = rows(succeeded("predict", place / "digits-model", printed[0]["file"]))
    assert one == printed[0]


def test_explain_on_the_console(place: Path) -> None:
    shown = succeeded("explain", place / "wine-model", place / "wine-new.csv", "--row", 2, "--row", 0, "--top", 2)
    clf = ProtoAttendClassifier.load(place / "wine-model")
    explanations = clf.explain(pd.read_csv(place / "wine-new.csv"), top=2)
    assert shown.index("row 2") < shown.index("row 0")
    for i in (0, 2):
        assert f"row {i}: {explanations[i].prediction}, confidence" in shown
        assert all(str(p.index) in shown for p in explanations[i].prototypes)
    assert succeeded("explain", place / "wine-model", place / "wine-new.csv").count("confidence") == 10


def test_a_classifier_explains_and_reports_when_its_images_are_gone(place: Path, tmp_path: Path) -> None:
    shutil.copytree(place / "digits", tmp_path / "digits")
    succeeded("fit", tmp_path / "digits", "--epochs", 1, "--to", tmp_path / "model")
    shutil.rmtree(tmp_path / "digits")
    page, report = tmp_path / "why.html", tmp_path / "report.html"
    succeeded("report", tmp_path / "model", "--data", place / "digits", "--out", report)
    assert report.read_text().count("data:image/png") > 1
    succeeded("explain", tmp_path / "model", place / "digits", "--row", 0, "--out", page)
    assert page.read_text().count("data:image/png") > 1


def test_explain_as_a_page(place: Path, tmp_path: Path) -> None:
    out = tmp_path / "page.html"
    shown = succeeded("explain", place / "digits-model", place / "digits", "--row", 7, "--out", out, "--top", 1)
    assert shown == f"1 decision explained in {out}\n"
    page = out.read_text()
    assert page.count("data:image/png") == 2
    assert "digits: decisions" in page
    assert "digit 0" in page  # the label, from its folder


@pytest.mark.parametrize("more", [(), ("--target", "kind")])
def test_evaluate(place: Path, more: tuple[str, ...]) -> None:
    shown = succeeded("evaluate", place / "wine-model", place / "wine-test.csv", *more)
    clf = ProtoAttendClassifier.load(place / "wine-model")
    test = pd.read_csv(place / "wine-test.csv", sep=";")
    assert f"{clf.score(test, test['kind']):.1%} of 38 samples" in shown
    for name in ("mean over classes", "accuracy at 90 % coverage", "confidence where right", "prototypes"):
        assert name in shown


def test_evaluate_images_and_labels_of_another_type(place: Path, tmp_path: Path) -> None:
    assert "of 120 samples" in succeeded("evaluate", place / "digits-model", place / "digits")
    frame = pd.DataFrame({"x": np.arange(60) % 7, "y": np.arange(60) % 2})
    frame.to_csv(tmp_path / "numbers.csv", index=False)
    frame.assign(y=frame["y"].astype(str)).to_parquet(tmp_path / "words.parquet")
    succeeded("fit", tmp_path / "numbers.csv", "--target", "y", "--epochs", 1, "--to", tmp_path / "model")
    assert "of 60 samples" in succeeded("evaluate", tmp_path / "model", tmp_path / "words.parquet")


def test_corrupt_images_by_choice(place: Path, tmp_path: Path) -> None:
    folder = tmp_path / "new"
    folder.mkdir()
    Image.new("L", (8, 8)).save(folder / "good.png")
    (folder / "bad.png").write_bytes(b"nothing")
    assert "bad.png: not a readable image" in failed("predict", place / "digits-model", folder)
    result = run("predict", place / "digits-model", folder, "--skip-corrupt")
    assert result.exit_code == 0
    assert result.stderr.startswith("warning: 1 of 2 image files cannot be read and are skipped:")
    assert "bad.png" in result.stderr
    (only,) = rows(result.stdout)
    assert only["file"].endswith("good.png")


def test_mistakes_are_one_message(place: Path, tmp_path: Path) -> None:
    model, table = place / "wine-model", place / "wine.csv"
    new = tmp_path / "new"
    assert "did you mean 'kind'?" in failed("fit", table, "--target", "kin", "--to", new)
    assert "labels are needed" in failed("fit", table, "--to", new)
    assert "does not exist" in failed("fit", place / "nothing.csv", "--to", new)
    (tmp_path / "outer" / "inner").mkdir(parents=True)
    (tmp_path / "outer" / "inner" / "digits").symlink_to(place / "digits", target_is_directory=True)
    assert "deeper, as" in failed("fit", tmp_path / "outer", "--to", new)
    assert "encoder must be one of" in failed("fit", table, "--target", "kind", "--encoder", "x", "--to", new)
    assert "max_epochs=0" in failed("fit", table, "--target", "kind", "--epochs", 0, "--to", new)
    assert not new.exists()
    assert "no meta.json" in failed("predict", tmp_path, place / "wine-new.csv")
    assert "row must be from 0 to 37" in failed("explain", model, place / "wine-new.csv", "--row", 38)
    assert "['proline'] are missing" in failed("predict", model, _without_proline(tmp_path))
    assert "the folder of" in failed("predict", model, table, "--out", tmp_path / "no" / "x.csv")
    assert "labels are needed" in failed("evaluate", place / "digits-model", place / "digits" / "digit 1")
    assert "of kind 'table', but" in failed("predict", model, place / "digits")
    assert "of kind 'images', but" in failed("predict", place / "digits-model", table)
    assert "is not among" in failed("evaluate", model, table, "--target", "ash")


def _without_proline(tmp_path: Path) -> Path:
    load_wine(as_frame=True).data.drop(columns="proline").to_csv(tmp_path / "less.csv", index=False)
    return tmp_path / "less.csv"


def test_a_folder_with_other_files_is_refused_before_training(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "notes.txt").write_text("mine")

    def never(*args: Any, **kwargs: Any) -> None:
        raise AssertionError("trained first")

    monkeypatch.setattr(ProtoAttendClassifier, "fit", never)
    assert "holds other files" in failed("fit", place / "wine.csv", "--target", "kind", "--to", tmp_path)
    assert (tmp_path / "notes.txt").read_text() == "mine"


def test_how_a_file_was_read_is_saved_along(place: Path, tmp_path: Path) -> None:
    assert json.loads((place / "wine-model" / "meta.json").read_text())["reading"] == {
        "target": "kind",
        "text": None,
        "samples": None,
        "id": None,
        "header": None,
    }
    clf = ProtoAttendClassifier.load(place / "texts-model")
    clf.save(tmp_path / "again")
    texts = place / "texts.csv"
    assert len(rows(succeeded("predict", tmp_path / "again", texts))) == 40
    clf.reading_ = None  # as of a classifier trained in Python
    clf.save(tmp_path / "texts")
    assert "name the column of texts with --text" in failed("predict", tmp_path / "texts", texts)
    assert len(rows(succeeded("predict", tmp_path / "texts", texts, "--text", "said"))) == 40


def test_the_note_beside_an_older_folder_is_still_read(tmp_path: Path) -> None:
    shutil.copytree(Path(__file__).parents[1] / "formats" / "classifier-v2-table", tmp_path / "old")
    assert ProtoAttendClassifier.load(tmp_path / "old").reading_ == {"target": "species", "text": None}
    (tmp_path / "old" / "reading.json").write_text("{")
    with pytest.raises(BadFile, match=r"reading\.json must name"):
        ProtoAttendClassifier.load(tmp_path / "old")
