"""The Open Inference Protocol V2: answers of the protocol's form, equal to what the classifier says."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from protoattend import ProtoAttendClassifier
from protoattend.errors import UserError

jsonschema_rs = pytest.importorskip("jsonschema_rs", reason="it comes with schemathesis, of the extra [dev]")

TEXT = {"type": "string"}
DATATYPES = [
    "BOOL",
    "BYTES",
    *(f"{kind}{bits}" for kind in ("UINT", "INT") for bits in (8, 16, 32, 64)),
    "FP16",
    "FP32",
    "FP64",
]
FORM = {"name": TEXT, "datatype": {"enum": DATATYPES}, "shape": {"type": "array", "items": {"type": "integer"}}}
DATA = {"type": "array", "items": {"type": ["number", "string", "boolean", "array"]}}


def thing(required: list[str], **properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": required}


# What the protocol's description of its REST API requires of answers.
SERVER = thing(["name", "version", "extensions"], name=TEXT, version=TEXT, extensions={"type": "array", "items": TEXT})
TENSOR = thing(["name", "datatype", "shape"], **FORM)
TENSORS = {"type": "array", "items": TENSOR}
MODEL = thing(
    ["name", "platform", "inputs", "outputs"],
    name=TEXT,
    versions={"type": "array", "items": TEXT},
    platform=TEXT,
    inputs=TENSORS,
    outputs=TENSORS,
)
OUTPUT = thing(["name", "datatype", "shape", "data"], **FORM, data=DATA)
ANSWER = thing(
    ["model_name", "outputs"],
    model_name=TEXT,
    model_version=TEXT,
    id=TEXT,
    outputs={"type": "array", "items": OUTPUT, "minItems": 1},
)
PROBLEM = thing(["error"], error=TEXT)


def valid(content: Any, schema: dict[str, Any]) -> Any:
    jsonschema_rs.validate(schema, content)
    return content


def tensor(name: str, datatype: str, array: Any) -> dict[str, Any]:
    array = np.asarray(array)
    return {"name": name, "datatype": datatype, "shape": list(array.shape), "data": array.ravel().tolist()}


def request_of(kind: str, X: Any) -> dict[str, Any]:
    if kind == "text":
        return {"inputs": [tensor("text", "BYTES", np.array(X, dtype=object))]}
    if kind == "array":
        return {"inputs": [tensor("X", "FP64", X)]}
    if kind == "images":
        return {"inputs": [tensor("image", "FP32", X[:, None])]}
    columns = [tensor("age", "FP64", X["age"]), tensor("job", "BYTES", X["job"].to_numpy(dtype=object))]
    return {"inputs": [*columns, tensor("since", "BYTES", X["since"].dt.strftime("%Y-%m-%d").to_numpy(dtype=object))]}


@pytest.mark.parametrize("kind", ["images", "text", "array", "table"])
def test_answers_are_what_the_classifier_says(serve: Any, folders: Any, datas: Any, kind: str) -> None:
    client, clf, X = serve(kind), ProtoAttendClassifier.load(folders[kind]), datas[kind].X[:7]
    about = valid(client.get(f"/v2/models/{kind}").json(), MODEL)
    request = request_of(kind, X)
    assert [part["name"] for part in about["inputs"]] == [part["name"] for part in request["inputs"]]
    answer = valid(client.post(f"/v2/models/{kind}/infer", json=request | {"id": "a"}).json(), ANSWER)
    assert (answer["model_name"], answer["id"]) == (kind, "a")
    found = {part["name"]: np.array(part["data"]).reshape(part["shape"]) for part in answer["outputs"]}
    described = {part["name"]: (part["datatype"], part["shape"][1:]) for part in about["outputs"]}
    assert described == {part["name"]: (part["datatype"], part["shape"][1:]) for part in answer["outputs"]}
    assert found["label"].tolist() == clf.predict(X).tolist()
    np.testing.assert_allclose(found["proba"], clf.predict_proba(X), atol=1e-5)
    np.testing.assert_allclose(found["confidence"], clf.confidence(X), atol=1e-5)
    for i, e in enumerate(clf.explain(X, top=8)):
        count = len(e.prototypes)
        assert found["prototype_index"][i].tolist() == [p.index for p in e.prototypes] + [-1] * (8 - count)
        np.testing.assert_allclose(found["prototype_weight"][i][:count], [p.weight for p in e.prototypes], atol=1e-5)
        assert found["prototype_label"][i][:count].tolist() == [p.label for p in e.prototypes]


def test_health_and_metadata(serve: Any) -> None:
    client = serve("text")
    assert client.get("/v2/health/live").json() == {"live": True}
    assert client.get("/v2/health/ready").json() == {"ready": True}
    assert client.get("/v2/models/text/ready").status_code == 200
    assert client.get("/v2/models/text/versions/1/ready").status_code == 200
    valid(client.get("/v2").json(), SERVER)
    assert "unknown" in valid(client.get("/v2/models/unknown").json(), PROBLEM)["error"]
    assert client.get("/v2/models/unknown").status_code == client.get("/v2/models/text/versions/2").status_code == 404


def test_only_the_outputs_asked_for_are_answered(serve: Any) -> None:
    client = serve("text")
    request = request_of("text", ["a new hammer"]) | {"outputs": [{"name": "confidence"}, {"name": "label"}]}
    answer = client.post("/v2/models/text/infer", json=request).json()
    assert [part["name"] for part in answer["outputs"]] == ["confidence", "label"]
    wrong = client.post("/v2/models/text/infer", json=request | {"outputs": [{"name": "logits"}]})
    assert (wrong.status_code, "logits" in wrong.json()["error"]) == (400, True)


def test_nested_data_columns_of_width_one_and_missing_values_are_read(serve: Any, datas: Any) -> None:
    client = serve("table")
    inputs = request_of("table", datas["table"].X[:2])["inputs"]
    plain = client.post("/v2/models/table/infer", json={"inputs": inputs}).json()["outputs"]
    nested = [part | {"shape": [2, 1], "data": [[value] for value in part["data"]]} for part in inputs]
    assert client.post("/v2/models/table/infer", json={"inputs": nested}).json()["outputs"] == plain
    missing = [inputs[0] | {"data": [None, 30.0]}, *inputs[1:]]
    assert client.post("/v2/models/table/infer", json={"inputs": missing}).status_code == 200


@pytest.mark.parametrize(
    ("inputs", "says"),
    [
        ([tensor("texts", "BYTES", np.array(["a"], dtype=object))], "metadata"),
        ([tensor("text", "BYTES", np.array(["a"], dtype=object))] * 2, "twice"),
        ([{"name": "text", "datatype": "BYTES", "shape": [2], "data": ["a"]}], "elements"),
        ([{"name": "text", "datatype": "BYTES", "shape": [1, 2], "data": ["a", "b"]}], "shape"),
        ([{"name": "text", "datatype": "BYTES", "shape": [0], "data": []}], "at least one row"),
        ([{"name": "text", "datatype": "FP32", "shape": [1], "data": ["a"]}], "numbers"),
        ([{"name": "text", "datatype": "FP32", "shape": [1], "data": [1.5]}], "strings"),
        ([{"name": "text", "datatype": "BYTES", "shape": [1], "data": [{}]}], "elements"),
        ([{"name": "text", "datatype": "BYTES", "shape": [1], "data": [[["a"]]]}], "nested"),
    ],
)
def test_wrong_tensors_are_one_clear_line(serve: Any, inputs: Any, says: str) -> None:
    answer = serve("text").post("/v2/models/text/infer", json={"inputs": inputs})
    assert answer.status_code == 400
    assert says in valid(answer.json(), PROBLEM)["error"]


def test_images_of_a_wrong_size_are_refused(serve: Any) -> None:
    answer = serve("images").post(
        "/v2/models/images/infer", json={"inputs": [tensor("image", "FP32", np.ones((1, 1, 9, 8)))]}
    )
    assert answer.status_code == 400
    assert "[-1, 1, 8, 8]" in answer.json()["error"]


def test_plain_numbers_read_at_once_are_those_read_one_by_one(wine_classifier: Any) -> None:
    from protoattend.app.server.limits import Limits
    from protoattend.app.server.tensors import Tensor, source_of

    row = [float(i) for i in range(13)]
    at_once = source_of(wine_classifier.inputs_, [Tensor("X", (1, 13), "FP64", row)], Limits())
    one_by_one = source_of(wine_classifier.inputs_, [Tensor("X", (1, 13), "FP64", [True, *row[1:]])], Limits())
    np.testing.assert_array_equal(at_once[:, 1:], one_by_one[:, 1:])
    for wrong in (10**400, 1e301):
        with pytest.raises(UserError, match="cannot read"):
            source_of(wine_classifier.inputs_, [Tensor("X", (1, 13), "FP64", [wrong, *row[1:]])], Limits())
