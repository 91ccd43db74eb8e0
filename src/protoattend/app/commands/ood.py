"""`protoattend ood`: which rows are unlike the training data."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

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
)
from protoattend.app.talk import Talk


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    shown = examples("ood people-model new.csv", "ood people-model new.csv --reference known.csv --out ood.csv")
    app.command(epilog=shown)(ood)


def ood(
    model: Model,
    path: DataPath,
    out: TableOut = None,
    reference: Annotated[
        Path | None,
        typer.Option(help="In-distribution samples, unseen in training; by default some of the training samples."),
    ] = None,
    false_alarm: Annotated[float, typer.Option(help="Share of in-distribution rows that may be flagged.")] = 0.01,
    text: Text = None,
    samples: Samples = None,
    id_column: IdColumn = None,
    header: Header = None,
    image_root: ImageRoot = None,
    skip_corrupt: SkipCorrupt = False,
    force: Force = False,
    json: AsJson = False,
) -> None:
    """Write how far out-of-distribution every row is, and flag those that are further than nearly all known ones.

    The p-value is the share of in-distribution samples that score as high. Rows are numbered from 0.
    """
    from protoattend.app.files import Use
    from protoattend.app.output import beside, give_table, require_writable, rounded
    from protoattend.errors import UserError

    if not 0 < false_alarm < 1:
        raise UserError(f"--false-alarm must be above 0 and below 1, but got {false_alarm}; 0.01 is one row in 100.")
    require_writable(out, path, *([reference] if reference else []), force=force)
    columns = {"text": text, "samples": samples, "id": id_column, "header": header}
    use = Use.of(model, skip_corrupt=skip_corrupt, image_roots=[path, *(image_root or ())], **columns)
    talk = Talk(json)
    data = use.read(path)
    detector = use.clf.ood_detector(None if reference is None else use.read(reference).X)
    if false_alarm * (len(detector.reference) + 1) < 1:
        talk.say(
            f"{len(detector.reference)} in-distribution samples cannot tell a share of {false_alarm:g}, so nothing is "
            "flagged; pass more with --reference, or a larger --false-alarm."
        )
    scores = detector.score(data.X)
    p_values = detector.p_values_of(scores)
    table: dict[str, Any] = {"ood_score": rounded(scores), "p_value": rounded(p_values)}
    table["out_of_distribution"] = (p_values <= false_alarm).tolist()
    flagged = sum(table["out_of_distribution"])
    talk.say(f"{flagged} of {len(scores):,} rows are out-of-distribution; {false_alarm:.1%} would be by chance.")
    give_table(beside(use.names(data), table), out, talk)
