"""`protoattend demo`: what it can do, on data that are already on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from protoattend.app.commands.options import AsJson, Force, examples
from protoattend.app.talk import Talk


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command(epilog=examples("demo", "demo --out /tmp/demo --random-state 1"))(demo)


def demo(
    out: Annotated[Path, typer.Option(help="Folder for the pictures and the report.")] = Path("demo"),
    random_state: Annotated[int, typer.Option(help="Seed of the splits and the training.")] = 0,
    force: Force = False,
    json: AsJson = False,
) -> None:
    """Train on images, a table and texts that are already on this machine; show why each decision is made."""
    from json import loads

    from rich.console import Console

    from protoattend.app.demo import run_demo
    from protoattend.app.output import require_new

    for name in ("report.html", "results.json"):
        require_new(out / name, force=force)
    report = run_demo(out, Console(stderr=json), random_state=random_state)
    if json:
        results = loads((out / "results.json").read_text(encoding="utf-8"))
        Talk(json).lines([], {"report": report.resolve(), "results": results})
