"""The experiments as data: one TOML file a table or figure, and the list of runs that are wanted."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from protoattend.errors import choose

RECIPES = ("ours", "paper")
LIST = "runs.toml"


@dataclass(frozen=True)
class Run:
    """One run: an experiment on a data set, by a recipe, from a seed.

    Examples
    --------
    >>> run = Run("table2", "adult", "ours", 0)
    >>> run.name, run == Run.parse("table2 adult ours 0")
    ('table2-adult-ours-0', True)
    """

    experiment: str
    data: str
    recipe: str
    seed: int = 0

    @classmethod
    def parse(cls, words: str) -> Run:
        """Return the run of a line such as "table2 adult ours 0"."""
        experiment, data, recipe, seed = words.split()
        return cls(experiment, data, recipe, int(seed))

    @property
    def name(self) -> str:
        """What its file of results is called."""
        return f"{self.experiment}-{self.data}-{self.recipe}-{self.seed}"


@cache
def experiments() -> Mapping[str, Mapping[str, Any]]:
    """Return what the TOML files say, by the name of the experiment."""
    folder = files("protoattend.reproduce") / "experiments"
    found = {file.name: file for file in folder.iterdir() if file.name.endswith(".toml") and file.name != LIST}
    return {
        name.removesuffix(".toml"): tomllib.loads(found[name].read_text(encoding="utf-8")) for name in sorted(found)
    }


@cache
def listed() -> tuple[Run, ...]:
    """Return the runs that are wanted, the most telling first."""
    text = (files("protoattend.reproduce") / "experiments" / LIST).read_text(encoding="utf-8")
    return tuple(map(Run.parse, tomllib.loads(text)["runs"]))


def config_of(run: Run) -> dict[str, Any]:
    """Return the settings of a run: those of all runs of its experiment, of its data, and of its recipe there.

    Raises
    ------
    UserError
        Where there is no such experiment, or it does not have such data or such a recipe.

    Examples
    --------
    >>> config_of(Run("table2", "adult", "ours"))["params"]
    {'encoder': 'mlp'}
    """
    experiment = experiments()[choose(run.experiment, experiments(), "the experiment")]
    of_data = experiment["data"][choose(run.data, experiment["data"], f"the data of {run.experiment!r}")]
    recipes = [recipe for recipe in RECIPES if recipe in of_data]
    choose(run.recipe, recipes, f"the recipe of {run.experiment!r} on {run.data!r}")
    shared = {name: value for name, value in of_data.items() if name not in RECIPES}
    return {**experiment.get("all", {}), **shared, **of_data[run.recipe]}
