"""A progress bar with the loss terms, both accuracies and the prototype count."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from protoattend.training.loop import Step


@contextmanager
def counting_bar(verbose: int, total: int, title: str) -> Iterator[Callable[[int], None]]:
    """Yield a callback that hears how many of `total` rows are done; with verbose=0 it does nothing."""
    if not verbose:
        yield lambda done: None
        return
    columns = (TextColumn("{task.description}"), BarColumn(bar_width=24), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, transient=verbose < 2) as progress:
        task = progress.add_task(title, total=total)
        yield lambda done: progress.update(task, completed=done)


@contextmanager
def progress_bar(verbose: int, max_epochs: int, title: str) -> Iterator[Callable[[Step], None]]:
    """Yield the callback for the loop; with verbose=0 it does nothing."""
    if not verbose:
        yield lambda step: None
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        TimeRemainingColumn(),
        TextColumn("{task.fields[state]}"),
    )
    with Progress(*columns, transient=verbose < 2) as progress:
        task = progress.add_task(title, total=None, state="")

        def show(step: Step) -> None:
            terms = " ".join(f"{name} {value:.3f}" for name, value in step.losses.items())
            state = f"epoch {step.epoch + 1}/{max_epochs}  loss: {terms}"
            if step.metrics is not None:
                m = step.metrics
                state += f"  accuracy: self {m.self_accuracy:.3f} prototype {m.prototype_accuracy:.3f}"
                if m.median_prototypes == m.median_prototypes:
                    state += f"  prototypes {m.median_prototypes:.0f}"
            progress.update(task, total=step.total, completed=step.step, state=state)

        yield show
