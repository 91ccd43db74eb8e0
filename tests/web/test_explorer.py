"""The explorer's API: rows, cards, drafts, saving and what is refused."""

from __future__ import annotations

import base64
import io
from typing import Any

import numpy as np
import pytest
from scipy.stats import beta

from protoattend import ProtoAttendClassifier

from .conftest import settle


def card(client: Any, row: int = 0, table: str = "data", **drafts: Any) -> dict[str, Any]:
    answer = client.post("/api/card", json={"row": {"table": table, "row": row}, "drafts": drafts})
    assert answer.status_code == 200, answer.text
    return answer.json()


@pytest.mark.parametrize("kind", ["images", "text", "array", "table"])
def test_a_card_is_what_explain_says(serve: Any, folders: Any, datas: Any, kind: str) -> None:
    client, classifier = serve(kind), ProtoAttendClassifier.load(folders[kind])
    shown = card(client, 5)
    X = datas[kind].X
    expected = classifier.explain(X.iloc[5:6] if hasattr(X, "iloc") else X[5:6], top=8)[0]
    names = client.get("/api/model").json()["classes"]
    assert names[shown["prediction"]] == str(expected.prediction)
    assert shown["confidence"] == pytest.approx(expected.confidence, abs=1e-5)
    assert [p["index"] for p in shown["prototypes"]] == [p.index for p in expected.prototypes]
    assert [p["weight"] for p in shown["prototypes"]] == pytest.approx(
        [p.weight for p in expected.prototypes], abs=1e-5
    )
    assert [p["index"] for p in shown["against"]] == [p.index for p in expected.against]
    assert sum(part["share"] for part in shown["support"]) <= 1 + 1e-5
    assert len(shown["places"]) == len(shown["prototypes"])


def test_candidates_are_decided_without_themselves(serve: Any, folders: Any) -> None:
    client = serve("table", data=False)
    expected = ProtoAttendClassifier.load(folders["table"]).explain(None, top=8)[7]
    shown = card(client, 7, "candidates")
    assert [p["index"] for p in shown["prototypes"]] == [p.index for p in expected.prototypes]
    assert 7 not in [p["index"] for p in shown["prototypes"]]


def test_rows_are_filtered_and_in_order(serve: Any) -> None:
    client = serve("table")
    confidences = [row["confidence"] for row in client.get("/api/rows?limit=200").json()["rows"]]
    assert len(confidences) == 90
    assert confidences == sorted(confidences)
    wrong = client.get("/api/rows?which=wrong&limit=200").json()
    assert wrong["total"] == wrong["counts"]["wrong"] == len(wrong["rows"]) > 0
    assert all(row["predicted"] != row["label"] for row in wrong["rows"])
    below = client.get("/api/rows?which=below&threshold=0.8&limit=200").json()["rows"]
    assert len(below) == sum(confidence < 0.8 for confidence in confidences)


def test_the_rows_of_a_prototype_are_those_it_decides(serve: Any) -> None:
    client = serve("table")
    heaviest = card(client, 0)["prototypes"][0]
    rows = client.get(f"/api/rows?prototype={heaviest['index']}&limit=200").json()["rows"]
    weights = [row["weight"] for row in rows]
    assert weights == sorted(weights, reverse=True)
    assert next(row["weight"] for row in rows if row["row"] == 0) == pytest.approx(heaviest["weight"], abs=1e-5)


def test_a_draft_shows_before_and_after_and_changes_nothing(serve: Any) -> None:
    client = serve("table")
    plain = card(client, 0)
    gone = [p["index"] for p in plain["prototypes"]]
    supposed = card(client, 0, removed=gone)
    assert supposed["before"] == {key: plain[key] for key in ("prediction", "confidence")}
    assert not set(gone) & {p["index"] for p in supposed["prototypes"]}
    other = 1 - plain["prediction"]
    turned = card(client, 0, relabelled=dict.fromkeys(map(str, gone), other))
    assert turned["prediction"] == other
    assert card(client, 0) == plain


