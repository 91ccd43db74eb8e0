"""Files whose first line may name columns or not, read for a classifier as its training file was."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from protoattend import ProtoAttendClassifier

from .running import as_json, failed, rows, run, succeeded

FIT = ("--epochs", 1)


@pytest.fixture(scope="module")
def spectra() -> pd.DataFrame:
    """Numbers under numbers, as spectra have them, and what they are of."""
    values = np.random.default_rng(0).uniform(size=(40, 3)).round(3)
    kinds = ["oak" if first < 0.5 else "elm" for first in values[:, 0]]
    return pd.DataFrame(values, columns=["400.5", "401", "402"]).assign(kind=kinds)


def fit(folder: Path, frame: pd.DataFrame, *more: object, header: bool = True) -> Path:
    frame.to_csv(folder / "train.csv", index=False, header=header)
    succeeded("fit", folder / "train.csv", "--to", folder / "model", *FIT, *more)
    return folder / "model"


def test_a_line_with_the_names_of_fit_is_a_header(spectra: pd.DataFrame, tmp_path: Path) -> None:
    model = fit(tmp_path, spectra, "--target", "kind")
    new = spectra[["402", "401", "400.5"]]
    new.to_csv(tmp_path / "new.csv", index=False)
    labels = [row["label"] for row in rows(succeeded("predict", model, tmp_path / "new.csv"))]
    assert labels == ProtoAttendClassifier.load(model).predict(new).tolist()
    assert len(rows(succeeded("predict", model, tmp_path / "new.csv", "--no-header"))) == len(new) + 1


def test_a_header_that_fit_was_told_of_is_remembered(spectra: pd.DataFrame, tmp_path: Path) -> None:
    spectra = spectra.set_axis(["1.5", "2.5", "3.5", "oak"], axis=1)
    model = fit(tmp_path, spectra, "--target", "oak", "--header")
    assert as_json("evaluate", model, tmp_path / "train.csv")["n_samples"] == len(spectra)
    spectra.drop(columns="oak").to_csv(tmp_path / "bare.csv", index=False, header=False)
    assert "are missing" in failed("predict", model, tmp_path / "bare.csv")
    assert len(rows(succeeded("predict", model, tmp_path / "bare.csv", "--no-header"))) == len(spectra)


def test_a_name_among_texts_without_a_header_is_warned_of(place: Path, tmp_path: Path) -> None:
    texts = pd.read_csv(place / "texts.csv")
    model = fit(tmp_path, texts, "--target", 1, "--text", 0, "--no-header", header=False)
    texts[["said"]].to_csv(tmp_path / "named.csv", index=False)
    texts[["said"]].to_csv(tmp_path / "bare.csv", index=False, header=False)
    assert "its first line, 'said', is unlike" in run("predict", model, tmp_path / "named.csv").stderr
    assert "first line" not in run("predict", model, tmp_path / "bare.csv").stderr
    shown = rows(succeeded("predict", model, tmp_path / "named.csv", "--header", "--text", "said"))
    assert len(shown) == len(texts)


@pytest.mark.parametrize("target", [0, 2, -1, "column 1"])
def test_without_a_header_the_labels_are_what_one_column_less_lacks(
    spectra: pd.DataFrame, tmp_path: Path, target: int | str
) -> None:
    named = spectra.assign(name=[f"n{i}" for i in range(len(spectra))])
    order = {0: "kind name 400.5 401 402", 2: "name 401 kind 400.5 402", -1: "name 400.5 401 402 kind"}
    whole = named[order.get(target, "name kind 402 401 400.5").split()]
    place = whole.columns.get_loc("name")
    model = fit(tmp_path, whole, "--target", target, "--id", place, header=False)
    parts = {
        "train": whole,
        "unlabelled": whole.drop(columns="kind"),
        "bare": whole.drop(columns=["kind", "name"]),
    }
    labels = []
    for name, frame in parts.items():
        frame.to_csv(tmp_path / f"{name}.csv", index=False, header=False)
        found = rows(succeeded("predict", model, tmp_path / f"{name}.csv"))
        assert [row.get(str(place)) for row in found] == (whole["name"].tolist() if "name" in frame else [None] * 40)
        labels.append([(row["label"], row["confidence"]) for row in found])
        explained = as_json("explain", model, tmp_path / f"{name}.csv", "--row", 3, "--top", 1)
        assert explained[0]["prediction"] == found[3]["label"]
    assert labels[0] == labels[1] == labels[2]
    assert "labels are needed" in failed("evaluate", model, tmp_path / "unlabelled.csv")


def test_a_header_that_fit_did_not_have_is_told_of(spectra: pd.DataFrame, tmp_path: Path) -> None:
    model = fit(tmp_path, spectra, "--target", -1, header=False)
    new = spectra[["400.5", "401", "402"]]
    new.set_axis(["a", "b", "c"], axis=1).to_csv(tmp_path / "named.csv", index=False)
    new.to_csv(tmp_path / "bare.csv", index=False, header=False)
    asked = ("predict", model, tmp_path / "named.csv")
    assert "if the first line names the columns, say so" in run(*asked).stderr
    assert succeeded(*asked, "--header") == succeeded("predict", model, tmp_path / "bare.csv")


def test_without_a_header_texts_move_where_labels_are_missing(place: Path, tmp_path: Path) -> None:
    texts = pd.read_csv(place / "texts.csv")[["what", "said"]]
    model = fit(tmp_path, texts, "--target", 0, "--text", 1, "--no-header", header=False)
    texts[["said"]].to_csv(tmp_path / "bare.csv", index=False, header=False)
    assert succeeded("predict", model, tmp_path / "bare.csv") == succeeded("predict", model, tmp_path / "train.csv")


@pytest.mark.parametrize("name", ["row", "label", "confidence", "ood_score"])
def test_identifiers_are_kept_whatever_their_column_is_called(spectra: pd.DataFrame, tmp_path: Path, name: str) -> None:
    named = spectra.assign(**{name: [f"n{i}" for i in range(len(spectra))]})
    model = fit(tmp_path, named, "--target", "kind", "--id", name)
    first = rows(succeeded("predict", model, tmp_path / "train.csv", "--ood"))[0]
    assert (first[f"id {name}"], first["row"]) == ("n0", "0")
    assert first["label"] in ("oak", "elm")
    assert list(first)[2:] == ["label", "confidence", "ood_score"]
    found = as_json("ood", model, tmp_path / "train.csv")
    assert "n0" in found[0].values()
    assert float(found[0]["ood_score"]) >= 0
    explained = as_json("explain", model, tmp_path / "train.csv", "--row", 2)
    assert "n2" in explained[0].values()
    assert explained[0]["row"] == 2
