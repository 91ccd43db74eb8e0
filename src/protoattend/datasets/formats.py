"""Readers of the original file formats of the paper's data sets (Appendix A): a path in, numpy arrays out.

No reader searches, downloads or unpickles; what does not fit its format is a `BadFile` that names the place.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import math
import struct
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from protoattend.data.archives import most_room, read_members, unzipped
from protoattend.data.decode import decode_image
from protoattend.errors import ARRAY_ERRORS, BadFile

CIFAR_RECORD = 1 + 3 * 32 * 32  # bytes: one label, then the red, green and blue planes
SPRITE_WIDTH = 32 * 32
N_FEATURES = 2048
DIGITS = 9  # of the number of a class: Python refuses to convert thousands
_MAT_MATRIX, _MAT_COMPRESSED = 14, 15
_MAT_TYPES = {1: "<i1", 2: "<u1", 3: "<i2", 4: "<u2", 5: "<i4", 6: "<u4", 7: "<f4", 9: "<f8", 12: "<i8"}
ADULT_LABELS = ("<=50K", ">50K")
ADULT_COLUMNS = (
    *("age", "workclass", "fnlwgt", "education", "education-num", "marital-status", "occupation"),
    *("relationship", "race", "sex", "capital-gain", "capital-loss", "hours-per-week", "native-country"),
)
ADULT_NUMERIC = frozenset({"age", "fnlwgt", "education-num", "capital-gain", "capital-loss", "hours-per-week"})


def read_idx(path: Path, *, n_dims: int) -> np.ndarray:
    """Return the unsigned bytes of an IDX file, gzipped or not, in the shape its header names.

    The header is two zero bytes, 8 for "unsigned byte", the number of dimensions, then each size as a
    big-endian uint32.
    """
    data = _read_bytes(path)
    magic = bytes([0, 0, 8, n_dims])
    if data[:4] != magic:
        raise BadFile(
            f"{path}, byte 0: an IDX file of {n_dims} dimensions starts with {magic.hex(' ')}, "
            f"but this one starts with {data[:4].hex(' ') or 'nothing'}; fetch the file again."
        )
    start = 4 + 4 * n_dims
    if len(data) < start:
        raise BadFile(f"{path}, byte {len(data)}: the header must be {start} bytes; fetch the file again.")
    shape = tuple(int(size) for size in np.frombuffer(data, ">u4", n_dims, offset=4))
    wanted = start + math.prod(shape)
    if len(data) != wanted:
        raise BadFile(
            f"{path}, byte {min(len(data), wanted)}: the header names the shape {shape}, so the file must "
            f"be {wanted} bytes when unpacked, but it is {len(data)}; fetch the file again."
        )
    return np.frombuffer(data, np.uint8, offset=start).reshape(shape).copy()  # a view of bytes is read-only


def read_idx_pair(images: Path, labels: Path, *, n_classes: int) -> tuple[np.ndarray, np.ndarray]:
    """Return images `(n, h, w)` uint8 and labels `(n,)` int64 from the two IDX files of MNIST and its kin."""
    x, y = read_idx(images, n_dims=3), read_idx(labels, n_dims=1)
    if len(x) != len(y):
        raise BadFile(f"{labels}, byte 4: {len(y)} labels for the {len(x)} images of {images}; fetch both again.")
    bad = np.flatnonzero(y >= n_classes)
    if len(bad):
        raise _bad_label(labels, f"byte {8 + bad[0]}", y[bad[0]], f"0 to {n_classes - 1}")
    return x, y.astype(np.int64)


def read_cifar_binary(*paths: Path) -> tuple[np.ndarray, np.ndarray]:
    """Return images `(n, 32, 32, 3)` and labels `(n,)` from CIFAR-10's binary version (3073-byte records)."""
    batches = [_cifar_batch(path) for path in paths]
    records = np.concatenate(batches)
    planes = records[:, 1:].reshape(-1, 3, 32, 32)
    return np.ascontiguousarray(planes.transpose(0, 2, 3, 1)), records[:, 0].astype(np.int64)


