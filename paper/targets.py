"""The section of paper/RESULTS.md that says which targets are reached, and by how much others are missed."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping, Sequence
from functools import reduce
from pathlib import Path
from statistics import mean
from typing import Any

from sections import Report, Reports, groups, over_seeds, section

BENCHMARKS = Path(__file__).parents[1] / "benchmarks" / "results"
TARGETS = tomllib.loads((Path(__file__).parent / "targets.toml").read_text(encoding="utf-8"))["target"]


def targets(reports: Reports) -> str:
    """Return the section; targets whose runs are missing are not on it."""
    rows = []
    for target in TARGETS:
        if "benchmark" in target:
            rows += _of_benchmark(target)
            continue
        experiment, *which = target["run"].split()
        each = next((found for data, recipe, found in groups(reports, experiment) if [data, recipe] == which), None)
        if each is not None:
            value = _figure(each, target["figure"])
            rows.append(_row(target, value, *_limit(target, each), each[0]["rows"]["train"]))
    missed = {row[0] for row in rows if row[3].startswith("missed")}
    whys = [f"- {each['what']}: {each['why']}" for each in TARGETS if each["what"] in missed and "why" in each]
    return section("targets", rows) + ("\n" + "\n".join(whys) + "\n" if whys else "")


def _of_benchmark(target: Mapping[str, Any]) -> list[tuple[str, ...]]:
    """Return the row of a figure that a benchmark has measured on all rows of a set, with nothing but defaults."""
    runs = json.loads((BENCHMARKS / f"{target['benchmark']}.json").read_text(encoding="utf-8"))["runs"]
    if target["of"] not in runs:
        return []
    value = mean(run[target["figure"]] for run in runs[target["of"]])
    return [_row(target, value, *_limit(target, ()), target["rows"])]


def _figure(each: Sequence[Report], path: Sequence[str]) -> float | None:
    """Return the mean over seeds of what lies behind these names.

    "rise", behind a curve, is how much accuracy rises from all answers to the surest ones that the curve shows.
    """
    *names, last = path
    if last != "rise":
        return over_seeds(each, *path)
    curves = [reduce(lambda found, name: found[name], names, report["figures"]) for report in each]
    return mean(curve["accuracy"][0] - curve["accuracy"][-1] for curve in curves)


def _row(
    target: Mapping[str, Any], value: float | None, sign: int, limit: float | None, n_rows: int
) -> tuple[str, ...]:
    if value is None or limit is None:
        return (target["what"], "", "", "could not be measured", f"{n_rows:,}")
    margin = sign * (value - limit)
    told = "reached" if margin >= 0 else f"missed by {-margin:.4g}"
    return (target["what"], f"{'>=' if sign > 0 else '<='} {limit:.4g}", f"{value:.4g}", told, f"{n_rows:,}")


def _limit(target: Mapping[str, Any], each: Sequence[Report]) -> tuple[int, float | None]:
    """Return 1 or -1, for at least and at most, and the number."""
    for name, sign in (("at_least", 1), ("at_most", -1)):
        if name in target:
            return sign, float(target[name])
    sign, other = (1, target["above"]) if "above" in target else (-1, target["below"])
    found = _figure(each, other)
    return sign, None if found is None else found + sign * target.get("by", 0.0)
