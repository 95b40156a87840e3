"""What people ask: predictions, examples and labels, in every form they may have."""

import json
import time

import msgspec
import numpy as np
import pytest

ROW = {"1": 0.5, "3": -1.0}
DENSE = [0.5, 0, -1.0, 0, 0]
CSR = {"indptr": [0, 2], "indices": [0, 2], "values": [0.5, -1.0]}
BYTES = {
    "indptr": np.array([0, 2], "<i4").tobytes(),
    "indices": np.array([0, 2], "<i4").tobytes(),
    "values": np.array([0.5, -1.0], "<f4").tobytes(),
}


@pytest.fixture(scope="module")
def score(models):
    """What the model says of the row."""
    from thinstream.batch import Batch

    batch = Batch.of(np.array([0, 2]), np.array([0, 2], np.int32), np.array([0.5, -1.0], np.float32), 5)
    return float(models["pair"][1].learner.scores(batch)[0])


def test_rows_in_every_form(server, score):
    """By number, dense, by three arrays, as a line; one or many: the same score."""
    for x in (ROW, DENSE):
        status, one = server.post("/predict?model=pair", {"x": x})
        assert (status, one["score"], one["label"]) == (200, score, "spam" if score > 0 else "ham")
        assert one["model"] == "pair"
    for x in ([ROW], [DENSE], CSR, ["1:0.5 3:-1"]):
        assert server.post("/predict", {"x": x, "model": "pair"})[1]["score"] == [score]
    status, raw, _ = server.ask("/predict?model=pair", b"1:0.5 3:-1\n3:1\n", "text/plain")
    assert status == 200
    assert json.loads(raw)["score"][0] == score


def test_explanations(server, score):
    status, answer = server.post("/predict?model=pair", {"x": ROW, "explain": True})
    result = answer["explanation"]
    assert (status, result["class"]) == (200, "spam")
    assert {*result["contributions"]} <= {"column 0", "column 2"}
    total = result["intercept"] + result["others"] + sum(result["contributions"].values())
    assert total == pytest.approx(score, rel=1e-5)
    assert len(server.post("/predict", {"x": [ROW, ROW], "model": "three", "explain": True})[1]["explanation"]) == 2
    assert "explanation" not in server.post("/predict?model=pair", {"x": ROW})[1]
    _, raw, _ = server.ask("/predict?model=pair&explain", b"1:0.5 3:-1\n", "text/plain")
    assert json.loads(raw)["explanation"] == result


def test_messagepack(server, score):
    for x in (ROW, [ROW], CSR, BYTES):
        raw = msgspec.msgpack.encode({"x": x, "model": "pair"})
        status, answer, headers = server.ask("/predict", raw, "application/msgpack")
        assert (status, headers["content-type"]) == (200, "application/msgpack")
        assert np.ravel(msgspec.msgpack.decode(answer)["score"]) == [score]


def test_three_classes(server, models):
    status, answer = server.post("/predict?model=three", {"x": [ROW, ROW]})
    assert status == 200
    assert np.shape(answer["score"]) == (2, 3)
    assert answer["label"] == [int(np.argmax(row)) for row in answer["score"]]
    assert server.post("/learn?model=three", {"x": ROW, "y": 2})[0] == 200


def test_named_features_and_late_labels(server):
    """Predicted with an id, labelled later; what is unknown or repeated is told."""
    row = {"size": 3, "from": "ann", "words": ["free", "offer"]}
    assert server.post("/predict?model=fresh", {"x": [row, row], "id": ["a", 7]})[0] == 200
    _, answer = server.post("/label?model=fresh", {"id": ["a", "b"], "y": ["spam", "ham"], "weight": [2, 1]})
    assert answer == {"model": "fresh", "learned": 1, "unknown": ["b"], "expired": [], "repeated": []}
    _, answer = server.post("/label?model=fresh", {"id": "a", "y": "spam"})
    assert (answer["learned"], answer["repeated"]) == (0, ["a"])
    _, answer = server.post("/label?model=fresh", {"id": 7, "y": "ham", "request": "seven"})
    assert answer["learned"] == 1
    _, again = server.post("/label?model=fresh", {"id": 7, "y": "ham", "request": "seven"})
    assert again == answer | {"again": True}


def test_learned_rows_change_predictions_soon(server):
    """Lines of JSON and VW are learned with their labels; a version with them comes by itself."""
    for _ in range(5):
        server.ask(
            "/learn?model=fresh",
            b'{"label": "spam", "colour": "red"}\n{"label": "ham", "colour": "blue"}',
            "text/plain",
        )
    until = time.monotonic() + 60  # with an empty compile cache, learning first compiles
    while time.monotonic() < until:
        answer = server.post("/predict?model=fresh", {"x": [{"colour": "red"}, {"colour": "blue"}]})[1]
        if answer["label"] == ["spam", "ham"]:
            break
        time.sleep(0.01)
    assert answer["label"] == ["spam", "ham"]
    assert answer["version"] > 0


def test_repeated_requests(server):
    """By the header or in the body: acknowledged, and learned once."""
    first = server.post("/learn?model=two", {"x": ROW, "y": "ham"}, Idempotency_Key="k1")[1]
    again = server.post("/learn?model=two", {"x": ROW, "y": "ham"}, Idempotency_Key="k1")[1]
    assert again == first | {"again": True}
    other = server.post("/learn?model=two", {"x": ROW, "y": "ham", "request": "k2"})[1]
    assert other["entry"] == first["entry"] + 1
    for path, body in (
        ("/learn?model=two", {"x": ROW, "y": "spam"}),
        ("/label?model=two", {"id": "a", "y": "ham"}),
        ("/learn?model=fresh", {"x": {"a": 1}, "y": "ham"}),
    ):
        status, answer = server.post(path, body, Idempotency_Key="k1")
        assert (status, answer.get("again")) == ((422, None) if "two" in path else (200, None))
        assert "fresh" in path or "was used before for another request" in answer["error"]


