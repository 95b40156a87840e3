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


def test_a_number_of_features(overlapping, thin):
    said = thin("thin", "m.ts", "--nnz", "2", "-m", "small.ts")
    small, before = read(Path("small.ts")), read(Path("m.ts"))
    assert said.startswith("small.ts: 2 of 6 features, ")
    assert small.learner.weights_only
    assert small.learner.nnz == 2
    assert small.report == before.report
    found = json.loads(thin("evaluate", "test.svm", "-m", "small.ts", "--json"))
    assert 0 < found["error"] < 0.3
    assert len(thin("predict", "test.svm", "-m", "small.ts").split()) == 1000
    thin("export", "small.ts", "small.json")
    assert "weights only" in thin("inspect", "small.ts")
    said = thin("train", "test.svm", "--from", "small.ts", "-m", "more.ts", code=1)
    assert "cannot continue to learn" in said.errors


KINDS = {
    "arow": (["-a", "arow"], "importance"),
    "auto": (["--portfolio", "arow,fsol"], "importance"),
    "first order": (["-a", "fsol"], "weight"),
    "rms": (["-a", "fsol", "--scale", "rms"], "importance"),
}


@pytest.mark.parametrize("kind", KINDS)
def test_inspect_shows_what_thin_keeps(kind, there, thin):
    """The most important weights, not the largest: words that occurred rarely also have large weights."""
    rng, labels = np.random.default_rng(3), ["north", "south"]
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
    assert f"sorted by            {'|weight|, because' if by == 'weight' else 'importance: |weight| times'}" in said
    assert "state                full: can continue to learn" in said


def test_rows_choose(overlapping, thin):
    said = thin("thin", "m.ts", "--on", "test.svm", "-m", "small.ts")
    model = read(Path("m.ts"))
    lines = said.splitlines()
    assert lines[0].split()[0] == "features"
    assert "average precision" in lines[0]
    assert sum(line.endswith(" *") for line in lines) == 1
    told = json.loads(thin("thin", "m.ts", "--on", "test.svm", "-m", "again.ts", "--json"))
    assert Path("again.ts").read_bytes() == Path("small.ts").read_bytes()
    assert read(Path("small.ts")).learner.nnz == told["n"] == told["non_zeros"] == told["features"]
    assert told["scoring"] == "average_precision"
    assert told["bytes"] == Path("small.ts").stat().st_size
    assert told["bytes_before"] == Path("m.ts").stat().st_size
    error = json.loads(thin("evaluate", "test.svm", "-m", "small.ts", "--json"))["error"]
    assert error == pytest.approx(told["error"])
    assert told["value"] >= told["best"] - told["standard_error"]
    assert f"{told['n']} features, the most important by " in said
    assert model.learner.nnz == told["of"]
    told = json.loads(thin("thin", "m.ts", "--on", "test.svm", "-m", "again.ts", "--json", "--scoring", "error"))
    assert told["scoring"] == "error"
    assert told["value"] == told["error"]
    assert told["error"] <= told["best"] + told["standard_error"]


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
    assert (
        "pass --nnz N, the number of features to keep, or --on FILES"
        in thin("thin", "m.ts", "-m", "s.ts", code=2).errors
    )
    assert "--nnz" in thin("thin", "m.ts", "--nnz", "0", "-m", "s.ts", code=2).errors
    assert "is an input" in thin("thin", "m.ts", "--nnz", "3", "-m", "m.ts", code=2).errors
    assert "is an input" in thin("thin", "m.ts", "--on", "test.svm", "-m", "test.svm", code=2).errors
    Path("other.csv").write_text("label,a\n1,2\n")
    assert (
        "Read the rows with the same options" in thin("thin", "m.ts", "--on", "other.csv", "-m", "s.ts", code=1).errors
    )
    assert "--refit needs --nnz" in thin("thin", "m.ts", "--refit", "train.svm", "--on", "test.svm", code=2).errors
    assert "pass --model FILE" in thin("thin", "m.ts", "--refit", "train.svm", "--nnz", "2", code=2).errors
    said = thin("thin", "m.ts", "--refit", "-", "--nnz", "2", "-m", "s.ts", code=2).errors
    assert "a pipe can be read only once, got -. Write the rows to a file first (thinstream convert), or thin a" in said
    said = thin("train", "-", "--nnz", "2", "-m", "s.ts", code=2).errors
    assert "--nnz reads its rows several times, and a pipe can be read only once" in said
    said = thin("train", "redis://localhost/rows", "--nnz", "2", "-m", "s.ts", code=2).errors
    assert "--nnz reads its rows several times, and messages of a broker can be read only once" in said
    assert "--nnz needs --model" in thin("train", "train.svm", "--nnz", "2", code=2).errors
    assert "numbers of features ≥ 1 such as 30,100" in thin("thin", "m.ts", "--nnz", "2,x", "-m", "s.ts", code=2).errors
    assert not Path("s.ts").exists()


