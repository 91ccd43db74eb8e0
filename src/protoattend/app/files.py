"""`protoattend fit`, `predict`, `explain` and `evaluate`: a classifier from files, in a folder, used on other files."""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from torch import Tensor

from protoattend.classifier import ProtoAttendClassifier
from protoattend.data.images import ImageFile, ImageFiles
from protoattend.data.inputs import kind_of
from protoattend.data.readers import LabelledData, read_data
from protoattend.database.encode import encode
from protoattend.errors import UserError
from protoattend.explain.explanations import Explanation, Explanations
from protoattend.files.known import CLASSIFIER
from protoattend.folders import require_free
from protoattend.parallel import ranks
from protoattend.training.workers import joined
from protoattend.uncertainty.selective import accuracy_at_coverage
from protoattend.viz.text import excerpt, percent, plain

FIRST = 10  # rows explained unless some are named
QUERIES = 256  # whose prototypes are held at a time


@dataclass(frozen=True)
class Reading:
    """How files for one classifier are read: the columns of labels and texts."""

    target: str | None = None
    text: str | None = None


@dataclass(frozen=True)
class Use:
    """A saved classifier, and how files are read for it."""

    clf: ProtoAttendClassifier
    reading: Reading

    @classmethod
    def of(
        cls, folder: Path, *, target: str | None = None, text: str | None = None, image_roots: Sequence[Path] = ()
    ) -> Use:
        """Open the classifier in `folder`; columns named here go before those of fit."""
        clf = ProtoAttendClassifier.load(folder, image_roots=image_roots)
        noted = Reading(**(clf.reading_ or {}))
        return cls(clf, Reading(target or noted.target, text or noted.text))

    def read(self, path: Path, images: dict[str, Any], *, target: str | None = None) -> LabelledData:
        """Read samples of the kind the classifier was trained on, of a table with the labels in `target`."""
        data = read_data(path, target=target, text=self.reading.text, **images)
        kind, needed = kind_of(data.X), self.clf.inputs_.kind
        if kind != needed:
            fix = "name the column of texts with --text" if needed == "text" else "pass such a file or folder"
            raise UserError(f"this classifier reads input of kind {needed!r}, but {path} is of kind {kind!r}; {fix}.")
        return data


def fit_files(
    path: Path,
    to: Path,
    console: Console,
    *,
    reading: Reading,
    images: dict[str, Any],
    params: dict[str, Any],
    places: dict[str, Path | None],
    excerpts: bool,
) -> None:
    """Train on the file or folder `path`, save into the folder `to`, and say what came of it.

    `places` are where fit keeps its checkpoints; with `excerpts`, these are saved in place of samples. Of the processes
    that torchrun has started, the first one speaks.
    """
    require_free(to, CLASSIFIER)  # before training, not after it
    data = read_data(path, target=reading.target, text=reading.text, **images)
    X, y = data.for_fit()
    with joined():
        first = ranks().rank == 0
        if first:
            _say(console, f"Read {path}: {data.description}.")
        clf = ProtoAttendClassifier(**params, verbose=int(first)).fit(X, y, **places)
    if first:
        clf.reading_ = asdict(reading)
        clf.save(to, excerpts=excerpts)
        _report(clf, to, console)


