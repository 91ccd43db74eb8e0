"""How commands end: errors and warnings are one line each on standard error, with an exit code and no traceback."""

from __future__ import annotations

import warnings
from typing import Any

import typer
from rich.console import Console
from rich.markup import escape
from typer.core import TyperGroup

from protoattend.app.neutral import for_terminal
from protoattend.errors import ProtoAttendError

MISTAKE, INTERRUPTED = 1, 130  # exit codes; 2 is that of a command which cannot be understood


class Commands(TyperGroup):
    """Commands whose warnings and errors (the user's or the disk's) are one line each."""

    def invoke(self, context: Any) -> Any:
        with warnings.catch_warnings():
            warnings.showwarning = lambda message, *where, **more: _complain("[yellow]warning:[/]", message)
            try:
                return super().invoke(context)
            except BrokenPipeError:
                raise  # as in `| head`, which typer ends quietly
            except (ProtoAttendError, OSError) as error:
                _complain("[red]error:[/]", error)
                raise typer.Exit(MISTAKE) from None
            except KeyboardInterrupt as stop:  # a training says what it kept
                told = str(stop).removeprefix("stopped ").replace("resume_from=", "--resume-from ")
                _complain("[yellow]stopped:[/]", told or "nothing was saved.")
                raise typer.Exit(INTERRUPTED) from None


def _complain(kind: str, what: Warning | str | Exception) -> None:
    line = " ".join(for_terminal(what).split("\n"))
    Console(stderr=True).print(f"{kind} {escape(line)}", soft_wrap=True, highlight=False)
