"""``thinstream thin``: a small model file that predicts."""

import json
from pathlib import Path

import numpy as np
import pytest

from tests.cli.test_thresholds import rows_of
from thinstream.models.file import read


@pytest.fixture
def overlapping(there, thin):
    Path("train.svm").write_text(rows_of(1, 2000))
    Path("test.svm").write_text(rows_of(2, 1000))
    thin("train", "train.svm", "-a", "arow", "-m", "m.ts", "-q")


def test_so_many_weights(overlapping, thin):
    said = thin("thin", "m.ts", "--nnz", "2", "-m", "small.ts")
    small, before = read(Path("small.ts")), read(Path("m.ts"))
    assert said.startswith("small.ts: 2 of 6 non-zero weights, ")
    assert small.learner.weights_only
    assert small.learner.nnz == 2
    assert small.report == before.report
    found = json.loads(thin("evaluate", "test.svm", "-m", "small.ts", "--json"))
    assert 0 < found["error"] < 0.3
    assert len(thin("predict", "test.svm", "-m", "small.ts").split()) == 1000
    thin("export", "small.ts", "small.json")
    assert "weights only" in thin("inspect", "small.ts")
    said = thin("train", "test.svm", "--from", "small.ts", "-m", "more.ts", code=1)
    assert "cannot go on learning" in said.errors


KINDS = {
    "arow": (["-a", "arow"], "importance"),
    "auto": (["--portfolio", "arow,fsol"], "importance"),
    "first order": (["-a", "fsol"], "weight"),
    "rms": (["-a", "fsol", "--scale", "rms"], "importance"),
}


@pytest.mark.parametrize(("kind", "names"), [*((kind, "north,south") for kind in KINDS), ("arow", "north,east,south")])
def test_inspect_shows_what_thin_keeps(kind, names, there, thin):
    """Not the largest weights: those of words that hardly came are large, too."""
    rng, labels = np.random.default_rng(3), names.split(",")
    lines = ["label,size,words"]
    for k in range(400):
        words = " ".join(f"w{min(word, 60)}" for word in rng.zipf(1.5, size=4))
        lines.append(f"{labels[k % len(labels)]},{rng.normal():.3f},{words} l{k % 7}")
    Path("d.csv").write_text("\n".join(lines) + "\n")
    how, by = KINDS[kind]
    thin("train", "d.csv", *how, "--text", "words", "-m", "m.ts", "-q")
    shown = json.loads(thin("inspect", "m.ts", "--top", "9", "--json"))
    thin("thin", "m.ts", "--nnz", "9", "-m", "small.ts", "-q")
    left = json.loads(thin("inspect", "small.ts", "--json"))
    assert shown["top_by"] == by

    def cells(found):
        return sorted((each["feature"], str(each.get("class")), each["weight"]) for each in found["top"])

    assert cells(shown) == cells(left)
    sizes = [abs(each["weight"]) for each in shown["top"]]
    assert (sizes == sorted(sizes, reverse=True)) == (by == "weight")
    said = thin("inspect", "m.ts")
    assert f"shown by             {'|weight|, as' if by == 'weight' else 'importance, |weight| times'}" in said
    assert "state                full: it can go on learning" in said


def test_rows_choose(overlapping, thin):
    said = thin("thin", "m.ts", "--on", "test.svm", "-m", "small.ts")
    model = read(Path("m.ts"))
    lines = said.splitlines()
    assert lines[0].split()[0] == "weights"
    assert sum(line.endswith(" *") for line in lines) == 1
    told = json.loads(thin("thin", "m.ts", "--on", "test.svm", "-m", "again.ts", "--json"))
    assert Path("again.ts").read_bytes() == Path("small.ts").read_bytes()
    assert read(Path("small.ts")).learner.nnz == told["n"] == told["non_zeros"]
    assert told["bytes"] == Path("small.ts").stat().st_size
    assert told["bytes_before"] == Path("m.ts").stat().st_size
    error = json.loads(thin("evaluate", "test.svm", "-m", "small.ts", "--json"))["error"]
    assert error == pytest.approx(told["error"])
    assert told["error"] <= told["lowest"] + told["standard_error"]
    assert f"{told['n']} weights, the most important by " in said
    assert model.learner.nnz == told["of"]


def test_both(overlapping, thin):
    assert thin("thin", "m.ts", "--on", "test.svm", "--nnz", "2", "-m", "small.ts", "-q") == ""
    assert read(Path("small.ts")).learner.nnz == 2


def test_classes_that_come_later(there, thin):
    """Numbers of classes are the stream's own, which meets them in another order."""
    rng = np.random.default_rng(0)
    rows = [f"{name},{value + rng.normal() / 3:.3f},{-value:.2f}\n" for name, value in zip("abc" * 60, [1, 2, 3] * 60)]
    Path("d.csv").write_text("label,x,y\n" + "".join(rows))
    Path("e.csv").write_text("label,x,y\nnew,9,9\n" + "".join(rows[::-1]))
    thin("train", "d.csv", "-a", "arow", "--grow-classes", "-m", "m.ts", "-q")
    told = json.loads(thin("thin", "m.ts", "--on", "e.csv", "-m", "small.ts", "--json"))
    error = json.loads(thin("evaluate", "e.csv", "-m", "small.ts", "--json"))["error"]
    assert error == pytest.approx(told["error"])
    assert error > 0


def test_errors(overlapping, thin):
    assert "give --nnz, how many weights to keep, or --on FILES" in thin("thin", "m.ts", "-m", "s.ts", code=2).errors
    assert "--nnz" in thin("thin", "m.ts", "--nnz", "0", "-m", "s.ts", code=2).errors
    assert "is an input" in thin("thin", "m.ts", "--nnz", "3", "-m", "m.ts", code=2).errors
    assert "is an input" in thin("thin", "m.ts", "--on", "test.svm", "-m", "test.svm", code=2).errors
    Path("other.csv").write_text("label,a\n1,2\n")
    assert "would not mean the same" in thin("thin", "m.ts", "--on", "other.csv", "-m", "s.ts", code=1).errors
    assert not Path("s.ts").exists()
