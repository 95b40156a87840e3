"""``thinstream tune`` across algorithms, for more than two classes and by ranks; ``path`` likewise."""

import csv
import json
import shlex
from pathlib import Path

import numpy as np
import pytest

from thinstream.cli.studies import parse_grids
from thinstream.errors import InvalidParameterError
from thinstream.models.file import read

THREE = ("--classes", "1,2,3")


@pytest.fixture
def rows(there):
    """Rows of two classes, not too easily told apart."""
    rng, lines = np.random.default_rng(1), []
    for _ in range(400):
        x = rng.normal(size=8)
        y = 1 if x[0] - x[1] + 0.8 * rng.normal() > 0.5 else -1
        lines.append(f"{y} " + " ".join(f"{j + 1}:{v:.3f}" for j, v in enumerate(x)) + "\n")
    Path("r.svm").write_text("".join(lines))
    return "r.svm"


@pytest.fixture
def table(there):
    """Rows of three classes."""
    rng, lines = np.random.default_rng(2), []
    for _ in range(600):
        x = rng.normal(size=3)
        lines.append(
            f"{1 + np.argmax(x + rng.normal(size=3))} " + " ".join(f"{j + 1}:{v:.3f}" for j, v in enumerate(x)) + "\n"
        )
    Path("three.svm").write_text("".join(lines))
    return "three.svm"


def test_one_report_and_one_winner_of_several_algorithms(rows, thin):
    said = thin("tune", rows, "-a", "fsol,arow", "-g", "eta=0.01,1", "-g", "r=0.1,1,10", "--top", "3", "-m", "m.ts")
    head, *lines = said.split("\n\n")[0].splitlines()
    assert head.split()[:4] == ["rank", "algorithm", "eta", "r"]
    assert len(lines) == 3
    counts, each, _, command = said.split("\n\n")[1].splitlines()
    assert counts == "5 candidates, 5 folds, 400 rows"
    assert each.startswith("best per algorithm: ")
    assert {"FSOL", "AROW"} <= set(each.replace(",", "").split())
    winner = lines[0].split()[1]
    assert f"train r.svm -a {winner.lower()} " in command
    assert each.startswith(f"best per algorithm: {winner} {lines[0].split()[3]}, ")
    whole = Path("m.ts").read_bytes()
    thin(*shlex.split(command)[1:])
    assert Path("m.ts").read_bytes() == whole
    assert read("m.ts").learner.algorithm.name == winner


def test_names_may_be_repeated_and_scores_are_those_of_each_alone(rows, thin):
    grids = ("-g", "arow.r=0.1,10", "-g", "fsol.eta=0.1,1", "-g", "intercept=yes", "--json", "--folds", "3")
    both = [json.loads(line) for line in thin("tune", rows, "-a", "arow", "-a", "fsol", *grids).splitlines()]
    alone = []
    for name, grid in (("arow", "r=0.1,10"), ("fsol", "eta=0.1,1")):
        found = thin("tune", rows, "-a", name, "-g", grid, "-g", "intercept=yes", "--json", "--folds", "3")
        alone += [json.loads(line) for line in found.splitlines()[:-1]]
    keys = ("algorithm", "parameters", "error", "folds", "progressive")
    by_name = sorted(json.dumps([each[key] for key in keys]) for each in alone)
    assert sorted(json.dumps([each[key] for key in keys]) for each in both[:-1]) == by_name
    assert both[-1]["algorithm"] == both[0]["algorithm"]


def test_options_hold_for_all_that_have_them(rows, thin):
    thin("tune", rows, "-a", "fsol,arow", "--eta", "0.5", "-g", "l1=0,1", "-g", "r=1,2", "--csv", "t.csv", "-q")
    with open("t.csv", newline="") as file:
        found = list(csv.DictReader(file))
    assert sorted((row["algorithm"], row["l1"], row["r"]) for row in found) == [
        ("AROW", "", "1"), ("AROW", "", "2"), ("FSOL", "0", ""), ("FSOL", "1", ""),
    ]  # fmt: skip
    said = thin("tune", rows, "-a", "fsol", "--eta", "0.5", "-g", "l1=0,1")
    assert "--eta 0.5" in said.splitlines()[-1]


