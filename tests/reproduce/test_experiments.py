"""The experiments as data: every run of the list can be done, and mistakes are named."""

from __future__ import annotations

import pytest

from protoattend.datasets.entries import CATALOGUE
from protoattend.errors import UserError
from protoattend.reproduce.experiments import Run, config_of, experiments, listed
from protoattend.reproduce.runs import MEASURES, measure_of


@pytest.mark.parametrize("run", listed(), ids=lambda run: run.name)
def test_a_listed_run_has_settings_and_data(run: Run) -> None:
    config = config_of(run)
    assert config.get("of", run.data) in CATALOGUE


def test_the_list_names_no_run_twice() -> None:
    assert len(set(listed())) == len(listed())


def test_every_experiment_is_on_the_list_and_can_be_measured() -> None:
    assert {run.experiment for run in listed()} == set(experiments()) == set(MEASURES)
    for name in experiments():
        assert callable(measure_of(name))


def test_what_is_said_of_a_recipe_goes_before_what_is_said_of_all() -> None:
    config = config_of(Run("table2", "adult", "ours"))
    assert config["trainings"] == ["softmax", "sparsemax", "sparsemax+sparsity"]  # of all
    assert config["lambda_sparse"] == 0.001
    assert config_of(Run("table2", "adult-lstm", "ours"))["trainings"] == ["sparsemax"]  # of the data


@pytest.mark.parametrize(
    ("run", "told"),
    [
        (Run("table4", "adult", "ours"), "the experiment must be one of"),
        (Run("table2", "mnits", "ours"), "did you mean 'mnist'"),
        (Run("compare", "mnist", "paper"), "the recipe of 'compare' on 'mnist' must be one of 'ours'"),
    ],
)
def test_a_mistake_is_named(run: Run, told: str) -> None:
    with pytest.raises(UserError, match=told):
        config_of(run)