def test_refit(overlapping, thin):
    """One command after training, or one in all: the same model, one weight per feature."""
    thin("train", "train.svm", "-m", "auto.ts", "-q")
    said = thin("thin", "auto.ts", "--nnz", "2", "--refit", "train.svm", "-m", "small.ts")
    head, chosen, full = (line.split() for line in said.splitlines()[:3])
    assert head[:2] == ["features", "log-loss"]
    assert (chosen[0], full[0], full[-1]) == ("2", "6", "full")
    assert "thin models: refitting, pass 1 of 3" in said.errors
    thin("train", "train.svm", "--nnz", "2", "-m", "once.ts", "-q")
    assert Path("once.ts").read_bytes() == Path("small.ts").read_bytes()
    assert not Path("once.ts.checkpoint").exists()
    small = read(Path("small.ts"))
    assert small.learner.weights_only
    assert small.learner.algorithm.name == "Auto"
    assert small.learner.nnz == 2
    assert json.loads(thin("evaluate", "test.svm", "-m", "small.ts", "--json"))["error"] < 0.2
    told = json.loads(thin("thin", "auto.ts", "--nnz", "2", "--refit", "train.svm", "-m", "again.ts", "--json"))
    assert Path("again.ts").read_bytes() == Path("small.ts").read_bytes()
    assert told["features"] == told["non_zeros"] == 2
    assert told["log_loss"] < told["constant_log_loss"]


def test_a_sweep(overlapping, thin):
    """Sizes share passes, and each model is the one that it is alone."""
    thin("path", "train.svm", "-a", "adarda", "-n", "5", "--csv", "path.csv", "-q")
    thin("train", "train.svm", "-m", "auto.ts", "-q")
    sweep = ["thin", "auto.ts", "--refit", "train.svm", "--nnz", "1,2,4"]
    said = thin(*sweep, "-m", "small.ts", "--plot", "sizes.svg", "--l1-path", "path.csv")
    assert [line.split()[0] for line in said.splitlines()[1:5]] == ["1", "2", "4", "6"]
    assert "l1 models" in Path("sizes.svg").read_text()
    for n in (1, 2, 4):
        assert read(Path(f"small-{n}.ts")).learner.nnz == n
    thin("thin", "auto.ts", "--refit", "train.svm", "--nnz", "2", "-m", "alone.ts", "-q")
    assert Path("alone.ts").read_bytes() == Path("small-2.ts").read_bytes()
    said = thin(*sweep, "--on", "test.svm", "-m", "chosen.ts")
    assert sum(line.endswith(" *") for line in said.splitlines()) == 1
    assert Path("chosen.ts").read_bytes() in [Path(f"small-{n}.ts").read_bytes() for n in (1, 2, 4)]
    said = thin(*sweep, "--plot", "p.svg", "--l1-path", "train.svm", code=1).errors
    assert "needs a table from `thinstream path --csv`" in said


@pytest.mark.parametrize(("option", "attribute"), [("--recall", "recall"), ("--false-alarms", "false_alarms")])
def test_a_threshold_is_set_again(option, attribute, overlapping, thin):
    said = thin("train", "train.svm", option, "0.3", "--nnz", "3", "-m", "small.ts")
    assert "the threshold was adjusted for 3 features. On progressive scores: recall " in said.errors
    thin("train", "train.svm", option, "0.3", "-m", "full.ts", "-q")
    told = json.loads(thin("thin", "full.ts", "--nnz", "3", "--refit", "train.svm", "-m", "again.ts", "--json"))
    assert Path("again.ts").read_bytes() == Path("small.ts").read_bytes()
    assert told["threshold"] == read(Path("small.ts")).threshold
    for when in ("before", "after"):
        assert told[f"threshold_{when}"][attribute] == pytest.approx(0.3, abs=0.04)


def test_a_size_without_information_is_reported(there, thin):
    rng = np.random.default_rng(0)
    Path("noise.svm").write_text(
        "".join(f"{rng.choice([-1, 1])} 1:{rng.normal()} 2:{rng.normal()}\n" for _ in range(500))
    )
    said = thin("train", "noise.svm", "--nnz", "1", "-m", "small.ts")
    assert "the model with 1 features is not better than a constant prediction: its log-loss" in said.errors
