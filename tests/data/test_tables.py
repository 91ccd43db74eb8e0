"""Columns of every kind, as people have them in DataFrames and arrays."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from protoattend import ProtoAttendClassifier
from protoattend.data.tables import Column, TableInputs
from protoattend.errors import BadCell, UserError

pytestmark = pytest.mark.filterwarnings("ignore:a column in which no two rows are alike")


def mixed(n: int = 60, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    days = rng.integers(0, 3000, n)
    return pd.DataFrame(
        {
            "number": rng.normal(5, 3, n),
            "gappy": np.where(rng.random(n) < 0.2, np.nan, rng.normal(0, 1, n)),
            "whole": pd.array([None if v == 3 else int(v) for v in rng.integers(0, 9, n)], dtype="Int64"),
            "flag": rng.random(n) < 0.5,
            "maybe": pd.array([[True, False, None][v] for v in rng.integers(0, 3, n)], dtype="boolean"),
            "day": pd.Timestamp("2015-01-01") + pd.to_timedelta(days, unit="D"),
            "birthday": [None if d % 7 == 0 else dt.date(2015, 1, 1) + dt.timedelta(int(d)) for d in days],
            "here": pd.Timestamp("2015-01-01", tz="Europe/Berlin") + pd.to_timedelta(days, unit="D"),
            "same": 4.0,
            "empty": np.nan,
            "colour": rng.choice(["red", "green", "blue"], n),
            "code": rng.integers(100, 104, n),
            "id": [f"customer {i}" for i in range(n)],
            "grade": pd.Categorical(rng.choice(["a", "b", None], n)),
        }
    )


KINDS = {
    **dict.fromkeys(["number", "gappy", "whole", "flag", "maybe", "same", "empty"], "number"),
    **dict.fromkeys(["day", "birthday", "here"], "date"),
    **dict.fromkeys(["colour", "code", "id", "grade"], "category"),
}


def test_every_column_is_of_its_kind() -> None:
    inputs = TableInputs.fit(mixed(), categorical=["code"])
    assert {column.name: column.kind for column in inputs.columns} == KINDS
    source = inputs.source(mixed())
    numbers = source[:, : inputs.form()["n_numbers"]]
    filled = numbers[:, [column.name not in ("same", "empty") for column in inputs.columns[: numbers.shape[1]]]]
    np.testing.assert_allclose(np.nanmean(filled, axis=0), 0, atol=1e-4)
    np.testing.assert_allclose(np.nanstd(filled, axis=0), 1, atol=1e-4)
    assert np.isfinite(source[:, numbers.shape[1] :]).all()


def test_dates_of_every_type_are_days() -> None:
    table = mixed()
    inputs = TableInputs.fit(table, categorical=["code"])
    shown = [inputs.preview(row) for row in inputs.source(table)]
    assert [row["day"] for row in shown] == [str(day.date()) for day in table["day"]]
    assert [row["birthday"] for row in shown] == ["(missing)" if d is None else str(d) for d in table["birthday"]]
    by_name = {column.name: column for column in inputs.columns}
    utc = table["here"].dt.tz_convert("UTC").dt.tz_localize(None)
    np.testing.assert_allclose(by_name["here"].encode(table["here"].to_numpy()), by_name["here"].encode(utc.to_numpy()))


def test_zero_is_shown_as_zero() -> None:
    table = np.array([[0.0], [1e5], [38.6]])
    inputs = TableInputs.fit(table)
    assert [inputs.preview(row)["0"] for row in inputs.source(table)] == ["0", "100000", "38.6"]


WHOLE = np.array([1.0, np.nan, 2.0, 10.0])


@pytest.mark.parametrize(
    "values",
    [
        WHOLE,
        WHOLE.astype(np.float32),
        pd.Categorical(WHOLE),
        pd.array([1, None, 2, 10], dtype="Int64"),
        [1, None, 2, 10],
        ["1", None, "2", "10"],
    ],
    ids=lambda values: str(getattr(values, "dtype", type(values[0]).__name__)),
)
@pytest.mark.parametrize("later", [np.array([1, 10, 7]), np.array([1.0, 10.0, 7.0], np.float32), ["1", "10", "7"]])
def test_whole_numbers_are_one_category_whatever_their_type(values: Any, later: Any) -> None:
    inputs = TableInputs.fit(pd.DataFrame({"code": values}), categorical=["code"])
    assert inputs.columns[0].categories == ("1", "10", "2")
    assert inputs.source(pd.DataFrame({"code": later}))[:, 0].tolist() == [1, 2, 0]


def test_words_and_fractions_are_categories_as_they_stand() -> None:
    column = TableInputs.fit(pd.DataFrame({"code": ["1.0", "1", "x"]})).columns[0]
    assert column.categories == ("1", "1.0", "x")
    assert column.encode(np.array(["1.0", "1", "x", "1.00"], dtype=object)).tolist() == [2, 1, 3, 0]
    halves = TableInputs.fit(np.array([[0.5], [1.5]]), categorical=["0"]).columns[0]
    assert halves.categories == ("0.5", "1.5")


def test_categories_of_an_older_classifier_are_still_known() -> None:
    column = Column("code", "category", categories=("1.0", "2.0"))
    assert column.encode(np.array([2.0, 1.0, np.nan])).tolist() == [2, 1, 0]


@pytest.mark.parametrize("encoder", ["mlp", "lstm", "features"])
def test_all_of_them_train_save_and_meet_the_unseen(encoder: str, tmp_path: Path) -> None:
    table = mixed()
    y = np.where((table["number"] > 5) & (table["colour"] != "red"), "yes", "no")
    classifier = ProtoAttendClassifier(
        encoder, categorical_features=["code"], max_epochs=3, random_state=0, verbose=0
    ).fit(table, y)
    classifier.save(tmp_path / "model")
    loaded = ProtoAttendClassifier.load(tmp_path / "model")
    strange = mixed(20, seed=1)
    strange["colour"], strange["number"], strange["code"], strange["day"] = "mauve", np.nan, 999, pd.NaT
    for X in (table, strange):
        assert np.isfinite(loaded.predict_proba(X)).all()
        np.testing.assert_array_equal(loaded.predict_proba(X), classifier.predict_proba(X))
    unknown = strange.assign(colour=None)
    np.testing.assert_array_equal(classifier.predict_proba(strange), classifier.predict_proba(unknown))


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"day": "soon"}, UserError, "'day' must hold dates as in fit"),
        ({"number": "many"}, UserError, "'number' must hold numbers as in fit"),
    ],
)
def test_another_kind_at_predict(change: dict[str, Any], error: type[Exception], message: str) -> None:
    inputs = TableInputs.fit(mixed(), categorical=["code"])
    with pytest.raises(error, match=message):
        inputs.source(mixed().assign(**change))


def test_cells_that_are_no_values() -> None:
    column = np.array(["a", None, np.nan, ["a"]], dtype=object)
    with pytest.raises(BadCell, match="'things' has a list at row 3"):
        TableInputs.fit(pd.DataFrame({"things": column}))


class TestIdentifiers:
    """Columns in which no two rows are alike."""

    def people(self, n: int = 60) -> tuple[pd.DataFrame, np.ndarray]:
        rng = np.random.default_rng(0)
        age = rng.normal(40, 9, n)
        table = pd.DataFrame({"number": np.arange(n) + 17, "name": [f"p{i}" for i in range(n)], "age": age})
        return table, np.where(age > 40, "old", "young")

    def test_they_are_shown_but_not_read(self) -> None:
        X, _ = self.people()
        with pytest.warns(UserWarning, match="identifies them: \\['name', 'number'\\]"):
            inputs = TableInputs.fit(X)
        source = inputs.source(X)
        assert inputs.form() == TableInputs.fit(X[["age"]]).form()
        np.testing.assert_array_equal(inputs.tensor(source), TableInputs.fit(X[["age"]]).source(X[["age"]]))
        assert inputs.preview(source[3])["name"] == "p3"
        assert inputs.preview(source[3])["number"] == "20"

    def test_new_rows_may_have_others_or_none(self, tmp_path: Path) -> None:
        X, y = self.people()
        with pytest.warns(UserWarning, match="only identifies"):
            classifier = ProtoAttendClassifier(max_epochs=2, random_state=0, verbose=0).fit(X, y)
        new = X.assign(name="someone", number=-1)
        np.testing.assert_array_equal(classifier.predict_proba(new), classifier.predict_proba(X))
        np.testing.assert_array_equal(classifier.predict_proba(X[["age"]]), classifier.predict_proba(X))
        (explained,) = classifier.explain(new[:1])
        assert explained.preview["name"] == "(new)"
        assert explained.prototypes[0].preview["name"] == f"p{explained.prototypes[0].index}"
        classifier.save(tmp_path / "people")
        loaded = ProtoAttendClassifier.load(tmp_path / "people")
        np.testing.assert_array_equal(loaded.predict_proba(X), classifier.predict_proba(X))

    def test_what_is_asked_for_stays(self) -> None:
        X, _ = self.people()
        with pytest.warns(UserWarning, match="\\['number'\\]"):
            inputs = TableInputs.fit(X, categorical=["name"])
        assert [column.name for column in inputs.learned] == ["age", "name"]

    @pytest.mark.filterwarnings("error")
    def test_few_rows_numbers_that_do_not_count_and_a_table_of_nothing_else_stay(self) -> None:
        X, _ = self.people()
        for table in (X[:19], X[["age"]], X[["name"]], X.assign(number=X.number**2)[["number", "age"]], X[["number"]]):
            inputs = TableInputs.fit(table)
            assert inputs.learned == inputs.columns

    def test_texts_are_told_from_names(self) -> None:
        texts = pd.DataFrame({"review": [f"this is review number {i}" for i in range(30)]})
        with pytest.warns(UserWarning, match=r"never do; .* pass X\['review'\]"):
            assert TableInputs.fit(texts).columns[0].kind == "category"
        with pytest.warns(UserWarning, match=r"only identifies.* pass X\['review'\]"):
            TableInputs.fit(texts.assign(age=range(0, 60, 2)))


def test_numpy_makes_texts_of_numbers_beside_texts() -> None:
    array = np.array([[1.5, 30, "007", "red"], [2.5, 41, "012", "blue"], [np.nan, 30, "007", "red"]])
    inputs = TableInputs.fit(array)
    assert {column.name: column.kind for column in inputs.columns} == {
        "0": "number", "1": "number", "2": "category", "3": "category",
    }  # fmt: skip
    assert inputs.preview(inputs.source(array)[1]) == {"0": "2.5", "1": "41", "2": "012", "3": "blue"}
    assert np.isnan(inputs.source(array)[2, 0])
    kept = TableInputs.fit(pd.DataFrame({"zip": ["10115", "80331"]}))
    assert kept.columns[0].kind == "category"


def test_of_many_missing_columns_some_are_named() -> None:
    wide = pd.DataFrame(np.arange(6000.0).reshape(2, 3000), columns=[f"c{i}" for i in range(3000)])
    inputs = TableInputs.fit(wide)
    with pytest.raises(
        UserError, match=r"'c18', 'c19'\] and 2,980 more are missing; it has \['other'\]\. Add"
    ) as raised:
        inputs.source(pd.DataFrame({"other": [1.0]}))
    assert len(str(raised.value)) < 500
