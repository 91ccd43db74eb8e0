"""What a report is made of: the decisions on labelled rows, or on the database's own rows, each without itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from protoattend.classifier import ProtoAttendClassifier
from protoattend.core.model import Encoded
from protoattend.data.images import ImageFiles
from protoattend.data.inputs import count_rows, require_rows, without_labels
from protoattend.data.tables import is_missing
from protoattend.database.encode import encode
from protoattend.database.search import QUERIES
from protoattend.errors import UserError
from protoattend.explain.explanations import Explanations, explain
from protoattend.monitoring.ood import METHODS, Seen, neighbour_distance
from protoattend.uncertainty.assessment import Assessment

MOST_OWN_ROWS = 2000  # of the database that are decided again where no data is given
COPY = 1e-4  # of a value's length: values further apart are of different samples
SHARES = (0.5, 0.9, 0.95)


@dataclass(frozen=True)
class Decided:
    """What was decided on n rows: predicted classes, confidence, agreement and more `(n,)`; usage is by candidate."""

    predicted: np.ndarray
    confidence: np.ndarray
    agreement: np.ndarray
    heaviest: np.ndarray  # the class that most of the shown weight is on
    probabilities: np.ndarray
    class_mass: np.ndarray
    counts: dict[float, np.ndarray]  # how many prototypes carry each of SHARES
    usage: np.ndarray  # (D,): the share of all decisions that each candidate carries
    deciding: np.ndarray  # (D,): in how many decisions it takes part


@dataclass(frozen=True)
class Measured:
    """The rows of a report, encoded and decided; `labels` are class numbers, -1 where a label is no known class.

    `own` `(n,)` are positions in the database where the rows are its own, each decided without itself. `rows` are what
    the rows are called, `preview(i)` shows one, `unseen` are the labels that are no class.
    """

    clf: ProtoAttendClassifier
    encoded: Encoded
    own: Tensor | None
    labels: np.ndarray | None
    unseen: tuple[Any, ...]
    rows: np.ndarray
    preview: Callable[[int], Any]
    source: np.ndarray | None = field(default=None, repr=False)

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def own_rows(self) -> bool:
        """Whether these are rows of the database, each decided without itself."""
        return self.own is not None

    @cached_property
    def decided(self) -> Decided:
        return _decide(self)

    @cached_property
    def known(self) -> np.ndarray:
        """The rows whose label is a class of the classifier."""
        return np.empty(0, dtype=int) if self.labels is None else np.flatnonzero(self.labels >= 0)

    @property
    def labelled(self) -> bool:
        return len(self.known) > 0

    @cached_property
    def correct(self) -> np.ndarray:
        """Which of the rows at `known` are decided rightly."""
        assert self.labels is not None
        return self.decided.predicted[self.known] == self.labels[self.known]

    @cached_property
    def assessment(self) -> Assessment:
        """Of the rows at `known`."""
        assert self.labels is not None
        d, known = self.decided, self.known
        return Assessment(
            d.confidence[known],
            d.predicted[known],
            self.labels[known],
            d.probabilities[known],
            d.class_mass[known],
            self.clf.classes_,
        )

    @cached_property
    def own_probabilities(self) -> np.ndarray:
        """The class probabilities by the rows' own values, without prototypes: alpha 0 of eq. 2 `(n, C)`."""
        return Seen(self.clf.database_, self.encoded).own_logits.double().softmax(1).numpy()

    @cached_property
    def ood(self) -> np.ndarray:
        """How far out-of-distribution each row is `(n,)`: the distance to the values of the nearest candidates."""
        return METHODS["neighbours"](Seen(self.clf.database_, self.encoded, self.own))

    @cached_property
    def copies(self) -> int:
        """How many rows are also in the database, sample for sample; 0 where it does not keep whole samples."""
        rows = self.clf.database_.rows
        if self.source is None or "source" not in rows.blocks.of_samples:
            return 0
        # Different samples may be read alike, so nearness alone proves nothing; it only spares reading all samples.
        near = neighbour_distance(self.encoded.values, rows.values, k=1)
        alike = np.flatnonzero(near < COPY * self.encoded.values.norm(dim=1).double().numpy())
        if len(alike) == 0:
            return 0
        trained = {_identity(sample) for sample in rows.source}
        return sum(_identity(self.source[i]) in trained for i in alike)

    def explained(self, chosen: np.ndarray, *, top: int = 5) -> Explanations:
        """Return explanations of the rows at these places, with their labels where these are known classes."""
        places, own = torch.from_numpy(chosen), None
        if self.own is not None:
            own = self.own[places]
        previews = [self.preview(int(i)) for i in chosen]
        found = explain(self.clf.database_, self.encoded.queries[places], previews, top=top, own=own)
        if self.labels is None:
            return found
        labels = [None if self.labels[i] < 0 else self.clf.classes_[self.labels[i]] for i in chosen]
        items = (replace(e, label=label) for e, label in zip(found, labels, strict=True))
        return Explanations(tuple(items), found.kind)