def test_saved_drafts_are_in_the_log_of_edits(serve: Any, tmp_path: Any) -> None:
    client = serve("table", edit=True)
    issue = client.get("/api/labels").json()["rows"][0]
    assert issue["row"] in (0, 1, 2)  # the wrong labels
    drafts = {"removed": [40], "relabelled": {str(issue["row"]): issue["suggested"]}}
    assert client.post("/api/save", json={"version": 0, "drafts": drafts}).json() == {"version": 1}
    assert sorted(path.name for path in (tmp_path / "table" / "database" / "edits").iterdir()) == [
        "00000001",
        "00000002",
    ]
    database = ProtoAttendClassifier.load(tmp_path / "table").database_
    names = client.get("/api/model").json()["classes"]
    assert database.labels[database.rows.positions([issue["row"]])[0]] == names[issue["suggested"]]
    assert 40 not in database.indices
    settle(client)
    left = client.get("/api/labels").json()
    assert issue["row"] not in [row["row"] for row in left["rows"]]
    assert left["confirmed"] == 1


def test_a_rejected_label_error_is_settled(serve: Any) -> None:
    client = serve("table", edit=True)
    issue = client.get("/api/labels").json()["rows"][0]
    drafts = {"relabelled": {str(issue["row"]): issue["label"]}}
    assert client.post("/api/save", json={"version": 0, "drafts": drafts}).status_code == 200
    settle(client)
    assert issue["row"] not in [row["row"] for row in client.get("/api/labels").json()["rows"]]


def test_a_second_editor_loses_nothing(serve: Any, tmp_path: Any) -> None:
    client = serve("table", edit=True)
    other = ProtoAttendClassifier.load(tmp_path / "table").database_
    other.remove([9])
    other.save_edits()
    asked = {"version": 0, "drafts": {"removed": [10]}}
    refused = client.post("/api/save", json=asked)
    assert refused.status_code == 409
    assert "drafts are kept" in refused.json()["error"]
    assert client.get("/api/model").json()["candidates"] == 149  # what the other did is shown
    assert client.post("/api/save", json=asked).status_code == 409  # made for an earlier state
    assert client.post("/api/save", json=asked | {"version": 1}).json() == {"version": 2}
    assert set(range(150)) - set(ProtoAttendClassifier.load(tmp_path / "table").database_.indices) == {9, 10}


def test_nothing_is_saved_without_edit(serve: Any, tmp_path: Any) -> None:
    client = serve("table")
    assert client.post("/api/save", json={"version": 0, "drafts": {"removed": [1]}}).status_code == 403
    assert not (tmp_path / "table" / "database" / "edits").exists()


def test_the_bound_is_above_the_error_and_only_for_unseen_rows(serve: Any) -> None:
    seen = serve("array").get("/api/curve").json()
    assert seen["rows"] == 90
    for stop in seen["stops"]:
        if stop["answered"] > stop["errors"]:
            assert stop["errors"] / stop["answered"] < stop["bound"] <= 1
    whole = seen["stops"][0]
    assert whole["answered"] == 90
    assert whole["errors"] <= 2
    exact = beta.ppf(1 - 0.05 / 35, whole["errors"] + 1, 90 - whole["errors"])  # at an equal part of 5 %
    assert whole["bound"] == pytest.approx(exact, rel=1e-6)
    own = serve("text", data=False).get("/api/curve").json()
    assert all(stop["bound"] is None for stop in own["stops"])


def test_the_map_holds_candidates_within_its_sides(serve: Any) -> None:
    found = serve("images").get("/api/map").json()
    places = np.array(found["places"])
    assert places.shape == (400, 2)
    assert ((places >= 0) & (places <= found["side"])).all()
    assert found["indices"] == list(range(400))


def test_an_image_is_the_row(serve: Any, few_digits: Any) -> None:
    from PIL import Image

    client = serve("images")
    answer = client.get("/api/images/data/3.png")
    shown = np.asarray(Image.open(io.BytesIO(answer.content)))
    expected = (few_digits[0][3] / 16 * 255).astype(np.uint8)
    assert np.array_equal(shown, expected)
    assert client.get("/api/images/data/900.png").status_code == 404
    assert serve("table").get("/api/images/data/3.png").status_code == 404


def ask(client: Any, **given: Any) -> Any:
    return client.post("/api/card", json={"input": given})


