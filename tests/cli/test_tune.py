"""``thinstream tune``: grids as text, the table, the command it ends with, and models."""

import csv
import io
import json
import shlex
import sys
from pathlib import Path

import numpy as np
import pytest

from thinstream.cli.studies import parse_grids
from thinstream.errors import InvalidParameterError
from thinstream.lanes.lanes import Lanes
from thinstream.models.file import read
from thinstream.tuning.search import LogUniform, paper_grid


@pytest.fixture
def rows(there):
    """Rows in which few features tell, not too easily."""
    rng = np.random.default_rng(1)
    lines = []
    for _ in range(400):
        x = rng.normal(size=8)
        y = 1 if x[0] - x[1] + 0.8 * rng.normal() > 0.5 else -1
        lines.append(f"{y} " + " ".join(f"{j + 1}:{v:.3f}" for j, v in enumerate(x)) + "\n")
    Path("r.svm").write_text("".join(lines))
    return "r.svm"


@pytest.fixture
def piped(monkeypatch):
    """Standard input with the content of a file."""

    def give(path):
        class Input:
            buffer = io.BytesIO(Path(path).read_bytes())

            def fileno(self):
                raise io.UnsupportedOperation

        monkeypatch.setattr(sys, "stdin", Input())

    return give


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("eta=0.5,1,2", [0.5, 1, 2]),
        ("eta=2^-2..2^2", [0.25, 0.5, 1, 2, 4]),
        ("eta=0,2^3", [0, 8]),
        ("eta=1e-3..1*10", [0.001, 0.01, 0.1, 1]),
        ("eta=1..10*3", [1, 3, 9]),
        ("eta=log:0.01..1:3", [0.01, 0.1, 1]),
        ("eta=log:1e-6..1", LogUniform(1e-6, 1.0)),
        ("l1-schedule=const, sqrt", ["const", "sqrt"]),
        ("ceiling=none,2", [None, 2]),
        ("intercept=yes,no", [True, False]),
        ("class-weight=none,balanced,1:20", [None, "balanced", (1, 20)]),
    ],
)
def test_values_of_a_grid(text, values):
    ((name, found),) = parse_grids([text], ["fsol"])["fsol"].items()
    assert found == values
    assert name == {"intercept": "fit_intercept"}.get(text.split("=")[0], text.split("=")[0].replace("-", "_"))


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (["eta"], r"--grid must be NAME=VALUES such as eta=0.5,1,2"),
        (["=1"], r"--grid must be NAME=VALUES"),
        (["eta=1,,2"], r"--grid eta=1,,2: a value between commas is missing"),
        (["eta=2..1"], r"a range must be LOW..HIGH, two numbers > 0, got '2..1'"),
        (["eta=0..1"], r"a range must be LOW..HIGH"),
        (["eta=1..8*1"], r"the factor of a range must be a number > 1, got '1'"),
        (["eta=log:1..2:x"], r"needs a whole number N ≥ 2, got 'x'"),
        (["intercept=maybe"], r"intercept must be yes or no, got 'maybe'"),
        (["class-weight=1,20"], r"class-weight must be none, balanced or NEG:POS such as 1:20 .*, got '1'"),
        (["eta=1", "eta=2"], r"--grid has eta twice"),
    ],
)
def test_bad_grids_say_what_is_wrong(texts, message):
    with pytest.raises(InvalidParameterError, match=message):
        parse_grids(texts, ["fsol"])


def test_the_papers_grids():
    assert paper_grid("fsol") == {"eta": [2.0**e for e in range(-1, 10)]}
    assert {name: len(values) for name, values in paper_grid("ssol").items()} == {"eta": 11, "r": 11}
    assert list(paper_grid("sop")) == ["a"]
    with pytest.raises(InvalidParameterError, match="Perceptron has nothing to tune"):
        paper_grid("perceptron")


def test_the_table_and_the_command(rows, thin):
    said = thin(
        "tune", rows, "-a", "fsol", "--grid", "eta=0.01..1*10", "--grid", "l1=0,5", "--top", "2", "--folds", "3"
    )
    head, *lines = said.split("\n\n")[0].splitlines()
    assert head.split() == ["rank", "eta", "l1", "error", "%", "±", "se", "progressive"]
    assert [line.split()[0] for line in lines] == ["1", "2"]
    counts, command = said.split("\n\n")[1].splitlines()
    assert counts == "6 candidates, 3 folds, 400 rows"
    eta, l1 = lines[0].split()[1:3]
    assert command == f"thinstream train r.svm -a fsol --eta {eta} --l1 {l1}"
    thin(*shlex.split(command)[1:])  # runs as it stands