def read_cifar_sprites(*paths: Path) -> tuple[np.ndarray, np.ndarray]:
    """Return the same arrays as `read_cifar_binary` from PNGs and, last, a JSON list of labels.

    Each PNG is `(n, 1024)` RGB pixels: the 32 x 32 pixels of an image, row after row.
    """
    *sprites, labels = paths
    rows = [decode_image(str(path)) for path in sprites]
    for path, sprite in zip(sprites, rows, strict=True):
        if sprite.shape[1] != SPRITE_WIDTH:
            raise BadFile(f"{path}: must be {SPRITE_WIDTH} pixels wide, but it is {sprite.shape[1]}; fetch it again.")
    y = _json_labels(labels, n_classes=10)
    x = np.concatenate(rows).reshape(-1, 32, 32, 3)
    if len(x) != len(y):
        raise BadFile(f"{labels}: the images are {len(x)}, but it holds {len(y)} labels; fetch the files again.")
    return x, y


def read_svhn(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """Return images `(n, 32, 32, 3)` and digits `(n,)` from an SVHN 32x32 .mat file, whose label 10 is 0."""
    data = _read_bytes(path)
    try:
        arrays = _mat_arrays(data)
    except (ValueError, LookupError, TypeError, struct.error, zlib.error, MemoryError) as error:
        raise BadFile(f"{path}: not a readable MATLAB 5 file ({error}); fetch the file again.") from error
    x, y = arrays.get("X", np.zeros(0)), arrays.get("y", np.zeros(0))
    if x.dtype != np.uint8 or x.ndim != 4 or x.shape[:3] != (32, 32, 3) or y.size != x.shape[3]:
        raise BadFile(f"{path}: must hold X (32, 32, 3, n) of bytes and y (n, 1), not {x.shape} and {y.shape}.")
    y = y.ravel()
    bad = np.flatnonzero(~np.isin(y, np.arange(1, 11)))
    if len(bad):
        raise _bad_label(path, f"y[{bad[0]}]", y[bad[0]], "1 to 10")
    return np.ascontiguousarray(x.transpose(3, 0, 1, 2)), y.astype(np.int64) % 10


def read_dbpedia(path: Path, *, n_classes: int) -> tuple[list[str], np.ndarray]:
    """Return texts and classes `(n,)`, from 0, of a headerless CSV of class, title, text.

    Titles are left out: copies of the set carry them for some rows only, and a text that opens with a title would be
    told from one that does not. The text almost always begins with the title's words.
    """
    rows = csv.reader(io.StringIO(_read_text(path), newline=""), strict=True)
    texts, labels = [], []
    try:
        for row in rows:
            if len(row) != 3:
                raise BadFile(
                    f"{path}, line {rows.line_num}: must have 3 columns (class, title, text), not {len(row)}."
                )
            number, _, text = (cell.strip() for cell in row)
            if not (number.isascii() and number.isdigit() and len(number) <= DIGITS and 1 <= int(number) <= n_classes):
                raise _bad_label(path, f"line {rows.line_num}", number, f"1 to {n_classes}")
            texts.append(text)
            labels.append(int(number) - 1)
    except csv.Error as error:
        raise BadFile(f"{path}, line {rows.line_num}: {error}; the file is damaged or cut short.") from error
    return texts, np.array(labels, dtype=np.int64)


def read_adult(path: Path) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Return the 14 columns and the labels of adult.data or adult.test: int64, or str with None for "?".

    Blank lines and the comment opening adult.test are skipped; its labels lose their closing full stop.
    """
    rows = []
    for number, line in enumerate(_read_text(path).splitlines(), start=1):
        if not line.strip() or line.startswith("|"):
            continue
        cells = [cell.strip() for cell in line.split(",")]
        if len(cells) != len(ADULT_COLUMNS) + 1:
            raise BadFile(f"{path}, line {number}: must have {len(ADULT_COLUMNS) + 1} columns, but has {len(cells)}.")
        label = cells.pop().removesuffix(".")
        if label not in ADULT_LABELS:
            raise _bad_label(path, f"line {number}", label, " or ".join(ADULT_LABELS))
        try:
            values = [
                np.int64(int(c)) if name in ADULT_NUMERIC else c for name, c in zip(ADULT_COLUMNS, cells, strict=True)
            ]
        except (ValueError, OverflowError) as error:
            raise BadFile(f"{path}, line {number}: a numeric column must hold a whole number ({error}).") from error
        rows.append([*(None if value == "?" else value for value in values), label])
    *columns, labels = zip(*rows, strict=True) if rows else [()] * (len(ADULT_COLUMNS) + 1)
    table = {
        name: np.array(column, dtype=np.int64 if name in ADULT_NUMERIC else object)
        for name, column in zip(ADULT_COLUMNS, columns, strict=True)
    }
    return table, np.array(labels, dtype=np.str_)


def read_features(features: Path, labels: Path | None = None, *, n_classes: int) -> tuple[np.ndarray, np.ndarray]:
    """Return features `(n, 2048)` float32 and labels `(n,)` int64 from plain .npy files or one .npz for both.

    An .npz holds the arrays "features" and "labels"; of labels `(n, classes)` the largest in a row counts.
    """
    labels = labels or features
    x, y = load_array(features, "features"), load_array(labels, "labels")
    x = x.reshape(len(x), math.prod(x.shape[1:]))
    if x.ndim != 2 or x.shape[1] != N_FEATURES or x.dtype.kind != "f":
        raise BadFile(f"{features}: must hold floats (n, {N_FEATURES}), but it holds {x.dtype} {x.shape}.")
    y = y.reshape(len(y), math.prod(y.shape[1:])).argmax(axis=1) if y.size > len(y) else y.ravel()
    if len(x) != len(y) or y.dtype.kind not in "iu":
        raise BadFile(f"{labels}: must hold {len(x)} whole numbers, one a row, but it holds {y.dtype} {y.shape}.")
    bad = np.flatnonzero((y < 0) | (y >= n_classes))
    if len(bad):
        raise _bad_label(labels, f"row {bad[0]}", y[bad[0]], f"0 to {n_classes - 1}")
    bad = np.flatnonzero(~np.isfinite(x).all(axis=1))
    if len(bad):
        raise BadFile(f"{features}, row {bad[0]}: features must be finite numbers; extract them again.")
    return x.astype(np.float32), y.astype(np.int64)


def read_lines(path: Path) -> tuple[str, ...]:
    """Return the non-blank lines of a text file, such as the class names of a classes.txt."""
    return tuple(line.strip() for line in _read_text(path).splitlines() if line.strip())


def read_images(paths: Sequence[Path], *, size: int | None = None) -> np.ndarray:
    """Return images `(n, h, w, 3)` uint8, resized to `(size, size)` if given, else all of one size."""
    images: list[np.ndarray] = []
    for path in paths:
        image = decode_image(str(path), size=None if size is None else (size, size))
        if images and image.shape != images[0].shape:
            raise BadFile(
                f"{path}: images must be of one size, but this is {image.shape[:2]} "
                f"and {paths[0]} is {images[0].shape[:2]}; resize them first."
            )
        images.append(image)
    return np.stack(images) if images else np.zeros((0, size or 0, size or 0, 3), np.uint8)


def _read_bytes(path: Path) -> bytes:
    data = path.read_bytes()
    if data[:2] != b"\x1f\x8b":
        return data
    try:
        return unzipped(path, data)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise BadFile(f"{path}, within its {len(data)} bytes: damaged gzip data ({error}); fetch it again.") from error


def _read_text(path: Path) -> str:
    try:
        return _read_bytes(path).decode("utf-8")
    except UnicodeDecodeError as error:
        raise BadFile(f"{path}, byte {error.start}: text must be UTF-8 ({error.reason}).") from error


def _cifar_batch(path: Path) -> np.ndarray:
    data = np.frombuffer(_read_bytes(path), np.uint8)
    if len(data) == 0:
        raise BadFile(f"{path}: must hold records of {CIFAR_RECORD} bytes, but it is empty; fetch it again.")
    rest = len(data) % CIFAR_RECORD
    if rest:
        raise BadFile(
            f"{path}, byte {len(data) - rest}: records are {CIFAR_RECORD} bytes, but the last has {rest}; "
            f"fetch it again (the binary version is read, not the pickled python one)."
        )
    records = data.reshape(-1, CIFAR_RECORD)
    bad = np.flatnonzero(records[:, 0] > 9)
    if len(bad):
        raise _bad_label(path, f"byte {bad[0] * CIFAR_RECORD}", records[bad[0], 0], "0 to 9")
    return records


def _json_labels(path: Path, *, n_classes: int) -> np.ndarray:
    text = _read_text(path)
    try:
        values = json.loads(text)
    except (ValueError, RecursionError) as error:  # also a number of thousands of digits
        raise BadFile(
            f"{path}: must be a JSON list of labels, but cannot be read ({error}); fetch it again."
        ) from error
    if not isinstance(values, list):
        raise BadFile(f"{path}, byte 0: must be a JSON list of labels, but it is a {type(values).__name__}.")
    for place, value in enumerate(values):
        if type(value) is not int or not 0 <= value < n_classes:
            raise _bad_label(path, f"entry {place}", value, f"0 to {n_classes - 1}")
    return np.array(values, dtype=np.int64)


def load_array(path: Path, key: str) -> np.ndarray:
    data = _read_bytes(path)
    try:
        if not zipfile.is_zipfile(io.BytesIO(data)):
            return np.atleast_1d(np.load(io.BytesIO(data), allow_pickle=False))
        arrays = read_members(path, io.BytesIO(data))
    except BadFile:
        raise
    except ARRAY_ERRORS as error:
        raise BadFile(f"{path}: not a plain array file ({error}); save it with numpy.save or savez.") from error
    if key not in arrays:
        raise BadFile(f"{path}: must hold the array {key!r}, but it holds {sorted(arrays)}.")
    return np.atleast_1d(arrays[key])


def _mat_arrays(data: bytes) -> dict[str, np.ndarray]:
    """Return the numeric arrays of a little-endian MATLAB 5 file."""
    # Not scipy's loadmat: on a damaged file it can end the whole process with a segmentation fault.
    if data[124:128] != b"\x00\x01IM":
        raise ValueError(f"bytes 124 to 127 must be 00 01 49 4d, not {data[124:128].hex()!r}")
    arrays = {}
    for kind, content in _mat_elements(memoryview(data)[128:]):
        if kind == _MAT_COMPRESSED:
            kind, content = next(_mat_elements(memoryview(_inflated(content))), (0, content))
        if kind == _MAT_MATRIX:
            _, (_, shape), (_, name), (dtype, values) = list(_mat_elements(content))[:4]
            array = np.frombuffer(values, _MAT_TYPES[dtype])
            arrays[bytes(name).decode("ascii")] = array.reshape(np.frombuffer(shape, "<i4"), order="F")
    return arrays


def _inflated(content: memoryview) -> bytes:
    unpacking, most = zlib.decompressobj(), most_room(len(content))
    data = unpacking.decompress(content, most)
    if not unpacking.eof:
        raise ValueError(f"an element is cut short, or unpacks to more than {most} bytes")
    return data


def _mat_elements(data: memoryview) -> Iterator[tuple[int, memoryview]]:
    """Yield (type, content) of each element: a tag of type and size, or both in four bytes if it is small."""
    at = 0
    while at < len(data):
        kind, size = struct.unpack_from("<II", data, at)
        start = at + (4 if kind >> 16 else 8)
        kind, size = (kind & 0xFFFF, kind >> 16) if kind >> 16 else (kind, size)
        if start + size > len(data):
            raise ValueError(f"an element of {size} bytes starts at byte {start} of {len(data)}")
        yield kind, data[start : start + size]
        at = start + size if kind == _MAT_COMPRESSED else -(-(start + size) // 8) * 8


def _bad_label(path: Path, place: str, value: object, rule: str) -> BadFile:
    return BadFile(
        f"{path}, {place}: the label must be {rule}, but it is {value}; the file is damaged or another set's."
    )
