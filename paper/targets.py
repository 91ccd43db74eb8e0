"""The section of paper/RESULTS.md that says which targets are reached, and by how much others are missed."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sections import Report, Reports, groups, over_seeds, section

TARGETS = tomllib.loads((Path(__file__).parent / "targets.toml").read_text(encoding="utf-8"))["target"]


def targets(reports: Reports) -> str:
    """Return the section; targets whose runs are missing are not on it."""
    rows = []
    for target in TARGETS:
        experiment, *which = target["run"].split()
        each = next((found for data, recipe, found in groups(reports, experiment) if [data, recipe] == which), None)
        if each is not None:
            rows.append(_row(target, each))
    return section("targets", rows)


def _row(target: Mapping[str, Any], each: Sequence[Report]) -> tuple[str, ...]:
    value = over_seeds(each, *target["figure"])
    sign, limit = _limit(target, each)
    if value is None or limit is None:
        return (target["what"], "", "", "could not be measured", f"{each[0]['rows']['train']:,}")
    margin = sign * (value - limit)
    told = "reached" if margin >= 0 else f"missed by {-margin:.4g}"
    return (
        target["what"],
        f"{'>=' if sign > 0 else '<='} {limit:.4g}",
        f"{value:.4g}",
        told,
        f"{each[0]['rows']['train']:,}",
    )


def _limit(target: Mapping[str, Any], each: Sequence[Report]) -> tuple[int, float | None]:
    """Return 1 or -1, for at least and at most, and the number."""
    for name, sign in (("at_least", 1), ("at_most", -1)):
        if name in target:
            return sign, float(target[name])
    sign, other = (1, target["above"]) if "above" in target else (-1, target["below"])
    found = over_seeds(each, *other)
    return sign, None if found is None else found + sign * target.get("by", 0.0)
