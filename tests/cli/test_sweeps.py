"""The commands path and costs."""

import csv
import gzip
import json
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from tests.cli.commands import finished, process
from tests.tuning.sweeps import drawn
from thinstream.models.file import read
from thinstream.tuning.figures import short


@pytest.fixture
def rows(there):
    """A file whose first features tell the class."""
    X, y = drawn(1500)
    lines = []
    for i in range(X.shape[0]):
        part = slice(X.indptr[i], X.indptr[i + 1])
        pairs = zip(X.indices[part], X.data[part], strict=True)
        lines.append(f"{y[i]} " + " ".join(f"{j + 1}:{x:.5f}" for j, x in pairs) + "\n")
    Path("rows.svm").write_text("".join(lines))
    return "rows.svm"


PATH = ("-a", "fsol", "--l1", "0.02..200", "-n", "6")


def lines_of(said):
    return [json.loads(line) for line in said.splitlines()]


def test_a_table_with_the_model_that_is_picked(rows, thin):
    said = thin("path", rows, *PATH, "-m", "m.ts", "--csv", "t.csv", "--plot", "p.html")
    lines = said.splitlines()
    assert lines[0].split()[:2] == ["l1", "non-zeros"]
    (picked,) = [line for line in lines[1:7] if line.endswith("*")]
    with open("t.csv", newline="") as file:
        table = list(csv.DictReader(file))
    assert len(table) == 6
    model = read("m.ts").learner
    (row,) = [row for row in table if float(row["l1"]) == model.parameters["l1"]]
    assert picked.split()[:2] == [short(float(row["l1"])), row["nnz"]]
    assert model.nnz == int(row["nnz"])
    assert f"* l1 = {picked.split()[0]}" in said
    assert "held-out rows" in said
    assert Path("p.html").read_text().startswith("<!doctype html>")
    thin("train", rows, "-a", "fsol", "--l1", row["l1"], "-m", "single.ts", "-q")
    assert np.array_equal(read("single.ts").learner.weights(), model.weights())


def test_in_json_an_object_per_model_and_one_for_the_pick(rows, thin):
    *models, last = lines_of(thin("path", rows, *PATH, "--json", "--pick", "best", "--scoring", "balanced_accuracy"))
    assert len(models) == 6
    values = [model["held_out_balanced_accuracy"] for model in models]
    assert values[last["picked"]] == max(values)
    assert last["rows"] == 1500
    assert last["held_out"] is True
    none = lines_of(thin("path", rows, *PATH, "--json", "--holdout", 0))
    assert none[0]["held_out_error"] is None
    assert none[0]["error"] == models[0]["error"]


def test_a_target_and_one_that_cannot_be_met(rows, thin):
    *models, last = lines_of(thin("path", rows, *PATH, "--json", "--max-nnz", 9))
    assert models[last["picked"]]["nnz"] <= 9
    said = thin("path", rows, "-a", "fsol", "--l1", "1e-4..1e-3", "-n", 3, "--max-nnz", 9, "--plot", "p.svg", code=1)
    assert "The sparsest has 40. Increase l1_max" in said.errors
    assert len(said.splitlines()) == 4
    assert Path("p.svg").exists()


def test_a_test_file_in_place_of_held_out_rows(rows, thin):
    thin("split", rows, "--out", "train.svm", "--out", "test.svm", "--fractions", "0.8,0.2")
    *models, last = lines_of(thin("path", "train.svm", *PATH, "--json", "--test", "test.svm", "-m", "m.ts"))
    found = json.loads(thin("evaluate", "test.svm", "-m", "m.ts", "--json"))
    assert models[last["picked"]]["held_out_error"] == found["error"]


def test_cost_and_weights_of_the_command_line(rows, thin):
    one = lines_of(thin("path", rows, *PATH, "--json", "--scoring", "cost", "--cost-p", 0.5))
    assert one[0]["cost"] == pytest.approx(one[0]["error"] / 2)
    balanced = lines_of(thin("path", rows, *PATH, "--json", "--class-weight", "1,5", "--intercept"))
    assert balanced[0]["error"] != one[0]["error"]


def test_several_passes_are_announced(rows, thin):
    Path("rows.svm.gz").write_bytes(gzip.compress(Path(rows).read_bytes()))
    more = ("-a", "fsol", "--l1", "0.02..200", "-n", 24, "--json", "--no-intercept", "--scoring", "error")
    one, several = (thin("path", "rows.svm.gz", *more, *memory) for memory in ((), ("--memory", "4k", "-m", "m.ts")))
    assert "the limit is 0.004 MB" in several.errors
    assert "weights only" in several.errors
    assert one.splitlines()[:-1] == several.splitlines()[:-1]
    assert lines_of(several)[-1]["passes"] > 1
    thin("predict", rows, "-m", "m.ts", "--out", "p.txt")


