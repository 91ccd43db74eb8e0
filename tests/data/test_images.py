"""ImageFiles: sizes, colours, corrupt files; decoding only what is asked for, one batch ahead."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from sklearn.model_selection import train_test_split

from protoattend.data import images as module
from protoattend.data.images import ImageFiles, ImageSamples, image_samples
from protoattend.errors import BadFile, UserError

PIXELS = np.random.default_rng(0).integers(0, 256, (12, 10, 8, 3), dtype=np.uint8)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Twelve PNGs of 10 x 8, half of them cats."""
    for i, pixels in enumerate(PIXELS):
        place = tmp_path / "photos" / ("cat" if i % 2 else "dog")
        place.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels).save(place / f"{i:02}.png")
    return tmp_path / "photos"


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The paths that were decoded, in the order in which that began."""
    paths: list[str] = []
    real = module.decode_image

    def counting(path: str, **how: Any) -> np.ndarray:
        paths.append(path)
        return real(path, **how)

    monkeypatch.setattr(module, "decode_image", counting)
    return paths


def expected(images: ImageFiles) -> np.ndarray:
    numbers = [int(Path(path).stem) for path in images.paths]
    return PIXELS[numbers]


def test_a_folder_by_class(folder: Path) -> None:
    images = ImageFiles.from_folder(folder)
    assert images.shape == (12, 3, 10, 8)
    assert images.y is not None
    assert images.y.tolist() == ["cat"] * 6 + ["dog"] * 6
    np.testing.assert_array_equal(np.asarray(images), expected(images))
    assert repr(images) == "ImageFiles(12 colour images, 10x8)"


def test_one_image_and_parts(folder: Path) -> None:
    images = ImageFiles.from_folder(folder)
    assert images[1].path == images.paths[1]
    assert images[1].shape == np.asarray(images[1]).shape == (10, 8, 3)
    for rows in (slice(3, 5), [0, 11], np.arange(12) > 8):
        some = images[rows]
        assert some.paths.tolist() == images.paths[rows].tolist()
        assert some.y.tolist() == images.y[rows].tolist()


def test_scikit_learn_can_split_them(folder: Path, decoded: list[str]) -> None:
    images = ImageFiles.from_folder(folder)
    train, test, y_train, y_test = train_test_split(images, images.y, test_size=4, stratify=images.y, random_state=0)
    assert (len(train), len(test)) == (8, 4)
    assert train.y.tolist() == y_train.tolist()
    assert test.y.tolist() == y_test.tolist()
    assert decoded == []


@pytest.mark.parametrize(
    ("sizes", "size", "wanted"),
    [
        ([(20, 10), (22, 12), (90, 12)], None, (22, 12)),  # the median of each side
        ([(300, 200)] * 3, None, (64, 43)),  # reduced alike
        ([(3, 5)] * 3, None, (8, 8)),
        ([(30, 20)] * 3, 16, (16, 16)),
        ([(30, 20)] * 3, (12, 24), (12, 24)),
    ],
)
def test_size(tmp_path: Path, sizes: list[tuple[int, int]], size: Any, wanted: tuple[int, int]) -> None:
    paths = [tmp_path / f"{i}.png" for i in range(len(sizes))]
    for path, (height, width) in zip(paths, sizes, strict=True):
        Image.new("L", (width, height), 77).save(path)
    images = ImageFiles.from_paths(paths, size=size)
    assert images.shape == (3, 1, *wanted)
    samples = image_samples(images.paths, 1, images.height, images.width)
    assert samples.shape == (3, 1, *wanted)
    assert (samples[:] == 77).all()


def test_grey_unless_one_has_colours(tmp_path: Path) -> None:
    Image.new("L", (9, 9)).save(tmp_path / "1.png")
    Image.new("1", (9, 9)).save(tmp_path / "2.png")
    assert ImageFiles.from_folder(tmp_path).channels == 1
    assert ImageFiles.from_folder(tmp_path, channels=3).channels == 3
    Image.new("RGB", (9, 9)).save(tmp_path / "3.png")
    assert ImageFiles.from_folder(tmp_path).channels == 3
    assert ImageFiles.from_folder(tmp_path, channels=1).channels == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"size": 0}, "size must be"),
        ({"size": (3, 4, 5)}, "size must be"),
        ({"channels": 4}, "channels must be 1"),
        ({"corrupt": "ignore"}, "corrupt must be one of 'raise', 'skip'"),
    ],
)
def test_bad_options(folder: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        ImageFiles.from_folder(folder, **options)


def test_labels_for_every_path_and_some_paths(folder: Path) -> None:
    paths = sorted((folder / "cat").iterdir())
    assert ImageFiles.from_paths(paths, range(6)).y is not None
    with pytest.raises(UserError, match="6 and 5"):
        ImageFiles.from_paths(paths, range(5))
    with pytest.raises(UserError, match="at least one image"):
        ImageFiles.from_paths([])


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-40])


def test_corrupt_files_are_named_or_skipped_and_named(folder: Path) -> None:
    cut(folder / "cat" / "03.png")  # its header is whole
    (folder / "dog" / "02.png").write_bytes(b"<html>not found</html>")
    with pytest.raises(BadFile, match=r"dog/02\.png: not a readable image"):
        ImageFiles.from_folder(folder)
    with pytest.warns(UserWarning, match=r"(?s)2 of 12 image files .* skipped:.*cat/03\.png.*dog/02\.png"):
        images = ImageFiles.from_folder(folder, corrupt="skip")
    assert len(images) == 10
    np.testing.assert_array_equal(np.asarray(images), expected(images))
    assert images.y is not None
    assert images.y.tolist() == ["cat"] * 5 + ["dog"] * 5
    (folder / "dog" / "02.png").unlink()
    images = ImageFiles.from_folder(folder)
    with pytest.raises(BadFile, match=r"cat/03\.png: not a readable image"):
        image_samples(images.paths, 3, 10, 8)


@pytest.mark.filterwarnings("ignore:.*are skipped")
def test_a_class_of_corrupt_files_only(folder: Path) -> None:
    for path in (folder / "dog").iterdir():
        cut(path)
    with pytest.raises(UserError, match=r"all of 'dog' in .*photos are corrupt"):
        ImageFiles.from_folder(folder, corrupt="skip")


def lazy(images: ImageFiles) -> ImageSamples:
    return ImageSamples(images.paths, images.channels, images.height, images.width)


def test_nothing_is_decoded_unless_asked_for(folder: Path, decoded: list[str]) -> None:
    images = ImageFiles.from_folder(folder)
    samples = lazy(images)
    some = samples.at(torch.tensor([5, 1, 7])).at(slice(0, 2))
    assert len(some) == 2
    assert decoded == []
    torch.testing.assert_close(some[:], torch.from_numpy(expected(images)[[5, 1]]).permute(0, 3, 1, 2))
    assert sorted(decoded) == sorted(images.paths[[5, 1]])
    decoded.clear()
    assert samples[torch.tensor([4])].dtype == torch.uint8
    assert decoded == [images.paths[4]]


def test_reading_ahead_decodes_the_next_batch_and_no_more(folder: Path, decoded: list[str]) -> None:
    images = ImageFiles.from_folder(folder)
    batches = lazy(images).read([slice(i, i + 3) for i in range(0, 12, 3)])
    next(batches)
    deadline = time.monotonic() + 30
    while len(decoded) < 6 and time.monotonic() < deadline:
        time.sleep(0.01)
    time.sleep(0.05)  # in which a reader that goes further would
    assert sorted(decoded) == sorted(images.paths[:6])
    assert len(list(batches)) == 3
    assert sorted(decoded) == sorted(images.paths)


def test_several_threads_decode_at_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "WORKERS", 3)
    together = threading.Barrier(3, timeout=30)

    def decode(path: str, **how: Any) -> np.ndarray:
        together.wait()  # goes on only when three are here
        return np.zeros((10, 8, 3), np.uint8)

    monkeypatch.setattr(module, "decode_image", decode)
    assert lazy(ImageFiles.from_folder(folder))[:].shape == (12, 3, 10, 8)


def test_an_error_in_a_thread_comes_out_and_ends_the_threads(folder: Path) -> None:
    images = ImageFiles.from_folder(folder)
    cut(Path(images.paths[5]))
    before = threading.active_count()
    batches = lazy(images).read([slice(0, 4), slice(4, 8), slice(8, 12)])
    next(batches)
    with pytest.raises(BadFile, match=Path(images.paths[5]).name):
        next(batches)
    assert threading.active_count() == before


def test_small_folders_are_decoded_once(folder: Path, decoded: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    images = ImageFiles.from_folder(folder)
    monkeypatch.setattr(module, "AT_ONCE", 12 * 3 * 10 * 8)
    in_memory = image_samples(images.paths, 3, 10, 8)
    assert isinstance(in_memory, torch.Tensor)
    assert len(decoded) == 12
    monkeypatch.setattr(module, "AT_ONCE", 12 * 3 * 10 * 8 - 1)
    on_disk = image_samples(images.paths, 3, 10, 8)
    assert isinstance(on_disk, ImageSamples)
    assert len(decoded) == 12
    assert torch.equal(on_disk[:], in_memory)
