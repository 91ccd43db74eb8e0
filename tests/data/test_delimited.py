"""CSV files: delimiters, quotes, types of columns, and errors that name the line."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from protoattend.data.delimited import _require_names, data_frame, read_delimited
from protoattend.errors import BadFile


def put(tmp_path: Path, content: str | bytes) -> Path:
    path = tmp_path / "table.csv"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("bom", [b"", b"\xef\xbb\xbf"])
def test_delimiters_quotes_line_ends_and_bom(tmp_path: Path, delimiter: str, end: str, bom: bytes) -> None:
    rows = [["name", "note"], ["Anna", 'a "quoted", word; or\ttwo'], ["Bö", "two\nlines"], ["", "last"]]
    with (tmp_path / "table.csv").open("wb") as file:
        file.write(bom)
    with (tmp_path / "table.csv").open("a", encoding="utf-8", newline="") as file:
        csv.writer(file, delimiter=delimiter, lineterminator=end).writerows(rows)
    table = read_delimited(tmp_path / "table.csv")
    assert table.delimiter == delimiter
    assert table.columns == {"name": ["Anna", "Bö", ""], "note": [row[1] for row in rows[1:]]}
    assert table.lines == [2, 3, 5]


@given(
    rows=st.lists(
        st.lists(
            st.text(st.characters(codec="utf-8", exclude_characters="\x00\r"), min_size=1), min_size=3, max_size=3
        ),
        min_size=1,
        max_size=6,
    ),
    delimiter=st.sampled_from([",", ";", "\t"]),
)
def test_any_cells_come_back(tmp_path_factory: pytest.TempPathFactory, rows: list[list[str]], delimiter: str) -> None:
    path = tmp_path_factory.mktemp("csv") / "table.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, delimiter=delimiter, quoting=csv.QUOTE_ALL)
        writer.writerow(["a", "b", "c"])
        writer.writerows(rows)
    table = read_delimited(path, header=True)
    assert [list(row) for row in zip(*table.columns.values(), strict=True)] == rows


def typed(tmp_path: Path, *cells: str, delimiter: str = ",") -> pd.Series:
    path = put(tmp_path, "\n".join([f"x{delimiter}y", *(f"{cell}{delimiter}1" for cell in cells)]))
    return data_frame({"x": read_delimited(path).typed("x")})["x"]


def test_numbers_stay_numbers(tmp_path: Path) -> None:
    assert typed(tmp_path, "1", "-20", "0").dtype == np.int64
    assert typed(tmp_path, "1.5", "2", "1e-3", "-.5").tolist() == [1.5, 2.0, 0.001, -0.5]
    floats = typed(tmp_path, "1.5", "?", "NA", "", "nan", "null", "N/A")
    assert floats.dtype == np.float64
    assert floats.isna().tolist() == [False] + [True] * 6
    integers = typed(tmp_path, "1", "?", "3")
    assert [str(value) for value in integers] == ["1", "None", "3"]
    assert typed(tmp_path, "12345678901234567", "?").tolist() == [12345678901234567, None]
    assert typed(tmp_path, "1,5", "2,25", "3", delimiter=";").tolist() == [1.5, 2.25, 3.0]
    assert typed(tmp_path, "?", "NA").isna().all()


def test_marks_of_missing_values_among_numbers(tmp_path: Path) -> None:
    marks = ["-", ".", "?", "n/a", "#N/A", "None", "NULL", "nan", "na", ""]
    assert typed(tmp_path, "1.5", *marks).isna().tolist() == [False] + [True] * len(marks)
    assert typed(tmp_path, "1,5", ".", delimiter=";").tolist()[0] == 1.5
    assert typed(tmp_path, "none", "-", "none").tolist() == ["none", "-", "none"]  # words, with no number among them
    assert typed(tmp_path, "red", "none", "3").tolist() == ["red", "none", "3"]
    assert read_delimited(put(tmp_path, "-,oak\n1,elm\n2,oak\n3,oak\n")).header is False
    assert read_delimited(put(tmp_path, "x,kind\n-,elm\n2,elm\n3,elm\n")).header is True


def test_iso_dates_become_dates(tmp_path: Path) -> None:
    dates = typed(tmp_path, "2024-02-29", "", "1999-12-31T23:59:59Z")
    assert dates.dtype.kind == "M"
    assert dates.isna().tolist() == [False, True, False]
    assert dates[0] == pd.Timestamp("2024-02-29")
    for not_dates in (("2024-02-30", "2024-01-01"), ("01/02/2024", "02/02/2024")):
        assert typed(tmp_path, *not_dates).tolist() == list(not_dates)


def test_words_and_codes_stay_words(tmp_path: Path) -> None:
    for words in (["yes", "no"], ["True", "False"], ["1", "2x"], ["01067", "80331"], ["12345678901234567890123", "x"]):
        assert typed(tmp_path, *words).tolist() == words
    assert typed(tmp_path, " red ", "?", "blue").isna().tolist() == [False, True, False]
    assert typed(tmp_path, " red ", "blue").tolist() == ["red", "blue"]


def test_blank_lines_are_left_out_and_counted(tmp_path: Path) -> None:
    table = read_delimited(put(tmp_path, "a,b\n\n1,2\n\n\n3,4\n\n"))
    assert table.columns == {"a": ["1", "3"], "b": ["2", "4"]}
    assert table.lines == [3, 6]


def test_row_names_without_a_heading_are_left_out(tmp_path: Path) -> None:
    pd.DataFrame({"a": [1, 2], "b": [3, 4]}, index=[7, 9]).to_csv(tmp_path / "table.csv")
    table = read_delimited(tmp_path / "table.csv")
    assert table.columns == {"a": ["1", "2"], "b": ["3", "4"]}
    assert table.unnamed_first


def test_cells_may_be_of_any_length(tmp_path: Path) -> None:
    table = read_delimited(put(tmp_path, "a,b\n1," + "x" * 200_000))
    assert table.columns["b"] == ["x" * 200_000]


@pytest.mark.parametrize(
    ("content", "header"),
    [
        ("5.1,3.5,setosa\n4.9,3.0,setosa\n6.0,2.7,virginica\n", False),
        ("1,2\n3,4\n", False),
        ("7,0.5\n", False),
        ("good film,pos\nbad film,neg\nno idea,pos\nwhy,neg\nso,pos\n", False),
        ("e,x,s\np,x,y\ne,b,s\np,b,y\n", False),
        ("?,2\n3,4\n", False),
        ("height,kind\n1.5,oak\n1.4,oak\n", True),
        ("text,label\ngood film,pos\nbad film,neg\nno idea,pos\n", True),
        ("x,y\nx,1\nx,2\n", True),
        ("country,1990,1991\nChad,12,13\nMali,4,5\n", True),
        ("0,1,2\n0.5,0.1,0.2\n", True),
        ("400.5,401,kind\n0.1,0.2,oak\n0.3,0.1,oak\n0.2,0.2,elm\n", True),
        ("39,State,<=50K\n50,Self,<=50K\n38,Private,>50K\n53,Private,<=50K\n", False),
        (",a\n0,1\n1,2\n", True),
        ("name,city\nAnna,Rome\nBob,Oslo\n", True),
    ],
)
def test_a_header_is_recognised(tmp_path: Path, content: str, header: bool) -> None:
    table = read_delimited(put(tmp_path, content))
    assert table.header == header
    assert len(table) == content.count("\n") - header
    assert header or list(table.columns) == [f"column {i}" for i in range(len(table.columns))]
    assert read_delimited(table.path, header=False).lines[0] == 1


def test_wide_files_take_linear_time(tmp_path: Path) -> None:
    """Each name is compared with few others, however many there are: counted, as a clock would not do."""

    class Name(str):
        compared = 0

        def __eq__(self, other: object) -> bool:
            Name.compared += 1
            return str.__eq__(self, other)  # type: ignore[arg-type]

        __hash__ = str.__hash__

    _require_names("here", [Name(f"x{i}") for i in range(3000)])
    assert Name.compared < 30_000


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "the file is empty"),
        ("\n \n", "the file is empty"),
        ("a,b\n", "at least one row below"),
        ("a,b\n1,2\n3\n", "line 3: a row must have 2 fields, .* but this one has 1"),
        ("a,b\n1,2\n\n3,4,5\n", "line 4: a row must have 2 fields, .* but this one has 3"),
        ('a,b\n1,"two\nlines"\n3\n', "line 4: a row must have 2 fields"),
        ('a,b\n1,2\n3,"never closed\n5,6\n', "line 3: .* a quote opened in this row is not closed"),
        ('a,b\n1,2\n"x"y,3\n', "line 3: .* a quote"),
        ("a,a\n1,2\n", "line 1: column names must be unique, but 'a'"),
        ("a,,b\n1,2,3\n", "line 1: every column needs a name, but column 2 has none"),
        (b"a,b\n1,2\nna\xefve,3\n", "line 3: text must be UTF-8, but byte 0xef is not"),
        ("a,b\n1,2\n".encode("utf-16"), "line 1: text must be UTF-8, but byte 0xff is not"),
    ],
)
def test_bad_files_name_file_and_line(tmp_path: Path, content: str | bytes, message: str) -> None:
    with pytest.raises(BadFile, match=rf"table\.csv.*{message}"):
        read_delimited(put(tmp_path, content))