def _report(clf: ProtoAttendClassifier, to: Path, console: Console) -> None:
    metrics = clf.history_[clf.history_.best_epoch].metrics
    facts = {"training": f"{_count(len(clf.history_), 'epoch')} in {clf.history_.seconds:.0f} s"}
    if metrics is not None:
        facts["validation accuracy"] = f"{metrics.prototype_accuracy:.1%} of {metrics.n_samples} samples held out"
    queries = clf.database_.rows.queries
    some = queries[:: -(-len(queries) // QUERIES)]
    facts["prototypes"] = f"{_median_prototypes(clf, some):.0f} carry 95 % of a typical decision"
    facts["saved in"] = str(to)
    _print_facts(console, facts)


def predict_file(
    use: Use, path: Path, out: Path | None, *, min_confidence: float | None, images: dict[str, Any]
) -> None:
    """Write a CSV with label and confidence of every row to `out`, or to standard output."""
    _require_parent(out)
    X = use.read(path, images).X
    labels, confidence = _decide(use.clf, _queries(use.clf, X))
    table: dict[str, Iterable[Any]] = {"file": X.paths} if isinstance(X, ImageFiles) else {"row": range(len(X))}
    table |= {"label": labels, "confidence": [f"{share:.4f}" for share in confidence]}
    if min_confidence is not None:
        table["answered"] = ["yes" if enough else "no" for enough in confidence >= min_confidence]
    lines = [list(table), *zip(*table.values(), strict=True)]
    if out is None:
        csv.writer(sys.stdout, lineterminator="\n").writerows(lines)
        return
    with out.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows(lines)


def explain_file(
    use: Use,
    path: Path,
    console: Console,
    *,
    rows: Sequence[int],
    out: Path | None,
    top: int,
    images: dict[str, Any],
) -> None:
    """Show the prototypes of these rows on the console, or write them as a page to `out`."""
    _require_parent(out)
    data = use.read(path, images)
    count = len(data.X)
    rows = rows or range(min(count, FIRST))
    for row in rows:
        if not 0 <= row < count:
            raise UserError(f"row must be from 0 to {count - 1}, as {path} has {count} rows, but got {row}.")
    explanations = _explain(use.clf, data, rows, top)
    if out is not None:
        explanations.to_html(out, title=f"{path.name}: decisions and their prototypes")
        _say(console, f"{_count(len(explanations), 'decision')} explained in {out}")
        return
    for row, e in zip(rows, explanations, strict=True):
        console.print(_prototypes(f"row {row}", e))


def evaluate_file(use: Use, path: Path, console: Console, *, images: dict[str, Any]) -> None:
    """Print how often the classifier is right on labelled samples, and how its confidence tells right from wrong."""
    clf, data = use.clf, use.read(path, images, target=use.reading.target)
    known = {str(label): label for label in clf.classes_.tolist()}  # a CSV and a Parquet file may differ in type
    y = clf.database_.classes.encode([known.get(str(label), label) for label in data.labels().tolist()])
    queries = _queries(clf, data.X)
    labels, confidence = _decide(clf, queries)
    right = (clf.database_.classes.encode(labels) == y).numpy()
    recalls = [right[y.numpy() == c].mean() for c in np.unique(y.numpy())]
    facts = {
        "accuracy": f"{right.mean():.1%} of {len(right):,} samples",
        "mean over classes": f"{np.mean(recalls):.1%}",
        "accuracy at 90 % coverage": f"{accuracy_at_coverage(confidence, right, 0.9):.1%}",
        "confidence where right": f"{confidence[right].mean():.2f}" if right.any() else "none right",
        "confidence where wrong": f"{confidence[~right].mean():.2f}" if not right.all() else "none wrong",
        "prototypes": f"{_median_prototypes(clf, queries):.0f} carry 95 % of a typical decision",
    }
    _print_facts(console, facts)


def _queries(clf: ProtoAttendClassifier, X: Any) -> Tensor:
    return encode(clf.model_, clf.inputs_.tensor(clf.inputs_.source(X))).queries


def _decide(clf: ProtoAttendClassifier, queries: Tensor) -> tuple[np.ndarray, np.ndarray]:
    """Return labels and confidence: predict and confidence would decode and encode everything twice."""
    decisions = clf.database_.decide(queries)
    return clf.database_.classes.decode(decisions.predicted), decisions.confidence.numpy()


def _median_prototypes(clf: ProtoAttendClassifier, queries: Tensor) -> float:
    counts = [clf.database_.attend(some).counts(0.95).numpy() for some in queries.split(QUERIES)]
    return float(np.median(np.concatenate(counts)))


def _explain(clf: ProtoAttendClassifier, data: LabelledData, rows: Sequence[int], top: int) -> Explanations:
    """Explain the rows, with their true labels where the samples have them."""
    X = data.X
    chosen = (
        X.iloc[list(rows)] if hasattr(X, "iloc") else [X[i] for i in rows] if isinstance(X, list) else X[list(rows)]
    )
    explanations = clf.explain(chosen, top=top)
    if data.y is None:
        return explanations
    items = (replace(e, label=label) for e, label in zip(explanations, data.y[list(rows)], strict=True))
    return Explanations(tuple(items), explanations.kind)


def _print_facts(console: Console, facts: dict[str, str]) -> None:
    width = max(map(len, facts))
    for name, value in facts.items():
        _say(console, f"{name:<{width}}  {value}")


def _say(console: Console, text: str) -> None:
    console.print(escape(text), soft_wrap=True, highlight=False)


def _prototypes(name: str, e: Explanation) -> Table:
    truth = "" if e.label is None or e.label == e.prediction else f" (labelled {plain(e.label)})"
    title = f"{name}: {plain(e.prediction)}{truth}, confidence {percent(e.confidence)}\n{_short(e.preview)}"
    table = Table(title=escape(title), title_justify="left")
    for column in ("weight", "label", "training row", "sample"):
        table.add_column(column)
    for p in e.prototypes:
        table.add_row(percent(p.weight), escape(plain(p.label)), str(p.index), escape(_short(p.preview)))
    return table


def _short(preview: Any) -> str:
    """Return a sample in one line."""
    if isinstance(preview, ImageFile):
        return "/".join(Path(preview.path).parts[-2:])
    if isinstance(preview, dict):
        return excerpt(", ".join(f"{name} {value}" for name, value in preview.items()), 160)
    return excerpt(preview, 160) if isinstance(preview, str) else f"image {'x'.join(map(str, preview.shape))}"


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}{'' if number == 1 else 's'}"


def _require_parent(out: Path | None) -> None:
    if out is not None and not out.absolute().parent.is_dir():
        raise UserError(f"the folder of {out} must exist, but it does not; make it or choose another.")
