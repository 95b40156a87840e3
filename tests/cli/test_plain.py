"""Command lines read without typer: the same values, or left to it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from hypothesis import example, given
from hypothesis import strategies as st
from typer.testing import CliRunner

from tests.cli.commands import SOURCE
from thinstream.cli.app import expand_command
from thinstream.cli.declared import Given
from thinstream.cli.plain import NotPlain, read_plainly
from thinstream.cli.typer_app import as_typer_command
from thinstream.jit import INTERPRETED

COMMANDS = ("train", "predict", "evaluate", "tune", "path")


def recorder(name):
    """A command that only tells what it is run with."""
    expanded, seen = expand_command(name, [name, "-a", "ssol"]), []
    expanded.command = lambda **values: seen.append(values)
    return expanded, seen


def by_typer(expanded, words):
    app = typer.Typer()
    app.command()(as_typer_command(expanded))
    return CliRunner().invoke(app, words, catch_exceptions=False).exit_code


def known_words(name):
    """Everything that may stand on the command line of a command, and values that fit some of it."""
    names = [n for p in expand_command(name, [name]).parameters for n in _names(p)]
    values = [
        "data.svm",
        "-",
        "0",
        "1",
        "2.5",
        "-1",
        "0.9",
        "nonsense",
        "",
        "a=b",
        "--",
        "no",
        "yes",
        "csv",
        "1,2",
        "--help",
    ]
    return names, values


def _names(parameter):
    declared = parameter.annotation.__metadata__[0]
    if declared.is_argument:
        return []
    own = f"--{parameter.name.replace('_', '-')}"
    return [part for each in declared.names or (own, f"--no-{own[2:]}") for part in each.split("/")]


@st.composite
def command_lines(draw):
    name = draw(st.sampled_from(COMMANDS))
    names, values = known_words(name)
    options = st.sampled_from(names)
    word = st.sampled_from(values)
    piece = st.one_of(
        word.map(lambda value: [value]),
        st.tuples(options, word).map(list),
        st.tuples(options, word).map(lambda pair: ["=".join(pair)]),
        options.map(lambda option: [option]),
    )
    pieces = draw(st.lists(piece, max_size=5))
    start = draw(st.sampled_from([["data.svm"], ["data.svm", "-m", "m.ts"], []]))
    return name, [*start, *(word for piece in pieces for word in piece)]


@given(command_lines())
@example(("train", ["data.svm", "-a", "ssol", "--eta", "0.5", "--passes", "2", "-q", "--no-intercept"]))
@example(("tune", ["data.svm", "--r", "nonsense"]))
@example(("train", ["a.svm", "b.svm", "--passes=3", "--workers", "2", "--checkpoint-seconds", "1.5"]))
def test_what_is_plain_means_the_same_to_typer(line):
    """Values, and which of them were given; what typer refuses is not plain."""
    name, words = line
    expanded, seen = recorder(name)
    try:
        values = read_plainly(expanded.parameters, words)
    except NotPlain:
        return
    failed = None
    try:
        expanded(values, Given(values))
    except typer.BadParameter:  # which typer turns into words and a status
        assert by_typer(expanded, words) == 2
        return
    except Exception as error:
        failed = type(error)
    if failed is not None:
        with pytest.raises(failed):
            by_typer(expanded, words)
        return
    assert by_typer(expanded, words) == 0
    assert seen[0] == seen[1]


PLAIN = [
    "train data.svm",
    "train data.svm -a fsol -m m.ts -q",
    "train a.svm b.svm --l1=0.1 --algorithm ssol --class-weight balanced --checkpoint-every 100 --no-intercept",
    "train - --classes spam,ham --format csv --label y",
    "predict data.svm -m m.ts -o - --scores",
    "evaluate data.svm --model m.ts --json --alpha-p 0.7",
]
NOT_PLAIN = [
    "train",
    "train data.svm --help",
    "train data.svm -afsol",
    "train data.svm -qm m.ts",
    "train data.svm --passes 0",
    "train data.svm --passes many",
    "train data.svm --passes 1 --passes 2",
    "train data.svm --model",
    "train data.svm --seed -1",
    "train data.svm --quiet=yes",
    "train data.svm --nonsense",
    "train -- data.svm",
    "predict data.svm",
    "evaluate data.svm -m m.ts --alpha-p 2",
]


@pytest.mark.parametrize("line", PLAIN)
def test_plain(line):
    name, *words = line.split()
    read_plainly(expand_command(name, [name, *words]).parameters, words)


@pytest.mark.parametrize("line", NOT_PLAIN)
def test_not_plain(line):
    name, *words = line.split()
    parameters = expand_command(name, [name]).parameters
    with pytest.raises(NotPlain):
        read_plainly(parameters, words)


def test_unreadable_files_are_left_to_typer(tmp_path, monkeypatch):
    """Typer has the words for them."""
    (tmp_path / "m.ts").touch()
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    with pytest.raises(NotPlain):
        read_plainly(expand_command("predict", []).parameters, ["data.svm", "-m", str(tmp_path / "m.ts")])


PROGRAM = "import os, sys; from thinstream.cli.main import main\nos._exit = lambda code: print(*sys.modules)\nmain()"


HEAVY = {"numba", "scipy", "sklearn", "typer", "rich"}
TRAIN = ["train", "d.svm", "-a", "perceptron", "-q", "-m"]
PREDICT = ["predict", "d.svm", "-m", "second.ts", "-o", "labels"]
compiled_only = pytest.mark.skipif(INTERPRETED, reason="nothing is compiled when jit is disabled")


def loaded(*words, **more):
    """The modules of a process that has run a command."""
    environment = {**os.environ, "PYTHONPATH": SOURCE, **more}
    command = [sys.executable, "-c", PROGRAM, *words]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return set(done.stdout.split("\n")[-2].split())


@compiled_only
def test_a_start_imports_only_what_it_needs(data):
    """Once compiled, training and predicting load neither numba nor scipy, nor typer."""
    for command in ([*TRAIN, "second.ts"], PREDICT):
        loaded(*command)
        assert loaded(*command) & HEAVY == set()


@pytest.mark.slow  # it compiles all it runs, in a folder of its own
@compiled_only
def test_the_first_start_imports_what_compiles(data, tmp_path):
    """Numba is loaded once; models of code that was compiled, and that was kept, have the same bytes."""
    kept = {"NUMBA_CACHE_DIR": str(tmp_path / "compiled")}
    assert loaded(*TRAIN, "first.ts", **kept) & HEAVY == {"numba", "scipy"}
    assert loaded(*TRAIN, "second.ts", **kept) & HEAVY == set()
    assert Path("first.ts").read_bytes() == Path("second.ts").read_bytes()
    loaded(*PREDICT, **kept)
    assert loaded(*PREDICT, **kept) & HEAVY == set()
