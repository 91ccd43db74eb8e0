"""`protoattend threshold`: from which confidence on answers are accurate enough."""

from __future__ import annotations

from typing import Annotated

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


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    shown = examples(
        "threshold people-model labelled.csv --accuracy 0.95",
        "threshold people-model labelled.csv --accuracy 0.95 --guarantee 0.99 --json",
    )
    app.command(epilog=shown)(threshold)


def threshold(
    model: Model,
    path: DataPath,
    accuracy: Annotated[float, typer.Option(help="Accuracy that answers shall have.")] = 0.99,
    guarantee: Annotated[
        float, typer.Option(help="Probability with which it holds for new samples too; 0: for these alone.")
    ] = 0.95,
    target: Target = None,
    text: Text = None,
    samples: Samples = None,
    header: Header = None,
    skip_corrupt: SkipCorrupt = False,
    json: AsJson = False,
) -> None:
    """Find the lowest confidence whose answers are accurate enough, on labelled samples unseen in training.

    With a guarantee, of samples drawn like these, answers at this confidence or above are right with that accuracy;
    what is said so is untrue with a probability of at most 1 - guarantee. Use it in predict --min-confidence.
    """
    from protoattend.app.files import Use
    from protoattend.uncertainty.selective import guaranteed_threshold, threshold_for_accuracy

    use = Use.of(model, skip_corrupt=skip_corrupt, target=target, text=text, samples=samples, header=header)
    data = use.read_labelled(path)
    seen = use.clf.assess(data.X, data.y)
    if guarantee == 0:
        found = threshold_for_accuracy(seen.confidence, seen.correct, accuracy)
        holds = "for these samples; nothing is proven of others"
    else:
        found = guaranteed_threshold(seen.confidence, seen.correct, accuracy=accuracy, guarantee=guarantee)
        holds = f"for new samples drawn like these, with probability {guarantee:g}"
    answered = seen.confidence >= found
    right = float(seen.correct[answered].mean()) if answered.any() else None
    shown = {
        "min confidence": f"{found:.6g}",
        "answered": f"{answered.mean():.1%} of {len(answered):,} samples",
        "accuracy of answers": "none answered" if right is None else f"{right:.1%} here",
        f"at least {accuracy:g}": holds,
    }
    machine = {
        "min_confidence": found,
        "coverage": float(answered.mean()),
        "accuracy_of_answers": right,
        "n_samples": len(answered),
        "accuracy": accuracy,
        "guarantee": guarantee or None,
    }
    Talk(json).facts(shown, machine)
