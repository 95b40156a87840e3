"""Compiled readers against naive ones, on some inputs; and the comparison itself."""

import pytest

from tests.fuzz import misreads


def test_nothing_is_misread():
    wrong = [(name, given, what) for name, given, what in misreads.read_inputs(2_000, seed=1) if what is not None]
    assert wrong == []


@pytest.mark.parametrize("name", [name for name in misreads.READERS if name not in ("libsvm", "jsonl, changed")])
def test_a_misread_cell_is_noticed(name, monkeypatch):
    """Here values are sums of something else."""
    correct = misreads.hashed if name != "vw" else misreads.test_vw.hashed

    def slightly_wrong(features, **how):
        return {index: value + (value == 1.0) for index, value in correct(features, **how).items()}

    monkeypatch.setattr(misreads if name != "vw" else misreads.test_vw, "hashed", slightly_wrong)
    readers = {name: misreads.READERS[name]}
    assert any(what is not None for _, _, what in misreads.read_inputs(50, seed=1, readers=readers))


def test_rows_and_errors_are_compared():
    def refuse():
        raise misreads.Refused

    assert misreads.difference([1], None, [lambda: 1]) is None
    assert misreads.difference([1], "failed", [lambda: 1, refuse]) is None
    assert misreads.difference([2], None, [lambda: 1]) == "[2], must be [1]"
    assert "an error is None" in misreads.difference([1], None, [lambda: 1, refuse])
    assert "an error is 'failed'" in misreads.difference([1], "failed", [lambda: 1])


def test_inputs_are_the_same_for_a_seed(capsys):
    inputs = [[given for _, given, _ in misreads.read_inputs(30, seed)] for seed in (1, 1, 2)]
    assert repr(inputs[0]) == repr(inputs[1]) != repr(inputs[2])
    assert misreads.main(["--inputs", "14"]) == 0
    assert "0 misread (2 csv, 2 jsonl" in capsys.readouterr().out
