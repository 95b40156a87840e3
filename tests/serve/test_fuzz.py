"""Whatever is sent is answered, with 200 or 4xx; nothing that was refused is learned."""

import json

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

PATHS = ("/predict", "/learn", "/label", "/v2/models/two/infer", "/v2/repository/index")
KINDS = ("application/json", "application/msgpack", "text/plain", "application/octet-stream", "")
scalars = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.sampled_from(["ham", "1", "7"])
)
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.text(max_size=4) | st.sampled_from(["1", "2", "indptr", "indices", "values"]), inner, max_size=4
        )
    ),
    max_leaves=12,
)
FIELDS = ("x", "y", "weight", "id", "request", "inputs", "outputs", "parameters", "name", "datatype", "shape", "data")
tensors = st.fixed_dictionaries(
    {},
    optional={
        "name": st.sampled_from(["x", "indptr", "indices", "values"]) | values,
        "datatype": st.sampled_from(["FP32", "INT32", "BYTES", "BOOL", "FP16", "UINT64"]) | values,
        "shape": st.lists(st.integers(-1, 4), max_size=3) | values,
        "data": st.lists(st.floats() | st.integers(-1, 9), max_size=6) | values,
        "parameters": st.fixed_dictionaries({}, optional={"binary_data_size": st.integers(-1, 9) | values}),
    },
)
bodies = st.dictionaries(st.sampled_from(FIELDS), values, max_size=4) | st.fixed_dictionaries(
    {"inputs": st.lists(tensors, max_size=3)}, optional={"outputs": values, "parameters": values, "id": values}
)


def as_json(body):
    return json.dumps(body).encode("utf-8", "surrogatepass")


def as_msgpack(body):
    try:
        return msgspec.msgpack.encode(body)
    except (OverflowError, UnicodeEncodeError):
        return b"\xc1"


@st.composite
def asked(draw):
    """A path, the bytes of a body, and what they are said to be."""
    kind = draw(st.sampled_from(KINDS))
    body = draw(bodies.map(as_json) | bodies.map(as_msgpack) | st.binary(max_size=60) | st.text(max_size=40).map(_utf8))
    if draw(st.booleans()) and body:  # a byte of it turned, or its end cut off
        place = draw(st.integers(0, len(body) - 1))
        body = body[:place] + draw(st.binary(max_size=2)) + body[place + 1 :]
    header = draw(st.none() | st.integers(-1, 80).map(str))
    return draw(st.sampled_from(PATHS)), body, kind, header


def _utf8(text):
    return text.encode("utf-8", "surrogatepass")


def check(server, path, body, kind, header):
    headers = {} if header is None else {"Inference-Header-Content-Length": header}
    target = path + ("" if path.startswith("/v2") else "?model=two")
    status, raw, _ = server.ask(target, body, kind, **headers)
    assert status == 200 or 400 <= status < 500, (status, raw)
    if status != 200:
        message = json.loads(raw)["error"]
        assert message
        assert "Traceback" not in message
        assert "/" + server.data.parts[1] + "/" not in message
    return status, raw


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(asked())
def test_random_requests(server, request_sent):
    check(server, *request_sent)


@pytest.mark.slow
@settings(max_examples=2000, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(asked())
def test_many_random_requests(server, request_sent):
    check(server, *request_sent)


@settings(max_examples=30)
@given(asked())
def test_refused_requests_are_not_learned(server, request_sent):
    """The number of the next entry tells."""
    row = {"x": {"1": 1.0}, "y": "ham"}
    before = server.post("/learn?model=two", row)[1]["entry"]
    status, raw = check(server, *request_sent)
    learned = 0
    if status == 200 and request_sent[0] == "/learn":
        learned = 0 if json.loads(raw).get("again") else 1
    if status == 200 and request_sent[0] == "/label":
        learned = min(json.loads(raw)["learned"], 1)
    assert server.post("/learn?model=two", row)[1]["entry"] == before + 1 + learned
