"""Compiling: reported on first use, or done before."""

import os

import pytest

from tests.cli.commands import process
from tests.cli.test_processes import on_terminal
from thinstream.cli.commands.compile import ROWS, commands_of, conversions
from thinstream.cli.render import COMPILING
from thinstream.data.formats import formats


@pytest.fixture
def fresh(monkeypatch, tmp_path_factory):
    """A machine that has compiled nothing yet."""
    folder = tmp_path_factory.mktemp("compiled")
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(folder))
    return folder


def train(*options):
    child = process("train", "d.svm", "-a", "perceptron", *options)
    _, errors = child.communicate(timeout=110)
    return child.returncode, errors.decode()


@pytest.mark.slow
def test_first_use_says_so_where_no_terminal_is(data, fresh):
    assert train() == (0, f"{COMPILING}\n")
    assert train() == (0, "")


@pytest.mark.slow
def test_quiet_first_use(data, fresh):
    assert train("-q") == (0, "")


@pytest.mark.slow
def test_ahead(data, fresh):
    child = process("compile", "perceptron", "-j", "1")
    out, errors = child.communicate(timeout=110)
    assert (child.returncode, out, errors) == (0, b"", b"compiled for this machine: Perceptron\n")
    kept = sorted(path.name for path in fresh.rglob("*.code"))
    assert kept
    assert train() == (0, "")
    assert sorted(path.name for path in fresh.rglob("*.code")) == kept
    assert os.listdir() == ["d.svm"]


@pytest.mark.slow
def test_everything_ahead(there):
    """Whatever is compiled already is quick."""
    code, text = on_terminal(100, "compile", "--all", "-j", "2", seconds=1500)
    assert code == 0
    assert "━" in text  # the bar
    assert "AdaRDA, " in text
    assert "rows.jsonl" in text


def test_where_nothing_can_be_kept(thin, monkeypatch):
    monkeypatch.setenv("NUMBA_CACHE_DIR", "/dev/null/nowhere")
    message = "compiled code cannot be cached: NUMBA_CACHE_DIR must be a writable folder"
    assert thin("compile", "perceptron", code=1).errors == f"thinstream: {message}\n"


def test_what_is_not_there(thin):
    assert "unknown algorithm 'nothing'" in thin("compile", "nothing", code=2).errors
    assert "dtype must be" in thin("compile", "fsol", "--dtype", "int8", code=2).errors


def test_what_is_compiled():
    assert [line[0] for line in commands_of("perceptron", "float32", True)] == ["train", "predict", "costs"]
    assert [line[0] for line in commands_of("fsol", "float32", True)] == ["train", "predict", "costs", "path", "tune"]
    for name in ("scd", "smidas"):
        assert [line[0] for line in commands_of(name, "float32", True)] == ["train", "predict"]
    endings = {ending for each in formats().values() for ending in each.endings}
    assert set(ROWS) <= endings
    assert [line[5:] for line in conversions(".svm")] == [[]]
    texts = [[], ["--cross", "a,b"], ["--text", "b"], ["--dates", "c"]]
    assert [line[5:] for line in conversions(".jsonl")] == [line[5:] for line in conversions(".csv")] == texts
