"""How long work shows its progress: a bar on a terminal, else a line every half minute; always on standard error."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, TextColumn, TimeRemainingColumn

if TYPE_CHECKING:  # who waits for a download need not wait for torch
    from protoattend.training.loop import Step

EVERY = 30.0  # seconds between lines where there is no terminal, as in a log


class Show(Protocol):
    def __call__(self, done: int, total: int | None = None, state: str = "") -> None:
        """Show that so many are done, of how many if that is news, and in which state it is."""


def say(line: str) -> None:
    """Print a line beside the progress, on standard error."""
    Console(stderr=True).print(escape(line), highlight=False, soft_wrap=True)


@contextmanager
def counting_bar(verbose: int, total: int | None, title: str) -> Iterator[Show]:
    """Yield a callback that hears how many of `total` things are done; with verbose=0 it does nothing."""
    with _shown(verbose, title, total, (BarColumn(bar_width=24), MofNCompleteColumn(), TimeRemainingColumn())) as show:
        yield show


@contextmanager
def progress_bar(verbose: int, max_epochs: int, title: str) -> Iterator[Callable[[Step], None]]:
    """Yield the callback for the loop: loss terms, both accuracies and prototypes; with verbose=0 it does nothing."""
    columns = (BarColumn(bar_width=24), TimeRemainingColumn(), TextColumn("{task.fields[state]}"))
    with _shown(verbose, title, None, columns) as show:

        def on_step(step: Step) -> None:
            terms = " ".join(f"{name} {value:.3f}" for name, value in step.losses.items())
            state = f"epoch {step.epoch + 1}/{max_epochs}  loss: {terms}"
            if step.metrics is not None:
                m = step.metrics
                state += f"  accuracy: self {m.self_accuracy:.3f} prototype {m.prototype_accuracy:.3f}"
                if m.median_prototypes == m.median_prototypes:
                    state += f"  prototypes {m.median_prototypes:.0f}"
            show(step.step, step.total, state)

        yield on_step


@contextmanager
def _shown(verbose: int, title: str, total: int | None, columns: tuple[ProgressColumn, ...]) -> Iterator[Show]:
    """Yield what shows progress, going by `verbose` and by whether anybody is looking."""
    console = Console(stderr=True)
    if not verbose:
        yield lambda done, total=None, state="": None
    elif console.is_terminal or console.is_jupyter:
        with Progress(TextColumn("{task.description}"), *columns, console=console, transient=verbose < 2) as progress:
            task = progress.add_task(title, total=total, state="")
            yield lambda done, total=None, state="": progress.update(task, completed=done, total=total, state=state)
    else:
        lines = _Lines(console, title, total)
        yield lines
        if verbose > 1:
            lines.print()


class _Lines:
    """Progress as lines of text, none before half a minute has passed."""

    def __init__(self, console: Console, title: str, total: int | None) -> None:
        self.console, self.title, self.total = console, title, total
        self.done, self.state, self.last = 0, "", time.monotonic()

    def __call__(self, done: int, total: int | None = None, state: str = "") -> None:
        self.done, self.total, self.state = done, total or self.total, state
        if time.monotonic() - self.last >= EVERY:
            self.print()

    def print(self) -> None:
        self.last = time.monotonic()
        count = f"{self.done}/{self.total}" if self.total else str(self.done)
        line = f"{self.title}: {count}  {self.state}".rstrip()
        self.console.print(escape(line), soft_wrap=True, highlight=False)
