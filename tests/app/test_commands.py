"""The verbs of the command line on saved classifiers: what they print, write and leave alone."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from protoattend import ProtoAttendClassifier
from protoattend.app.cli import VERBS
from protoattend.app.files import Reading, read_for_fit
from protoattend.app.talk import Talk
from protoattend.data.inputs import kind_of
from protoattend.errors import UserError
from protoattend.uncertainty.selective import guaranteed_threshold

from .running import as_json, failed, rows, run, succeeded


@pytest.fixture
def model(place: Path, tmp_path: Path) -> Path:
    """A classifier of wine to be edited."""
    shutil.copytree(place / "wine-model", tmp_path / "model")
    return tmp_path / "model"


def unchanged(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_predict_on_request(place: Path, tmp_path: Path) -> None:
    clf = ProtoAttendClassifier.load(place / "wine-model")
    new, test = pd.read_csv(place / "wine-new.csv"), pd.read_csv(place / "wine-test.csv", sep=";")
    found = as_json(
        *("predict", place / "wine-model", place / "wine-new.csv", "--probabilities", "--ood"),
        *("--sets", 0.8, "--calibrate-with", place / "wine-test.csv"),
    )
    assert [row["label"] for row in found] == clf.predict(new).tolist()
    shown = [[row[f"probability of {label}"] for label in clf.classes_] for row in found]
    np.testing.assert_allclose(shown, clf.predict_proba(new), atol=1e-6)
    np.testing.assert_allclose([row["ood_score"] for row in found], clf.ood_score(new, "combined"), atol=1e-6)
    clf.calibrate(test, test["kind"])
    assert [row["prediction_set"] for row in found] == clf.prediction_set(new, 0.8)
    told = as_json("predict", place / "wine-model", place / "wine-new.csv", "--out", tmp_path / "x.parquet")
    assert told == {"rows": 38, "columns": ["row", "label", "confidence"], "out": str(tmp_path / "x.parquet")}
    assert pd.read_parquet(tmp_path / "x.parquet")["label"].tolist() == clf.predict(new).tolist()


def test_predict_refuses(place: Path, tmp_path: Path) -> None:
    model, new = place / "wine-model", place / "wine-new.csv"
    assert "need calibration" in failed("predict", model, new, "--sets", 0.9)
    assert "never replaced" in failed("predict", model, new, "--out", new, "--force")
    assert "must end in" in failed("predict", model, new, "--out", tmp_path / "x.txt")
    (tmp_path / "x.csv").write_text("mine")
    assert "--force" in failed("predict", model, new, "--out", tmp_path / "x.csv")
    assert (tmp_path / "x.csv").read_text() == "mine"
    succeeded("predict", model, new, "--out", tmp_path / "x.csv", "--force")
    assert len(rows((tmp_path / "x.csv").read_text())) == 38


def test_identifiers_are_written_back(place: Path, tmp_path: Path) -> None:
    wine = pd.read_csv(place / "wine.csv")
    wine.insert(0, "number", [f"=W{i}" for i in range(len(wine))])
    wine.to_csv(tmp_path / "numbered.csv", index=False)
    succeeded(
        *("fit", tmp_path / "numbered.csv", "--target", "kind", "--id", "number", "--epochs", 1),
        *("--to", tmp_path / "model"),
    )
    assert "number" not in ProtoAttendClassifier.load(tmp_path / "model").inputs_.names
    found = rows(succeeded("predict", tmp_path / "model", tmp_path / "numbered.csv"))
    assert [row["number"] for row in found[:2]] == ["'=W0", "'=W1"]  # no formula for a spreadsheet
    plain = ("predict", tmp_path / "model", place / "wine.csv")
    assert list(rows(succeeded(*plain))[0]) == ["row", "label", "confidence"]  # there are none
    assert "must be one of" in failed(*plain, "--id", "number")
    shown = as_json("explain", tmp_path / "model", tmp_path / "numbered.csv", "--row", 3, "--top", 1)
    assert [(row["row"], row["number"], row["rank"]) for row in shown] == [(3, "=W3", 0)]


def test_a_table_without_a_header(place: Path, tmp_path: Path) -> None:
    wine = pd.read_csv(place / "wine.csv")
    first = wine[["kind", *wine.columns[:-1]]]
    first.to_csv(tmp_path / "train.csv", index=False, header=False)
    first.drop(columns="kind").to_csv(tmp_path / "new.csv", index=False, header=False)
    made = run("fit", tmp_path / "train.csv", "--target", "0", "--epochs", 2, "--to", tmp_path / "model")
    assert "it has no header, so columns go by number" in made.stderr
    whole, part = (rows(succeeded("predict", tmp_path / "model", tmp_path / name)) for name in ("train.csv", "new.csv"))
    assert whole == part
    assert len(whole) == 140
    assert as_json("evaluate", tmp_path / "model", tmp_path / "train.csv")["n_samples"] == 140


def test_what_is_guessed_is_told(place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    frame = pd.read_csv(place / "texts.csv").rename(columns={"what": "Label"})
    frame.to_csv(tmp_path / "said.csv", index=False)

    def read(kind: str) -> tuple[str, Reading, str]:
        data, reading = read_for_fit(tmp_path / "said.csv", Reading(), {}, kind=kind, talk=Talk())
        return kind_of(data.X), reading, capsys.readouterr().err

    kind, reading, told = read("auto")
    assert (kind, reading) == ("text", Reading(target="Label", text="said"))
    assert "Guessed: the labels are in column 'Label'" in told
    assert "Guessed: column 'said' holds texts" in told
    assert "Taken as texts" in told
    kind, reading, told = read("table")
    assert (kind, reading) == ("table", Reading(target="Label"))
    assert "Taken as a table with columns of 1 category" in told
    assert read("text")[0] == "text"
    with pytest.raises(UserError, match="--kind images was asked for"):
        read("images")
    with pytest.raises(UserError, match="--kind must be one of"):
        read("sound")


def test_fit_takes_settings_and_replaces_nothing(place: Path, tmp_path: Path) -> None:
    (tmp_path / "settings.toml").write_text("d_att = 4\n[recipe]\nmixup = 0.5\n")
    fit = ("fit", place / "wine.csv", "--target", "kind", "--epochs", 1, "--to", tmp_path / "model")
    made = as_json(
        *fit, "--set", "recipe.likeness=0", "--set", "n_prototypes=3", "--config", tmp_path / "settings.toml"
    )
    assert (made["kind"], made["n_samples"], made["epochs"], made["reading"]["target"]) == ("table", 140, 1, "kind")
    clf = ProtoAttendClassifier.load(tmp_path / "model")
    assert (clf.d_att, clf.n_prototypes, clf.recipe.mixup, clf.recipe.likeness) == (4, 3, 0.5, 0.0)
    before = unchanged(tmp_path / "model")
    assert "--force" in failed(*fit)
    assert "did you mean 'recipe.mixup'?" in failed(*fit, "--force", "--set", "recipe.mixpu=1")
    assert unchanged(tmp_path / "model") == before
    succeeded(*fit, "--force")
    assert ProtoAttendClassifier.load(tmp_path / "model").d_att == 16


def test_evaluate_beside_the_plain_encoder(place: Path) -> None:
    found = as_json("evaluate", place / "wine-model", place / "wine-test.csv", "--baseline")
    test = pd.read_csv(place / "wine-test.csv", sep=";")
    assert found["accuracy"] == ProtoAttendClassifier.load(place / "wine-model").score(test, test["kind"])
    assert found["baseline"]["accuracy"] > 0.6
    shown = succeeded("evaluate", place / "digits-model", place / "digits", "--baseline")
    assert "plain encoder" in shown
    assert "plain encoder" in succeeded("evaluate", place / "texts-model", place / "texts.csv", "--baseline")


def test_threshold(place: Path, tmp_path: Path) -> None:
    wine = pd.concat([pd.read_csv(place / "wine.csv"), pd.read_csv(place / "wine-test.csv", sep=";")])
    wine.to_csv(tmp_path / "all.csv", index=False)
    found = as_json("threshold", place / "wine-model", tmp_path / "all.csv", "--accuracy", 0.8)
    seen = ProtoAttendClassifier.load(place / "wine-model").assess(wine, wine["kind"])
    assert found["min_confidence"] == guaranteed_threshold(seen.confidence, seen.correct, accuracy=0.8, guarantee=0.95)
    assert found["accuracy_of_answers"] >= 0.8
    less = as_json("threshold", place / "wine-model", tmp_path / "all.csv", "--accuracy", 0.8, "--guarantee", 0)
    assert less["coverage"] >= found["coverage"]
    assert less["guarantee"] is None
    assert "no threshold is proven" in failed("threshold", place / "wine-model", place / "wine-test.csv")


def test_ood(place: Path, tmp_path: Path) -> None:
    far = pd.read_csv(place / "wine-new.csv") * 50
    far.to_csv(tmp_path / "far.csv", index=False)
    model, near = place / "wine-model", place / "wine-new.csv"
    found = as_json("ood", model, tmp_path / "far.csv", "--reference", place / "wine-test.csv", "--false-alarm", 0.1)
    assert {row["out_of_distribution"] for row in found} == {True}
    known = rows(succeeded("ood", model, near, "--reference", place / "wine-test.csv", "--false-alarm", 0.1))
    assert sum(row["out_of_distribution"] == "yes" for row in known) <= 4
    assert "above 0 and below 1" in failed("ood", model, near, "--false-alarm", 1)
    few = run("ood", model, tmp_path / "far.csv", "--reference", place / "wine-test.csv", "--false-alarm", 0.01)
    assert "so nothing is flagged" in few.stderr
    assert {row["out_of_distribution"] for row in rows(few.stdout)} == {"no"}


@pytest.mark.parametrize("command", [("ood",), ("predict", "--ood")])
def test_ood_of_images_elsewhere(place: Path, tmp_path: Path, command: tuple[str, ...]) -> None:
    shutil.copytree(place / "digits" / "digit 3", tmp_path / "new")
    verb, *more = command
    asked = (verb, place / "digits-model", tmp_path / "new", *more)
    assert f"load it with image_roots={str(place / 'digits')!r} (--image-root" in failed(*asked)
    found = rows(succeeded(*asked, "--image-root", place / "digits"))
    assert len(found) == len(list((tmp_path / "new").iterdir()))
    assert "ood_score" in found[0]


@pytest.mark.parametrize("ending", ["csv", "parquet", "npz"])
def test_label_errors_are_listed_and_accepted(place: Path, tmp_path: Path, ending: str) -> None:
    wine = pd.read_csv(place / "wine.csv")
    wine["note"] = "=1+1"  # not ours to change
    wrong = wine.index[wine["kind"] == "class_0"][:3].tolist()
    wine.loc[wrong, "kind"] = "class_2"
    path, out = tmp_path / f"wine.{ending}", tmp_path / f"corrected.{ending}"
    if ending == "npz":
        np.savez(
            path, features=wine.iloc[:, :13].to_numpy(), kinds=wine["kind"].to_numpy(str), more=np.zeros((2, 2, 2))
        )
        columns = ("--samples", "features", "--target", "kinds")
    else:
        columns = ("--target", "kind")
        wine.to_csv(path, index=False, sep=";") if ending == "csv" else wine.to_parquet(path)
    succeeded("fit", path, *columns, "--epochs", 10, "--to", tmp_path / "model")
    listed = as_json("labels", "list", tmp_path / "model")
    assert set(wrong) <= {issue["row"] for issue in listed}
    assert all(issue["given_label"] != issue["suggested_label"] for issue in listed)
    before = path.read_bytes()
    accept = ("labels", "accept", tmp_path / "model", path, "--out", out)
    assert "--row or --min-score" in failed(*accept)
    done = as_json(*accept, "--row", wrong[0], "--row", wrong[1])
    assert [change["row"] for change in done["corrected"]] == wrong[:2] or len(done["corrected"]) == 2
    expected = wine["kind"].tolist()
    for change in done["corrected"]:
        expected[change["row"]] = change["suggested_label"]
    if ending == "npz":
        with np.load(out) as arrays:
            assert arrays["kinds"].tolist() == expected
            assert arrays["more"].shape == (2, 2, 2)
    else:
        again = pd.read_csv(out, sep=";") if ending == "csv" else pd.read_parquet(out)
        pd.testing.assert_frame_equal(again, wine.assign(kind=expected))
    assert path.read_bytes() == before
    assert "is there already" in failed(*accept, "--row", wrong[0])
    good = next(row for row in range(140) if row not in {issue["row"] for issue in listed})
    assert f"the label of row {good} is not" in failed(*accept[:-1], tmp_path / f"y.{ending}", "--row", good)
    if ending == "csv":
        other = ("labels", "accept", tmp_path / "model", place / "wine.csv", "--out", tmp_path / "z.csv")
        assert "must be what the classifier was trained on" in failed(*other, "--row", wrong[0])


def test_label_errors_of_images(place: Path, tmp_path: Path) -> None:
    done = as_json(
        *("labels", "accept", place / "digits-model", place / "digits", "--out", tmp_path / "corrected.csv"),
        *("--min-score", 0),
    )
    written = rows((tmp_path / "corrected.csv").read_text())
    assert len(written) == 120
    assert done["corrected"]
    for change in done["corrected"]:
        assert written[change["row"]]["label"] == change["suggested_label"]


def test_the_database_is_edited(place: Path, model: Path, tmp_path: Path) -> None:
    start = as_json("database", "info", model)
    assert (start["n_candidates"], start["edits_in_log"], sum(start["classes"].values())) == (140, 0, 140)
    added = as_json("database", "add", model, place / "wine-test.csv")
    assert added == {"indices": list(range(140, 178)), "n_candidates": 178}
    assert as_json("database", "remove", model, "--row", 0, "--row", 5)["n_candidates"] == 176
    succeeded("database", "relabel", model, "class_1", "--row", 1)
    info = as_json("database", "info", model)
    assert (info["n_candidates"], info["edits_in_log"]) == (176, 3)
    clf = ProtoAttendClassifier.load(model)
    assert clf.database_.labels[clf.database_.indices == 1].tolist() == ["class_1"]
    assert as_json("database", "verify", model)["verified"]
    assert as_json("database", "compact", model) == {"n_candidates": 176}
    assert as_json("database", "info", model)["edits_in_log"] == 0
    before = unchanged(model)
    small = tmp_path / "small"
    assert as_json("database", "condense", model, small, "--keep", 30)["n_candidates"] == 30
    assert len(ProtoAttendClassifier.load(small).database_) == 30
    assert "--force" in failed("database", "condense", model, small, "--keep", 20)
    assert "never replaced" in failed("database", "condense", model, model, "--keep", 20, "--force")
    assert "either --keep or --within" in failed("database", "condense", model, tmp_path / "x")
    assert "did you mean 'class_1'" in failed("database", "relabel", model, "clas_1", "--row", 1)
    assert "failed" not in failed("database", "remove", model, "--row", 999)
    assert unchanged(model) == before


def test_damage_is_found(model: Path) -> None:
    keys = model / "database" / "keys.npy"
    content = bytearray(keys.read_bytes())
    content[-1] ^= 1
    keys.write_bytes(content)
    assert "keys.npy" in failed("database", "verify", model)


def test_calibration_is_stale_after_an_edit(place: Path, model: Path) -> None:
    clf = ProtoAttendClassifier.load(model)
    test = pd.read_csv(place / "wine-test.csv", sep=";")
    clf.calibrate(test, test["kind"]).save(model)
    assert "calibrate the classifier again" in run("database", "remove", model, "--row", 0).stderr


def test_explanations_as_tables(place: Path, tmp_path: Path) -> None:
    explain = ("explain", place / "wine-model", place / "wine-new.csv", "--row", 4, "--top", 3)
    assert as_json(*explain, "--out", tmp_path / "why.jsonl") == {"rows": [4], "out": str(tmp_path / "why.jsonl")}
    written = [json.loads(line) for line in (tmp_path / "why.jsonl").read_text().splitlines()]
    assert written == as_json(*explain)
    prototypes = (
        ProtoAttendClassifier.load(place / "wine-model")
        .explain(pd.read_csv(place / "wine-new.csv").iloc[[4]], top=3)[0]
        .prototypes
    )
    assert [line["training_row"] for line in written] == [prototype.index for prototype in prototypes]


def test_every_verb_has_help_with_examples() -> None:
    for verb in VERBS:
        shown = succeeded(verb, "--help")
        assert f"protoattend {verb}" in shown or "COMMAND" in shown, verb
    for group, names in {"database": ("info", "add", "condense"), "labels": ("list", "accept")}.items():
        for name in names:
            assert f"protoattend {group} {name}" in succeeded(group, name, "--help")


@pytest.mark.parametrize(
    "arguments",
    [
        *(["fitt"], ["fit"], ["predict", "--no-such"], ["database", "remove", "x"]),
        *(["predict", "x", "y.csv", "--min-confidence", share] for share in ("7", "-1", "nan")),
        *(["serve", "x", "--min-confidence", "nan"], ["labels", "list", "x", "--top", "-1"]),
    ],
)
def test_a_command_that_cannot_be_understood(arguments: list[str]) -> None:
    result = run(*arguments)
    assert result.exit_code == 2
    assert result.stdout == ""


def test_datasets_for_programs() -> None:
    assert "fashion-mnist" in {entry["name"] for entry in as_json("datasets")}


def test_true_labels_are_shown_where_the_file_has_them(place: Path, tmp_path: Path) -> None:
    clf = ProtoAttendClassifier.load(place / "wine-model")
    wine = pd.read_csv(place / "wine-test.csv", sep=";")
    wine["kind"] = np.where(clf.predict(wine) == "class_0", "class_1", "class_0")  # none is right
    wine.to_csv(tmp_path / "wrong.csv", index=False)
    shown = succeeded("explain", place / "wine-model", tmp_path / "wrong.csv", "--row", 0)
    assert f"(labelled {wine['kind'][0]})" in " ".join(shown.split())
    assert "labelled" not in succeeded("explain", place / "wine-model", place / "wine-new.csv", "--row", 0)
