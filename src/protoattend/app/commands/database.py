"""`protoattend database`: look at the candidates of a classifier and edit them, without training."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from protoattend.app.commands.options import (
    AsJson,
    DataPath,
    Force,
    Header,
    Model,
    Samples,
    SkipCorrupt,
    Target,
    Text,
    examples,
)
from protoattend.app.talk import Talk

if TYPE_CHECKING:
    from protoattend.classifier import ProtoAttendClassifier

group = typer.Typer(help="The candidates that decisions are made of: look at them and edit them, without training.")
Rows = Annotated[list[int], typer.Option("--row", help="Index of a candidate, as explain shows; may be given again.")]


def register(app: typer.Typer) -> None:
    """Add the commands to the command line."""
    app.add_typer(group, name="database", no_args_is_help=True)


@group.command(epilog=examples("database info people-model"))
def info(model: Model, json: AsJson = False) -> None:
    """Say what the database holds."""
    import numpy as np

    clf = _open(model)
    database, folder = clf.database_, model / "database"
    labels, counts = np.unique(database.labels.astype(str), return_counts=True)
    log = folder / "edits"
    edits = len(list(log.iterdir())) if log.is_dir() else 0
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    by_class = dict(zip(labels.tolist(), counts.tolist(), strict=True))
    machine = {
        "n_candidates": len(database),
        "kind": clf.inputs_.kind,
        "classes": by_class,
        "edits_in_log": edits,
        "bytes": size,
    }
    shown = {
        "candidates": f"{len(database):,} of kind {clf.inputs_.kind}",
        "classes": ", ".join(f"{label} {count:,}" for label, count in by_class.items()),
        "edits in the log": f"{edits}",
        "on disk": f"{size / 2**20:.1f} MB",
    }
    Talk(json).facts(shown, machine)


@group.command(epilog=examples("database add people-model more.csv"))
def add(
    model: Model,
    path: DataPath,
    target: Target = None,
    text: Text = None,
    samples: Samples = None,
    header: Header = None,
    skip_corrupt: SkipCorrupt = False,
    json: AsJson = False,
) -> None:
    """Add labelled samples as candidates; they count from the next prediction on."""
    from protoattend.app.files import Use

    use = Use.of(model, skip_corrupt=skip_corrupt, target=target, text=text, samples=samples, header=header)
    data = use.read_labelled(path)
    indices = use.clf.database_.add(data.X, data.y)
    _save(use.clf)
    told = f"{_candidates(len(indices))} added, with indices {indices[0]} to {indices[-1]}; there are now"
    Talk(json).lines([f"{told} {len(use.clf.database_):,}."], {"indices": indices, **_size(use.clf)})


@group.command(epilog=examples("database remove people-model --row 17 --row 44"))
def remove(model: Model, row: Rows, json: AsJson = False) -> None:
    """Remove candidates; their indices are not given out again."""
    clf = _open(model)
    clf.database_.remove(row)
    _save(clf)
    left = f"{_candidates(len(row))} removed; there are now {len(clf.database_):,}."
    Talk(json).lines([left], {"indices": row, **_size(clf)})


@group.command(epilog=examples("database relabel people-model high --row 17"))
def relabel(
    model: Model,
    label: Annotated[str, typer.Argument(help="The label they get, one of those known in training.")],
    row: Rows,
    json: AsJson = False,
) -> None:
    """Give candidates another label; each argues for it from the next prediction on."""
    from protoattend.errors import choose

    clf = _open(model)
    known = {str(each): each for each in clf.classes_.tolist()}
    clf.database_.relabel(row, known[choose(label, known, "label")])
    _save(clf)
    Talk(json).lines([f"{_candidates(len(row))} labelled {label}."], {"indices": row, "label": label, **_size(clf)})


@group.command(
    epilog=examples(
        "database condense people-model small-model --keep 1000", "database condense people-model small --within 0.01"
    )
)
def condense(
    model: Model,
    to: Annotated[Path, typer.Argument(help="Folder for the classifier with fewer candidates.")],
    keep: Annotated[int | None, typer.Option(help="How many candidates to keep.")] = None,
    within: Annotated[
        float | None, typer.Option(help="Keep as few as cost no more accuracy than this, such as 0.01.")
    ] = None,
    force: Force = False,
    json: AsJson = False,
) -> None:
    """Save a classifier with fewer candidates, those that get most attention; the other one stays as it is."""
    from protoattend.app.output import require_new_folder
    from protoattend.errors import UserError

    require_new_folder(to, model, force=force)
    clf = _open(model)
    if (keep is None) == (within is None):
        raise UserError("how many candidates to keep is said by either --keep or --within; give one of them.")
    before = clf.database_
    clf.database_ = before.condense(keep) if keep is not None else before.condense_within(within or 0.0)
    clf.save(to)
    told = f"{len(clf.database_):,} of {len(before):,} candidates kept, saved in {to}."
    Talk(json).lines([told], {"folder": to, "n_before": len(before), **_size(clf)})


@group.command(epilog=examples("database verify people-model"))
def verify(model: Model, json: AsJson = False) -> None:
    """Read every file of the database and compare its checksum."""
    clf = _open(model)
    clf.database_.verify()
    Talk(json).lines([f"All files of {model / 'database'} are as they were written."], {"verified": True, **_size(clf)})


@group.command(epilog=examples("database compact people-model"))
def compact(model: Model, json: AsJson = False) -> None:
    """Write the database again with all edits in its columns, so that it opens without a log."""
    clf = _open(model)
    clf.database_.compact()
    Talk(json).lines([f"{_candidates(len(clf.database_))} written without a log."], _size(clf))


def _open(model: Path) -> ProtoAttendClassifier:
    from protoattend.classifier import ProtoAttendClassifier

    return ProtoAttendClassifier.load(model)


def _save(clf: ProtoAttendClassifier) -> None:
    """Append the edits to the log, and say where they make something older untrue."""
    import warnings

    clf.database_.save_edits()
    if clf.conformal_ is not None or clf.recalibration_ is not None:
        warnings.warn("calibration was learned before this edit; calibrate the classifier again.", stacklevel=2)


def _size(clf: ProtoAttendClassifier) -> dict[str, int]:
    return {"n_candidates": len(clf.database_)}


def _candidates(count: int) -> str:
    return f"{count:,} candidate{'' if count == 1 else 's'}"
