"""Sections of the page of measured figures: search among candidates, and the database they come from."""

from __future__ import annotations

from results_section import Figures, section


def search(found: dict[str, Figures]) -> str:
    if (figures := found.get("search")) is None:
        return ""
    names = next(iter(figures["milliseconds"].values()))
    rows = [
        (size, *(f"{times[name]:.2f}" if name in times else "" for name in names))
        for size, times in figures["milliseconds"].items()
    ]
    large = figures["ten_million"]
    return section(
        "Exact attention over many candidates (`search.py`)",
        "Milliseconds for B queries and D candidates. Ours gives logits, class mass and the ten heaviest prototypes; "
        f"faiss gives 64 neighbours. Ten million candidates on disk: opened in {large['open']:.0f} ms, one query "
        f"{large['B=1']:.0f} ms, 256 queries {large['B=256']:.0f} ms, {large['rss_gb']:.2f} GB of memory at the most.",
        ("", *names),
        rows,
    )


def condense(found: dict[str, Figures]) -> str:
    if "condense" not in found:
        return ""
    return "## A smaller database (`condense.py`)\n\n![accuracy by size](../benchmarks/results/condense.png)\n"
