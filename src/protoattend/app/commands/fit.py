"""`protoattend fit`: a classifier from a file or a folder of images, saved in a folder."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from protoattend.app.commands.options import AsJson, Force, Header, IdColumn, SkipCorrupt, examples
from protoattend.app.talk import Talk

if TYPE_CHECKING:
    from protoattend.classifier import ProtoAttendClassifier

TRAINING, FILES = "How to train", "What is read"
THUMBNAILS = 20_000  # images of which thumbnails are kept unasked, 12 kB each


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    shown = examples(
        "fit photos/",
        "fit people.csv --target income --id number",
        "fit reviews.csv --target stars --text review --max-minutes 10",
        "fit digits.npz --samples images --target digits",
        "fit fashion-mnist --recipe paper --epochs 3",
        "fit people.csv --target income --set recipe.mixup=0 --set d_att=32 --config settings.toml",
    )
    app.command(epilog=shown)(fit)


def fit(
    path: Annotated[
        Path,
        typer.Argument(help="CSV, Parquet or .npz file, folder of images by class, or a data set that datasets lists."),
    ],
    target: Annotated[
        str | None, typer.Option(help="Column (or .npz array) of the labels.", rich_help_panel=FILES)
    ] = None,
    text: Annotated[
        str | None, typer.Option(help="Column of the texts, to learn from texts.", rich_help_panel=FILES)
    ] = None,
    samples: Annotated[
        str | None, typer.Option(help="Array of the samples in an .npz file.", rich_help_panel=FILES)
    ] = None,
    id_column: IdColumn = None,
    header: Header = None,
    kind: Annotated[
        str, typer.Option(help="table, text or images; auto goes by what is read.", rich_help_panel=FILES)
    ] = "auto",
    to: Annotated[Path | None, typer.Option(help="Folder for the classifier; by default NAME-model, here.")] = None,
    force: Force = False,
    encoder: Annotated[
        str | None, typer.Option(help="Encoder by name; by default by the kind of data.", rich_help_panel=TRAINING)
    ] = None,
    epochs: Annotated[
        int | None, typer.Option(help="Epochs; by default by the amount of data.", rich_help_panel=TRAINING)
    ] = None,
    recipe: Annotated[
        str | None, typer.Option(help="How to train, by name: auto or paper.", rich_help_panel=TRAINING)
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", help="Any setting, as name=value or recipe.name=value.", rich_help_panel=TRAINING),
    ] = None,
    config: Annotated[Path | None, typer.Option(help="File of settings in TOML.", rich_help_panel=TRAINING)] = None,
    seed: Annotated[
        int | None, typer.Option(help="Seed of the split and the training; 0 by default.", rich_help_panel=TRAINING)
    ] = None,
    size: Annotated[
        int | None, typer.Option(help="Side that images are resized to, in pixels.", rich_help_panel=FILES)
    ] = None,
    skip_corrupt: SkipCorrupt = False,
    excerpts: Annotated[
        bool, typer.Option("--excerpts", help="Keep thumbnails and beginnings of texts in place of samples.")
    ] = False,
    processes: Annotated[
        int | None, typer.Option(help="Processes that train together on this machine.", rich_help_panel=TRAINING)
    ] = None,
    threads: Annotated[int | None, typer.Option(help="Threads of each process.", rich_help_panel=TRAINING)] = None,
    max_minutes: Annotated[
        float | None, typer.Option(help="Minutes that training may take.", rich_help_panel=TRAINING)
    ] = None,
    checkpoint_to: Annotated[
        Path | None, typer.Option(help="Folder for checkpoints while training.", rich_help_panel=TRAINING)
    ] = None,
    resume_from: Annotated[
        Path | None, typer.Option(help="Folder of checkpoints to go on from.", rich_help_panel=TRAINING)
    ] = None,
    json: AsJson = False,
) -> None:
    """Train a classifier on a file or a folder of images, and save it.

    What is not said is guessed (the kind of data, the header, the column of labels by its name) and told.
    """
    from dataclasses import asdict
    from functools import partial

    from protoattend.app.catalogued import Catalogued
    from protoattend.app.files import Reading, read_for_fit
    from protoattend.app.output import require_new_folder
    from protoattend.app.settings import for_labels, make_classifier
    from protoattend.config import PAPER
    from protoattend.parallel import ranks
    from protoattend.training.workers import joined

    reading_options = {
        "--target": target,
        "--text": text,
        "--samples": samples,
        "--id": id_column,
        "--header/--no-header": header,
        "--kind": kind,
        "--size": size,
        "--skip-corrupt": skip_corrupt or None,
    }
    named = Catalogued.at(path, reading_options)
    to = to or Path(f"{path.absolute().name if path.is_dir() else path.stem}-model")
    require_new_folder(to, path, force=force)  # before training, not after it
    options = {
        "encoder": encoder,
        "max_epochs": epochs,
        "recipe": recipe,
        "random_state": seed,
        "n_processes": processes,
        "n_threads": threads,
        "recipe.max_minutes": max_minutes,
    }
    make = partial(make_classifier, config, {"random_state": 0}, options, settings or ())
    in_appendix = named is not None and named.in_appendix
    clf = make(of_paper={"recipe": PAPER} if in_appendix else None)  # before anything is read
    talk, quiet = Talk(json), Talk(json, silent=True)
    with joined():  # of the processes that torchrun has started, the first one speaks
        first = ranks().rank == 0
        if named is not None:
            rows, reading = named.read(talk if first else quiet), Reading()
            X, y = rows.X, rows.y
            clf = make(of_paper=named.paper_settings(y, clf.normalize))
        else:
            given = Reading(target, text, samples, id_column, header)
            images = {"size": size, "corrupt": "skip" if skip_corrupt else "raise"}
            data, reading = read_for_fit(path, given, images, kind=kind, talk=talk if first else quiet)
            X, y = data.for_fit()
        for_labels(clf, y)
        clf.set_params(verbose=clf.verbose if first else 0)
        clf.fit(X, y, checkpoint_to=checkpoint_to, resume_from=resume_from)
    if first:
        clf.reading_ = asdict(reading)
        clf.save(to, excerpts=excerpts or _few_files(X))
        _report(clf, to, talk)


def _few_files(X: Any) -> bool:
    """Whether thumbnails of the images are worth keeping, so that decisions are shown also where the files are not."""
    from protoattend.data.images import ImageFiles

    return isinstance(X, ImageFiles) and len(X) <= THUMBNAILS


def _report(clf: ProtoAttendClassifier, to: Path, talk: Talk) -> None:
    from protoattend.app.deciding import median_prototypes, spread

    history = clf.history_
    metrics = history[history.best_epoch].metrics
    queries = clf.database_.rows.queries
    prototypes = median_prototypes(clf, queries[spread(len(queries))])
    epochs = f"{len(history)} epoch{'' if len(history) == 1 else 's'}"
    again = f", {history.outcome}" if history.refitted or history.settled else ""
    shown = {"training": f"{epochs} in {history.seconds:.0f} s{again}"}
    if metrics is not None:
        shown["validation accuracy"] = f"{metrics.prototype_accuracy:.1%} of {metrics.n_samples} samples held out"
    shown |= {"prototypes": f"{prototypes:.0f} carry 95 % of a typical decision", "saved in": str(to)}
    machine = {
        "folder": to,
        "kind": clf.inputs_.kind,
        "classes": clf.classes_,
        "n_samples": len(clf.database_),
        "epochs": len(history),
        "seconds": history.seconds,
        "validation_accuracy": None if metrics is None else metrics.prototype_accuracy,
        "n_validation": 0 if metrics is None else metrics.n_samples,
        "median_prototypes": prototypes,
        "reading": clf.reading_,
    }
    talk.facts(shown, machine)
    talk.say(f"Look at its decisions: protoattend serve {to}; with rows it has not seen: --data FILE.")
