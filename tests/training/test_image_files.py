"""Training from image files equals training from the same images in memory, and never holds more than it needs."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from protoattend import ImageFiles, ProtoAttendClassifier
from protoattend.baselines.plain import PlainClassifier
from protoattend.data import images as module
from protoattend.encoders import build
from protoattend.errors import BadFile, UserError

PARAMS: dict[str, Any] = {"max_epochs": 2, "random_state": 0, "verbose": 0}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, few_digits: Any) -> Path:
    """120 digits as PNG files by class."""
    root = tmp_path_factory.mktemp("files") / "digits"
    for i, (pixels, label) in enumerate(zip(few_digits[0][:120], few_digits[1], strict=False)):
        (root / f"digit {label}").mkdir(parents=True, exist_ok=True)
        Image.fromarray((pixels * 15).astype(np.uint8)).save(root / f"digit {label}" / f"{i:03}.png")
    return root


@pytest.fixture(params=["memory", "disk"])
def kept(request: Any, monkeypatch: pytest.MonkeyPatch) -> str:
    """Whether files are decoded once or at each use."""
    if request.param == "disk":
        monkeypatch.setattr(module, "AT_ONCE", 0)
    return request.param


@pytest.fixture(scope="module")
def from_files(folder: Path) -> ProtoAttendClassifier:
    return ProtoAttendClassifier(**PARAMS).fit(ImageFiles.from_folder(folder))


@pytest.mark.parametrize("params", [{}, {"candidates": "sampled", "n_candidates": 20}, {"encoder": "resnet32"}])
def test_bit_equal_to_the_same_images_in_memory(folder: Path, kept: str, params: dict[str, Any]) -> None:
    images = ImageFiles.from_folder(folder)
    arrays = np.asarray(images)
    assert arrays.dtype == np.uint8
    params = PARAMS | params
    on_disk = ProtoAttendClassifier(**params).fit(images)
    in_memory = ProtoAttendClassifier(**params).fit(arrays, images.y)
    for (name, a), b in zip(on_disk.model_.state_dict().items(), in_memory.model_.state_dict().values(), strict=True):
        assert torch.equal(a, b), name
    assert [record.losses for record in on_disk.history_] == [record.losses for record in in_memory.history_]
    np.testing.assert_array_equal(on_disk.predict_proba(images), in_memory.predict_proba(arrays))
    np.testing.assert_array_equal(on_disk.predict_proba(arrays), in_memory.predict_proba(images))
    for ours, theirs in zip(on_disk.explain(images[:5]), in_memory.explain(arrays[:5]), strict=True):
        np.testing.assert_array_equal(ours.preview, theirs.preview)
        for p, q in zip(ours.prototypes, theirs.prototypes, strict=True):
            assert (p.index, p.weight, p.label) == (q.index, q.weight, q.label)
            np.testing.assert_array_equal(p.preview, q.preview)
            assert p.preview.path == images.paths[p.index]


def test_the_plain_baseline_too(folder: Path, kept: str) -> None:
    images = ImageFiles.from_folder(folder)
    on_disk = PlainClassifier(**PARAMS).fit(images)
    in_memory = PlainClassifier(**PARAMS).fit(np.asarray(images), images.y)
    np.testing.assert_array_equal(on_disk.predict_proba(images), in_memory.predict_proba(np.asarray(images)))


def test_the_front_looks_at_a_part_and_training_reads_batches(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every array of decoded images is made by `_start`."""
    monkeypatch.setattr(module, "AT_ONCE", 0)
    monkeypatch.setattr(build, "MOST_NUMBERS", 40 * 64)
    sizes: list[int] = []
    real = module.ImageSamples._start

    def watching(self: Any, pool: Any, rows: Any) -> Any:
        images, futures = real(self, pool, rows)
        sizes.append(len(images))
        return images, futures

    monkeypatch.setattr(module.ImageSamples, "_start", watching)
    ProtoAttendClassifier(batch_size=16, validation_fraction=0.0, **PARAMS).fit(ImageFiles.from_folder(folder))
    assert sizes[0] == 40
    assert sizes[1:15] == [16] * 14  # two epochs of seven steps


