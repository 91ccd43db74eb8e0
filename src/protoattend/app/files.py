"""Files for the command line: how they are read for a classifier, in fit and ever after."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from protoattend.app.talk import Talk
from protoattend.classifier import ProtoAttendClassifier
from protoattend.data.images import ImageFiles
from protoattend.data.inputs import count_rows, kind_of
from protoattend.data.readers import LabelledData, first_line, read_data
from protoattend.data.tables import TableInputs
from protoattend.errors import UserError, choose

TARGETS = ("target", "label", "labels", "class", "y")  # what people call the column of labels
KINDS = ("auto", "table", "text", "images")
NAMES = {"table": "a table", "text": "texts", "images": "images"}


@dataclass(frozen=True)
class Reading:
    """How files for one classifier are read: columns (or arrays) of labels, texts, samples and identifiers, header."""

    target: str | None = None
    text: str | None = None
    samples: str | None = None
    id: str | None = None
    header: bool | None = None

    @classmethod
    def noted(cls, content: Mapping[str, Any] | None) -> Reading:
        """Return what a classifier's folder says; an older one says less."""
        return cls(**{each.name: (content or {}).get(each.name) for each in fields(cls)})

    def over(self, other: Reading) -> Reading:
        """Return this where it says something, and the other one elsewhere."""
        own = {name: value for name, value in vars(self).items() if value is not None}
        return replace(other, **own)

    def read(self, path: Path, images: Mapping[str, Any]) -> LabelledData:
        """Read a file or folder in this way."""
        columns = {"target": self.target, "text": self.text, "samples": self.samples, "id_column": self.id}
        return read_data(path, **columns, header=self.header, **images)


@dataclass(frozen=True)
class Use:
    """A saved classifier, and how files are read for it."""

    clf: ProtoAttendClassifier
    reading: Reading
    given: Reading = field(default_factory=Reading)  # what was asked for; what fit noted may be missing elsewhere
    images: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, folder: Path, *, skip_corrupt: bool = False, image_roots: Sequence[Path] = (), **columns: Any) -> Use:
        """Open the classifier in `folder`; columns (fields of `Reading`) that are not None go before those of fit."""
        clf, given = ProtoAttendClassifier.load(folder, image_roots=image_roots), Reading(**columns)
        images = {"corrupt": "skip" if skip_corrupt else "raise"}
        return cls(clf, given.over(Reading.noted(clf.reading_)), given, images)

    def read(self, path: Path) -> LabelledData:
        """Read samples of the kind the classifier was trained on, whether they have labels or not."""
        return self._read(path, replace(self.reading, target=None))

    def read_if_labelled(self, path: Path) -> LabelledData:
        """Read samples, with labels where the file has them in the column of fit, or in the one that was asked for."""
        try:
            return self._read(path, self.reading)
        except UserError:
            if self.given.target is not None or self.reading.target is None:
                raise
        return self.read(path)

    def read_labelled(self, path: Path) -> LabelledData:
        """Read samples with their labels, which have the type that those of fit had."""
        data = self._read(path, self.reading)
        known = {str(label): label for label in self.clf.classes_.tolist()}  # a CSV and a Parquet file may differ
        labels = [known.get(str(label), label) for label in data.labels().tolist()]
        self.clf.database_.classes.encode(labels)  # an unknown one is an error, before anything takes time
        return replace(data, y=np.array(labels))

    def names(self, data: LabelledData) -> dict[str, list[Any]]:
        """Return what rows are called in tables: their number from 0, then their file or identifier."""
        names: dict[str, list[Any]] = {"row": list(range(count_rows(data.X)))}
        if isinstance(data.X, ImageFiles):
            names["file"] = data.X.paths.tolist()
        if data.ids is not None:
            called = self.reading.id or "id"
            names[f"id {called}" if called in names else called] = data.ids.tolist()
        return names

    def _read(self, path: Path, reading: Reading) -> LabelledData:
        reading = self._by_first_line(first_line(path), reading)
        try:
            data = reading.read(path, self.images)
        except UserError:
            if self.given.id is not None or reading.id is None:
                raise
            data = replace(reading, id=None).read(path, self.images)
        kind, needed = kind_of(data.X), self.clf.inputs_.kind
        if kind != needed:
            fix = "name the column of texts with --text" if needed == "text" else "pass such a file or folder"
            raise UserError(f"this classifier reads input of kind {needed!r}, but {path} is of kind {kind!r}; {fix}.")
        if reading.header is False and self.given.header is None and _named_first(data.X):
            warnings.warn(
                f"{path} was read without a header, as the file of fit was, but its first line, {data.X[0]!r}, is "
                "unlike the others; if it names the column, remove it, or pass --header --text with that name.",
                stacklevel=4,
            )
        by_number = not data.header or Reading.noted(self.clf.reading_).header is False
        return replace(data, X=self._in_place(data.X)) if by_number else data

    def _by_first_line(self, first: list[str], reading: Reading) -> Reading:
        """Return how to read a file that starts so: with a header, or without one and perhaps with fewer columns."""
        noted, given = Reading.noted(self.clf.reading_), self.given
        if reading.header is None and self._names() and self._names() <= set(first):
            return replace(reading, header=True)
        if reading.header is not False or noted.header is not False or given.target is not None:
            return reading
        roles = {what: name for what in ("target", "id", "text") if (name := getattr(noted, what)) is not None}
        inputs = self.clf.inputs_
        learned = len(inputs.names) if isinstance(inputs, TableInputs) else 1
        left = places_left(roles, width=len(first), learned=learned)
        if left is None:
            return reading
        return given.over(replace(reading, target=None, id=left.get("id"), text=left.get("text")))

    def _names(self) -> set[str]:
        """Return the names, if any, that the columns to learn from had in fit: a line with all of them is a header."""
        if self.clf.inputs_.kind == "text":
            return {self.reading.text} if self.reading.text is not None else set()
        inputs = self.clf.inputs_
        if not isinstance(inputs, TableInputs) or not inputs.named:
            return set()
        return {column.name for column in inputs.learned}

    def _in_place(self, X: Any) -> Any:
        """Return a table whose columns go by number under the names of fit, where it has as many and not these."""
        names = getattr(self.clf.inputs_, "names", None)
        if names is None or not hasattr(X, "columns") or len(names) != len(X.columns) or set(names) == set(X.columns):
            return X
        return X.set_axis(list(names), axis=1)


