"""Runs that are kept: each writes one JSON file with its settings, and the list of those that are still missing."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

from protoattend.reproduce.experiments import Run, config_of, experiments, listed
from protoattend.reproduce.record import circumstances, write_json
from protoattend.reproduce.work import Work

CLOCK = "minutes.json"
# What each experiment measures: a file of this room and a function in it, (Work) -> figures.
MEASURES = {
    "table1": "tables",
    "table2": "tables",
    "table3": "tables",
    "compare": "comparison",
    "sparsity": "figures",
    "melanoma": "figures",
    "cost": "cost",
}


def reproduce(run: Run, results: Path, work: Path, *, minutes: float | None = None) -> dict[str, Any]:
    """Do one run, or take what it left when it was interrupted, and write its report.

    Parameters
    ----------
    run : Run
    results : Path
        Folder of the reports, one JSON file each.
    work : Path
        Folder for what is trained and measured on the way.
    minutes : float or None, default=None
        What each training may take at the most; None takes the epochs of the experiment.

    Returns
    -------
    report : dict
        With the run, its `config`, its `figures`, the `rows` used, minutes, machine, threads and date.

    Raises
    ------
    UserError
        Where there is no such experiment, or its data are not here.
    """
    config = config_of(run) | ({} if minutes is None else {"minutes": minutes})
    folder = work / f"{run.name}-{_digest(config)}"
    at_work = Work(run, config, folder, minutes)
    with _timed(folder / CLOCK):
        figures = measure_of(run.experiment)(at_work)
    report = {
        **vars(run),
        "config": config,
        "rows": {"train": len(at_work.train.y), "test": len(at_work.test.y)},
        "note": at_work.train.note,
        "figures": figures,
        **_minutes(folder / CLOCK),
        **circumstances(),
    }
    write_json(path_of(run, results), report)
    return report


def measure_of(experiment: str) -> Callable[[Work], dict[str, Any]]:
    """Return the function that measures an experiment."""
    name = experiments()[experiment].get("measure", experiment)
    function: Callable[[Work], dict[str, Any]] = getattr(import_module(f"protoattend.reproduce.{MEASURES[name]}"), name)
    return function


def path_of(run: Run, results: Path) -> Path:
    """Return where the report of a run is, or will be."""
    return results / f"{run.name}.json"


def read_reports(results: Path) -> dict[str, Mapping[str, Any]]:
    """Return all reports in a folder, by the name of the run."""
    return {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in sorted(results.glob("*.json"))}


def missing(results: Path) -> list[Run]:
    """Return the runs of the list that are not there, or were done with other settings than the experiment now has."""
    reports = read_reports(results)
    return [run for run in listed() if reports.get(run.name, {}).get("config") != config_of(run)]


@contextmanager
def _timed(clock: Path) -> Iterator[None]:
    """Add to a file what the block takes, also where it is interrupted: a run is as long as all its parts."""
    wall, cpu, before = time.perf_counter(), time.process_time(), _minutes(clock)
    try:
        yield
    finally:
        more = {"minutes": time.perf_counter() - wall, "cpu_minutes": time.process_time() - cpu}
        write_json(clock, {name: round(before[name] + seconds / 60, 2) for name, seconds in more.items()})


def _minutes(clock: Path) -> dict[str, float]:
    """Return what a run has taken so far, by the clock and of processor time: other work stretches the former alone."""
    kept: dict[str, float] = json.loads(clock.read_text()) if clock.exists() else {"minutes": 0.0, "cpu_minutes": 0.0}
    return kept


def _digest(config: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(config, sort_keys=True).encode()).hexdigest()[:8]
