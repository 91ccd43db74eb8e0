"""Damaged and foreign folders: each is refused by a clear error, or reads as before."""

from __future__ import annotations

import copy
import json
import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.faults.mutating import answers, attack

from protoattend import ProtoAttendClassifier
from protoattend.errors import BadFile, ProtoAttendError
from protoattend.files.meta import checksum
from protoattend.monitoring.drift import DriftMonitor

MUTATIONS = 16


def with_edits(clf: ProtoAttendClassifier, X: Any, y: Any, folder: Path) -> Path:
    """Save a calibrated classifier whose database has a log."""
    clf = copy.deepcopy(clf).calibrate(X, y)
    clf.save(folder)
    loaded = ProtoAttendClassifier.load(folder)
    loaded.database_.remove([3])
    loaded.database_.relabel([5], y[0])
    loaded.database_.add(X[:2], y[:2])
    loaded.database_.save_edits()
    return folder


def test_mutations_of_every_kind_of_folder(any_kind: Any, tmp_path: Path) -> None:
    clf, X, y = any_kind
    original = with_edits(clf, X, y, tmp_path / "original")
    expected = answers(original, X[:4])
    verdicts = [attack(original, tmp_path / "copy", X[:4], seed, expected) for seed in range(MUTATIONS)]
    assert [verdict for verdict in verdicts if verdict.outcome in ("silent", "raw")] == []
    assert Counter(verdict.outcome for verdict in verdicts)["refused"] > MUTATIONS // 2


def signed(folder: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    """Change a meta.json as somebody who knows how to make its checksum right again."""
    meta = json.loads((folder / "meta.json").read_text())
    meta.pop("checksum")
    change(meta)
    (folder / "meta.json").write_text(json.dumps(meta | {"checksum": checksum(meta)}))


def test_one_flipped_bit_in_a_label_is_told(text_classifier: ProtoAttendClassifier, tmp_path: Path) -> None:
    text_classifier.save(tmp_path / "model")
    path = tmp_path / "model" / "meta.json"
    path.write_text(path.read_text().replace('"tool"', '"toom"'))
    with pytest.raises(BadFile, match=r"meta\.json does not match its checksum"):
        ProtoAttendClassifier.load(tmp_path / "model")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda meta: meta.pop("classes"), "an object with 'classes'"),
        (lambda meta: meta.update(more=1), "alone, but it is 'more'"),
        (lambda meta: meta["classes"].update(dtype="<U99999"), "labels must"),
        (lambda meta: meta["classes"].update(values=[0, 0, 1]), "different values"),
        (lambda meta: meta["inputs"].update(kind="__class__"), "inputs.kind must be one of"),
        (lambda meta: meta["history"].update(best_epoch=999), "an epoch that its history lacks"),
        (lambda meta: meta["encoder"]["config"]["body"].update(widths=[1 << 19, 1 << 19]), "weights of another model"),
        (lambda meta: meta["encoder"]["config"]["body"].update(part="Linear"), "an encoder is made of"),
        (lambda meta: meta["encoder"]["config"]["body"].update(colour="blue"), "cannot be made again"),
        (lambda meta: meta["encoder"]["config"]["body"].update(widths="wide"), "widths of .* must be"),
        (lambda meta: meta["inputs"]["state"]["columns"][0].update(name="other"), "records of all names"),
        (
            lambda meta: meta["likeness"]["sketch"].update(cardinalities=[1, 1]),
            "cardinalities of an encoder must be as its inputs are",
        ),
        (lambda meta: meta["settings"].update(d_att=1 << 40), "d_att must be an integer from 1 to 65536"),
        (lambda meta: meta["settings"].update(recipe={"schedule": {"name": "system", "x": 1}}), "cannot be made again"),
        (lambda meta: meta.update(files={"../../x": {"bytes": 1, "sha256": "0" * 64}}), "files must be an object"),
    ],
)
@pytest.mark.filterwarnings("ignore:the schedule system")
def test_a_malformed_meta_is_one_clear_sentence(
    wine_classifier: ProtoAttendClassifier, tmp_path: Path, change: Any, message: str
) -> None:
    wine_classifier.save(tmp_path / "model")
    signed(tmp_path / "model", change)
    with pytest.raises(ProtoAttendError, match=message):
        ProtoAttendClassifier.load(tmp_path / "model")


def test_readings_that_lack_a_part(wine_classifier: ProtoAttendClassifier, tmp_path: Path) -> None:
    wine_classifier.save(tmp_path / "model")
    signed(tmp_path / "model" / "database", lambda meta: meta["readings"].pop("flat_temperature"))
    with pytest.raises(BadFile, match="readings must be an object with 'flat_temperature'"):
        ProtoAttendClassifier.load(tmp_path / "model")
    wine_classifier.save(tmp_path / "other")
    signed(tmp_path / "other" / "database", lambda meta: meta["readings"]["familiar_from"].clear())
    with pytest.raises(BadFile, match=r"familiar_from must be of all 3 classes"):
        ProtoAttendClassifier.load(tmp_path / "other")


def test_texts_must_be_read_as_the_encoder_takes_them(text_classifier: ProtoAttendClassifier, tmp_path: Path) -> None:
    text_classifier.save(tmp_path / "model")
    changes: dict[str, Callable[[dict[str, Any]], Any]] = {
        "n_subwords": lambda meta: meta["inputs"]["state"].update(n_subwords=0),
        "n_grams": lambda meta: meta["inputs"].update(state={"length": 32}),  # so, by their characters
    }
    for name, change in changes.items():
        signed(tmp_path / "model", change)
        with pytest.raises(BadFile, match=f"{name} of an encoder must be as its inputs are"):
            ProtoAttendClassifier.load(tmp_path / "model")


