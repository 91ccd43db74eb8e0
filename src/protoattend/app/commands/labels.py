"""`protoattend labels`: training samples whose label is disputed, and a corrected file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from protoattend.app.commands.options import AsJson, DataPath, Force, Header, Model, Samples, Target, Text, examples
from protoattend.app.talk import Talk, make_table

if TYPE_CHECKING:
    from protoattend.data_quality.label_errors import LabelIssues

group = typer.Typer(help="Label errors: list the labels that prototypes dispute, and accept corrections.")
MinScore = Annotated[float, typer.Option(help="Only labels disputed by at least this, from 0 to 1.")]


def register(app: typer.Typer) -> None:
    """Add the commands to the command line."""
    app.add_typer(group, name="labels", no_args_is_help=True)


@group.command(
    "list",
    epilog=examples("labels list people-model --top 50", "labels list people-model people.csv --cv 5 --out errors.csv"),
)
def list_issues(
    model: Model,
    path: Annotated[Path | None, typer.Argument(help="Labelled samples to judge, with --cv.")] = None,
    cv: Annotated[int, typer.Option(help="Classifiers trained to judge the samples of a file.")] = 5,
    top: Annotated[int | None, typer.Option(min=1, help="How many to list; by default all.")] = None,
    min_score: MinScore = 0.0,
    out: Annotated[
        Path | None, typer.Option(help="Table to write: .csv, .json, .jsonl or .parquet; by default the console.")
    ] = None,
    target: Target = None,
    text: Text = None,
    samples: Samples = None,
    header: Header = None,
    force: Force = False,
    json: AsJson = False,
) -> None:
    """List the rows whose label is disputed, worst first, with the label that is suggested.

    Without a file, the training samples judge one another, each left out; no training. With a file, its samples are
    judged by classifiers trained without them, which takes --cv trainings and finds more. Rows are numbered from 0.
    """
    from protoattend.app.files import Use
    from protoattend.app.output import records, require_writable, write_table

    require_writable(out, *([path] if path else []), force=force)
    use, talk = Use.of(model, target=target, text=text, samples=samples, header=header), Talk(json)
    if path is None:
        issues = use.clf.find_label_issues()
    else:
        data = use.read_labelled(path)
        issues = use.clf.find_label_issues(data.X, data.y, cv=cv)
    table = _columns(issues, min_score, top)
    talk.say(f"{len(issues):,} of {len(issues.rows):,} labels are disputed; {len(table['row']):,} are listed.")
    if out is None:
        talk.table(make_table("", records(table)), machine=records(table))
        return
    write_table(table, out)
    talk.lines([f"written to {out}"], {"rows": len(table["row"]), "out": out})


@group.command(
    epilog=examples(
        "labels accept people-model people.csv --out corrected.csv --row 17 --row 44",
        "labels accept people-model people.csv --out corrected.csv --min-score 0.9",
    )
)
def accept(
    model: Model,
    path: DataPath,
    out: Annotated[Path, typer.Option(help="Corrected copy, of the same ending; of a folder of images a table.")],
    row: Annotated[list[int] | None, typer.Option(help="Row to correct, from 0; may be given again.")] = None,
    min_score: MinScore = 1.1,
    target: Target = None,
    text: Text = None,
    samples: Samples = None,
    header: Header = None,
    force: Force = False,
    json: AsJson = False,
) -> None:
    """Write a copy of the training file with the suggested labels, in rows that are named or from a score on.

    The file must be the one the classifier was trained on; it stays as it is.
    """
    from protoattend.app.corrections import correct
    from protoattend.app.files import Use
    from protoattend.app.output import require_corrected
    from protoattend.errors import UserError

    if not row and min_score > 1:
        raise UserError("which suggestions to accept is said by --row or --min-score; list them with labels list.")
    require_corrected(out, path, force=force)
    use = Use.of(model, target=target, text=text, samples=samples, header=header)
    issues = use.clf.find_label_issues()
    chosen = {issue.index: issue for issue in issues if issue.score >= min_score or issue.index in (row or ())}
    for each in row or ():
        if each not in chosen:
            raise UserError(f"--row must name disputed rows, but the label of row {each} is not; see labels list.")
    correct(use, path, list(chosen.values()), out)
    changes = [_as_dict(issue) for issue in chosen.values()]
    told = f"{len(changes):,} label{'' if len(changes) == 1 else 's'} corrected in {out}."
    Talk(json).lines([told], {"out": out, "corrected": changes})


def _as_dict(issue: Any) -> dict[str, Any]:
    return {
        "row": issue.index,
        "given_label": issue.given_label,
        "suggested_label": issue.suggested_label,
        "score": round(issue.score, 6),
    }


def _columns(issues: LabelIssues, min_score: float, top: int | None) -> dict[str, list[Any]]:
    listed = [_as_dict(issue) for issue in issues if issue.score >= min_score][:top]
    names = ("row", "given_label", "suggested_label", "score")
    return {name: [issue[name] for issue in listed] for name in names}
