"""read_data: every format read back, with labels and without, and what is wrong with the others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from protoattend import ProtoAttendClassifier, read_data
from protoattend.data.images import ImageFiles
from protoattend.errors import BadFile, UserError

FRAME = pd.DataFrame(
    {
        "age": [30, 41, 52, 63],
        "city": ["Rome", None, "Oslo", "Rome"],
        "since": pd.to_datetime(["2020-01-01", "2021-05-06", None, "2022-02-02"]),
        "note": ["a good day", "", "rain, again", "all fine"],
        "class": ["a", "b", "a", "b"],
    }
)


def put(path: Path, frame: pd.DataFrame = FRAME) -> Path:
    frame.to_csv(path, index=False) if path.suffix == ".csv" else frame.to_parquet(path)
    return path


@pytest.mark.parametrize("name", ["x.csv", "x.parquet"])
def test_tables(tmp_path: Path, name: str) -> None:
    data = read_data(put(tmp_path / name), target="class")
    assert list(data.X.columns) == ["age", "city", "since", "note"]
    assert data.X["age"].tolist() == [30, 41, 52, 63]
    assert data.X["since"].dtype.kind == "M"
    assert data.X["city"].isna().tolist() == [False, True, False, False]
    assert data.y is not None
    assert data.y.tolist() == ["a", "b", "a", "b"]
    assert data.description == "4 rows of 4 columns, target 'class' of 2 classes"
    unlabelled = read_data(tmp_path / name)
    assert unlabelled.y is None
    assert unlabelled.X.shape == (4, 5)


@pytest.mark.parametrize("name", ["x.csv", "x.parquet"])
def test_texts(tmp_path: Path, name: str) -> None:
    frame = FRAME.assign(note=FRAME["note"].where(FRAME["note"] != "", None))
    data = read_data(put(tmp_path / name, frame), target="class", text="note")
    assert data.X == ["a good day", "", "rain, again", "all fine"]
    assert data.description == "4 texts in 'note', target 'class' of 2 classes"
    assert read_data(tmp_path / name, text="note").y is None


def test_texts_of_categorical_dtype_may_be_missing(tmp_path: Path) -> None:
    frame = FRAME.assign(note=pd.Categorical(["good", None, "bad", "good"]))
    assert read_data(put(tmp_path / "x.parquet", frame), text="note").X == ["good", "", "bad", "good"]


def test_the_words_of_a_text_are_not_missing_values(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("text,y\nNA,a\n?,b\n")
    assert read_data(tmp_path / "x.csv", target="y", text="text").X == ["NA", "?"]


@pytest.mark.parametrize(("cells", "dtype"), [("0\n1", "int64"), ("0.0\n1.0", "float64"), ("x\n1", "<U1")])
def test_labels_have_the_type_of_their_column(tmp_path: Path, cells: str, dtype: str) -> None:
    (tmp_path / "x.csv").write_text("y,x\n" + "\n".join(f"{cell},1" for cell in cells.split()))
    y = read_data(tmp_path / "x.csv", target="y").y
    assert y is not None
    assert y.dtype == dtype


def test_arrays(tmp_path: Path) -> None:
    X, y = np.zeros((4, 5, 5), np.uint8), np.array(["a", "b", "a", "b"])
    np.savez(tmp_path / "x.npz", X=X, y=y, more=y)
    data = read_data(tmp_path / "x.npz")
    np.testing.assert_array_equal(data.X, X)
    np.testing.assert_array_equal(data.labels(), y)
    assert data.description == "4 samples of 5 x 5 values, 2 classes"
    np.savez_compressed(tmp_path / "other.npz", images=X, labels=y)
    np.testing.assert_array_equal(read_data(tmp_path / "other.npz", samples="images", target="labels").labels(), y)
    assert read_data(tmp_path / "other.npz", samples="images").y is None


def test_images(tmp_path: Path) -> None:
    for name in ("cat/1.png", "cat/2.png", "dog/1.png"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        Image.new("L", (9, 12)).save(tmp_path / name)
    data = read_data(tmp_path)
    assert isinstance(data.X, ImageFiles)
    assert data.description == "3 images of 2 classes, read as 12x9 grey"
    assert data.labels().tolist() == ["cat", "cat", "dog"]
    plain = read_data(tmp_path / "cat", size=8, channels=3)
    assert (plain.y, plain.X.shape) == (None, (2, 3, 8, 8))
    assert read_data(tmp_path / "cat" / "1.png").X.shape == (1, 1, 12, 9)
    with pytest.raises(UserError, match=r"cat: labels are needed, .* a folder for each class"):
        plain.for_fit()
    with pytest.raises(UserError, match="whose folders are their labels; leave target out"):
        read_data(tmp_path, target="y")


def test_labels_unfit_for_training_name_their_place(tmp_path: Path) -> None:
    (tmp_path / "only" / "cat").mkdir(parents=True)
    Image.new("L", (9, 9)).save(tmp_path / "only" / "cat" / "1.png")
    one_class = read_data(tmp_path / "only")
    assert one_class.labels().tolist() == ["cat"]  # good enough for a measurement
    with pytest.raises(UserError, match=r"only: .*at least two classes, .*\['cat'\]"):
        one_class.for_fit()
    path = put(tmp_path / "x.csv", FRAME.assign(same="a"))
    with pytest.raises(UserError, match=r"x\.csv, column 'same': .*at least two classes"):
        read_data(path, target="same").for_fit()
    with pytest.raises(UserError, match=r"x\.csv: labels are needed, .*pass target=.*--target"):
        read_data(path).for_fit()
    (tmp_path / "m.csv").write_text("x;width\n1;12,5\n2;13,5\n3;14\n")
    with pytest.raises(UserError, match=r"m\.csv, column 'width': .*fractions .*such as 12\.5; .*regression"):
        read_data(tmp_path / "m.csv", target="width").for_fit()
    with pytest.raises(UserError, match=r"'width' holds numbers; leave text out"):
        read_data(tmp_path / "m.csv", text="width")
    prices = pd.DataFrame({"size": range(200), "price": np.arange(200) * 7})
    with pytest.raises(UserError, match=r"p\.csv, column 'price': .*200 distinct numbers.*regression"):
        read_data(put(tmp_path / "p.csv", prices), target="price").for_fit()


@pytest.mark.parametrize("name", ["x.csv", "x.parquet"])
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"target": "clas"}, "'age', 'city', .* but got 'clas'; did you mean 'class'"),
        ({"text": "notes"}, "did you mean 'note'"),
        ({"text": "age"}, "'age' holds .*leave text out"),
        (
            {"target": "city"},
            r"1 of 4 cells of 'city' are empty, the first at row 1( .line 3 of the file.)?; fill them in",
        ),
    ],
)
def test_bad_columns(tmp_path: Path, name: str, arguments: dict[str, str], message: str) -> None:
    with pytest.raises(UserError, match=message) as caught:
        read_data(put(tmp_path / name), **arguments)
    assert name in str(caught.value)


def test_texts_read_as_categories_are_warned_of(tmp_path: Path) -> None:
    said = [f"a text of its own, number {i}, of more than forty characters" for i in range(30)]
    frame = pd.DataFrame({"said": said, "place": "a place that has a very long name indeed, here", "y": [0, 1] * 15})
    with pytest.warns(UserWarning, match="column 'said' holds texts, .*pass text='said'") as caught:
        read_data(put(tmp_path / "x.csv", frame), target="y")
    assert len(caught) == 1


def test_only_the_target(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="columns besides its target 'class'"):
        read_data(put(tmp_path / "x.csv", FRAME[["class"]]), target="class")


def objects(path: Path) -> None:
    np.savez(path, X=np.array([{"a": 1}, None], dtype=object), y=np.zeros(2))


def cut(path: Path) -> None:
    np.savez(path, X=np.zeros((50, 3)), y=np.zeros(50))
    path.write_bytes(path.read_bytes()[:900])


def bare(path: Path) -> None:
    with path.open("wb") as file:
        np.save(file, np.zeros(3))


@pytest.mark.parametrize(
    ("make", "arguments", "message"),
    [
        (lambda path: np.savez(path, Z=np.zeros(2)), {}, "samples, an array of .*x.npz, must be one of 'Z'"),
        (lambda path: np.savez(path, X=np.zeros(2)), {"target": "y"}, "target, an array of .*must be one of 'X'"),
        (lambda path: np.savez(path, X=np.zeros(2), y=np.zeros(3)), {}, r"one length, .*\(2,\) and \(3,\)"),
        (lambda path: np.savez(path, X=np.zeros(2)), {"text": "X"}, "name its texts with samples"),
        (objects, {}, "Python objects, which are never unpickled"),
        (cut, {}, "not a readable archive"),
        (bare, {}, "not a readable archive"),
        (lambda path: path.write_bytes(b"hello"), {}, "not a readable archive"),
        (lambda path: path.write_bytes(b""), {}, "the file is empty"),
    ],
)
def test_bad_archives(tmp_path: Path, make: Any, arguments: dict[str, str], message: str) -> None:
    make(tmp_path / "x.npz")
    with pytest.raises(UserError, match=message) as caught:
        read_data(tmp_path / "x.npz", **arguments)
    assert "x.npz" in str(caught.value)


def test_bad_parquet(tmp_path: Path) -> None:
    data = put(tmp_path / "x.parquet").read_bytes()
    for content in (b"hello", data[:-20], data[: len(data) // 2], data[:40] + b"\xff" * 40 + data[80:]):
        (tmp_path / "bad.parquet").write_bytes(content)
        with pytest.raises(BadFile, match=r"bad\.parquet: not a readable Parquet file"):
            read_data(tmp_path / "bad.parquet")
    put(tmp_path / "none.parquet", FRAME.head(0))
    with pytest.raises(BadFile, match="at least one row"):
        read_data(tmp_path / "none.parquet")


def test_no_such_path_and_unknown_kinds(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"nothing\.csv does not exist"):
        read_data(tmp_path / "nothing.csv")
    (tmp_path / "x.xlsx").write_bytes(b"x")
    with pytest.raises(UserError, match=r"a file that ends in \.csv, .* but got .*x\.xlsx; convert it"):
        read_data(tmp_path / "x.xlsx")
    (tmp_path / "x.csv").touch()
    with pytest.raises(BadFile, match="the file is empty"):
        read_data(tmp_path / "x.csv")
    (tmp_path / "x.jpg").write_bytes(b"GIF89a")
    with pytest.raises(BadFile, match=r"x\.jpg: not a readable image"):
        read_data(tmp_path / "x.jpg")


def test_a_file_for_prediction_may_differ_in_its_types(tmp_path: Path) -> None:
    """One row tells little of a column's type; what fit saw decides."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "code": rng.choice(["1", "2", "x"], 60),
            "size": rng.normal(size=60),
            "when": pd.date_range("2020-01-01", periods=60),
        }
    )
    frame["y"] = np.where(frame["code"] == "1", "one", "other")
    data = read_data(put(tmp_path / "train.csv", frame), target="y")
    clf = ProtoAttendClassifier(max_epochs=2, random_state=0, verbose=0).fit(*data.for_fit())
    (tmp_path / "new.csv").write_text("when,size,code,extra\n,NA,1,9\n2020-01-05,?,?,9\n")
    new = read_data(tmp_path / "new.csv")
    assert clf.explain(new.X)[0].preview == {"code": "1", "size": "(missing)", "when": "(missing)"}
    assert np.isfinite(clf.predict_proba(new.X)).all()
    for cells in ("noon,1,1", "2020,1,1"):
        (tmp_path / "new.csv").write_text(f"when,size,code\n{cells}\n")
        with pytest.raises(UserError, match="'when' must hold dates as in fit"):
            clf.predict(read_data(tmp_path / "new.csv").X)


