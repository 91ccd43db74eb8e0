"""Arguments and options that several commands have."""

from __future__ import annotations

from math import isnan
from pathlib import Path
from typing import Annotated

import typer


def no_nan(value: float | None) -> float | None:
    """Return a number; NaN lies within any bounds that are compared with."""
    if value is not None and isnan(value):
        raise typer.BadParameter("nan is not in the range 0<=x<=1.")
    return value


DataPath = Annotated[Path, typer.Argument(help="CSV, Parquet or .npz file, or folder of images by class.")]
Model = Annotated[Path, typer.Argument(help="Folder of a classifier saved by fit.")]
Target = Annotated[str | None, typer.Option(help="Column (or .npz array) of the labels; by default as in fit.")]
Text = Annotated[str | None, typer.Option(help="Column of the texts; by default as in fit.")]
Samples = Annotated[str | None, typer.Option(help="Array of the samples in an .npz file; by default as in fit.")]
IdColumn = Annotated[
    str | None, typer.Option("--id", help="Column of identifiers, which are written beside the rows' numbers.")
]
Header = Annotated[
    bool | None,
    typer.Option(
        "--header/--no-header", help="Whether the first line of a CSV file names columns; by default found out."
    ),
]
SkipCorrupt = Annotated[bool, typer.Option("--skip-corrupt", help="Leave out image files that cannot be read.")]
ImageRoot = Annotated[
    list[Path] | None, typer.Option(help="Where the training images lie, if not under PATH; may be given again.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON; messages go to standard error.")]
Force = Annotated[bool, typer.Option("--force", help="Replace what is there already.")]
TableOut = Annotated[
    Path | None,
    typer.Option(help="File to write: .csv, .json, .jsonl or .parquet; by default standard output."),
]


def examples(*lines: str) -> str:
    """Return the end of a command's help: commands to copy, a line each."""
    return "\n\n".join(["Examples:", *(f"  protoattend {line}" for line in lines)])
