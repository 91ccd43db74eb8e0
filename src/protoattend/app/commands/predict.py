"""`protoattend predict`: label and confidence of every row, and on request all else that is known of a decision."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from protoattend.app.commands.options import (
    AsJson,
    DataPath,
    Force,
    Header,
    IdColumn,
    ImageRoot,
    Model,
    Samples,
    SkipCorrupt,
    TableOut,
    Text,
    examples,
    no_nan,
)
from protoattend.app.talk import Talk

if TYPE_CHECKING:
    from protoattend.app.files import Use
    from protoattend.database.attention import Attention


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    shown = examples(
        "predict people-model new.csv --out predictions.csv",
        "predict people-model new.csv --id number --probabilities --ood --out predictions.parquet",
        "predict people-model new.csv --sets 0.95 --calibrate-with labelled.csv",
        "predict photos-model new/ --min-confidence 0.9 --json",
    )
    app.command(epilog=shown)(predict)


def predict(
    model: Model,
    path: DataPath,
    out: TableOut = None,
    min_confidence: Annotated[
        float | None, typer.Option(min=0, max=1, callback=no_nan, help="Say which rows have at least this.")
    ] = None,
    probabilities: Annotated[bool, typer.Option("--probabilities", help="Add the probability of every class.")] = False,
    sets: Annotated[
        float | None, typer.Option(help="Add sets of labels that hold the true one with this probability.")
    ] = None,
    calibrate_with: Annotated[
        Path | None, typer.Option(help="Labelled samples, unseen in training, that --sets go by.")
    ] = None,
    ood: Annotated[bool, typer.Option("--ood", help="Add how far out-of-distribution each row is.")] = False,
    text: Text = None,
    samples: Samples = None,
    id_column: IdColumn = None,
    header: Header = None,
    image_root: ImageRoot = None,
    skip_corrupt: SkipCorrupt = False,
    force: Force = False,
    json: AsJson = False,
) -> None:
    """Write label and confidence of every row; rows are numbered from 0, a header not counted."""
    from protoattend.app.deciding import queries_of
    from protoattend.app.files import Use
    from protoattend.app.output import beside, give_table, require_writable, rounded

    require_writable(out, path, *([calibrate_with] if calibrate_with else []), force=force)
    columns = {"text": text, "samples": samples, "id": id_column, "header": header}
    use = Use.of(model, skip_corrupt=skip_corrupt, image_roots=[path, *(image_root or ())], **columns)
    if calibrate_with is not None:
        labelled = use.read_labelled(calibrate_with)
        use.clf.calibrate(labelled.X, labelled.y)
    _require_calibrated(use, sets)
    data = use.read(path)
    decisions = use.clf.database_.decide(queries_of(use.clf, data.X))
    table: dict[str, Any] = {"label": use.clf.classes_[decisions.predicted.numpy()].tolist()}
    table["confidence"] = rounded(decisions.confidence.numpy())
    if min_confidence is not None:
        table["answered"] = (decisions.confidence.numpy() >= min_confidence).tolist()
    if probabilities:
        shares = decisions.probabilities.numpy().T
        table |= {
            f"probability of {label}": rounded(share) for label, share in zip(use.clf.classes_, shares, strict=True)
        }
    if sets is not None:
        table["prediction_set"] = _sets(use, decisions, sets)
    if ood:
        table["ood_score"] = rounded(use.clf.ood_score(data.X, method="combined"))
    give_table(beside(use.names(data), table), out, Talk(json))


def _require_calibrated(use: Use, sets: float | None) -> None:
    from protoattend.errors import UserError

    if sets is not None and use.clf.conformal_ is None:
        raise UserError(
            "prediction sets need calibration, but this classifier has none; pass labelled samples, unseen in "
            "training, with --calibrate-with."
        )


def _sets(use: Use, decisions: Attention, coverage: float) -> list[list[Any]]:
    from protoattend.uncertainty.conformal import class_support

    assert use.clf.conformal_ is not None
    support = class_support(decisions.support.numpy(), decisions.probabilities.numpy())
    return [use.clf.classes_[row].tolist() for row in use.clf.conformal_.sets(support, coverage)]