def test_arrays_of_any_name(tmp_path: Path) -> None:
    X, y = np.zeros((4, 5)), np.array(["a", "b", "a", "b"])
    np.savez(tmp_path / "x.npz", pictures=X, kinds=y)
    data = read_data(tmp_path / "x.npz")
    np.testing.assert_array_equal(data.X, X)
    np.testing.assert_array_equal(data.labels(), y)
    assert data.description == "4 samples of 5 values, 2 classes, arrays 'kinds' and 'pictures'"
    np.savez(tmp_path / "x.npz", x_train=X, y_train=y, x_test=X[:2], y_test=y[:2])
    with pytest.raises(UserError, match=r"'x_train' of shape \(4, 5\), .*--samples"):
        read_data(tmp_path / "x.npz")
    assert len(read_data(tmp_path / "x.npz", samples="x_test", target="y_test").labels()) == 2
    assert read_data(tmp_path / "x.npz", samples="x_test", id_column="y_test").ids.tolist() == ["a", "b"]
    with pytest.raises(BadFile, match=r"'x_train' and 'y_test' must be of one length"):
        read_data(tmp_path / "x.npz", samples="x_train", target="y_test")


@pytest.mark.parametrize("name", ["x.csv", "x.parquet"])
def test_identifiers_are_kept_apart(tmp_path: Path, name: str) -> None:
    data = read_data(put(tmp_path / name), target="class", id_column="city")
    assert list(data.X.columns) == ["age", "since", "note"]
    assert data.ids is not None
    assert data.ids.tolist()[0] == "Rome"
    assert read_data(tmp_path / name, text="note", id_column="age").ids is not None
    with pytest.raises(UserError, match="a column has one role, but 'age' was named twice"):
        read_data(tmp_path / name, target="age", id_column="age")