def test_json_has_every_candidate_and_natural_numbers(rows, thin):
    *lines, last = map(json.loads, thin("tune", rows, "-a", "fsol", "-g", "eta=0.1,1", "--json").splitlines())
    assert [line["rank"] for line in lines] == [1, 2]
    assert lines[0]["error"] == pytest.approx(np.mean(lines[0]["folds"]))
    assert 0 < lines[0]["error"] <= lines[1]["error"] < 0.5
    assert lines[0]["standard_error"] == pytest.approx(np.std(lines[0]["folds"], ddof=1) / 5**0.5)
    assert (last["best"], last["model"], last["rows"], last["passes"]) == (lines[0]["parameters"], None, 400, 1)


def test_csv_has_all(rows, thin):
    thin("tune", rows, "-a", "fsol", "-g", "eta=0.1,1,10", "--csv", "t.csv", "-q", "--folds", "2", "--scoring", "cost")
    with open("t.csv", newline="") as file:
        found = list(csv.DictReader(file))
    assert list(found[0]) == ["rank", "eta", "cost", "standard_error", "progressive", "dropped_at", "fold0", "fold1"]
    assert sorted(row["eta"] for row in found) == ["0.1", "1", "10"]
    assert float(found[0]["cost"]) <= float(found[2]["cost"])


def test_the_model_is_the_one_the_command_trains(rows, thin):
    more = ("--no-intercept", "--class-weight", "1,2", "--normalize", "l2")
    said = thin("tune", rows, "-a", "fsol", "-g", "eta=0.1,1", "--l1", "0.5", "-m", "m.ts", *more)
    *_, place, command = said.splitlines()
    assert place.split()[:2] == ["model", "m.ts"]
    whole = Path("m.ts").read_bytes()
    for option in ("--no-intercept", "--class-weight 1,2", "--normalize l2", "--l1 0.5", "-m m.ts"):
        assert option in command
    thin(*shlex.split(command)[1:])
    assert Path("m.ts").read_bytes() == whole


@pytest.mark.parametrize("how", [["--progressive"], ["--folds", "3"]])
def test_from_a_pipe_the_model_comes_along(rows, thin, piped, how):
    grid = ["-a", "fsol", "-g", "eta=0.01,1", "-g", "class-weight=none,1:2", *how]
    thin("tune", rows, *grid, "-m", "file.ts", "-q")
    piped(rows)
    said = thin("tune", "-", *grid, "-m", "pipe.ts")
    one, other = read("file.ts").learner, read("pipe.ts").learner
    assert one.t == other.t == 400
    assert np.array_equal(one.weights(), other.weights())
    assert "thinstream train - -a fsol" in said


def test_candidates_of_many_kinds(rows, thin):
    grid = ["-g", "l1-schedule=const,sqrt", "-g", "intercept=yes,no", "-g", "class-weight=balanced,1:3", "--l1", "0.1"]
    *_, last = thin("tune", rows, "-a", "fsol", *grid, "--json", "--scoring", "balanced_accuracy").splitlines()
    best = json.loads(last)
    assert set(best["best"]) == {"l1_schedule", "fit_intercept", "class_weight"}
    assert f"--l1-schedule {best['best']['l1_schedule']}" in best["command"]
    assert ("--no-intercept" not in best["command"]) == best["best"]["fit_intercept"]
    assert "--class-weight" in best["command"]


def test_random_candidates_repeat_by_seed(rows, thin):
    line = ("tune", rows, "-a", "fsol", "--random", "4", "-g", "eta=log:1e-3..1", "--json", "--progressive")
    one, same, other = (thin(*line, "--seed", seed) for seed in (1, 1, 2))
    assert one == same != other
    assert len(one.splitlines()) == 5


def test_several_passes_are_told(rows, thin):
    limit = Lanes.estimate_nbytes("fsol", [{}] * 150, 8) // 3
    said = thin("tune", rows, "-a", "fsol", "-g", "eta=log:0.01..1:30", "--memory", limit, "--eliminate")
    assert " passes" in said.errors
    assert "rows in " in said
    whole = thin("tune", rows, "-a", "fsol", "-g", "eta=log:0.01..1:30")
    assert said.splitlines()[1:5] == whole.splitlines()[1:5]


def test_the_best_at_an_end_of_the_grid_is_remarked(rows, thin):
    said = thin("tune", rows, "-a", "fsol", "-g", "l1=100,1000,1e4", "-g", "eta=1,1e-9")
    assert "the best l1, 100, is the smallest in the grid. Also try smaller values" in said.errors