@pytest.mark.skipif(shutil.which("cat") is None, reason="needs cat")
def test_a_pipe_is_swept_in_one_pass_or_not_at_all(rows, thin):
    def piped(*more):
        with subprocess.Popen(["cat", rows], stdout=subprocess.PIPE) as cat:
            return finished(process("path", "-", *PATH[:4], "-n", 24, "--json", *more, stdin=cat.stdout))

    code, out, errors = piped()
    assert code == 0, errors
    assert out == thin("path", rows, *PATH[:4], "-n", 24, "--json")
    code, out, errors = piped("--memory", "4k", "--scoring", "error")
    assert (code, out) == (1, "")
    assert "read files" in errors


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--l1", "1"), "such as 1e-6..1"),
        (("--l1", "2..1"), "with LOW below HIGH"),
        (("--memory", "lots"), "such as 500M or 4G"),
        (("--plot", "p.pdf"), "extension must be"),
        (("--pick", "first"), "pick must be"),
        (("--scoring", "area"), "scoring must be"),
        (("--holdout", "1"), "holdout must be"),
        (("-m", "-"), "cannot be written to standard output"),
        (("-a", "perceptron"), "has no l1"),
        (("--classes", "a,b,c", "--scoring", "cost"), "of 3 classes, got 'cost'"),
    ],
)
def test_wrong_command_lines(rows, thin, arguments, words):
    assert words in thin("path", rows, "-a", "fsol", *arguments, code=2).errors


def test_outputs_never_replace_inputs(rows, thin):
    assert "is an input" in thin("path", rows, "-a", "fsol", "--csv", rows, code=2).errors
    assert "does not exist" in thin("path", rows, "-a", "fsol", "-m", "nowhere/m.ts", code=1).errors


def test_labels_of_one_kind_are_remarked(there, thin):
    Path("ones.svm").write_text("1 1:1\n" * 50)
    assert "all 50 labels are positive" in thin("path", "ones.svm", "-a", "fsol", "-n", 3).errors
    assert not thin("path", "ones.svm", "-a", "fsol", "-n", 3, "-q")


def test_rows_sorted_by_class_are_remarked(rows, thin):
    assert "sorted" not in thin("path", rows, *PATH).errors
    Path("sorted.svm").write_text("".join(sorted(Path(rows).read_text().splitlines(keepends=True))))
    assert "sorted by class" in thin("path", "sorted.svm", *PATH).errors
    assert "sorted by class" in thin("costs", "sorted.svm", "--weights", "0.5").errors


def test_cost_curves(rows, thin):
    said = thin("costs", rows, "--weights", "0.5,0.9", "--csv", "c.csv", "--plot", "c.html", "--r", 0.5)
    assert len(said.splitlines()) == 5
    assert said.splitlines()[1].split()[0] == "0.5"
    assert "sum constant" in said.splitlines()[0]
    assert "best constant prediction" in Path("c.html").read_text()
    with open("c.csv", newline="") as file:
        table = list(csv.DictReader(file))
    assert [float(row["weight"]) for row in table] == [0.5, 0.9]
    shown = lines_of(thin("costs", rows, "--weights", "0.5,0.9", "--json", "--r", 0.5))
    assert shown[1]["cost_tuned"] == float(table[1]["cost_tuned"])
    assert shown[1]["weighted_sum_constant"] == 0.9
    assert shown[0]["cost_tuned"] == shown[0]["cost_blind"]
    told = lines_of(thin("costs", rows, "--weights", "0.5", "--ratio", 3, "--json"))
    assert told[0]["weighted_sum_rho"] == 3.0
    assert "between 0 and 1" in thin("costs", rows, "--weights", "0.5,high", code=2).errors
    assert "between 0 and 1" in thin("costs", rows, "--weights", "0.5,1", code=2).errors


def test_curves_that_do_not_react_are_remarked(rows, thin):
    words = ("costs", rows, "--weights", "0.9,0.95,0.99")
    said = thin(*words, "-a", "arcsogd", "--gamma", "0.001").errors
    assert "ARCSOGD predicts the same at all weights from 0.9 on: costs only raise the margin" in said
    assert "Pass -a arow" in said
    assert "predicts the same" not in thin(*words).errors


def test_a_best_value_at_an_end_is_said(data, thin):
    said = thin("path", data, "-a", "fsol", "--l1", "100..1000", "-n", "2")
    assert "the best model has the highest l1 of the sweep" in said.errors or "the lowest l1" in said.errors
    assert "beyond it, --l1 " in said.errors
    assert "of the range" not in thin("path", data, "-a", "fsol", "--l1", "100..1000", "-n", "2", "-q").errors
