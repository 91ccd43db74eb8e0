"""A saved classifier comes back bit-equal, without pickle, and a failed save loses nothing."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from protoattend import ProtoAttendClassifier, Recipe
from protoattend.core.schedule import ExponentialDecay
from protoattend.errors import BadFile, UserError


def test_round_trip(any_kind: Any, tmp_path: Path) -> None:
    classifier, X, _ = any_kind
    classifier.save(tmp_path / "model")
    loaded = ProtoAttendClassifier.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict_proba(X), classifier.predict_proba(X))
    np.testing.assert_array_equal(loaded.confidence(X), classifier.confidence(X))
    np.testing.assert_array_equal(loaded.classes_, classifier.classes_)
    assert loaded.classes_.dtype == classifier.classes_.dtype
    assert loaded.get_params() == classifier.get_params()
    assert loaded.history_ == classifier.history_
    for old, new in zip(classifier.explain(X[:3]), loaded.explain(X[:3]), strict=True):
        assert [p.index for p in old.prototypes] == [p.index for p in new.prototypes]
        np.testing.assert_array_equal(old.prototypes[0].preview, new.prototypes[0].preview)


def test_no_pickle_in_the_folder(any_kind: Any, tmp_path: Path) -> None:
    any_kind[0].save(tmp_path / "model")
    assert {path.suffix for path in (tmp_path / "model").rglob("*") if path.is_file()} <= {
        ".json",
        ".npy",
        ".safetensors",
    }
    for path in (tmp_path / "model").rglob("*.npy"):
        np.load(path, allow_pickle=False)


def test_parameters_that_json_does_not_know(wine: Any, tmp_path: Path) -> None:
    classifier = ProtoAttendClassifier(
        recipe=Recipe(schedule=ExponentialDecay(0.9, 10)),
        class_weight={0: 2.0, 1: 1.0},
        undersample={2: 0.5},
        categorical_features=None,
        max_epochs=1,
        random_state=0,
        verbose=0,
    ).fit(*wine)
    classifier.calibrate(*wine)
    classifier.save(tmp_path / "model")
    loaded = ProtoAttendClassifier.load(tmp_path / "model")
    assert loaded.get_params() == classifier.get_params()
    assert loaded.prediction_set(wine[0]) == classifier.prediction_set(wine[0])


def test_a_failed_save_keeps_the_old_folder(
    wine_classifier: ProtoAttendClassifier, wine: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wine_classifier.save(tmp_path / "model")

    def full_disk(*args: Any, **kwargs: Any) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("protoattend.database.storage.columns.hashlib.sha256", full_disk)
        with pytest.raises(OSError, match="No space left"):
            wine_classifier.save(tmp_path / "model")
    assert [path.name for path in tmp_path.iterdir()] == ["model"]
    loaded = ProtoAttendClassifier.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict(wine[0]), wine_classifier.predict(wine[0]))


def test_foreign_folders_and_files(wine_classifier: ProtoAttendClassifier, tmp_path: Path) -> None:
    with pytest.raises(BadFile, match=r"no meta\.json"):
        ProtoAttendClassifier.load(tmp_path / "nothing")
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(UserError, match="holds other files"):
        wine_classifier.save(tmp_path)
    with pytest.raises(UserError, match="is a file"):
        wine_classifier.save(tmp_path / "notes.txt")
    assert (tmp_path / "notes.txt").read_text() == "mine"
    wine_classifier.save(tmp_path / "model")
    weights = tmp_path / "model" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:100])
    with pytest.raises(BadFile, match=r"model\.safetensors does not match its checksum"):
        ProtoAttendClassifier.load(tmp_path / "model")


def test_a_parameter_of_another_version_is_left_out(wine_classifier: ProtoAttendClassifier, tmp_path: Path) -> None:
    wine_classifier.save(tmp_path / "model")
    meta = json.loads((tmp_path / "model" / "meta.json").read_text())
    meta["settings"]["colour"] = 3
    (tmp_path / "model" / "meta.json").write_text(json.dumps({name: meta[name] for name in meta if name != "checksum"}))
    with pytest.warns(UserWarning, match="another version of protoattend, whose colour this one does not have"):
        loaded = ProtoAttendClassifier.load(tmp_path / "model")
    assert loaded.get_params() == wine_classifier.get_params()


def test_labels_that_cannot_be_saved(wine: Any, tmp_path: Path) -> None:
    X, y = wine
    classifier = ProtoAttendClassifier(max_epochs=1, random_state=0, verbose=0).fit(X, [(int(c),) for c in y])
    with pytest.raises(UserError, match="only str, int, float and bool labels"):
        classifier.save(tmp_path / "model")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_of_format_version_1_is_still_read() -> None:
    """Saved before there were weights, after a row was removed and one relabelled."""
    here = Path(__file__).parent
    assert json.loads((here / "classifier-v1" / "database" / "meta.json").read_text())["version"] == 1
    module = nn.Sequential(nn.Linear(4, 8), nn.ReLU())
    loaded = ProtoAttendClassifier.load(here / "classifier-v1", encoder=module)
    assert loaded.undersample is None
    assert set(loaded.database_.sample_weight.tolist()) == {1.0}
    assert 4 not in loaded.database_.indices
    for row in json.loads((here / "classifier-v1.json").read_text()):
        np.testing.assert_allclose(loaded.predict_proba([row["x"]]), [row["proba"]], atol=2e-5)
        assert [p.index for p in loaded.explain([row["x"]])[0].prototypes] == row["prototypes"]


def test_a_classifier_of_version_1_keeps_its_keys_when_saved_anew(tmp_path: Path) -> None:
    """Keys had lengths of their own then."""
    old = Path(__file__).parent / "classifier-v1"
    module = nn.Sequential(nn.Linear(4, 8), nn.ReLU())
    loaded = ProtoAttendClassifier.load(old, encoder=module)
    loaded.save(tmp_path / "anew")
    again = ProtoAttendClassifier.load(tmp_path / "anew", encoder=module)
    x = [row["x"] for row in json.loads((old.parent / "classifier-v1.json").read_text())]
    np.testing.assert_array_equal(again.predict_proba(x), loaded.predict_proba(x))
    np.testing.assert_allclose(again._encode(x).keys, loaded._encode(x).keys)
    assert again._encode(x).keys.norm(dim=1).std() > 0.01


def test_a_fast_cnn_is_read_with_the_widths_it_was_trained_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    X, y = np.random.default_rng(0).random((40, 28, 28), dtype=np.float32), np.arange(40) % 2
    with monkeypatch.context() as patched:
        patched.setattr("protoattend.encoders.build._widths", lambda form, n_rows: (32, 128, 256))
        classifier = ProtoAttendClassifier(max_epochs=1, random_state=0, verbose=0).fit(X, y)
        classifier.save(tmp_path / "wide")
    again = ProtoAttendClassifier.load(tmp_path / "wide")
    np.testing.assert_allclose(again.predict_proba(X), classifier.predict_proba(X), atol=1e-6)


def test_loading_leaves_the_module_passed_as_it_is(wine: Any, tmp_path: Path) -> None:
    X, y = wine
    module = nn.Sequential(nn.Linear(X.shape[1], 8), nn.ReLU())
    ProtoAttendClassifier(encoder=module, max_epochs=1, random_state=0, verbose=0).fit(X, y).save(tmp_path / "model")
    before = module[0].weight.clone()
    ProtoAttendClassifier.load(tmp_path / "model", encoder=module)
    assert torch.equal(module[0].weight, before)


def test_a_folder_of_format_version_2_is_still_read(tmp_path: Path) -> None:
    """Version 2 is version 1 with weights."""
    here = Path(__file__).parent
    shutil.copytree(here / "classifier-v1", tmp_path / "v2")
    path = tmp_path / "v2" / "database" / "meta.json"
    meta = json.loads(path.read_text()) | {"version": 2}
    path.write_text(json.dumps(meta))
    module = nn.Sequential(nn.Linear(4, 8), nn.ReLU())
    with pytest.raises(BadFile, match="weights"):
        ProtoAttendClassifier.load(tmp_path / "v2", encoder=module)
    weights = np.arange(1, meta["count"] + 1, dtype=np.float32)
    np.save(path.with_name("weights.npy"), weights)
    meta["sha256"]["weights.npy"] = hashlib.sha256(path.with_name("weights.npy").read_bytes()).hexdigest()
    path.write_text(json.dumps(meta))
    loaded = ProtoAttendClassifier.load(tmp_path / "v2", encoder=module)
    np.testing.assert_array_equal(loaded.database_.sample_weight, weights)
    X = [row["x"] for row in json.loads((here / "classifier-v1.json").read_text())]
    before = loaded.predict_proba(X)
    loaded.database_.relabel([0], loaded.classes_[0])
    with pytest.raises(UserError, match=r"version 2, which has no log of edits; call compact\(\)"):
        loaded.database_.save_edits()
    loaded.database_.compact()  # now it is of the present version
    loaded.database_.relabel([0], loaded.classes_[1])
    assert loaded.database_.save_edits() == 1
    again = ProtoAttendClassifier.load(tmp_path / "v2", encoder=module)
    np.testing.assert_allclose(again.predict_proba(X), loaded.predict_proba(X), atol=1e-6)
    assert not np.array_equal(again.predict_proba(X), before)
    path.write_text(json.dumps(meta | {"version": 0}))
    with pytest.raises(BadFile, match="format version 0, but this protoattend reads version 3"):
        ProtoAttendClassifier.load(tmp_path / "v2", encoder=module)
