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
