"""What people have (arrays, DataFrames, texts, images, files) made into samples to be indexed, encoded and shown.

Each kind of input is one frozen dataclass with the same verbs:
`fit(X)` learns the form, `source(X)` validates and gives the canonical array kept in the database, `tensor(source)` is
what the model eats, `excerpts(source)` is the same in small, for showing alone, `preview(row)` is what a person is
shown of a row or of its excerpt, `form()` the sizes an encoder is built for.
`state()` goes into JSON and back.
"""

from __future__ import annotations

from collections.abc import Sequence, Sized
from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar, Protocol

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import adaptive_avg_pool2d
from torch.utils.data import Dataset, IterableDataset

from protoattend.arguments import as_array
from protoattend.data.characters import Tokenizer, encode_text
from protoattend.data.image_roots import Roots, given, require_within
from protoattend.data.images import ImageFile, ImageFiles, image_samples
from protoattend.data.ngrams import NgramInputs
from protoattend.data.samples import Samples, chunks
from protoattend.data.tokens import TokenInputs, as_texts, beginnings
from protoattend.errors import UserError, choose

Source = np.ndarray  # n rows, in the canonical form of its kind
PIXEL_RANGE = (0.0, 255.0)  # of uint8
THUMBNAIL = 64  # pixels: the longest side of what is kept of an image to show it


class Inputs(Protocol):
    """The verbs that every kind of input has."""

    kind: ClassVar[str]

    def source(self, X: Any) -> Source: ...
    def tensor(self, source: Source) -> Samples: ...
    def excerpts(self, source: Source) -> Source: ...
    def preview(self, row: Any) -> Any: ...
    def form(self) -> dict[str, Any]: ...
    def state(self) -> dict[str, Any]: ...


@dataclass(frozen=True)
class ImageInputs:
    """Images of one size, kept as `(n, c, h, w)`, in uint8 where they came so; of image files the paths are kept.

    Of a loaded classifier, `roots` are the folders under which the files that its folder points to may be read.
    """

    channels: int
    height: int
    width: int
    low: float
    high: float
    roots: Roots = field(default=None, compare=False, repr=False)
    kind: ClassVar[str] = "images"

    @classmethod
    def fit(cls, X: Any) -> ImageInputs:
        if isinstance(X, ImageFiles):
            return cls(X.channels, X.height, X.width, *PIXEL_RANGE)
        images = _channels_first(as_array(X, "X"))
        _require_finite(images, "X")
        low, high = PIXEL_RANGE if images.dtype == np.uint8 else (float(images.min()), float(images.max()))
        channels, height, width = images.shape[1:]
        return cls(channels, height, width, low, high)

    def source(self, X: Any) -> Source:
        if isinstance(X, ImageFiles):
            return self._paths(X)
        images = _channels_first(as_array(X, "X"))
        if images.shape[1:] != (self.channels, self.height, self.width):
            raise UserError(
                f"images must have the size seen in fit, {self._size(self.channels, self.height, self.width)}, "
                f"but got {self._size(*images.shape[1:])}; resize them first."
            )
        _require_finite(images, "X")
        return images

    def tensor(self, source: Source) -> Samples:
        if source.dtype == object:
            require_within(source, self.roots)
            return image_samples(source, self.channels, self.height, self.width)
        return torch.from_numpy(np.ascontiguousarray(source))

    def excerpts(self, source: Source) -> Source:
        """Return thumbnails as uint8 `(n, c, h, w)`, of at most three channels."""
        return np.concatenate([thumbnails(self._eight_bit(x.numpy())[:, :3]) for x in chunks(self.tensor(source))])

    def preview(self, row: Any) -> np.ndarray | ImageFile:
        """Return the image as uint8 `(h, w)` or `(h, w, 3)`; a file is decoded only when it is shown."""
        if isinstance(row, str):
            return ImageFile(row, self.channels, self.height, self.width, roots=self.roots)
        image = self._eight_bit(np.asarray(row))
        return image[0] if self.channels == 1 else np.moveaxis(image[:3], 0, -1)

    def form(self) -> dict[str, Any]:
        return {"channels": self.channels, "height": self.height, "width": self.width}

    def state(self) -> dict[str, Any]:
        return {name: value for name, value in asdict(self).items() if name != "roots"}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> ImageInputs:
        return cls(**state)

    def _paths(self, X: ImageFiles) -> Source:
        if (self.low, self.high) != PIXEL_RANGE:
            raise UserError(
                f"image files hold pixels from 0 to 255, but those of fit went from {self.low:g} to {self.high:g}; "
                "fit from image files or uint8 arrays too, or pass arrays scaled as in fit."
            )
        return X.paths if self.roots is None else given(X.paths)  # decoded to the size of fit, whatever their own

    def _eight_bit(self, images: np.ndarray) -> np.ndarray:
        if images.dtype == np.uint8:
            return images
        span = max(self.high - self.low, 1e-12)
        return np.clip((images - self.low) / span * 255, 0, 255).astype(np.uint8)

    @staticmethod
    def _size(channels: int, height: int, width: int) -> str:
        return f"{height}x{width} with {channels} channel{'s' if channels > 1 else ''}"


