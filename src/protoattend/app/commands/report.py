"""`protoattend report`: one HTML file on a saved classifier."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape

from protoattend.errors import UserError


def report(
    folder: Annotated[Path, typer.Argument(metavar="MODEL", help="Folder of a classifier saved by fit.")],
    data: Annotated[
        Path | None, typer.Option(help="Rows to report on, unseen in training; by default rows of the database.")
    ] = None,
    out: Annotated[Path, typer.Option(help="HTML file to write.")] = Path("report.html"),
    target: Annotated[str | None, typer.Option(help="Column of the labels; by default as in fit.")] = None,
    text: Annotated[str | None, typer.Option(help="Column of the texts; by default as in fit.")] = None,
    accuracy: Annotated[float, typer.Option(help="Wanted among the answers: its threshold is marked.")] = 0.99,
    baseline: Annotated[
        Path | None, typer.Option(help="Training file or folder: train the plain encoder on it too, and compare.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace the file if there is one.")] = False,
) -> None:
    """Write a report: data, training, decisions and their prototypes, confidence, errors, label errors, model card.

    Example: protoattend report wine-model --data test.csv --out report.html
    """
    from protoattend.app.files import Use
    from protoattend.app.report.run import report_file

    if out.exists() and not force:
        raise UserError(f"{out} exists already; choose another name with --out, or pass --force to replace it.")
    used = Use.of(folder, target=target, text=text)
    path = report_file(used, data, out, accuracy=accuracy, baseline=baseline)
    Console().print(f"Report: {escape(str(path))}", soft_wrap=True, highlight=False)


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(report)