def measure(clf: ProtoAttendClassifier, X: Any, y: Any) -> Measured:
    """Return what is decided on rows that a person gives; without labels `y` is None."""
    if y is None and isinstance(X, ImageFiles):
        y = X.y
    samples = without_labels(X)
    require_rows(samples)
    source = clf.inputs_.source(samples)
    labels: np.ndarray | None = None
    unseen: tuple[Any, ...] = ()
    if y is not None:
        labels, unseen = class_numbers(clf.classes_, y)
        if len(labels) != count_rows(source):
            raise UserError(f"X and y must be of one length, but X has {len(source)} rows and y has {len(labels)}.")
        if (labels < 0).all():
            raise UserError(
                f"some labels must be classes seen in fit, but none of {[str(label) for label in unseen[:5]]} is among "
                f"{clf.classes_.tolist()[:9]}; check the column of labels, or leave y out."
            )
    encoded = encode(clf.model_, clf.inputs_.tensor(source))
    rows = np.arange(len(source))
    return Measured(clf, encoded, None, labels, unseen, rows, lambda i: clf.inputs_.preview(source[i]), source)


def measure_database(clf: ProtoAttendClassifier) -> Measured:
    """Return what is decided on rows of the database, each without itself; of many, evenly spread ones."""
    database, rows = clf.database_, clf.database_.rows
    spread = np.linspace(0, len(rows) - 1, min(len(rows), MOST_OWN_ROWS)).round().astype(int)
    chosen = torch.from_numpy(np.unique(spread))
    encoded = Encoded(rows.queries[chosen], database.keys[chosen], rows.values[chosen])
    positions = chosen.numpy()
    labels = rows.labels.numpy()[positions]
    return Measured(
        clf, encoded, chosen, labels, (), rows.ids[positions], lambda i: database.preview_at(int(positions[i]))
    )


def class_numbers(classes: np.ndarray, y: Any) -> tuple[np.ndarray, tuple[Any, ...]]:
    """Return class numbers `(n,)`, -1 for labels that are no class, and what these are, in order of appearance.

    A label may be of another type than in fit, as one file holds 1 and another "1".

    >>> numbers, unseen = class_numbers(np.array([1, 2]), ["2", 1, "three"])
    >>> numbers.tolist(), unseen
    ([1, 0, -1], ('three',))
    """
    labels = y.tolist() if hasattr(y, "tolist") else list(y)
    missing = [row for row, label in enumerate(labels) if is_missing(label)]
    if missing:
        raise UserError(
            f"every label must be known, but {len(missing)} of {len(labels)} are missing, the first of them y"
            f"[{missing[0]}]; drop these rows of X and y, or fill in the labels."
        )
    exact = {label: c for c, label in enumerate(classes.tolist())}
    named = {str(label): c for label, c in exact.items()}
    numbers = [exact.get(label, named.get(str(label), -1)) for label in labels]
    unseen: dict[Any, None] = dict.fromkeys(label for label, c in zip(labels, numbers, strict=True) if c < 0)
    return np.array(numbers), tuple(unseen)


def _decide(measured: Measured) -> Decided:
    database = measured.clf.database_
    parts: dict[str, list[Tensor]] = {}
    usage = torch.zeros(len(database), dtype=torch.float64)
    deciding = torch.zeros(len(database), dtype=torch.long)
    for start in range(0, len(measured), QUERIES):
        here = slice(start, start + QUERIES)
        own = None if measured.own is None else measured.own[here]
        found = database.attend(measured.encoded.queries[here], own=own)
        usage.index_add_(0, found.positions, found.weights.double())
        deciding += torch.bincount(found.positions, minlength=len(database))
        made = {
            "predicted": found.predicted,
            "confidence": found.confidence,
            "agreement": found.agreement,
            "heaviest": found.class_mass.argmax(1),
            "probabilities": found.probabilities,
            "class_mass": found.support,
            **{str(share): found.counts(share) for share in SHARES},
        }
        for name, part in made.items():
            parts.setdefault(name, []).append(part)
    whole = {name: torch.cat(pieces).numpy() for name, pieces in parts.items()}
    counts = {share: whole.pop(str(share)) for share in SHARES}
    return Decided(**whole, counts=counts, usage=usage.numpy() / len(measured), deciding=deciding.numpy())


def _identity(sample: Any) -> str | bytes:
    """Return what two samples share if and only if they are the same: a text or path itself, or all bytes."""
    return sample if isinstance(sample, str) else np.ascontiguousarray(sample).tobytes()
