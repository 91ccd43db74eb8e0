"""`protoattend reproduce`: a table or figure of the paper, measured again."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from protoattend.app.commands.options import AsJson, examples
from protoattend.app.talk import Talk
from protoattend.errors import UserError

if TYPE_CHECKING:
    from protoattend.reproduce.experiments import Run

RESULTS = Path("paper/results")


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    shown = examples("reproduce", "reproduce table2 --data adult", "reproduce table1 --recipe paper", "reproduce --all")
    app.command(epilog=shown)(reproduce)


def reproduce(
    experiment: Annotated[str | None, typer.Argument(help="Such as table2; by default the runs are listed.")] = None,
    data: Annotated[str | None, typer.Option(help="Data set; by default the first one of the experiment.")] = None,
    recipe: Annotated[str | None, typer.Option(help="ours or paper; by default the first one it has there.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of rows and training.")] = 0,
    minutes: Annotated[float | None, typer.Option(help="What each training may take at the most.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="Do all runs of the list that are missing.")] = False,
    out: Annotated[Path, typer.Option(help="Folder of the reports, one JSON file a run.")] = RESULTS,
    work: Annotated[
        Path | None, typer.Option(help="Folder for what is trained on the way; by default in ~/.cache/protoattend.")
    ] = None,
    json: AsJson = False,
) -> None:
    """Measure a table or figure of the paper again; a run that was interrupted goes on where it was."""
    from protoattend.datasets.catalogue import cache_folder
    from protoattend.reproduce.runs import missing
    from protoattend.reproduce.runs import reproduce as reproduce_run

    talk = Talk(json)
    work = work or cache_folder() / "paper"
    if experiment is not None and not everything:
        run = _chosen(experiment, data, recipe, seed)
        report = reproduce_run(run, out, work, minutes=minutes)
        talk.lines([f"{out / run.name}.json: {report['minutes']} minutes"], report)
        return
    wanted = missing(out)
    if not everything:
        _list(talk, wanted)
        return
    failed = {}
    for run in wanted:
        talk.say(f"{run.name} ...")
        try:
            report = reproduce_run(run, out, work, minutes=minutes)
            talk.say(f"{run.name}: {report['minutes']} minutes")
        except UserError as error:  # mostly data that are not here: the other runs need not wait for them
            failed[run.name] = str(error)
            talk.say(f"{run.name}: {error}")
    done = len(wanted) - len(failed)
    talk.lines([f"reproduce done={done} missing={len(failed)}"], {"done": done, "failed": failed})


def _chosen(experiment: str, data: str | None, recipe: str | None, seed: int) -> Run:
    """Return the run that is meant, where what is left out is the first that the experiment has."""
    from protoattend.errors import choose
    from protoattend.reproduce.experiments import RECIPES, Run, config_of, experiments

    sets: dict[str, Any] = experiments()[choose(experiment, experiments(), "the experiment")]["data"]
    data = choose(data or next(iter(sets)), sets, f"the data of {experiment!r}")
    run = Run(experiment, data, recipe or next(name for name in RECIPES if name in sets[data]), seed)
    config_of(run)
    return run


def _list(talk: Talk, wanted: list[Run]) -> None:
    from protoattend.app.talk import make_table
    from protoattend.reproduce.experiments import listed

    rows = [
        {**vars(run), "state": "missing" if run in wanted else "done", "command": _command(run)} for run in listed()
    ]
    talk.table(make_table("", rows), machine=rows)


def _command(run: Run) -> str:
    return f"protoattend reproduce {run.experiment} --data {run.data} --recipe {run.recipe} --seed {run.seed}"