def test_columns_without_names_go_by_number(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("5.1,setosa\n4.9,virginica\n6.0,setosa\n")
    for target in ("1", "-1", "column 1"):
        data = read_data(tmp_path / "x.csv", target=target)
        assert list(data.X.columns) == ["column 0"]
        assert data.labels().tolist() == ["setosa", "virginica", "setosa"]
    assert "it has no header" in data.description
    with pytest.raises(UserError, match="must be one of 'column 0', 'column 1', but got '7'"):
        read_data(tmp_path / "x.csv", target="7")
    assert len(read_data(tmp_path / "x.csv", target="setosa", header=True).labels()) == 2


def test_a_misspelt_option_is_no_option_of_images(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="unexpected keyword argument 'tagret'"):
        read_data(put(tmp_path / "x.csv"), tagret="class")


def test_few_cells_that_make_text_of_numbers_are_warned_of(tmp_path: Path, recwarn: pytest.WarningsRecorder) -> None:
    def warned(*cells: str, delimiter: str = ",") -> list[str]:
        recwarn.clear()
        lines = [f"x{delimiter}y{delimiter}z", *(f"{cell}{delimiter}{cell}{delimiter}1" for cell in cells)]
        (tmp_path / "x.csv").write_text("\n".join(lines))
        read_data(tmp_path / "x.csv")
        return [str(warning.message) for warning in recwarn]

    nine = [f"{i}.5" for i in range(9)]
    (one,) = warned("", "<3", *nine)
    assert "'x' is read as text because of 1 of 11 cells, the first '<3' at row 1 (line 3 of the file)" in one
    assert "so it is with 1 more" in one
    assert "'1 000'" in warned(*(cell.replace(".", ",") for cell in nine), "1 000", delimiter=";")[0]
    assert not warned("<3", *nine[1:])  # more than one in ten
    assert not warned("01067", *map(str, range(80331, 80351)))  # codes
    assert not warned("?", "7", *map(str, range(9)))
