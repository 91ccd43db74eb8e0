"""`protoattend serve`: a model in the browser, and for other programs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from protoattend.app.commands.options import (
    AsJson,
    Header,
    ImageRoot,
    Model,
    Samples,
    SkipCorrupt,
    Target,
    Text,
    examples,
    no_nan,
)
from protoattend.app.starting import uncollected
from protoattend.app.talk import Talk
from protoattend.errors import MissingExtra


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    shown = examples("serve wine-model --data test.csv", "serve wine-model --edit --port 8080")
    app.command(epilog=shown)(serve)


def serve(
    model: Model,
    data: Annotated[
        Path | None, typer.Option(help="CSV, Parquet or .npz file, or folder of images to look at, best labelled.")
    ] = None,
    target: Target = None,
    text: Text = None,
    samples: Samples = None,
    header: Header = None,
    skip_corrupt: SkipCorrupt = False,
    image_root: ImageRoot = None,
    edit: Annotated[bool, typer.Option("--edit", help="Let drafts be saved into the model's database.")] = False,
    min_confidence: Annotated[
        float | None,
        typer.Option(min=0, max=1, callback=no_nan, help="Least confidence of an answer; others count as abstentions."),
    ] = None,
    host: Annotated[
        str, typer.Option(help="Address to listen at; any but this machine's own needs --token.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=1, max=65535, help="Port to listen at.")] = 8000,
    token: Annotated[
        str | None, typer.Option(envvar="PROTOATTEND_TOKEN", help="What clients must send, as Bearer or in ?token=.")
    ] = None,
    json: AsJson = False,
) -> None:
    """Look at decisions in the browser, correct the database, and answer other programs."""
    with uncollected():
        try:
            from protoattend.app.files import Use
            from protoattend.app.server.application import Options
            from protoattend.app.server.run import check, listen, prepare
            from protoattend.app.server.workbench import Workbench
        except ModuleNotFoundError as error:
            raise MissingExtra(error.name or "fastapi", "serve", "protoattend serve") from None
        options = Options(host=host, token=token, edit=edit, min_confidence=min_confidence)
        check(options)
        roots = [*([] if data is None else [data]), *(image_root or ())]
        columns = {"target": target, "text": text, "samples": samples, "header": header}
        use = Use.of(model, skip_corrupt=skip_corrupt, image_roots=roots, **columns)
        rows = None if data is None else use.read_if_labelled(data)
        bench = Workbench(model, rows, image_roots=roots, classifier=use.clf)
        server = prepare(bench, listen(host, port), options, Talk(json))
    server.run()
