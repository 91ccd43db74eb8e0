"""The command line: `protoattend demo` and the rest."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from protoattend.errors import ProtoAttendError

app = typer.Typer(
    help="Classifiers that decide from real examples.", no_args_is_help=True, pretty_exceptions_enable=False
)
console = Console()


@app.callback()
def _root() -> None:
    """Classifiers that decide from real examples."""


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Folder for the pictures and the report.")] = Path("demo"),
    random_state: Annotated[int, typer.Option(help="Seed of the splits and the training.")] = 0,
) -> None:
    """Train on images, a table and texts that are already on this machine; show why each decision is made."""
    from protoattend.app.demo import run_demo

    run_demo(out, console, random_state=random_state)


def main() -> None:
    """Run the command line; an error of the user's is one line and exit code 2, without a traceback."""
    try:
        app()
    except ProtoAttendError as error:
        Console(stderr=True).print(f"[red]error:[/] {error}", soft_wrap=True)
        sys.exit(2)