def test_grids_go_to_the_algorithms_that_have_the_parameter():
    found = parse_grids(["eta=1,2", "ssol.r=3", "class-weight=balanced"], ["fsol", "SSOL", "arow"])
    assert found == {
        "fsol": {"eta": [1, 2], "class_weight": ["balanced"]},
        "SSOL": {"eta": [1, 2], "r": [3], "class_weight": ["balanced"]},
        "arow": {"class_weight": ["balanced"]},
    }
    with pytest.raises(
        InvalidParameterError, match=r"--grid pa.C=1: PA is not among the algorithms, which are FSOL, AROW"
    ):
        parse_grids(["pa.C=1"], ["fsol", "arow"])
    with pytest.raises(InvalidParameterError, match="--grid has r twice"):
        parse_grids(["r=1", "arow.r=2"], ["fsol", "arow"])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["-a", "fsol,arow", "-g", "etta=1"], "can be searched, got 'etta'"),
        (["-a", "fsol,nonsense"], "nonsense"),
        (["-a", "fsol,auto"], "Auto has nothing to tune"),
        (["-a", "fsol,arow", "--paper"], "--paper needs algorithms with the parameter l1, got AROW"),
        (["--paper", "--r", "2"], "adarda has no r"),
        (["--eliminate", "--scoring", "auc", "-a", "fsol"], "eliminate must be False with scoring 'auc'"),
    ],
)
def test_wrong_command_lines(rows, thin, options, message):
    assert message in thin("tune", rows, *options, code=2).errors


@pytest.mark.slow  # lanes of two more algorithms are compiled
def test_without_a_name_several_are_tried(rows, thin):
    said = thin("tune", rows, "--folds", "2", "-m", "m.ts")
    assert "32 candidates, 2 folds, 400 rows" in said
    each = next(line for line in said.splitlines() if line.startswith("best per algorithm: "))
    assert all(name in each for name in ("AROW", "SCW", "AdaRDA"))
    thin(*shlex.split(said.splitlines()[-1])[1:])
    assert thin("path", rows, "-n", "4").splitlines()[0].split()[0] == "l1"


@pytest.mark.parametrize("scoring", ["auc", "average_precision", "f1", "log_loss", "balanced_accuracy"])
def test_scorings(rows, thin, scoring):
    found = thin("tune", rows, "-a", "fsol", "-g", "eta=0.01,1", "--scoring", scoring, "--json", "--progressive")
    first, second, last = map(json.loads, found.splitlines())
    better = np.less if scoring == "log_loss" else np.greater
    assert better(first[scoring], second[scoring])
    assert first["standard_error"] > 0
    assert last["rows"] == 400
    said = thin("tune", rows, "-a", "fsol", "-g", "eta=0.01,1", "--scoring", scoring)
    head = said.splitlines()[0]
    assert scoring.replace("_", " ") in head
    assert ("progressive" in head) == (scoring not in ("auc", "average_precision"))  # bins are those of held-out rows


def test_three_classes(table, thin):
    line = ("tune", table, *THREE, "-a", "fsol,arow", "-g", "eta=0.01,1", "-g", "r=1", "-g", "class-weight=none,1:1:9")
    said = thin(*line, "-m", "m.ts", "--scoring", "f1")
    assert "6 candidates, 5 folds, 600 rows" in said
    whole = Path("m.ts").read_bytes()
    thin(*shlex.split(said.splitlines()[-1])[1:])
    assert Path("m.ts").read_bytes() == whole
    assert tuple(read("m.ts").classes) == (1, 2, 3)
    progressive = thin(*line, "--progressive", "-m", "p.ts", "--json").splitlines()
    best = json.loads(progressive[0])
    model = read("p.ts").learner
    assert len(list(model.models)) == 3
    assert model.n_mistakes / 600 == pytest.approx(best["progressive"])
    weight = best["parameters"]["class_weight"]
    assert ("--class-weight 1,1,9" in json.loads(progressive[-1])["command"]) == (weight is not None)


@pytest.mark.parametrize("scoring", ["error", "auc", "f1", "log_loss"])
def test_a_path_of_three_classes(table, thin, scoring):
    sweep = ("path", table, *THREE, "-a", "fsol", "-n", "4", "--l1", "0.1..100", "--scoring", scoring)
    said = thin(*sweep, "-m", "m.ts", "--csv", "p.csv", "--plot", "p.svg")
    assert "of 9 weights" in said
    l1 = said.split("--l1 ")[1].split()[0]
    thin("train", table, *THREE, "-a", "fsol", "--l1", l1, "-m", "t.ts", "-q")
    assert np.array_equal(read("m.ts").learner.weights(), read("t.ts").learner.weights())
    with open("p.csv", newline="") as file:
        assert float(next(csv.DictReader(file))["density"]) == pytest.approx(1.0)
    thin("predict", table, "-m", "m.ts", "--out", "labels.txt")


def test_a_path_by_ranks_needs_no_held_out_rows(rows, thin):
    said = thin("path", rows, "-a", "fsol", "-n", "4", "--l1", "0.1..100", "--scoring", "auc", "--holdout", "0")
    head, *lines = said.split("\n\n")[0].splitlines()
    assert "auc %" in head
    assert sum(line.endswith("*") for line in lines) == 1


def test_costs_are_of_two_classes(table, thin):
    assert "cost curves need two classes" in thin("costs", table, *THREE, code=2).errors