def test_the_papers_protocol_is_one_command(rows, thin):
    said = thin("tune", rows, "-a", "fsol", "--paper", "-m", "p.ts", "--top", "1", "--plot", "p.svg")
    tuned, counts, sweep, rest = said.split("\n\n")
    assert tuned.splitlines()[0].split()[:2] == ["rank", "eta"]
    assert counts.startswith("11 candidates, 5 folds, 400 rows")
    chosen = [line for line in sweep.splitlines() if line.endswith("*")]
    assert len(chosen) == 1
    *_, command = rest.splitlines()
    assert "<svg" in Path("p.svg").read_text()
    found = read("p.ts").learner
    assert f"--eta {found.parameters['eta']:g} --l1 {found.parameters['l1']!r} -m p.ts" in command
    assert f"{found.nnz}" == chosen[0].split()[1]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["-g", "etta=1"], "can be searched, got 'etta'"),
        (["-g", "eta=-1"], "FSOL: eta must be a number > 0, got -1"),
        (["-g", "eta=1", "--eta", "2"], "eta has a value for all candidates and a --grid"),
        (["--scoring", "area"], "scoring must be 'error'"),
        (["--memory", "lots"], "--memory must be a number of bytes"),
        (["--final", "--progressive"], "--final needs folds"),
        (["--paper", "--l1", "1"], "cannot be used with --l1"),
        (["--paper", "-g", "eta=1"], "cannot be used with --grid"),
        (["-m", "-"], "a model cannot be written to standard output"),
        (["-g", "eta=log:1..2"], "eta must be a list of values, got the distribution"),
        (["--classes", "a,b,c", "--scoring", "cost"], "of 3 classes, got 'cost'"),
        (["--classes", "a,b,c", "-g", "class-weight=1:2"], "needs a cost for each of the 3 classes, got 1:2"),
    ],
)
def test_wrong_command_lines(rows, thin, options, message):
    assert message in thin("tune", rows, "-a", "fsol", *options, code=2).errors


def test_algorithms_without_parameters_or_l1(rows, thin):
    assert "Perceptron has nothing to tune" in thin("tune", rows, "-a", "perceptron", code=2).errors
    assert (
        "--paper needs algorithms with the parameter l1, got AROW"
        in thin("tune", rows, "-a", "arow", "--paper", code=2).errors
    )
    assert "lanes of FSOL on" in thin("tune", rows, "-a", "fsol", "--memory", "1B", code=1).errors


def test_rows_sorted_by_class_are_remarked(rows, thin):
    Path("s.svm").write_text("".join(sorted(Path(rows).read_text().splitlines(keepends=True) * 3)))
    said = thin("tune", "s.svm", "-a", "fsol", "-g", "eta=0.1,1")
    assert "rows seem to be sorted by class" in said.errors
    assert "rows seem to be sorted by class" not in thin("tune", rows, "-a", "fsol", "-g", "eta=0.1,1").errors


def test_no_model_is_left_behind_by_a_failure(rows, thin):
    Path("bad.svm").write_text(Path(rows).read_text() + "1 1:x\n")
    thin("tune", "bad.svm", "-a", "fsol", "-g", "eta=1,2", "-m", "m.ts", "--csv", "t.csv", code=1)
    assert not Path("m.ts").exists()
    assert not Path("t.csv").exists()
    said = thin(
        "tune", "bad.svm", "-a", "fsol", "-g", "eta=1,2", "-m", "m.ts", "--on-error", "skip", "--max-errors", "1"
    )
    assert "2 candidates, 5 folds, 400 rows" in said
    assert "skipped 1 invalid record" in said.errors
    assert read("m.ts").learner.t == 400


def test_the_grid_is_drawn(rows, thin):
    pytest.importorskip("matplotlib")
    words = ("tune", rows, "-a", "fsol", "-g", "eta=0.01,0.1,1,10", "-g", "l1=0,0.1", "-g", "intercept=yes,no")
    thin(*words, "--plot", "g.svg", "-q")
    first = Path("g.svg").read_text()
    assert all(f">{name}<" in first for name in ("eta", "l1", "fit-intercept", "error, %", "FSOL", "best"))
    thin(*words, "--plot", "g.svg", "-q")
    assert Path("g.svg").read_text() == first
    thin(*words, "--plot", "g.html", "-q")
    assert "<td>" in Path("g.html").read_text()
    thin("tune", rows, "-a", "fsol", "-g", "eta=1", "--plot", "one.png", "-q")
    assert Path("one.png").stat().st_size > 3000
