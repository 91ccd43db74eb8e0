"""The paper's fixed encoding of Adult (Appendix A.3): hand-computed values, sizes, and where it is used."""

from __future__ import annotations

from math import log
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from protoattend import ProtoAttendClassifier, Recipe
from protoattend.baselines.plain import PlainClassifier
from protoattend.data.tables import TableInputs
from protoattend.datasets.adult import NUMBERS
from protoattend.datasets.formats import ADULT_COLUMNS, ADULT_NUMERIC
from protoattend.encoders.build import build_encoder
from protoattend.errors import UserError

# The first rows of adult.data, and one without gain, loss, workclass and occupation.
ROWS = (
    "39 State-gov 77516 Bachelors 13 Never-married Adm-clerical Not-in-family White Male 2174 0 40 United-States",
    "50 Self-emp-not-inc 83311 Bachelors 13 Married-civ-spouse Exec-managerial Husband White Male 0 0 13 United-States",
    "54 ? 180211 Some-college 10 Married-civ-spouse ? Husband Asian-Pac-Islander Male 0 1902 60 South",
)


def frame() -> pd.DataFrame:
    table = pd.DataFrame([row.split() for row in ROWS], columns=ADULT_COLUMNS).replace("?", None)
    return table.astype(dict.fromkeys(ADULT_NUMERIC, int))


def test_hand_computed_rows() -> None:
    inputs = TableInputs.fit(frame(), fixed=NUMBERS)
    expected = [  # age, fnlwgt, education-num, capital-gain, capital-loss, hours-per-week: in the order of the table
        [-11 / 30, (log(77516) - 9) / 3, 7 / 6, (log(2175) - 5) / 5, -1.0, -0.2],
        [0.0, (log(83311) - 9) / 3, 7 / 6, -1.0, -1.0, -37 / 50],
        [4 / 30, (log(180211) - 9) / 3, 4 / 6, -1.0, (log(1903) - 5) / 5, 0.2],
    ]
    assert [column.name for column in inputs.columns[:6]] == [name for name in ADULT_COLUMNS if name in ADULT_NUMERIC]
    np.testing.assert_allclose(inputs.source(frame())[:, :6], expected, atol=1e-6)
    assert inputs.source(frame())[2, [6, 9]].tolist() == [0, 0]  # workclass and occupation are unknown


def test_people_are_shown_what_the_table_says() -> None:
    inputs = TableInputs.fit(frame(), fixed=NUMBERS)
    for row, (_, given) in zip(inputs.source(frame()), frame().iterrows(), strict=True):
        assert inputs.preview(row) == {name: "(unknown)" if pd.isna(v) else str(v) for name, v in given.items()}


def test_inputs_come_back_from_their_state() -> None:
    inputs = TableInputs.fit(frame(), fixed=NUMBERS)
    assert TableInputs.from_state(inputs.state()) == inputs


def test_numbers_without_a_logarithm_are_refused() -> None:
    inputs = TableInputs.fit(frame(), fixed=NUMBERS)
    with pytest.raises(UserError, match=r"'capital-gain' must be above -1.*row 1 has -7"):
        inputs.source(frame().assign(**{"capital-gain": [0, -7, 0]}))


def test_missing_numbers_and_declared_codes_stay_what_they_are() -> None:
    gaps = frame().assign(fnlwgt=[np.nan, 83311, 180211])
    inputs = TableInputs.fit(gaps, fixed=NUMBERS, categorical=["education-num"])
    assert np.isnan(inputs.source(gaps)[0, 1])
    assert next(column for column in inputs.columns if column.name == "education-num").kind == "category"


def test_sizes_of_the_appendix() -> None:
    # 6 numbers; 8 + 16 + 7 + 14 + 6 + 5 + 2 + 41 categories, as adult.names lists them, in 64 units with bias;
    # an LSTM has four gates, each with weights for input and state and two biases.
    known = (8, 16, 7, 14, 6, 5, 2, 41)
    encoder = build_encoder("lstm", "table", {"n_numbers": 6, "cardinalities": [size + 1 for size in known]})
    assert sum(known) == 99
    expected = (105 * 64 + 64) + 4 * (64 * 64 + 64 * 64 + 64 + 64)
    assert sum(parameter.numel() for parameter in encoder.body.parameters()) == expected == 40_064
    assert sum(parameter.numel() for parameter in encoder.norm.parameters()) == 2 * 64  # ours, see DEVIATIONS.md


@pytest.mark.parametrize("estimator", [ProtoAttendClassifier, PlainClassifier])
def test_it_applies_where_it_is_asked_for_and_never_by_itself(estimator: type) -> None:
    X, y = pd.concat([frame()] * 14, ignore_index=True), ["<=50K", ">50K", "<=50K"] * 14

    def first_cell(recipe: Recipe) -> float:
        fitted = estimator("lstm", max_epochs=1, recipe=recipe, random_state=0, verbose=0).fit(X, y)
        return float(fitted.inputs_.source(X)[0, 0])

    standardised = pytest.approx((39 - X["age"].mean()) / X["age"].std(ddof=0), abs=1e-6)
    assert first_cell(Recipe(fixed_columns=NUMBERS)) == pytest.approx(-11 / 30, abs=1e-6)
    assert first_cell(Recipe()) == standardised
    with pytest.raises(UserError, match=r"fixed_columns must name columns of X, but \['age'\] are not"):
        estimator("lstm", recipe=Recipe(fixed_columns=NUMBERS), verbose=0).fit(X.drop(columns="age"), y)


def test_exactly_these_numbers_reach_the_lstm_even_after_saving(tmp_path: Path) -> None:
    X, y = pd.concat([frame()] * 14, ignore_index=True), ["<=50K", ">50K", "<=50K"] * 14
    recipe = Recipe(fixed_columns=NUMBERS)
    clf = ProtoAttendClassifier("lstm", max_epochs=1, recipe=recipe, random_state=0, verbose=0).fit(X, y)
    clf.save(tmp_path / "model")
    loaded = ProtoAttendClassifier.load(tmp_path / "model")
    assert loaded.recipe == recipe
    seen: list[torch.Tensor] = []
    loaded.model_.encoder.body.register_forward_pre_hook(lambda module, args: seen.append(args[0]))
    loaded.predict(X[:1])
    expected = torch.tensor([-11 / 30, (log(77516) - 9) / 3, 7 / 6, (log(2175) - 5) / 5, -1.0, -0.2])
    torch.testing.assert_close(seen[0][0, :6], expected)
    assert seen[0][0, 6:].sum() == 8  # one category a column
