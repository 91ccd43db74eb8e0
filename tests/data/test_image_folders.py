"""Folders of images by class: what is listed, and what is wrong with the others."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from protoattend.data.image_folders import list_folder
from protoattend.errors import BadFile, UserError


def touch(root: Path, *names: str) -> Path:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(b"x")
    return root


def test_classes_come_from_folders_and_other_files_are_left_out(tmp_path: Path) -> None:
    touch(tmp_path, "dog/b.JPG", "dog/a.png", "cat/1.jpeg", "cat/notes.txt", "README.md", ".DS_Store", ".git/x.png")
    touch(tmp_path, "__MACOSX/dog/a.png", "dog/.hidden.png")
    paths, labels = list_folder(tmp_path)
    assert [str(path.relative_to(tmp_path)) for path in paths] == ["cat/1.jpeg", "dog/a.png", "dog/b.JPG"]
    assert labels is not None
    assert labels.tolist() == ["cat", "dog", "dog"]


def test_a_plain_folder_has_no_labels(tmp_path: Path) -> None:
    paths, labels = list_folder(touch(tmp_path, "2.png", "1.png", "notes.txt"))
    assert [path.name for path in paths] == ["1.png", "2.png"]
    assert labels is None


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ((), "holds nothing; check the path"),
        (("train.csv", "test.csv"), r"no images: test\.csv, train\.csv; pass .* one of these files"),
        (("Train/cat/1.png", "Test/cat/1.png"), r"deeper, as .*Test/cat/1\.png does; pass .*such as .*/Test\.$"),
        (("cat/1.png", "cat/old/2.png", "dog/1.png"), r"in .*/cat some lie deeper, as .*cat/old/2\.png does"),
        (("1.png", "cat/2.png"), r"1\.png lies beside class folders such as .*/cat; move it"),
        (("cat/1.png", "dog/notes.txt"), "dog holds none; remove it or fill it"),
    ],
)
def test_strange_folders_name_the_place(tmp_path: Path, names: tuple[str, ...], message: str) -> None:
    with pytest.raises(UserError, match=message):
        list_folder(touch(tmp_path, *names))


def test_no_folder_and_a_file(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"nowhere.*does not exist"):
        list_folder(tmp_path / "nowhere")
    with pytest.raises(UserError, match=r"x\.png must be a folder of images, but it is a file"):
        list_folder(touch(tmp_path, "x.png") / "x.png")


def test_a_folder_that_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    touch(tmp_path, "cat/1.png", "dog/1.png")
    real = os.listdir

    def listdir(folder: Any) -> list[str]:
        if Path(folder).name == "dog":
            raise PermissionError(13, "Permission denied")
        return real(folder)

    monkeypatch.setattr(os, "listdir", listdir)
    with pytest.raises(BadFile, match=r"dog: the folder cannot be read \(Permission denied\)"):
        list_folder(tmp_path)


def test_links_in_a_circle_end(tmp_path: Path) -> None:
    touch(tmp_path, "cat/1.png", "dog/notes.txt")
    (tmp_path / "dog" / "again").symlink_to(tmp_path / "dog")
    with pytest.raises(UserError, match="dog holds none"):
        list_folder(tmp_path)
