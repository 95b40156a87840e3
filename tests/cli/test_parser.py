"""What command lines mean, and what is wrong with them."""

import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cli.commands import SOURCE
from thinstream.cli.parser import command_names, command_parser
from thinstream.errors import InvalidParameterError
from thinstream.jit import INTERPRETED


def parse(line):
    name, *words = line.split(" ")
    return command_parser(name, words)[0].parse(words)


@pytest.mark.parametrize(
    ("line", "values"),
    [
        ("train data.svm", {"data": ["data.svm"]}),
        ("train a.svm -q b.svm", {"data": ["a.svm", "b.svm"], "quiet": True}),
        ("train a.svm -afsol --l1=0.1", {"data": ["a.svm"], "algorithm": "fsol", "own_l1": "0.1"}),
        ("train a.svm -qm m.ts", {"data": ["a.svm"], "quiet": True, "model": Path("m.ts")}),
        ("train - --classes -1,1", {"data": ["-"], "classes": "-1,1"}),
        ("train - -a pa --C -2", {"data": ["-"], "algorithm": "pa", "own_C": "-2"}),
        ("train - --no-intercept --header", {"data": ["-"], "intercept": False, "header": True}),
        ("train - --passes 1 --passes 2", {"data": ["-"], "passes": 2}),
        ("train -q -- -a.svm", {"data": ["-a.svm"], "quiet": True}),
        ("train - --cross a,b --cross c,d", {"data": ["-"], "cross": ["a,b", "c,d"]}),
        ("train - --score-above -0.5", {"data": ["-"], "threshold": -0.5}),
        ("evaluate d.svm --model m.ts --json --alpha-p 0.7",
         {"data": ["d.svm"], "model": Path("m.ts"), "json": True, "alpha_p": 0.7}),
        ("export m.ts m.json", {"model": Path("m.ts"), "out": Path("m.json")}),
        ("models compare spam 1 2", {"action": "compare", "words": ["spam", "1", "2"]}),
        ("serve", {}),
    ],
)  # fmt: skip
def test_values(line, values):
    assert parse(line) == values


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("train", "DATA is missing: files, globs, or - for standard input (see thinstream train --help)"),
        ("export m.ts", "OUT is missing: the file to write. Its extension"),
        ("export a b c", "too many arguments: 'c'"),
        ("train a --model", "--model needs a value"),
        ("train a -qm --json", "-qm needs a value"),
        ("train a --seed -1", "--seed must be a whole number ≥ 0, got '-1'"),
        ("train a --quiet=yes", "--quiet is a flag without a value, got 'yes'"),
        ("train a --live-port 70000", "--live-port must be a whole number from 0 to 65535, got '70000'"),
        ("train a --recall much", "--recall must be a number from 0 to 1, got 'much'"),
        ("train a --recall nan", "--recall must be a number from 0 to 1, got 'nan'"),
        ("train a --pass 2", "unknown option --pass; did you mean --passes?"),
        ("train a -x", "unknown option -x (see"),
        (
            "train a -a fsol --phi 1",
            "FSOL has no option --phi. Its options are --eta, --l1, --l1-schedule, --half-life. CW, SCW have",
        ),
        ("predict a --modle m.ts", "unknown option --modle; did you mean --model?"),
    ],
)
def test_mistakes(line, message):
    with pytest.raises(InvalidParameterError) as raised:
        parse(line)
    assert str(raised.value).startswith(message)


def test_an_option_of_the_algorithm_takes_a_name():
    """StableSparsePerceptron and others have options that train has, too."""
    parser, _ = command_parser("path", ["d.svm", "-a", "auto"])
    (action,) = [action for action in parser._actions if "--max-nnz" in action.option_strings]
    assert action.dest == "own_max_nnz"


@given(st.sampled_from(command_names()), st.data())
def test_any_words_are_values_or_a_mistake(name, data):
    """No line makes the parser itself fail."""
    parser, _ = command_parser(name)
    options = [option for option in parser._option_string_actions if option not in ("-h", "--help")]
    words = st.one_of(st.sampled_from(options), st.text(max_size=4), st.sampled_from(["-1", "--", "-", "a=b", "0.5"]))
    with suppress(InvalidParameterError):
        assert isinstance(parser.parse(data.draw(st.lists(words, max_size=6))), dict)


@pytest.mark.parametrize("name", command_names())
def test_every_option_is_explained(name):
    parser, command = command_parser(name)
    text = parser.format_help()
    assert f"Usage: thinstream {name}" in text
    for parameter in command.parameters:
        (action,) = [action for action in parser._actions if action.dest == parameter.name]
        assert action.help
        assert all(option in text for option in action.option_strings)


PROGRAM = "import os, sys; from thinstream.__main__ import main\nos._exit = lambda code: print(*sys.modules)\nmain()"


HEAVY = {"numba", "scipy", "sklearn", "rich", "rich_argparse", "shtab"}
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
    """Once compiled, training and predicting load neither numba nor scipy, nor rich."""
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
