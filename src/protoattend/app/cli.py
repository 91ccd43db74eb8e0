"""The command line: `protoattend fit`, `predict` and the other verbs."""

from __future__ import annotations

from importlib import import_module
from typing import Annotated

import typer

import protoattend
from protoattend.app.group import Commands

# Each is a file of app/commands with register(app), in the order in which the help lists them.
VERBS = (
    "fit",
    "predict",
    "explain",
    "evaluate",
    "report",
    "serve",
    "threshold",
    "labels",
    "ood",
    "database",
    "datasets",
    "demo",
    "reproduce",
)

app = typer.Typer(cls=Commands, no_args_is_help=True, pretty_exceptions_enable=False)


def _tell_version(asked: bool) -> None:
    if asked:
        typer.echo(f"protoattend {protoattend.__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", help="Say which version this is.", callback=_tell_version, is_eager=True)
    ] = False,
) -> None:
    """Classifiers that decide from real examples.

    Every command has --help with examples, and --json for programs: the result as JSON on standard output, messages on
    standard error. Exit codes: 0 done, 1 something in the input must be put right, 2 the command was misspelt.
    """


for verb in VERBS:
    import_module(f"protoattend.app.commands.{verb}").register(app)


def main() -> None:
    """Run the command line."""
    app()