def test_explaining_decodes_only_what_is_shown(
    folder: Path, from_files: ProtoAttendClassifier, monkeypatch: pytest.MonkeyPatch
) -> None:
    decoded: list[str] = []
    real = module.decode_image
    monkeypatch.setattr(module, "decode_image", lambda path, **how: decoded.append(path) or real(path, **how))
    explanations = from_files.explain(None)
    assert len(explanations) == 120
    assert decoded == []
    html = explanations[:2].to_html()
    shown = [e.preview.path for e in explanations[:2]] + [
        p.preview.path for e in explanations[:2] for p in e.prototypes
    ]
    assert decoded
    assert sorted(decoded) == sorted(shown)
    assert html.count("data:image/png") == len(shown)
    explanations[:1].plot()


def test_other_sizes_and_colours_are_read_as_in_fit(
    folder: Path, from_files: ProtoAttendClassifier, tmp_path: Path
) -> None:
    original = ImageFiles.from_folder(folder)[:4]
    larger = []
    for path in original.paths:
        larger.append(tmp_path / Path(path).name)
        Image.open(path).resize((16, 16), Image.Resampling.NEAREST).convert("RGB").save(larger[-1])
    images = ImageFiles.from_paths(larger)
    assert images.shape == (4, 3, 16, 16)
    inputs = from_files.inputs_
    ours, theirs = (inputs.tensor(inputs.source(some))[:].flatten().float() for some in (images, original))
    assert np.corrcoef(ours, theirs)[0, 1] > 0.95, "but for the blur of resizing"
    assert from_files.predict(images).shape == (4,)
    assert from_files.explain(images)[0].preview.shape == (8, 8)


def test_saved_paths_and_moved_files(folder: Path, from_files: ProtoAttendClassifier, tmp_path: Path) -> None:
    images = ImageFiles.from_folder(folder)
    from_files.save(tmp_path / "model")
    loaded = ProtoAttendClassifier.load(tmp_path / "model", image_roots=folder)
    np.testing.assert_array_equal(loaded.predict_proba(images), from_files.predict_proba(images))
    assert loaded.database_.rows.source.tolist() == images.paths.tolist()
    away = tmp_path / "elsewhere"
    folder.rename(away)
    try:
        moved = ImageFiles.from_folder(away)
        np.testing.assert_array_equal(loaded.predict(moved), from_files.predict(moved))  # needs no old file
        with pytest.raises(BadFile, match=r"not there; put it back.*relocate\(old_folder, new_folder\)"):
            loaded.explain(moved[:1]).to_html()
        with pytest.raises(UserError, match="none does"):
            loaded.database_.relocate(tmp_path / "nowhere", away)
        with pytest.raises(UserError, match="does not exist; move it too"):
            loaded.database_.relocate(folder, tmp_path / "nowhere")
        assert loaded.database_.relocate(folder, away) == 120
        assert "data:image/png" in loaded.explain(moved[:1]).to_html()
    finally:
        away.rename(folder)


def test_adding_to_the_database(folder: Path, from_files: ProtoAttendClassifier) -> None:
    clf = copy.deepcopy(from_files)
    images = ImageFiles.from_folder(folder)
    assert clf.database_.add(images[:2], images.y[:2]).tolist() == [120, 121]
    np.testing.assert_array_equal(clf.database_.preview(121), np.asarray(images[1]))
    with pytest.raises(UserError, match="keeps its images as files, but X is an array; pass an ImageFiles"):
        clf.database_.add(np.asarray(images[:2]), images.y[:2])
    arrays = ProtoAttendClassifier(**PARAMS).fit(np.asarray(images), images.y)
    with pytest.raises(UserError, match=r"keeps its images as arrays, but X is image files; pass numpy\.asarray"):
        arrays.database_.add(images[:2], images.y[:2])


def test_files_do_not_fit_images_of_another_range(folder: Path, digit_classifier: ProtoAttendClassifier) -> None:
    with pytest.raises(UserError, match="pixels from 0 to 255, but those of fit went from 0 to 16"):
        digit_classifier.predict(ImageFiles.from_folder(folder))


def test_labels_are_needed(folder: Path) -> None:
    with pytest.raises(UserError, match="requires y"):
        ProtoAttendClassifier(**PARAMS).fit(ImageFiles.from_folder(folder / "digit 1"))


def test_a_file_cut_short_is_named_by_fit(folder: Path, tmp_path: Path, kept: str) -> None:
    images = ImageFiles.from_folder(folder)
    bad = tmp_path / "bad.png"
    bad.write_bytes(Path(images.paths[3]).read_bytes()[:60])
    paths = images.paths.copy()
    paths[3] = str(bad)
    with pytest.raises(BadFile, match=r"bad\.png: not a readable image"):
        ProtoAttendClassifier(**PARAMS).fit(ImageFiles.from_paths(paths, images.y))