BAD = {
    "no body": (b"", 422, "the body must be a JSON object"),
    "no JSON": (b"{", 422, "the body is not valid JSON"),
    "an unknown field": ({"x": ROW, "z": 1}, 422, "unknown field `z`; its fields are x, y, "),
    "no rows": ({"x": []}, 422, "x must be a row or a list of rows"),
    "no x": ({"y": "ham"}, 422, "x is missing"),
    "no y": ({"x": ROW}, 422, "y must have one value for each of 1 rows, got None"),
    "another label": ({"x": ROW, "y": "eggs"}, 422, "labels must be 'ham' or 'spam', got 'eggs' at row 0"),
    "two labels": ({"x": [ROW], "y": ["ham", "ham"]}, 422, "y must have one value for each of 1 rows, got 2 values"),
    "a list for a label": ({"x": [ROW], "y": [["ham"]]}, 422, "labels must be 'ham' or 'spam', got ['ham'] at row 0"),
    "a negative weight": ({"x": ROW, "y": "ham", "weight": -1}, 422, "weight must be a finite number ≥ 0, got -1"),
    "a name": ({"x": {"size": 1}, "y": "ham"}, 422, "names must be integers from 1, got 'size'"),
    "number 0": ({"x": {"0": 1}, "y": "ham"}, 422, "integers from 1, got '0'"),
    "a huge number": ({"x": {"99999999999": 1}, "y": "ham"}, 422, "feature numbers may be at most 16,777,216"),
    "text for a value": ({"x": {"1": "a"}, "y": "ham"}, 422, "values must be numbers, got 'a'"),
    "a huge value": ({"x": {"1": 1e30}, "y": "ham"}, 422, "float32 allows 1e+15"),
    "too many rows": ({"x": [ROW] * 301, "y": ["ham"] * 301}, 422, "1 to 300 rows, got 301"),
    "too long": (b"{" + b" " * 200_000, 413, "a body may have at most 200,000 bytes"),
    "broken indptr": (
        {"x": CSR | {"indptr": [0, 3]}, "y": ["ham"]},
        422,
        "last element of indptr must be",
    ),
    "a negative index": ({"x": CSR | {"indices": [-1, 2]}, "y": ["ham"]}, 422, "indices must be from 0 to"),
    "a long request id": ({"x": ROW, "y": "ham", "request": "r" * 300}, 422, "1 to 256 characters, got 300"),
}


@pytest.mark.parametrize("what", BAD)
def test_bad_requests(server, what):
    """What is wrong, what is allowed, what was given; nothing is learned."""
    body, expected, message = BAD[what]
    before = server.post("/learn?model=two", {"x": ROW, "y": "ham"})[1]["entry"]
    status, answer = server.post("/learn?model=two", body)
    assert status == expected
    assert message in answer["error"]
    assert str(server.data) not in answer["error"]
    assert server.post("/learn?model=two", {"x": ROW, "y": "ham"})[1]["entry"] == before + 1


def test_unknown_models(server):
    assert server.post("/predict?model=twu", {"x": ROW}) == (
        404,
        {"error": "no model 'twu' is loaded; did you mean 'two'?"},
    )
    status, answer = server.post("/predict", {"x": ROW})
    assert (status, answer["error"]) == (
        404, "specify the model (?model=NAME); loaded models: 'fresh', 'pair', 'three', 'triple', 'two'"
    )  # fmt: skip
    assert server.post("/predict?model=../two", {"x": ROW})[0] == 404
    assert server.post("/nothing", {})[0] == 404


def test_metrics_are_prometheus(server):
    """Its own parser takes them, and they have what was asked."""
    from prometheus_client.parser import text_string_to_metric_families

    server.post("/predict?model=two", {"x": ROW})
    status, raw = server.get("/metrics")
    families = {family.name: family for family in text_string_to_metric_families(raw.decode())}
    assert status == 200
    names = "requests request_seconds rows_learned journal_lag progressive_error weights labels drift_alarms"
    assert {f"thinstream_{name}" for name in names.split()} <= {*families}
    asked = [s for s in families["thinstream_requests"].samples if s.labels == {"path": "/predict", "status": "200"}]
    assert asked[0].value >= 1
    assert {s.labels["model"] for s in families["thinstream_weights"].samples} == {
        "two",
        "three",
        "fresh",
        "pair",
        "triple",
    }


def test_it_describes_itself(server):
    """All that is answered is described, and every example is."""
    status, raw = server.get("/openapi.json")
    paths = json.loads(raw)["paths"]
    assert status == 200
    assert {"/", "/predict", "/learn", "/label", "/metrics", "/v2", "/v2/models/{name}/versions"} <= {*paths}
    assert all(call["summary"] for calls in paths.values() for call in calls.values())
    status, page = server.get("/docs")
    assert status == 200
    for path, calls in paths.items():
        assert path in page.decode()
        for method in calls if path != "/events" else ():  # which go on and on: see test_dashboard
            if "challenger" in path or (method == "post" and "/versions" in path):  # they change it: see test_managing
                continue
            place = path.format(name="two", version="0", other="now") + ("" if "v2" in path else "?model=two")
            asked = server.ask(place, b"{}" if method == "post" and "load" not in path else None)
            assert asked[0] != 404, path
