"""Requests turned and cut, in this process; more of them, led by coverage: ``python -m tests.fuzz.serving``."""

import os

import pytest

from tests.fuzz import serving

pytest.importorskip("starlette", reason="serving needs it")


def test_requests_are_read_back():
    scope, body = serving.decoded(serving.encoded(3, 1, 2, b"body", length=7, named=True))
    assert (scope["method"], scope["path"], scope["query_string"]) == ("POST", "/v2/models/two/infer", b"model=two")
    assert body == b"body"
    headers = dict(scope["headers"])
    assert headers[b"content-type"] == b"text/plain"
    assert headers[b"inference-header-content-length"] == b"7"
    assert headers[b"idempotency-key"] == b"body"
    assert serving.decoded(b"")[1] == b""


def test_requests_that_make_sense_are_answered(tmp_path):
    """All that the fuzzer begins with, by 200 or in words; what is acknowledged is counted as learned."""
    with serving.Target(tmp_path) as target:
        for data in serving.seeds():
            target.check(data)
    assert target.statuses[200] > 40
    assert serving.learned(tmp_path) == target.entries > 10


@pytest.mark.slow
def test_turned_and_cut():
    statuses = serving.fuzz(5000, guided=False, seed=int.from_bytes(os.urandom(4), "little"))
    assert statuses[422] > 1000


def test_what_must_not_be_is_found(tmp_path, monkeypatch):
    """An answer of 5xx, and one that shows a path."""
    with serving.Target(tmp_path) as target:
        monkeypatch.setattr("thinstream.serve.requests.ParsedRequest.rows", lambda *given, **named: 1 / 0)
        with pytest.raises(serving.Finding, match=r"500 .*the request failed; nothing was learned"):
            target.check(next(iter(serving.seeds())))
        with pytest.raises(serving.Finding, match="secret"):
            target._check_words(f"secret {tmp_path}", b"")
