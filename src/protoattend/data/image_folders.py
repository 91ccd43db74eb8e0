"""A folder with one folder of images for each class, listed; whatever lies otherwise is an error that names it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from protoattend.errors import BadFile, UserError

IMAGE_SUFFIXES = frozenset({".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm", ".pbm"})
DEEPEST = 4  # levels looked into for images that lie too deep


def list_folder(folder: str | os.PathLike[str]) -> tuple[list[Path], np.ndarray | None]:
    """Return the images of folder/CLASS/* with their classes, or those of a plain folder and None; sorted by name."""
    root = Path(folder)
    if not root.exists():
        raise UserError(f"{root} must be a folder of images, but it does not exist; check the path.")
    if not root.is_dir():
        raise UserError(f"{root} must be a folder of images, but it is a file; pass the folder that holds it.")
    entries = _entries(root)
    loose = [path for path in entries if is_image(path)]
    folders = [path for path in entries if path.is_dir()]
    by_class = {path: [image for image in _entries(path) if is_image(image)] for path in folders}
    if loose and any(by_class.values()):
        raise UserError(
            f"images must lie either all in folders of their class or all in one folder, but {loose[0]} lies beside "
            f"class folders such as {next(path for path, images in by_class.items() if images)}; move it into one."
        )
    if loose:
        return loose, None
    for path, images in by_class.items():
        _require_images(root, path, images)
    if not by_class:
        raise UserError(_nothing_here(root, entries))
    paths = [image for images in by_class.values() for image in images]
    return paths, np.array([path.name for path, images in by_class.items() for _ in images], dtype=np.str_)


def is_image(path: Path) -> bool:
    """Return whether this is a file with the suffix of an image."""
    return path.suffix.lower() in IMAGE_SUFFIXES and path.is_file()


def _entries(folder: Path) -> list[Path]:
    """Return what lies in the folder, without what systems hide or leave behind, sorted by name."""
    try:
        names = sorted(os.listdir(folder))
    except OSError as error:
        raise BadFile(f"{folder}: the folder cannot be read ({error.strerror}); check its permissions.") from None
    return [folder / name for name in names if not name.startswith(".") and name != "__MACOSX"]


def _require_images(root: Path, folder: Path, images: list[Path]) -> None:
    deep = next(_images_below(folder, DEEPEST), None)
    if deep is not None and not images:
        raise UserError(
            f"images must lie in {root}/CLASS/, but they lie deeper, as {deep} does; pass the folder that holds the "
            f"class folders, such as {deep.parent.parent}."
        )
    if deep is not None:
        raise UserError(
            f"images must lie in {root}/CLASS/, but in {folder} some lie deeper, as {deep} does; move them up or out."
        )
    if not images:
        raise UserError(f"every class folder must hold images, but {folder} holds none; remove it or fill it.")


def _images_below(folder: Path, levels: int) -> Iterator[Path]:
    """Yield the images in the folders of this folder; `levels` ends the search where links go round in a circle."""
    for inner in (path for path in _entries(folder) if path.is_dir()):
        yield from (path for path in _entries(inner) if is_image(path))
        if levels > 1:
            yield from _images_below(inner, levels - 1)


def _nothing_here(root: Path, entries: list[Path]) -> str:
    rule = f"{root} must hold a folder of images for each class ({root}/CLASS/*.png), but it holds "
    if not entries:
        return rule + "nothing; check the path."
    names = ", ".join(path.name for path in entries[:5])
    return rule + f"no images: {names}; pass a folder of images, or one of these files itself."
