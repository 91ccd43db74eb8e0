"""Runs on few digits: what they measure, that they are kept, and that they go on where they were interrupted."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from protoattend import ProtoAttendClassifier
from protoattend.core.objectives import OBJECTIVES
from protoattend.reproduce import comparison, comparison_data, experiments, runs
from protoattend.reproduce.experiments import Run
from protoattend.reproduce.runs import missing, path_of, reproduce

TINY = {"rows": 200, "test_rows": 60, "params": {"max_epochs": 1}}
PAPER = {**TINY, "params": {"max_epochs": 1, "n_candidates": 32, "encoder": "half-width fast-cnn"}}
Do = Callable[[Run, dict[str, Any]], dict[str, Any]]


@pytest.fixture
def do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Do:
    """Return what does a run with other settings than the experiment has."""

    def run_with(run: Run, config: dict[str, Any]) -> dict[str, Any]:
        monkeypatch.setattr(runs, "config_of", lambda run: config)
        return reproduce(run, tmp_path / "results", tmp_path / "work")["figures"]

    return run_with


def test_table1_has_every_objective(do: Do) -> None:
    found = do(Run("table1", "digits", "paper"), PAPER)
    assert list(found) == list(OBJECTIVES)
    for figures in found.values():
        right, wrong = figures["joint_right"], figures["joint_wrong"]
        accuracy = figures["prototype_accuracy"]
        assert right == pytest.approx(accuracy * (figures["confidence_of_right"] or 0))
        assert wrong == pytest.approx((1 - accuracy) * (figures["confidence_of_wrong"] or 0))
        assert figures["iterations"] == 200 // 128


def test_table2_counts_prototypes_as_learned_and_few(do: Do) -> None:
    config = {**TINY, "params": {"max_epochs": 3}, "trainings": ["softmax", "sparsemax"]}
    found = do(Run("table2", "digits", "ours"), config)
    assert list(found) == ["plain", "softmax", "sparsemax"]
    assert "few" not in found["softmax"]
    assert found["sparsemax"]["few"]["prototypes"]["95%"] <= 9
    counts = found["sparsemax"]["as_learned"]["prototypes"]
    assert counts["50%"] <= counts["90%"] <= counts["95%"] < found["softmax"]["as_learned"]["prototypes"]["95%"]
    assert len(found["sparsemax"]["selective"]["accuracy"]) == 26
    example = found["sparsemax"]["examples"][0]
    assert example["prediction"] == example["label"]
    assert example["input"]["png"]


def test_the_papers_recipe_is_made_sharper_only_afterwards(do: Do) -> None:
    found = do(Run("table2", "digits", "paper"), {**PAPER, "trainings": ["sparsemax"]})["sparsemax"]
    assert found["few"]["prototypes"]["95%"] <= max(9, found["as_learned"]["prototypes"]["95%"])


def test_table3_corrects_labels_by_ours_alone(do: Do) -> None:
    noisy = {**TINY, "of": "digits", "noise": 0.4, "dropout": 0.5, "lambdas": [0, 0.1]}
    found = do(Run("table3", "digits-noise-40", "ours"), noisy)
    assert list(found) == ["plain", "dropout", "lambda_sparse=0", "lambda_sparse=0.1", "corrected"]
    assert found["plain"]["labels_right"] == pytest.approx(0.6)
    assert found["corrected"]["labels_right"] != found["plain"]["labels_right"]


def test_sparsity_is_followed_over_training(do: Do) -> None:
    config = {**PAPER, "training": "softmax", "lambdas": [0, 10]}
    config["params"] = {**config["params"], "max_epochs": 4}
    found = do(Run("sparsity", "digits", "paper"), config)
    last = {value: figures["curve"][-1][2] for value, figures in found.items()}
    assert last["10"] < last["0"]
    assert [step for step, *_ in found["0"]["curve"]] == [1, 2, 3, 4]


def test_cost_counts_what_attention_adds(do: Do) -> None:
    found = do(Run("cost", "digits", "ours"), {**TINY, "timed_rows": 100, "rounds": 1, "candidates": 20})
    assert found["parameters"]["queries and keys"] == 2 * 16 * (128 + 1)  # of 128 features
    assert found["multiply_adds"]["candidates"] == 100
    assert found["epoch_ratio"]["plain"] == 1.0


def test_comparison_measures_all_methods(do: Do, monkeypatch: pytest.MonkeyPatch) -> None:
    some = ("ProtoAttend, C", "ProtoAttend softmax, C", "MSP", "deep kNN, credibility", "trust score", "deep ensemble")
    monkeypatch.setattr(comparison, "CONFIDENCE", {name: comparison.CONFIDENCE[name] for name in some})
    found = do(Run("compare", "digits", "ours"), {**TINY, "members": 2, "calibration": 20})
    assert list(found["confidence"]) == list(some)
    assert found["sizes"] == {"train": 200, "calibration": 20, "test": 40, "explained": 40, "rotated": 40}
    assert "above" not in found["confidence"]["trust score"]
    assert len(found["confidence"]["MSP"]["above"]["rotated"]) == 21
    assert set(found["examples"]) == {"ProtoAttend", *comparison.RANKERS}


def test_frozen_features_are_shown_as_pictures_beside_those_of_other_methods(do: Do, monkeypatch: Any) -> None:
    monkeypatch.setattr(comparison, "CONFIDENCE", {})
    flat = lambda X, path, size: {name: images.reshape(len(images), -1) / 16 for name, images in X.items()}  # noqa: E731
    monkeypatch.setattr(comparison_data, "_features", flat)
    config = {**TINY, "frozen": 8, "calibration": 20, "members": 1, "params": {"max_epochs": 1, "encoder": "features"}}
    found = do(Run("compare", "digits", "ours"), config)["side_by_side"]
    assert len({each["label"] for each in found}) == len(found) == comparison.SHOWN
    for each in found:
        assert list(each["found_by"]) == ["ProtoAttend", "representer points", "influence functions"]
        assert all(1 <= len(examples) <= 5 for examples in each["found_by"].values())
        assert all(example["input"]["png"] for examples in each["found_by"].values() for example in examples)


def test_a_training_that_was_interrupted_goes_on(do: Do, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    run, config = Run("table2", "digits", "ours"), {**TINY, "trainings": ["softmax", "sparsemax"]}
    save = ProtoAttendClassifier.save

    def stop(clf: ProtoAttendClassifier, folder: Path) -> None:
        if folder.name == "sparsemax":
            raise KeyboardInterrupt
        save(clf, folder)

    monkeypatch.setattr(ProtoAttendClassifier, "save", stop)
    with pytest.raises(KeyboardInterrupt):
        do(run, config)
    assert not path_of(run, tmp_path / "results").exists()
    folder = next((tmp_path / "work").iterdir())
    before = json.loads((folder / "minutes.json").read_text())
    monkeypatch.setattr(ProtoAttendClassifier, "save", save)
    asked: list[dict[str, Any]] = []
    fit = ProtoAttendClassifier.fit
    monkeypatch.setattr(
        ProtoAttendClassifier, "fit", lambda clf, X, y, **more: asked.append(more) or fit(clf, X, y, **more)
    )
    do(run, config)
    assert ["resume_from" in more for more in asked] == [True]  # softmax is done, and sparsemax was begun
    report = json.loads(path_of(run, tmp_path / "results").read_text())
    assert report["cpu_minutes"] >= before["cpu_minutes"]
    assert report["config"] == config
    assert report["rows"] == {"train": 200, "test": 60}


def test_runs_of_other_settings_are_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = Run("table2", "adult", "ours"), Run("table2", "mnist", "ours")
    monkeypatch.setattr(runs, "listed", lambda: (first, second))
    assert missing(tmp_path) == [first, second]
    path_of(first, tmp_path).write_text(json.dumps({"config": experiments.config_of(first)}))
    path_of(second, tmp_path).write_text(json.dumps({"config": {"rows": 5}}))
    assert missing(tmp_path) == [second]
