"""``--grow-classes``: classes that come later."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

import thinstream as ts
from thinstream.errors import InvalidInputError
from thinstream.training.checkpoint import Checkpoints

LABELS = ("red", "green", "blue")


@pytest.fixture
def colours(there):
    """Rows in which the first three features tell the class; blue comes late."""
    rng = np.random.default_rng(1)
    rows = [rng.normal(size=3).round(2) for _ in range(200)]
    rows.sort(key=lambda row: row.argmax() == 2)
    lines = [",".join([LABELS[int(row.argmax())], *map(str, row.tolist())]) for row in rows]
    Path("d.csv").write_text("\n".join(["label,a,b,c", *lines]) + "\n")
    Path("other.csv").write_text("label,a,b,c\nviolet,1,1,1\n" + "\n".join(lines) + "\n")
    return "d.csv"


def test_train_predict_evaluate_inspect_export_go_on(colours, thin):
    said = thin("train", colours, "--grow-classes", "-m", "m.ts", "-a", "arow")
    assert "blue" in said
    assert "recall %" in said
    thin("train", colours, "--classes", "blue,green,red", "-m", "all.ts", "-a", "arow", "-q")
    model, whole = ts.load("m.ts"), ts.load("all.ts")
    assert model.classes_.tolist() == sorted(LABELS)
    assert model.coef_.tobytes() == whole.coef_.tobytes()
    assert thin("predict", colours, "-m", "m.ts").split() == thin("predict", colours, "-m", "all.ts").split()
    report = json.loads(thin("evaluate", colours, "-m", "m.ts", "--json"))
    assert report["error"] == json.loads(thin("evaluate", colours, "-m", "all.ts", "--json"))["error"]
    said, known = (thin("evaluate", colours, "-m", name) for name in ("m.ts", "all.ts"))
    mean = re.compile("^average precision .*$", flags=re.MULTILINE)
    assert mean.findall(said) == mean.findall(known) != []  # the means of classes in another order
    assert "\npredicted " in said
    other = thin("evaluate", "other.csv", "-m", "m.ts")
    assert "violet" in other
    assert "0.00" in other.split("violet")[1]
    assert "(one-vs-rest)" in thin("inspect", "m.ts")
    thin("export", "m.ts", "m.json")
    assert len(json.loads(Path("m.json").read_text())["models"]) == 3
    thin("train", "other.csv", "--from", "m.ts", "-m", "more.ts", "-q")
    assert ts.load("more.ts").classes_.tolist() == sorted([*LABELS, "violet"])
    assert "601 examples" in thin("merge", "m.ts", "more.ts", "-m", "both.ts")
    assert len(ts.load("both.ts").classes_) == 4


def test_two_classes_have_a_model_each(there, thin):
    Path("d.svm").write_text("".join(f"{k % 2} {1 + k % 2}:1\n" for k in range(40)))
    said = thin("train", "d.svm", "--grow-classes", "-m", "m.ts", "--json")
    lines = [json.loads(line) for line in said.splitlines()]
    assert len(lines[-1]["updates"]) == 2
    assert lines[-1]["error"] == pytest.approx(2 / 40)  # the first row of each class
    assert set(thin("predict", "d.svm", "-m", "m.ts").split()) == {"0", "1"}
    assert len(thin("predict", "d.svm", "-m", "m.ts", "--scores").splitlines()[0].split("\t")) == 2
    assert json.loads(thin("evaluate", "d.svm", "-m", "m.ts", "--json"))["error"] == 0
    for ending in ("json", "h", "txt"):
        thin("export", "m.ts", f"m.{ending}")
    thin("inspect", "m.ts", "--plot", "m.svg")


def test_one_class_is_a_model_too(there, thin):
    Path("d.svm").write_text("7 1:1\n7 2:1\n")
    thin("train", "d.svm", "--grow-classes", "-m", "m.ts", "-q")
    assert thin("predict", "d.svm", "-m", "m.ts").split() == ["7", "7"]
    thin("inspect", "m.ts")


@pytest.mark.parametrize("stop", [93, *(pytest.param(row, marks=pytest.mark.slow) for row in (31, 186, 300))])
def test_stopped_before_and_after_a_class_comes(colours, thin, monkeypatch, stop):
    """Resumed: the same bytes."""
    common = [colours, "--grow-classes", "-q", "--checkpoint-every", "31", "--passes", "2"]
    thin("train", "-a", "adarda", *common, "-m", "whole.ts")
    write = Checkpoints.write

    def stopping(self, state, source):
        write(self, state, source)
        if state.progress.rows >= stop:
            raise InvalidInputError("stopped")

    with monkeypatch.context() as patch:
        patch.setattr(Checkpoints, "write", stopping)
        thin("train", "-a", "adarda", *common, "-m", "parts.ts", code=1)
    thin("train", "-a", "adarda", *common, "-m", "parts.ts", "--resume")
    assert Path("parts.ts").read_bytes() == Path("whole.ts").read_bytes()


def test_what_does_not_go_together(colours, thin):
    thin("train", "-a", "adarda", colours, "--classes", "blue,green,red", "-m", "all.ts", "-q")
    for more, message in (
        (["--from", "all.ts"], "was trained without --grow-classes"),
        (["--engine", "local"], "--grow-classes cannot be used with --engine"),
        (["--cache"], "Leave out cache or grow_classes"),
        (["-a", "scd"], "SCD: grow_classes needs an algorithm that learns online"),
        (["--class-weight", "1,2"], "--class-weight must be balanced or"),
    ):
        assert message in thin("train", "-a", "adarda", colours, "--grow-classes", *more, code=2).errors
    thin(
        "train",
        "-a",
        "adarda",
        colours,
        "--grow-classes",
        "--classes",
        "red,green",
        "--class-weight",
        "1,2",
        "-m",
        "w.ts",
        "-q",
    )
    assert ts.load("w.ts").class_weight == {"red": 1.0, "green": 2.0}


def test_monitors_and_pictures(colours, thin):
    thin("train", "-a", "adarda", colours, "--grow-classes", "--monitor", "ddm", "--plot", "p.svg")
    assert Path("p.svg").exists()
