"""Strangers' files: images only of known formats, in bounded memory, and only where a person has said they may lie."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from protoattend import ImageFiles, ProtoAttendClassifier
from protoattend.data import decode
from protoattend.data.decode import decode_image, read_header
from protoattend.data.readers import read_data
from protoattend.errors import BadFile


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("photos")
    for i in range(20):
        Image.fromarray(np.full((8, 8), 12 * i, dtype=np.uint8)).save(folder / f"{i:02d}.png")
    return folder


@pytest.fixture(scope="module")
def saved(photos: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    images = ImageFiles.from_paths(sorted(photos.iterdir()), ["a", "b"] * 10)
    folder = tmp_path_factory.mktemp("saved") / "model"
    ProtoAttendClassifier(max_epochs=1, random_state=0, verbose=0).fit(images).save(folder)
    return folder


def test_images_a_folder_points_to_are_read_under_named_roots_alone(saved: Path, photos: Path, tmp_path: Path) -> None:
    new = ImageFiles.from_paths([photos / "03.png"])
    loaded = ProtoAttendClassifier.load(saved)
    assert len(loaded.predict(new)) == 1  # which needs no other image than the one handed in
    with pytest.raises(BadFile, match=r"under roots that you name \(none is named\).*image_roots="):
        loaded.explain(new).to_html()
    assert loaded.explain(new)[0].prototypes  # named, not shown
    with pytest.raises(BadFile, match="under roots that you name"):
        ProtoAttendClassifier.load(saved, image_roots=tmp_path).explain(new).plot()
    with pytest.raises(BadFile, match="under roots that you name"):
        loaded.ood_detector()  # which encodes candidates again
    for roots in (photos, [tmp_path, str(photos)], photos.parent):
        assert "data:image/png" in ProtoAttendClassifier.load(saved, image_roots=roots).explain(new).to_html()


def test_a_name_that_only_begins_alike_is_not_under_a_root(saved: Path, photos: Path) -> None:
    loaded = ProtoAttendClassifier.load(saved, image_roots=[str(photos)[:-1], photos / "deeper"])
    with pytest.raises(BadFile, match="under roots that you name"):
        np.asarray(loaded.database_.preview(0))


def test_images_that_were_added_or_moved_by_hand_are_read(saved: Path, photos: Path, tmp_path: Path) -> None:
    loaded = ProtoAttendClassifier.load(saved)
    (index,) = loaded.database_.add(ImageFiles.from_paths([photos / "03.png"]), ["a"])
    assert np.asarray(loaded.database_.preview(index)).shape == (8, 8)
    (tmp_path / "moved").symlink_to(photos)
    loaded.database_.relocate(photos, tmp_path / "moved")
    assert np.asarray(loaded.database_.preview(0)).shape == (8, 8)


def test_a_file_is_never_opened_by_what_it_contains(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "harmless.png"
    path.write_bytes(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\n%%EndComments\nshowpage\n")
    from PIL import EpsImagePlugin

    def handed_over(*given: Any, **named: Any) -> None:
        raise AssertionError("handed to Ghostscript")

    monkeypatch.setattr(EpsImagePlugin, "Ghostscript", handed_over)
    for read in (decode_image, read_header):
        with pytest.raises(BadFile, match="not a readable image"):
            read(str(path))


@pytest.mark.parametrize("suffix", ["png", "jpg", "bmp", "gif", "webp", "tif", "ppm"])
def test_all_formats_that_folders_are_searched_for_are_read(tmp_path: Path, suffix: str) -> None:
    Image.new("RGB", (8, 8), "white").save(tmp_path / f"a.{suffix}")
    assert decode_image(str(tmp_path / f"a.{suffix}")).shape == (8, 8, 3)


def test_an_image_of_too_many_pixels_is_not_decoded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decode, "PIXELS", 100)
    Image.new("L", (20, 20)).save(tmp_path / "a.png")
    with pytest.raises(BadFile, match="20 x 20 pixels, above the limit of 100"):
        decode_image(str(tmp_path / "a.png"))
    Image.new("L", (160, 160)).save(tmp_path / "a.jpg")
    monkeypatch.setattr(decode, "PIXELS", 2000)
    assert decode_image(str(tmp_path / "a.jpg"), channels=1, size=(8, 8)).shape == (8, 8, 1)  # decoded in small


def test_large_images_are_decoded_one_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decode, "LARGE", 100)
    Image.new("L", (20, 20)).save(tmp_path / "a.png")
    alone = []
    real = decode._eight_bit
    monkeypatch.setattr(decode, "_eight_bit", lambda *given: alone.append(decode._large.locked()) or real(*given))
    decode_image(str(tmp_path / "a.png"))
    assert alone == [True]


def test_a_pipe_among_images_does_not_hang(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.png")
    for read in (decode_image, read_header):
        with pytest.raises(BadFile, match="no regular file"):
            read(str(tmp_path / "a.png"))


def test_an_archive_that_unpacks_to_far_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("protoattend.data.archives.ALWAYS", 1000)
    np.savez_compressed(tmp_path / "bomb.npz", X=np.zeros((1000, 1000)))
    with pytest.raises(BadFile, match="at most 200 times the size of the file"):
        read_data(tmp_path / "bomb.npz")
    np.savez(tmp_path / "plain.npz", X=np.zeros((100, 100)))
    assert len(read_data(tmp_path / "plain.npz").X) == 100
