"""`protoattend evaluate`: a classifier measured on labelled samples, alone or beside the plain encoder."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from protoattend.app.commands.options import (
    AsJson,
    DataPath,
    Header,
    Model,
    Samples,
    SkipCorrupt,
    Target,
    Text,
    examples,
)
from protoattend.app.talk import Talk

if TYPE_CHECKING:
    import numpy as np

    from protoattend.uncertainty.assessment import Assessment


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    shown = examples("evaluate people-model test.csv", "evaluate people-model test.csv --baseline --json")
    app.command(epilog=shown)(evaluate)


def evaluate(
    model: Model,
    path: DataPath,
    baseline: Annotated[
        bool, typer.Option("--baseline", help="Train the plain encoder on the same samples, and put it beside.")
    ] = False,
    target: Target = None,
    text: Text = None,
    samples: Samples = None,
    header: Header = None,
    skip_corrupt: SkipCorrupt = False,
    json: AsJson = False,
) -> None:
    """Measure a classifier on labelled samples it has not seen."""
    from protoattend.app.deciding import median_prototypes, queries_of, spread
    from protoattend.app.files import Use
    from protoattend.data.inputs import take_rows

    use = Use.of(model, skip_corrupt=skip_corrupt, target=target, text=text, samples=samples, header=header)
    data, talk = use.read_labelled(path), Talk(json)
    seen = use.clf.assess(data.X, data.y)
    some = take_rows(data.X, spread(len(seen.labels)))
    prototypes = median_prototypes(use.clf, queries_of(use.clf, some))
    right, confidence = seen.correct, seen.confidence
    recall = _mean_recall(seen.labels, right)
    shown = {
        "accuracy": f"{right.mean():.1%} of {len(right):,} samples",
        "mean over classes": f"{recall:.1%}",
        "accuracy at 90 % coverage": f"{seen.accuracy_at_coverage(0.9):.1%}",
        "confidence where right": f"{confidence[right].mean():.2f}" if right.any() else "none right",
        "confidence where wrong": f"{confidence[~right].mean():.2f}" if not right.all() else "none wrong",
        "prototypes": f"{prototypes:.0f} carry 95 % of a typical decision",
    }
    machine: dict[str, Any] = {"n_samples": len(right), "mean_recall": recall, "median_prototypes": prototypes}
    machine |= seen.metrics()
    if baseline:
        plain = _baseline(use.clf, data.X, seen)
        shown["plain encoder"] = (
            f"accuracy {plain['accuracy']:.1%}, mean over classes {plain['mean_recall']:.1%}, at 90 % coverage "
            f"{plain['accuracy_at_coverage_90']:.1%}"
        )
        machine["baseline"] = plain
    talk.facts(shown, machine)


def _mean_recall(labels: np.ndarray, right: np.ndarray) -> float:
    import numpy as np

    return float(np.mean([right[labels == c].mean() for c in np.unique(labels)]))


def _baseline(clf: Any, X: Any, seen: Assessment) -> dict[str, float]:
    """Return what the plain encoder reaches on X, trained on the candidates of the classifier with its settings."""
    from protoattend.app.baseline import fit_baseline
    from protoattend.uncertainty.selective import accuracy_at_coverage

    probabilities = fit_baseline(clf, verbose=1)(X)
    right = probabilities.argmax(1) == seen.labels
    return {
        "accuracy": float(right.mean()),
        "mean_recall": _mean_recall(seen.labels, right),
        "accuracy_at_coverage_90": accuracy_at_coverage(probabilities.max(1), right, 0.9),
    }
