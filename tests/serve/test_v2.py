"""The Open Inference Protocol, in JSON and with the binary extension."""

import json
from urllib.parse import quote

import numpy as np
import pytest

from thinstream.batch import Batch
from thinstream.errors import InvalidInputError
from thinstream.serve.v2 import HEADER, inputs_of, packed, split

X = np.array([[0.5, 0, -1, 0, 2], [0, 0, 0, 1, 0]], np.float32)


@pytest.fixture(scope="module")
def scores(models):
    rows, columns = np.nonzero(X)
    batch = Batch.of(np.array([0, 3, 4]), columns.astype(np.int32), X[rows, columns], 5)
    return {name: model.learner.scores(batch) for name, (_, model) in models.items()}


def tensor(name, kind, array, data=None):
    array = np.asarray(array)
    return {"name": name, "datatype": kind, "shape": list(array.shape), "data": array.ravel().tolist()}


CSR = [
    tensor("indptr", "INT32", [0, 3, 4]),
    tensor("indices", "INT64", [0, 2, 4, 3]),
    tensor("values", "FP32", [0.5, -1, 2, 1]),
]
LINES = [tensor("lines", "BYTES", ["1:0.5 3:-1 5:2", "4:1"])]


def infer(server, name, inputs, **more):
    status, answer = server.post(f"/v2/models/{name}/infer", {"inputs": inputs, **more})
    assert status == 200, answer
    return {item["name"]: np.array(item["data"]).reshape(item["shape"]) for item in answer["outputs"]}, answer


@pytest.mark.parametrize("name", ["pair", "triple"])
def test_inputs_of_every_kind(server, scores, models, name):
    classes = models[name][1].classes
    for inputs in (CSR, [tensor("x", "FP32", X)], [tensor("x", "FP64", X)], LINES):
        result, answer = infer(server, name, inputs, id="q")
        np.testing.assert_array_equal(result["score"].astype(np.float32), scores[name])
        chosen = models[name][1].chosen(scores[name])
        assert result["label"].tolist() == [str(classes[k]) for k in chosen]
        assert (answer["id"], answer["model_name"]) == ("q", name)
    result, _ = infer(server, name, CSR, outputs=[{"name": "score"}])
    assert [*result] == ["score"]


def test_bytes_behind_the_json(server, scores):
    """In and out."""
    parts = [np.array([0, 3, 4], "<i4"), np.array([0, 2, 4, 3], "<i4"), np.array([0.5, -1, 2, 1], "<f4")]
    inputs = [
        {"name": n, "datatype": kind, "shape": [len(a)], "parameters": {"binary_data_size": a.nbytes}}
        for n, kind, a in zip(("indptr", "indices", "values"), ("INT32", "INT32", "FP32"), parts)
    ]
    head = json.dumps({"inputs": inputs, "parameters": {"binary_data_output": True}}).encode()
    body = head + b"".join(part.tobytes() for part in parts)
    kind = "application/octet-stream"
    status, raw, headers = server.ask("/v2/models/pair/infer", body, kind, **{HEADER: str(len(head))})
    assert status == 200
    size = int(headers[HEADER])
    answer, behind = json.loads(raw[:size]), raw[size:]
    sizes = {item["name"]: item["parameters"]["binary_data_size"] for item in answer["outputs"]}
    np.testing.assert_array_equal(np.frombuffer(behind[sizes["label"] :], "<f4"), scores["pair"])
    first = int.from_bytes(behind[:4], "little")
    assert behind[4 : 4 + first].decode() in ("ham", "spam")


def test_descriptions_of_server_and_models(server):
    # of a model that nobody teaches: another's version may change between two requests
    assert json.loads(server.get("/v2")[1])["name"] == "thinstream"
    assert server.get("/v2/health/live") == (200, b'{"live":true}')
    assert server.get("/v2/health/ready") == (200, b'{"ready":true}')
    status, raw = server.get("/v2/models/triple")
    told = json.loads(raw)
    assert (status, told["name"], told["parameters"]["classes"]) == (200, "triple", ["0", "1", "2"])
    assert {item["name"]: item["shape"] for item in told["outputs"]} == {"label": [-1], "score": [-1, 3]}
    version = told["versions"][0]
    assert server.get(f"/v2/models/triple/versions/{version}/ready")[0] == 200
    assert server.get("/v2/models/triple/versions/99999")[0] == 404
    assert server.get("/v2/models/four/ready")[0] == 404


def test_loading_and_unloading(server):
    """What was learned is still there."""
    row = {"x": {"1": 1.0}}
    server.post("/learn?model=three", row | {"y": 1})
    while (before := server.post("/predict?model=three", row)[1])["version"] == 0:
        pass
    assert server.post("/v2/repository/models/three/unload", {})[0] == 200
    states = {item["name"]: item["state"] for item in server.post("/v2/repository/index", {})[1]}
    assert states == dict.fromkeys(("fresh", "pair", "triple", "two"), "READY") | {"three": "UNAVAILABLE"}
    assert server.post("/predict?model=three", row)[0] == 404
    assert server.post("/learn?model=three", row | {"y": 1})[0] == 404
    assert server.post("/v2/repository/models/three/load", {})[0] == 200
    after = server.post("/predict?model=three", row)[1]
    assert after["version"] >= before["version"]
    assert server.post("/v2/repository/models/four/load", {})[0] == 404


