"""One look for all plots; matplotlib is imported when something is drawn and not before."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from protoattend.errors import MissingExtra
from protoattend.viz.palette import INK, LINE, LOOKS, QUIET


def axes(ax: Any, purpose: str, size: tuple[float, float] = (6.2, 4.2)) -> Any:
    """Return `ax`, or an axis in a figure of its own where it is None."""
    return panels(1, purpose, size) if ax is None else ax


def panels(count: int, purpose: str, size: tuple[float, float]) -> Any:
    """Return an axis, or an array of `count` of them side by side, in a new figure."""
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        raise MissingExtra("matplotlib", "plot", purpose) from None
    return plt.subplots(1, count, figsize=size, layout="constrained")[1]


def side_by_side(plots: Sequence[Callable[[Any], Any]], purpose: str, size: tuple[float, float]) -> Any:
    """Return a new figure in which each of two or more plots has drawn on an axis of its own."""
    places = panels(len(plots), purpose, size)
    for plot, ax in zip(plots, places, strict=True):
        plot(ax)
    return places[0].figure


def dress(ax: Any, *, title: str, xlabel: str, ylabel: str) -> None:
    """Give an axis its texts, quiet lines and a faint grid behind the data."""
    ax.set_title(title, loc="left", color=INK, size=11, weight="bold")
    ax.set_xlabel(xlabel, color=QUIET)
    ax.set_ylabel(ylabel, color=QUIET)
    ax.spines[["top", "right"]].set_visible(False)
    ax.spines[["left", "bottom"]].set_color(QUIET)
    ax.tick_params(colors=QUIET, labelcolor=INK)
    ax.grid(color=LINE, linewidth=0.8)
    ax.set_axisbelow(True)


def next_look(ax: Any) -> dict[str, Any]:
    """Return colour and line style for one more named curve on this axis."""
    colour, style = LOOKS[len(ax.get_legend_handles_labels()[0]) % len(LOOKS)]
    return {"color": colour, "linestyle": style, "linewidth": 2.0}


def named(name: str, figure: str) -> str:
    """Return the legend of a curve: its name, where it has one, and what it amounts to."""
    return f"{name} ({figure})" if name else figure


def percents(axis: Any) -> None:
    """Let the ticks of an x or y axis that shows shares read as percent."""
    from matplotlib.ticker import FuncFormatter

    axis.set_major_formatter(FuncFormatter(lambda share, _: f"{100 * share:.4g} %"))


def shading(colour: str) -> Any:
    """Return matplotlib's colours from white to this one, for shares."""
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list(f"white to {colour}", ["white", colour])
