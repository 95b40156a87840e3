"""Load tests: everything is sent once, when it is due, and told."""

import json

import pytest

from thinstream.cli.app import run
from thinstream.errors import InvalidParameterError
from thinstream.serve.load_test import Load, batched


@pytest.fixture
def rows(tmp_path):
    path = tmp_path / "rows.svm"
    path.write_text("".join(f"{k % 2} 1:{k}.5 3:1\n" for k in range(40)))
    return path


def told(capsys):
    return json.loads(capsys.readouterr().out)


def test_rows_are_learned_once(server, rows, capsys):
    """Of three classes, by number."""
    before = server.post("/learn?model=three", {"x": {"1": 1}, "y": 1})[1]["entry"]
    assert run(["load", server.url, str(rows), "--model", "three", "--batch", "7", "--json"]) == 0
    result = told(capsys)
    assert (result["rows_acknowledged"], result["requests"], result["statuses"]) == (40, 6, {"200": 6})
    assert server.post("/learn?model=three", {"x": {"1": 1}, "y": 1})[1]["entry"] == before + 7


def test_a_rate(server, rows, capsys):
    assert run(["load", server.url, str(rows), "--model", "two", "--predict", "--rate", "100", "--json"]) == 0
    result = told(capsys)
    assert result["statuses"] == {"200": 40}
    assert result["seconds"] >= 0.39
    assert result["milliseconds"]["p50"] <= result["milliseconds"]["p99"] <= result["milliseconds"]["most"]


def test_refusals_are_reported(server, rows, capsys):
    """Labels that the model does not have: the first reason is said, and the exit code tells."""
    assert run(["load", server.url, str(rows), "--model", "two"]) == 1
    out, err = capsys.readouterr()
    assert "0 rows acknowledged" in out
    assert "statuses: 422: 40" in out
    assert "40 of 40 requests failed. The first error: " in err
    assert "got ('ham', 'spam')" in err
    assert run(["load", server.url, str(rows), "--model", "two", "--json"]) == 1
    assert "got ('ham', 'spam')" in told(capsys)["first_error"]


def test_no_server_answers(rows, capsys, monkeypatch):
    monkeypatch.setattr("thinstream.serve.load_test.AGAIN", 1)
    assert run(["load", "http://127.0.0.1:9", str(rows)]) == 1
    assert "no request was answered: 127.0.0.1:9 cannot be reached: " in capsys.readouterr().err
    with pytest.raises(InvalidParameterError, match="URL must be http"):
        Load("localhost")
    assert [*batched([b"a", b"b", b"c"], 2)] == [[b"a", b"b"], [b"c"]]


def test_names_of_columns_are_no_row(tmp_path):
    from thinstream.cli.commands.server_tools import _lines

    for name, lines in (("a.csv", 2), ("a.tsv", 2), ("a.jsonl", 3)):
        (tmp_path / name).write_bytes(b"y,x\r\n1,2\r\n0,3\r\n")
        assert list(_lines(str(tmp_path / name))) == [b"y,x", b"1,2", b"0,3"][-lines:]
