"""`protoattend report`: one HTML file on a saved classifier."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from protoattend.app.commands.options import (
    AsJson,
    Force,
    Header,
    ImageRoot,
    Model,
    Samples,
    SkipCorrupt,
    Target,
    Text,
    examples,
)
from protoattend.app.talk import Talk


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    shown = examples("report people-model --data test.csv --out report.html", "report people-model --out report.html")
    app.command(epilog=shown)(report)


def report(
    model: Model,
    data: Annotated[
        Path | None, typer.Option(help="Rows to report on, unseen in training; by default rows of the database.")
    ] = None,
    out: Annotated[Path, typer.Option(help="HTML file to write.")] = Path("report.html"),
    accuracy: Annotated[float, typer.Option(help="Wanted among the answers: its threshold is marked.")] = 0.99,
    baseline: Annotated[
        bool, typer.Option("--baseline", help="Train the plain encoder on the same samples, and put it beside.")
    ] = False,
    target: Target = None,
    text: Text = None,
    samples: Samples = None,
    header: Header = None,
    skip_corrupt: SkipCorrupt = False,
    image_root: ImageRoot = None,
    force: Force = False,
    json: AsJson = False,
) -> None:
    """Write a report: data, training, decisions and their prototypes, confidence, errors, label errors, model card."""
    from protoattend.app.files import Use
    from protoattend.app.output import PAGES, require_writable
    from protoattend.app.report.run import report_file

    require_writable(out, *([] if data is None else [data]), force=force, endings=PAGES)
    roots = [*([] if data is None else [data]), *(image_root or ())]
    columns = {"target": target, "text": text, "samples": samples, "header": header}
    use = Use.of(model, skip_corrupt=skip_corrupt, image_roots=roots, **columns)
    path = report_file(use, data, out, accuracy=accuracy, baseline=baseline)
    Talk(json).lines([f"Report: {path}"], {"report": str(path)})