def test_json_that_is_nested_too_deep(wine_classifier: ProtoAttendClassifier, tmp_path: Path) -> None:
    wine_classifier.save(tmp_path / "model")
    (tmp_path / "model" / "meta.json").write_text("[" * 100_000)
    with pytest.raises(BadFile, match="must be JSON"):
        ProtoAttendClassifier.load(tmp_path / "model")


def rewritten(folder: Path, name: str, change: Callable[[np.ndarray], Any]) -> None:
    """Change the values of a column, with a checksum that is right."""
    import hashlib

    array = np.load(folder / f"{name}.npy")
    change(array)
    np.save(folder / f"{name}.npy", array)

    def describe(meta: dict[str, Any]) -> None:
        meta["files"][name]["sha256"] = hashlib.sha256(np.ascontiguousarray(array).data).hexdigest()
        meta["files"][name]["bytes"] = (folder / f"{name}.npy").stat().st_size

    signed(folder, describe)


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("labels", lambda column: column.__setitem__(3, 7), "labels are not all from 0 to 2"),
        ("labels", lambda column: column.__setitem__(3, -1), "labels are not all from 0 to 2"),
        ("keys", lambda column: column.__setitem__((3, 0), np.nan), "keys are not finite"),
        ("class_scores", lambda column: column.__setitem__((3, 0), np.inf), "class_scores are not finite"),
        ("ids", lambda column: column.__setitem__(3, 2), "indices do not ascend"),
        ("ids", lambda column: column.__setitem__(-1, 10**6), "next_id is too low"),
    ],
)
def test_values_are_checked_before_use(
    wine_classifier: ProtoAttendClassifier, tmp_path: Path, name: str, change: Any, message: str
) -> None:
    wine_classifier.save(tmp_path / "model")
    rewritten(tmp_path / "model" / "database", name, change)
    with pytest.raises(BadFile, match=message):
        ProtoAttendClassifier.load(tmp_path / "model")


def test_text_ends_must_ascend(text_classifier: ProtoAttendClassifier, tmp_path: Path) -> None:
    text_classifier.save(tmp_path / "model")
    rewritten(tmp_path / "model" / "database", "source_ends", lambda column: column.__setitem__(3, 10**6))
    with pytest.raises(BadFile, match="do not lie end to end"):
        ProtoAttendClassifier.load(tmp_path / "model")


@pytest.mark.parametrize(
    ("edit", "name", "value", "message"),
    [
        ("00000001", "ids", 999, "must edit rows that are there"),
        ("00000002", "labels", 99, "labels are not all"),
        ("00000003", "ids", 0, "indices do not ascend|add rows like those"),
    ],
)
def test_edits_must_refer_to_what_exists(
    wine_classifier: ProtoAttendClassifier, wine: Any, tmp_path: Path, edit: str, name: str, value: int, message: str
) -> None:
    folder = with_edits(wine_classifier, *wine, tmp_path / "model")
    rewritten(folder / "database" / "edits" / edit, name, lambda column: column.__setitem__(0, value))
    with pytest.raises(BadFile, match=message):
        ProtoAttendClassifier.load(folder)


def test_a_name_in_an_old_folder_cannot_lead_out_of_it(tmp_path: Path) -> None:
    import shutil

    shutil.copytree(Path(__file__).parents[1] / "formats" / "classifier-v1", tmp_path / "model")
    path = tmp_path / "model" / "database" / "meta.json"
    meta = json.loads(path.read_text())
    meta["sha256"]["../../secret.npy"] = meta["sha256"].pop("ids.npy")
    path.write_text(json.dumps(meta))
    from torch import nn

    with pytest.raises(BadFile, match=r"'\.\./\.\./secret\.npy'"):
        ProtoAttendClassifier.load(tmp_path / "model", encoder=nn.Sequential(nn.Linear(4, 8), nn.ReLU()))


def test_a_pipe_in_place_of_a_file_does_not_hang(wine_classifier: ProtoAttendClassifier, tmp_path: Path) -> None:
    for name in ("meta.json", "model.safetensors", "database/keys.npy"):
        wine_classifier.save(tmp_path / name.replace("/", "-"))
        path = tmp_path / name.replace("/", "-") / name
        path.unlink()
        os.mkfifo(path)
        with pytest.raises(BadFile):
            ProtoAttendClassifier.load(tmp_path / name.replace("/", "-"))


def test_errors_of_our_own_code_are_not_taken_for_damage(
    wine_classifier: ProtoAttendClassifier, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wine_classifier.save(tmp_path / "model")

    def wrong(*given: Any, **named: Any) -> None:
        raise TypeError("a mistake of ours")

    monkeypatch.setattr("protoattend.io._open_database", wrong)
    with pytest.raises(TypeError, match="a mistake of ours"):
        ProtoAttendClassifier.load(tmp_path / "model")


@pytest.mark.parametrize("generator", [{}, {"bit_generator": "MT19937"}, None])
def test_a_monitor_of_a_malformed_generator(
    wine_classifier: ProtoAttendClassifier, wine: Any, tmp_path: Path, generator: Any
) -> None:
    wine_classifier.drift_monitor(wine[0]).save(tmp_path / "monitor")
    signed(tmp_path / "monitor", lambda meta: meta.update(generator=generator))
    with pytest.raises(BadFile, match="generator"):
        DriftMonitor.load(tmp_path / "monitor")