@dataclass(frozen=True)
class TextInputs:
    """Texts, read as characters; longer ones are cut at `length`, empty ones are all padding."""

    length: int
    kind: ClassVar[str] = "text"

    LONGEST: ClassVar[int] = 448  # the paper's length for DBPedia

    @classmethod
    def fit(cls, X: Any, length: int | None = None) -> TextInputs:
        """Learn how much of a text is read; `length` sets it."""
        if length is not None:
            return cls(length=length)
        lengths = [len(text) for text in as_texts(X)]
        typical = int(np.quantile(lengths, 0.95))
        return cls(length=int(np.clip(-(-typical // 16) * 16, 32, cls.LONGEST)))

    def source(self, X: Any) -> Source:
        return as_texts(X)

    def tensor(self, source: Source) -> Tensor:
        return encode_text(list(source), length=self.length)

    def excerpts(self, source: Source) -> Source:
        return beginnings(source)

    def preview(self, row: Any) -> str:
        return str(row)

    def form(self) -> dict[str, Any]:
        return {"length": self.length}

    def state(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> TextInputs:
        return cls(**state)


def thumbnails(images: np.ndarray) -> np.ndarray:
    """Return uint8 images `(n, c, h, w)` with no side above 64 pixels, each pixel the mean of those in its place.

    >>> thumbnails(np.zeros((5, 3, 128, 96), dtype=np.uint8)).shape
    (5, 3, 64, 48)
    """
    sides = images.shape[2:]
    if max(sides) <= THUMBNAIL:
        return images
    height, width = (max(1, round(side * THUMBNAIL / max(sides))) for side in sides)
    means = adaptive_avg_pool2d(torch.from_numpy(np.ascontiguousarray(images)).float(), (height, width))
    return means.round().to(torch.uint8).numpy()


def kind_of(X: Any) -> str:
    """Return "images", "text" or "table" from the form of X."""
    if isinstance(X, ImageFiles):
        return "images"
    if hasattr(X, "columns") and hasattr(X, "__getitem__"):
        return "table"
    if isinstance(X, (list, tuple)) and any(isinstance(row, str) or row is None for row in X):
        return "text"
    array = as_array(X, "X")
    if array.ndim == 1 and array.dtype.kind in "UOT" and any(isinstance(row, str) for row in array):
        return "text"
    if array.ndim in (3, 4):
        return "images"
    return "table"  # whose own checks say what is wrong with anything else


def count_rows(X: Any) -> int:
    """Return how many rows X has, whatever its kind."""
    shape = getattr(X, "shape", None)
    if shape is None:
        shape = (len(X),) if isinstance(X, Sized) else as_array(X, "X").shape
    return int(shape[0]) if shape else 1


def require_rows(X: Any) -> None:
    """Raise unless X has at least one row."""
    if count_rows(X) == 0:
        shape = getattr(X, "shape", None) or (0,)
        raise UserError(
            f"X needs at least one row, but got 0 sample(s) (shape={shape}) while a minimum of 1 is required."
        )


def take_rows(X: Any, rows: np.ndarray) -> Any:
    """Return the rows of X, or of its labels, at ascending positions; X itself, uncopied, where that is all of them."""
    if len(rows) == count_rows(X):
        return X
    if isinstance(X, (list, tuple)):
        return [X[row] for row in rows]
    if hasattr(X, "iloc"):
        return X.iloc[rows]
    return X[rows] if hasattr(X, "shape") else np.asarray(X)[rows]


def _channels_first(array: np.ndarray) -> np.ndarray:
    """Return images as `(n, c, h, w)` from `(n, h, w)`, `(n, c, h, w)` or `(n, h, w, c)`."""
    if array.ndim == 3:
        images = array[:, None]
    elif array.ndim == 4 and array.shape[1] in (1, 3, 4):
        images = array
    elif array.ndim == 4 and array.shape[-1] in (1, 3, 4):
        images = np.moveaxis(array, -1, 1)
    else:
        raise UserError(
            "images must be (n, h, w), (n, c, h, w) or (n, h, w, c) with 1, 3 or 4 channels, "
            f"but X has shape {array.shape}; reshape or transpose it."
        )
    if images.dtype in (np.uint8, np.float32):
        return images
    if images.dtype.kind not in "fiub":
        raise UserError(
            f"images must hold numbers, but X has dtype {images.dtype}; convert it with X.astype('float32')."
        )
    return images.astype(np.uint8 if images.dtype == bool else np.float32)


def _require_finite(array: np.ndarray, name: str) -> None:
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        first = int(np.argwhere(~np.isfinite(array.reshape(len(array), -1)).all(1))[0, 0])
        raise UserError(
            f"images must be finite, but {name}[{first}] contains NaN or infinity; drop or repair such images first."
        )


def unpack_dataset(dataset: Dataset[Any]) -> tuple[Any, Any]:
    """Return X and y of a torch Dataset that gives (x, y)."""
    pairs = _items(dataset)
    if not all(isinstance(pair, (tuple, list)) and len(pair) == 2 for pair in pairs):
        raise UserError("a Dataset to learn from must give pairs (x, y); wrap it so that dataset[i] returns that.")
    X, y = zip(*pairs, strict=True)
    labels = [label.item() if hasattr(label, "item") else label for label in y]
    return _gathered(X), labels


def without_labels(X: Any) -> Any:
    """Return X as it is, or the samples of a torch Dataset, which gives (x, y), (x,) or x."""
    if not isinstance(X, Dataset):
        return X
    return _gathered([item[0] if isinstance(item, (tuple, list)) and len(item) <= 2 else item for item in _items(X)])


def _items(dataset: Dataset[Any]) -> list[Any]:
    if isinstance(dataset, IterableDataset) or not hasattr(dataset, "__len__"):
        raise UserError(
            f"a Dataset must have a length and give samples by number, but {type(dataset).__name__} only goes through "
            "them; pass torch.utils.data.Subset(samples, range(len(samples))) with samples = list(dataset)."
        )
    items = [dataset[i] for i in range(len(dataset))]
    if not items:
        raise UserError("a Dataset must give at least one sample, but its length is 0; check how it was made.")
    return items


def _gathered(samples: Sequence[Any]) -> Any:
    """Return texts as a list and all else as one array."""
    if isinstance(samples[0], str):
        return list(samples)
    arrays = [np.asarray(sample) for sample in samples]
    for i, array in enumerate(arrays):
        if array.shape != arrays[0].shape:
            raise UserError(
                f"the samples of a Dataset must be of one size, but that of dataset[0] is {arrays[0].shape} and that "
                f"of dataset[{i}] is {array.shape}; resize them first."
            )
    return np.stack(arrays)


@dataclass(frozen=True)
class Reading:
    """How X is to be read.

    Of a table, `categorical` names columns that are codes and `fixed` has known ones. Texts are read as `texts` says,
    "n-grams" or "characters" (`text_length` of them), or by a `tokenizer`.
    """

    categorical: Any = None
    fixed: Any = None
    texts: str = "n-grams"
    text_length: int | None = None
    tokenizer: Tokenizer | None = None


def fit_inputs(X: Any, reading: Reading = Reading()) -> Inputs:  # noqa: B008 (frozen)
    """Learn the form of X."""
    from protoattend.data.tables import TableInputs

    require_rows(X)
    kind = kind_of(X)
    if reading.tokenizer is not None:
        if kind != "text":
            raise UserError(f"a tokenizer reads texts, but X is {kind}; pass a list of str, or no tokenizer.")
        return TokenInputs.fit(as_texts(X), reading.tokenizer)
    if kind == "table":
        return TableInputs.fit(X, categorical=reading.categorical, fixed=reading.fixed)
    if kind == "images":
        return ImageInputs.fit(X)
    return NgramInputs.fit(X) if reading.texts == "n-grams" else TextInputs.fit(X, reading.text_length)


def inputs_from_state(kind: str, state: dict[str, Any], tokenizer: Tokenizer | None = None) -> Inputs:
    """Rebuild inputs from what `state()` gave; a tokenizer cannot be saved, so it is passed again."""
    from protoattend.data.tables import TableInputs

    if kind == "text" and "names" in state:
        if tokenizer is None:
            raise UserError("texts were read by a tokenizer in fit, but the encoder has no tokenizer; pass it too.")
        return TokenInputs.from_state(state, tokenizer)
    texts = NgramInputs if "vocabulary" in state else TextInputs
    classes = {"images": ImageInputs, "text": texts, "table": TableInputs}
    return classes[choose(kind, classes, "kind of input")].from_state(state)
