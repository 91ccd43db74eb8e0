"""Excerpts: a folder that shows its decisions without the training data, through edits, shards and damage."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from torch import nn

from protoattend import CandidateDatabase, ImageFiles, ProtoAttendClassifier
from protoattend.data.inputs import thumbnails
from protoattend.database import previews as samples
from protoattend.database.storage import columns as files
from protoattend.errors import BadFile, MissingSamples

from .folders import flip_a_byte, open_again, truncate

BRIEF: dict[str, Any] = {"max_epochs": 1, "random_state": 0, "verbose": 0}


def in_excerpts(classifier: ProtoAttendClassifier, folder: Path) -> ProtoAttendClassifier:
    classifier.save(folder, excerpts=True)
    return ProtoAttendClassifier.load(folder)


def columns(folder: Path) -> set[str]:
    return set(json.loads((folder / "meta.json").read_text())["files"])


def same_exhibits(one: CandidateDatabase, other: CandidateDatabase) -> None:
    np.testing.assert_array_equal(one.indices, other.indices)
    for index in one.indices:
        np.testing.assert_array_equal(one.preview(index), other.preview(index))


@pytest.fixture(scope="module")
def large_digits(few_digits: Any) -> tuple[np.ndarray, np.ndarray]:
    """Digits of 96 x 80 pixels in colour."""
    images = (np.kron(few_digits[0][:60], np.ones((12, 10))) * 15).astype(np.uint8)
    return np.stack([images, 255 - images, images // 2], axis=1), few_digits[1][:60]


@pytest.fixture(scope="module")
def large_classifier(large_digits: Any) -> ProtoAttendClassifier:
    return ProtoAttendClassifier(**BRIEF).fit(*large_digits)


@pytest.fixture
def image_files(tmp_path: Path, large_digits: Any) -> ImageFiles:
    for i, (pixels, label) in enumerate(zip(*large_digits, strict=True)):
        (tmp_path / "photos" / str(label)).mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.moveaxis(pixels, 0, -1)).save(tmp_path / "photos" / str(label) / f"{i:03}.png")
    return ImageFiles.from_folder(tmp_path / "photos", size=(96, 80))


# -- showing -----------------------------------------------------------------------------------------------------------


def test_every_kind_decides_and_shows_as_before(any_kind: Any, tmp_path: Path) -> None:
    classifier, X, _ = any_kind
    loaded = in_excerpts(classifier, tmp_path / "model")
    kept = {name.split("_")[0] for name in columns(tmp_path / "model" / "database")} & {"source", "excerpts"}
    assert kept == ({"source"} if classifier.inputs_.kind == "table" else {"excerpts"})
    np.testing.assert_array_equal(loaded.predict_proba(X), classifier.predict_proba(X))
    same_exhibits(loaded.database_, classifier.database_)  # all of them are small
    for old, new in ((classifier.explain(X[:3]), loaded.explain(X[:3])), (classifier.explain(), loaded.explain())):
        assert repr(old.items) == repr(new.items)
        assert old[:3].to_html() == new[:3].to_html()
    assert len(loaded.explain(X[:2]).plot().axes) == 3
    assert [i.index for i in loaded.find_label_issues()] == [i.index for i in classifier.find_label_issues()]


def test_images_become_thumbnails(large_classifier: ProtoAttendClassifier, large_digits: Any, tmp_path: Path) -> None:
    loaded = in_excerpts(large_classifier, tmp_path / "model")
    entry = json.loads((tmp_path / "model" / "database" / "meta.json").read_text())["files"]["excerpts"]
    assert (entry["dtype"], entry["shape"]) == ("|u1", [60, 3, 64, 53])
    prototype = loaded.explain(large_digits[0][:1])[0].prototypes[0]
    assert prototype.preview.shape == (64, 53, 3)
    whole = large_digits[0][prototype.index]
    np.testing.assert_array_equal(prototype.preview, np.moveaxis(thumbnails(whole[None])[0], 0, -1))
    assert prototype.preview.mean((0, 1)) == pytest.approx(whole.mean((1, 2)), abs=2)
    figure = loaded.explain(large_digits[0][:1], top=1).plot()
    assert [image.get_array().shape for image in figure.axes[1].images] == [(96, 80, 3), (64, 53, 3)]
    assert loaded.explain()[:1].to_html().count("data:image/png") == 1 + len(loaded.explain()[0].prototypes)


def test_thin_and_float_images() -> None:
    assert thumbnails(np.zeros((2, 1, 900, 3), np.uint8)).shape == (2, 1, 64, 1)
    ramp = np.linspace(-1, 1, 4 * 128 * 128, dtype=np.float32).reshape(1, 4, 128, 128)
    made = ProtoAttendClassifier(**BRIEF).fit(np.concatenate([ramp, -ramp, ramp, -ramp]), [0, 1, 0, 1])
    small = made.inputs_.excerpts(made.inputs_.source(ramp))
    assert (small.dtype, small.shape) == (np.uint8, (1, 3, 64, 64))
    assert made.inputs_.preview(small[0]).shape == (64, 64, 3)
    assert (small[0, 0, 0, 0], small[0, 2, -1, -1]) == (0, 190)  # the fourth channel is not shown


def test_texts_become_their_beginnings(text_classifier: ProtoAttendClassifier, texts: Any, tmp_path: Path) -> None:
    classifier = copy.deepcopy(text_classifier)
    long = "this melon is new and good, " * 20
    (index,) = classifier.database_.add([long], ["fruit"])
    classifier.database_ = classifier.database_.without(np.arange(1, index))
    loaded = in_excerpts(classifier, tmp_path / "model")
    assert loaded.database_.preview(0) == texts[0][0]
    assert not any(long.encode() in path.read_bytes() for path in tmp_path.rglob("*.npy"))
    explained = loaded.explain([texts[0][0]], without=[0])
    assert [p.preview for p in explained[0].prototypes] == [long[:199] + "…"]
    assert "this melon is new" in re.sub("<.*?>", "", explained.to_html())
    assert explained.plot()


def test_image_files_are_shown_when_they_are_gone(image_files: ImageFiles, tmp_path: Path) -> None:
    classifier = ProtoAttendClassifier(**BRIEF).fit(image_files)
    new = np.stack([np.moveaxis(np.asarray(image_files[i]), -1, 0) for i in range(2)])
    loaded = in_excerpts(classifier, tmp_path / "model")
    assert columns(tmp_path / "model" / "database") >= {"source_text", "source_ends", "excerpts"}
    (tmp_path / "photos").rename(tmp_path / "elsewhere")
    with pytest.raises(BadFile, match="not there"):
        classifier.explain(new).to_html()
    with pytest.raises(BadFile, match="not there"):
        classifier.save(tmp_path / "model", excerpts=True)  # which leaves the folder as it was
    prototype = loaded.explain(new)[0].prototypes[0]
    assert prototype.preview.path == image_files.paths[prototype.index]
    assert prototype.preview.shape == np.asarray(prototype.preview).shape == (64, 53, 3)
    assert "data:image/png" in loaded.explain(new).to_html()
    assert loaded.explain(new).plot()
    assert loaded.database_.relocate(tmp_path / "photos", tmp_path / "elsewhere") == 60
    loaded.database_.save_edits()
    moved = ProtoAttendClassifier.load(tmp_path / "model").database_
    assert moved.preview(3).path.startswith(str(tmp_path / "elsewhere"))
    np.testing.assert_array_equal(moved.preview(3), loaded.database_.preview(3))
    added = moved.add(ImageFiles.from_paths([moved.preview(3).path], size=(96, 80)), ["0"])
    np.testing.assert_array_equal(moved.preview(added[0]), moved.preview(3))
    whole = open_again(classifier.database_, tmp_path / "model" / "database")
    assert whole.rows.source.tolist() == moved.rows.source.tolist()[:60]


# -- keeping -----------------------------------------------------------------------------------------------------------


def test_edits_compaction_and_copies_keep_excerpts_in_step(any_kind: Any, tmp_path: Path) -> None:
    classifier, X, y = any_kind
    in_memory = copy.deepcopy(classifier.database_)
    in_memory.save(tmp_path / "database", excerpts=True)
    kept = open_again(in_memory, tmp_path / "database")
    for database in (in_memory, kept):
        database.remove([3, 5])
        added = database.add(X[:3], y[:3])
        database.remove([added[1], 8])
        database.relabel([7], database.classes.values[1])
    same_exhibits(kept, in_memory)
    kept.save_edits()
    again = open_again(in_memory, tmp_path / "database")
    same_exhibits(again, in_memory)
    again.compact()
    again.verify()
    same_exhibits(again, in_memory)
    same_exhibits(open_again(in_memory, tmp_path / "database"), in_memory)
    same_exhibits(again.condense(20).quantize_keys("int8"), in_memory.condense(20))
    again.save(tmp_path / "twice", excerpts=True)
    assert columns(tmp_path / "twice") == columns(tmp_path / "database")
    same_exhibits(open_again(in_memory, tmp_path / "twice"), in_memory)


def test_excerpts_are_made_and_written_in_pieces(
    large_classifier: ProtoAttendClassifier, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    large_classifier.database_.save(tmp_path / "at once", excerpts=True)
    monkeypatch.setattr(samples, "AT_ONCE", 7)
    large_classifier.database_.save(tmp_path / "in pieces", excerpts=True)
    for name in ("meta.json", "excerpts.npy"):
        assert (tmp_path / "at once" / name).read_bytes() == (tmp_path / "in pieces" / name).read_bytes()


def test_shards_with_excerpts(text_classifier: ProtoAttendClassifier, tmp_path: Path) -> None:
    whole = text_classifier.database_
    whole.save(tmp_path / "one", excerpts=True)
    kept = open_again(whole, tmp_path / "one")
    for number in range(2):
        kept.save_shard(tmp_path / "shards", number, 2)
    CandidateDatabase.merge(tmp_path / "shards", tmp_path / "merged")
    merged = open_again(whole, tmp_path / "merged")
    assert merged.preview(len(whole) + 5) == whole.preview(5)
    whole.save_shard(tmp_path / "shards", 1, 2)
    with pytest.raises(BadFile, match="keep samples alike, but some keep excerpts"):
        CandidateDatabase.merge(tmp_path / "shards", tmp_path / "merged")


def test_what_needs_whole_samples_says_so(
    digit_classifier: ProtoAttendClassifier, wine_classifier: ProtoAttendClassifier, few_digits: Any, tmp_path: Path
) -> None:
    loaded = in_excerpts(digit_classifier, tmp_path / "digits")
    assert loaded.ood_score(few_digits[0][:3]).shape == (3,)
    with pytest.raises(MissingSamples, match="saved with excerpts=True and has none; use the classifier as it was"):
        loaded.ood_detector()
    assert in_excerpts(wine_classifier, tmp_path / "wine").ood_detector()


def test_a_module_of_ones_own_is_taken_on_trust(few_digits: Any, tmp_path: Path) -> None:
    module = nn.Sequential(nn.Flatten(), nn.Linear(64, 8))
    X, y = few_digits[0][:50], few_digits[1][:50]
    classifier = ProtoAttendClassifier(module, **BRIEF).fit(X, y)
    classifier.save(tmp_path / "model", excerpts=True)
    with pytest.warns(UserWarning, match="not checked: whole samples are needed"):
        loaded = ProtoAttendClassifier.load(tmp_path / "model", encoder=module)
    np.testing.assert_array_equal(loaded.predict_proba(X), classifier.predict_proba(X))


# -- damage ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (truncate, r"excerpts\.npy must have .* bytes, but it has .* truncated .* restore it"),
        (Path.unlink, r"must hold excerpts\.npy, but it is missing; restore"),
        (flip_a_byte, r"excerpts\.npy does not match its checksum .* restore it"),
        (lambda path: path.write_bytes(b"x" * path.stat().st_size), r"excerpts\.npy must be an array, .* restore it"),
    ],
)
def test_damage_is_told(
    large_classifier: ProtoAttendClassifier,
    large_digits: Any,
    tmp_path: Path,
    damage: Callable[[Path], Any],
    message: str,
) -> None:
    database = large_classifier.database_
    database.save(tmp_path / "database", excerpts=True)
    kept = open_again(database, tmp_path / "database")
    kept.add(large_digits[0][:2], large_digits[1][:2])
    kept.save_edits()
    for place in (".", "edits/00000001"):
        path = tmp_path / "database" / place / "excerpts.npy"
        before = path.read_bytes()
        damage(path)
        for read in (kept.verify, lambda: open_again(database, tmp_path / "database")):
            with pytest.raises(BadFile, match=message):
                read()
        path.write_bytes(before)
    kept.verify()


def test_neither_samples_nor_excerpts(digit_classifier: ProtoAttendClassifier, tmp_path: Path) -> None:
    digit_classifier.database_.save(tmp_path / "database", excerpts=True)
    path = tmp_path / "database" / "meta.json"
    meta = json.loads(path.read_text())
    del meta["files"]["excerpts"], meta["checksum"]
    path.write_text(json.dumps(meta))
    with pytest.raises(BadFile, match=r"\['source'\] are missing"):
        open_again(digit_classifier.database_, tmp_path / "database")


def test_large_excerpts_are_verified_on_demand(
    large_classifier: ProtoAttendClassifier, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    large_classifier.database_.save(tmp_path / "database", excerpts=True)
    flip_a_byte(tmp_path / "database" / "excerpts.npy")
    monkeypatch.setattr(files, "SMALL", 0)
    opened = open_again(large_classifier.database_, tmp_path / "database")
    with pytest.raises(BadFile, match=r"excerpts\.npy does not match its checksum"):
        opened.verify()
