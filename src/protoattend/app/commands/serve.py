"""`protoattend serve`: a model in the browser, and for other programs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from protoattend.errors import MissingExtra, UserError

if TYPE_CHECKING:  # what imports torch is imported where it is used, so that --help is quick
    from protoattend.data.readers import LabelledData


def serve(
    model: Annotated[Path, typer.Argument(help="Folder of a classifier saved by fit.")],
    data: Annotated[
        Path | None, typer.Option(help="CSV, Parquet or .npz file, or folder of images to look at, best labelled.")
    ] = None,
    target: Annotated[str | None, typer.Option(help="Column of the labels; by default as in fit.")] = None,
    text: Annotated[str | None, typer.Option(help="Column of the texts; by default as in fit.")] = None,
    edit: Annotated[bool, typer.Option("--edit", help="Let drafts be saved into the model's database.")] = False,
    min_confidence: Annotated[
        float | None, typer.Option(min=0, max=1, help="Least confidence of an answer; others count as abstentions.")
    ] = None,
    host: Annotated[
        str, typer.Option(help="Address to listen at; any but this machine's own needs --token.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=1, max=65535, help="Port to listen at.")] = 8000,
    token: Annotated[
        str | None, typer.Option(envvar="PROTOATTEND_TOKEN", help="What clients must send, as Bearer or in ?token=.")
    ] = None,
) -> None:
    """Look at decisions in the browser, correct the database, and answer other programs.

    Examples: `protoattend serve wine-model --data test.csv`, `protoattend serve wine-model --edit --port 8080`.
    """
    try:
        from protoattend.app.server.application import Options
        from protoattend.app.server.run import check, run
    except ModuleNotFoundError as error:
        raise MissingExtra(error.name or "fastapi", "serve", "protoattend serve") from None
    options = Options(host=host, token=token, edit=edit, min_confidence=min_confidence)
    check(options)
    run(model, None if data is None else read_rows(model, data, target=target, text=text), options, port=port)


def read_rows(model: Path, data: Path, *, target: str | None, text: str | None) -> LabelledData:
    """Read rows to look at, with labels where the file has the column that fit read them from, or the one asked for."""
    from protoattend.app.files import Use

    use = Use.of(model, target=target, text=text)
    images = {"corrupt": "raise"}
    try:
        return use.read(data, images, target=use.reading.target)
    except UserError:
        if target is not None or use.reading.target is None:
            raise
        return use.read(data, images)