BAD = [
    ({}, "inputs must be a list of tensors"),
    ({"inputs": [1]}, "inputs must be objects"),
    ({"inputs": [tensor("x", "FP31", X)]}, "a tensor needs a name and a datatype"),
    ({"inputs": [tensor("x", "FP32", X) | {"shape": [3, 5]}]}, "shape [3, 5] has 15 elements, got 10"),
    ({"inputs": [tensor("x", "FP32", X) | {"data": ["a"] * 10}]}, "elements of FP32 must be numbers"),
    ({"inputs": [tensor("x", "INT8", X[:, :1] * 0 + 300)]}, "does not fit into INT8"),
    ({"inputs": [tensor("x", "FP32", X[0])]}, "must be FP32 of rows × features"),
    ({"inputs": CSR[:2]}, "inputs must be either the three tensors 'indices', 'indptr', 'values', or a single tensor"),
    ({"inputs": [CSR[0], CSR[1], tensor("values", "INT32", [1, 1, 1, 1])]}, "values must be FP32"),
    ({"inputs": [tensor("x", "BYTES", ["1:a"])]}, "row 0"),
    ({"inputs": CSR, "outputs": [{"name": "loss"}]}, "with the name 'label' or 'score'"),
]


@pytest.mark.parametrize(("body", "message"), BAD)
def test_bad_tensors(server, body, message):
    status, answer = server.post("/v2/models/two/infer", body)
    assert status == 422
    assert message in answer["error"]


@pytest.mark.parametrize("number", ["1" * 5000, "²", "١", "-1", "0x0", "1e3"])
def test_numbers_that_are_not_plain_digits(server, number):
    """In a header, or as a version: refused, and nothing fails."""
    header = number.encode().decode("latin-1") if number != "²" else number
    status, raw, _ = server.ask("/v2/models/pair/infer", b"{}", Inference_Header_Content_Length=header)
    assert (status, b"must be the length of the JSON" in raw) == (422, True)
    for path in ("versions/%s", "versions/%s/compare/now", "versions/now/compare/%s"):
        status, raw = server.get(f"/v2/models/pair/{path % quote(number)}")
        assert (status, b"version" in raw) == (404, True)
    status, answer = server.post(f"/v2/models/pair/versions/{quote(number)}/rollback", {})
    assert (status, "a version must be an integer" in answer["error"]) == (404, True)


def test_unsigned_tensors(server, scores):
    """They may be any that fit."""
    inputs = [tensor("indptr", "UINT64", [0, 3, 4]), tensor("indices", "UINT64", [0, 2, 4, 3]), CSR[2]]
    result, _ = infer(server, "pair", inputs)
    np.testing.assert_array_equal(result["score"].astype(np.float32), scores["pair"])
    for name, large in (("indices", [0, 2, 4, 2**64 - 1]), ("indptr", [2**64 - 1, 3, 4])):
        bad = [item for item in inputs if item["name"] != name] + [tensor(name, "UINT64", np.array(large, np.uint64))]
        status, answer = server.post("/v2/models/pair/infer", {"inputs": bad})
        assert (status, answer["error"]) == (422, f"{name}: numbers must be below 2^63, got 18446744073709551615")


def test_tensors_come_back(server):
    """What is packed as bytes is read back, texts and numbers."""
    texts = np.empty(2, object)
    texts[:] = ["späm", ""]
    numbers = np.array([[1.5, -2.0]], np.float32)
    outputs = [("t", "BYTES", texts), ("n", "FP32", numbers), ("j", "FP32", numbers)]
    raw, size = packed({}, outputs, {"t", "n"})
    head, behind = split(raw, str(size))
    result = inputs_of({"inputs": head["outputs"]}, behind)
    assert result["t"].tolist() == ["späm", ""]
    np.testing.assert_array_equal(result["n"], numbers)
    np.testing.assert_array_equal(result["j"], numbers)
    with pytest.raises(InvalidInputError, match="bytes after the JSON belong to no tensor"):
        inputs_of({"inputs": head["outputs"]}, behind + b"x")
    with pytest.raises(InvalidInputError, match="binary_data_size must be 0 to"):
        inputs_of({"inputs": head["outputs"]}, behind[:-1])


@pytest.mark.slow
def test_a_client_of_others(server, scores):
    """Triton's takes the server for one of its kind."""
    triton = pytest.importorskip("tritonclient.http")
    client = triton.InferenceServerClient(server.url.partition("://")[2])
    assert client.is_server_live()
    assert client.is_server_ready()
    assert client.is_model_ready("pair")
    assert {item["name"] for item in client.get_model_repository_index()} == {"two", "three", "fresh", "pair", "triple"}
    parts = {"indptr": np.array([0, 3, 4], np.int32), "indices": np.array([0, 2, 4, 3], np.int32)}
    parts |= {"values": np.array([0.5, -1, 2, 1], np.float32)}
    for binary in (True, False):
        inputs = []
        for name, array in parts.items():
            inputs.append(triton.InferInput(name, list(array.shape), "FP32" if name == "values" else "INT32"))
            inputs[-1].set_data_from_numpy(array, binary_data=binary)
        wanted = [triton.InferRequestedOutput(name, binary_data=binary) for name in ("score", "label")]
        result = client.infer("pair", inputs, outputs=wanted, request_id="7")
        np.testing.assert_array_equal(result.as_numpy("score"), scores["pair"])
        assert result.as_numpy("label").shape == (2,)
        assert result.get_response()["id"] == "7"
    client.close()