def test_ones_own_input_is_decided_as_the_same_row_is(serve: Any, datas: Any, few_digits: Any) -> None:
    from PIL import Image

    text = serve("text")
    assert ask(text, text=datas["text"].X[2]).json()["prototypes"] == card(text, 2)["prototypes"]
    table = serve("table")
    cells = {name: str(value) for name, value in datas["table"].X.iloc[2].items()}
    cells["since"] = cells["since"][:10]
    assert ask(table, cells=cells).json()["prototypes"] == card(table, 2)["prototypes"]
    images = serve("images")
    file = io.BytesIO()
    Image.fromarray((few_digits[0][2] * 15.9375).astype(np.uint8)).save(file, "PNG")
    shown = ask(images, image=base64.b64encode(file.getvalue()).decode()).json()
    assert shown["prediction"] == card(images, 2)["prediction"]


@pytest.mark.parametrize(
    ("kind", "given", "says"),
    [
        ("table", {"cells": {"aeg": 1}}, "aeg"),
        ("table", {"cells": {"age": "old"}}, "age"),
        ("table", {"cells": {"since": "soon"}}, "date"),
        ("table", {"cells": {"age": "inf"}}, "finite"),
        ("table", {"text": "hello"}, "table"),
        ("images", {"image": "%%%"}, "base64"),
        ("images", {"image": base64.b64encode(b"no image").decode()}, "not an image"),
    ],
)
def test_a_wrong_input_is_one_clear_line(serve: Any, kind: str, given: Any, says: str) -> None:
    answer = ask(serve(kind), **given)
    assert answer.status_code == 400
    assert says in answer.json()["error"]
    assert "\n" not in answer.json()["error"]


def test_a_huge_image_is_refused_before_it_is_decoded(serve: Any) -> None:
    from PIL import Image

    file = io.BytesIO()
    Image.new("1", (9000, 9000)).save(file, "PNG")
    assert ask(serve("images"), image=base64.b64encode(file.getvalue()).decode()).status_code == 413


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"{", 422),
        (b"[]", 422),
        (b'{"row": {"row": -1}}', 422),
        (b'{"row": {"row": 10000}}', 404),
        (b'{"row": {"row": 1}, "drafts": {"removed": [99999]}}', 400),
        (b'{"row": {"row": 1}, "drafts": {"relabelled": {"1": 7}}}', 400),
        (b'{"row": {"row": 1, "table": "/etc/passwd"}}', 422),
        (b"{}", 422),
    ],
)
def test_a_malformed_question_is_one_clear_line(serve: Any, body: bytes, status: int) -> None:
    answer = serve("table").post("/api/card", content=body, headers={"content-type": "application/json"})
    assert answer.status_code == status
    assert list(answer.json()) == ["error"]
    assert body != b"{" or "must be JSON" in answer.json()["error"]


def test_removing_all_candidates_is_refused(serve: Any) -> None:
    client = serve("table", edit=True)
    answer = client.post("/api/save", json={"version": 0, "drafts": {"removed": list(range(150))}})
    assert answer.status_code == 400
    assert client.get("/api/model").json()["candidates"] == 150


def test_labels_of_another_type_are_known_and_unseen_ones_are_not(folders: Any, datas: Any) -> None:
    from dataclasses import replace

    from protoattend.app.server.workbench import Workbench

    y = np.array(["0", "7.5", *map(str, datas["images"].y[2:])])
    rows = Workbench(folders["images"], replace(datas["images"], y=y)).shown.rows
    assert rows.labels[:3].tolist() == [0, -1, int(datas["images"].y[2])]


def test_a_form_begins_with_values_that_occur(serve: Any, people: Any) -> None:
    X, _ = people
    form = {field["name"]: field for field in serve("table").get("/api/model").json()["form"]}
    assert form["job"]["typical"] == X["job"].mode()[0]
    assert form["since"]["typical"] in X["since"].astype(str).tolist()
    assert np.abs(X["age"] - float(form["age"]["typical"])).min() < 1e-3
    assert abs(float(form["age"]["typical"]) - X["age"].median()) < 1


def test_a_page_can_tell_another_model_or_server_at_the_same_address(serve: Any) -> None:
    """By these it keeps drafts apart, and does not take images out of the browser's memory that are of other rows."""
    one, again, other = (serve(kind).get("/api/model").json() for kind in ("table", "table", "array"))
    assert one["fingerprint"] == again["fingerprint"] != other["fingerprint"]
    assert one["started"] != again["started"]
