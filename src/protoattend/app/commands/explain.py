"""`protoattend explain`: which training samples decisions rest on."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from protoattend.app.commands.options import (
    AsJson,
    DataPath,
    Force,
    Header,
    IdColumn,
    ImageRoot,
    Model,
    Samples,
    SkipCorrupt,
    Text,
    examples,
)
from protoattend.app.talk import Talk, make_table

if TYPE_CHECKING:
    from protoattend.data.readers import LabelledData
    from protoattend.explain.explanations import Explanation, Explanations

FIRST = 10  # rows explained unless some are named


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    shown = examples(
        "explain people-model new.csv --row 7 --row 80",
        "explain photos-model new/ --out why.html",
        "explain people-model new.csv --row 7 --out why.csv",
    )
    app.command(epilog=shown)(explain)


def explain(
    model: Model,
    path: DataPath,
    row: Annotated[list[int] | None, typer.Option(help="Row to explain, from 0; may be given again.")] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Page (.html) or table (.csv, .json, .jsonl, .parquet) to write; by default the console."),
    ] = None,
    top: Annotated[int, typer.Option(help="Prototypes shown of each row.")] = 5,
    text: Text = None,
    samples: Samples = None,
    id_column: IdColumn = None,
    header: Header = None,
    image_root: ImageRoot = None,
    skip_corrupt: SkipCorrupt = False,
    force: Force = False,
    json: AsJson = False,
) -> None:
    """Show which training samples the decisions rest on; without --row, those of the first ten rows."""
    from protoattend.app.files import Use
    from protoattend.app.output import FORMATS, PAGES, new_file, records, require_writable, write_table
    from protoattend.data.inputs import count_rows
    from protoattend.errors import UserError

    require_writable(out, path, force=force, endings=(*FORMATS, *PAGES))
    columns = {"text": text, "samples": samples, "id": id_column, "header": header}
    use = Use.of(model, skip_corrupt=skip_corrupt, image_roots=[path, *(image_root or ())], **columns)
    talk = Talk(json)
    data = use.read_if_labelled(path)
    count = count_rows(data.X)
    rows = row or list(range(min(count, FIRST)))
    for each in rows:
        if not 0 <= each < count:
            raise UserError(f"row must be from 0 to {count - 1}, as {path} has {count} rows, but got {each}.")
    explanations = use.clf.explain(_chosen(data.X, rows), top=top)
    explanations = _with_truth(explanations, data, rows)
    names = {name: [values[each] for each in rows] for name, values in use.names(data).items()}
    table = _prototypes(names, list(explanations))
    if out is None:
        drawn = [_drawn(rows[i], e) for i, e in enumerate(explanations)]
        talk.table(*drawn, machine=records(table))
        return
    if out.suffix.lower() in PAGES:
        with new_file(out) as fresh:
            explanations.to_html(fresh, title=f"{path.name}: decisions and their prototypes")
    else:
        write_table(table, out)
    decisions = f"{len(explanations)} decision{'' if len(explanations) == 1 else 's'}"
    talk.lines([f"{decisions} explained in {out}"], {"rows": rows, "out": out})


def _chosen(X: Any, rows: list[int]) -> Any:
    if isinstance(X, list):
        return [X[each] for each in rows]
    return X.iloc[rows] if hasattr(X, "iloc") else X[rows]


def _with_truth(explanations: Explanations, data: LabelledData, rows: list[int]) -> Explanations:
    """Return explanations with the true labels, where the samples have them."""
    from dataclasses import replace

    if data.y is None:
        return explanations
    items = tuple(replace(e, label=label) for e, label in zip(explanations, data.y[rows], strict=True))
    return replace(explanations, items=items)


def _prototypes(names: dict[str, list[Any]], explanations: list[Explanation]) -> dict[str, list[Any]]:
    """Return a table with a line for each prototype; `training_row` is its row in the data of fit, from 0."""
    from protoattend.app.output import beside

    pairs = [(i, rank, p) for i, e in enumerate(explanations) for rank, p in enumerate(e.prototypes)]
    named = {name: [values[i] for i, _, _ in pairs] for name, values in names.items()}
    shown = {
        "prediction": [explanations[i].prediction for i, _, _ in pairs],
        "confidence": [round(explanations[i].confidence, 6) for i, _, _ in pairs],
        "rank": [rank for _, rank, _ in pairs],
        "training_row": [p.index for _, _, p in pairs],
        "weight": [round(p.weight, 6) for _, _, p in pairs],
        "label": [p.label for _, _, p in pairs],
        "sample": [_short(p.preview) for _, _, p in pairs],
    }
    return beside(named, shown)


def _drawn(row: int, e: Explanation) -> Any:
    from protoattend.viz.text import percent, plain

    truth = "" if e.label is None or e.label == e.prediction else f" (labelled {plain(e.label)})"
    title = f"row {row}: {plain(e.prediction)}{truth}, confidence {percent(e.confidence)}\n{_short(e.preview)}"
    title = "\n".join([title, *map(plain, e.notes)])
    shown = [
        {"weight": percent(p.weight), "label": p.label, "training row": p.index, "sample": _short(p.preview)}
        for p in e.prototypes
    ]
    return make_table(title, shown)


def _short(preview: Any) -> str:
    """Return a sample in one line."""
    from protoattend.data.images import ImageFile
    from protoattend.viz.text import excerpt

    if isinstance(preview, ImageFile):
        return "/".join(Path(preview.path).parts[-2:])
    if isinstance(preview, dict):
        return excerpt(", ".join(f"{name} {value}" for name, value in preview.items()), 160)
    return excerpt(preview, 160) if isinstance(preview, str) else f"image {'x'.join(map(str, preview.shape))}"