def read_for_fit(
    path: Path, given: Reading, images: Mapping[str, Any], *, kind: str, talk: Talk
) -> tuple[LabelledData, Reading]:
    """Read samples to learn from, and say what was read; what nobody said is guessed, and the guess is told."""
    choose(kind, KINDS, "--kind")
    reading = given
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        data = reading.read(path, images)
        if data.y is None and hasattr(data.X, "columns") and (target := _target_among(data.X.columns)):
            talk.say(f"Guessed: the labels are in column {target!r}; name another one with --target.")
            reading, caught[:] = replace(reading, target=target), []
            data = reading.read(path, images)
        if kind in ("auto", "text") and (column := _only_text(data, kind)):
            if kind == "auto":
                talk.say(f"Guessed: column {column!r} holds texts to learn from; with --kind table it is a category.")
            reading, caught[:] = replace(reading, text=column), []
            data = reading.read(path, images)
    for warning in caught:
        warnings.warn(warning.message, stacklevel=2)
    found = kind_of(data.X)
    if kind not in ("auto", found):
        raise UserError(f"--kind {kind} was asked for, but {path} is of kind {found!r}; name columns, or leave it out.")
    talk.say(f"Read {path}: {data.description}.")
    talk.say(f"Taken as {NAMES[found]}{_columns_in_words(data.X)}.")
    return data, replace(reading, header=(given.header or None) if data.header else False)


def places_left(roles: Mapping[str, str], *, width: int, learned: int) -> dict[str, str] | None:
    """Return the columns of the roles in a file of `width` columns without names, or None if they are those of fit.

    `learned` columns were learned in fit. A file with one column less than that of fit lacks the labels, and one with
    two columns less the identifiers too; what stood behind these moves forward.

    >>> places_left({"target": "0", "id": "-1"}, width=4, learned=3)
    {'id': '3'}
    """
    apart = [what for what in ("target", "id") if what in roles]
    total = learned + len(apart)
    gone = apart[: total - width]
    if width >= total or "target" not in gone or len(gone) < total - width:
        return None
    try:
        places = {what: _place(name, total) for what, name in roles.items()}
    except ValueError:  # a name, which stays where it is
        return None
    behind = {what: sum(places[each] < place for each in gone) for what, place in places.items()}
    return {what: str(place - behind[what]) for what, place in places.items() if what not in gone}


def _place(name: str, total: int) -> int:
    """Return the number from 0 of a column called 4, column 4 or, from behind, -1."""
    place = int(name.removeprefix("column "))
    return place + total if place < 0 else place


def _named_first(X: Any) -> bool:
    """Return whether the first of some texts is one word and most others are not, as where it names their column."""
    if not isinstance(X, list):
        return False
    several = [" " in text.strip() for text in X]
    return not several[0] and 2 * sum(several) > len(several)


def _target_among(names: Any) -> str | None:
    found = [str(name) for name in names if str(name).lower() in TARGETS]
    return found[0] if len(found) == 1 else None


def _only_text(data: LabelledData, kind: str) -> str | None:
    """Return the column of texts where it is the only one to learn from; texts are told by their spaces."""
    X = data.X
    if data.y is None or not hasattr(X, "columns") or X.shape[1] != 1:
        return None
    (name,) = X.columns
    cells = [cell for cell in X[name] if isinstance(cell, str)]
    if kind == "text":
        return str(name)
    of_words = sum(" " in cell.strip() for cell in cells) > len(X) / 2
    return str(name) if of_words and len(set(cells)) > len(X) / 2 else None


def _columns_in_words(X: Any) -> str:
    """Return of how many numbers, dates and categories a table is."""
    if not hasattr(X, "columns"):
        return ""
    dtypes = [X[name] for name in X.columns]
    dates = sum(column.dtype.kind == "M" for column in dtypes)
    numbers = sum(_numeric(column) for column in dtypes)
    counts = {"number": numbers, "date": dates, "category": len(dtypes) - numbers - dates}
    plural = {"number": "numbers", "date": "dates", "category": "categories"}
    told = [f"{count} {name if count == 1 else plural[name]}" for name, count in counts.items() if count]
    return f" with columns of {', '.join(told)}" if told else ""


def _numeric(column: Any) -> bool:
    if column.dtype.kind in "fiub":
        return True
    return column.dtype == object and all(cell is None or isinstance(cell, (int, float)) for cell in column)
