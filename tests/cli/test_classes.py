"""Commands on data of more than two classes."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

import thinstream as ts
from thinstream.errors import InvalidInputError
from thinstream.training.checkpoint import Checkpoints

LABELS = ("red", "green", "blue")


@pytest.fixture
def colours(there):
    """Rows in which the first three features tell the class."""
    rng = np.random.default_rng(1)
    lines = ["label,a,b,c"]
    for _ in range(90):
        row = rng.normal(size=3).round(2)
        lines.append(",".join([LABELS[int(row.argmax())], *map(str, row.tolist())]))
    Path("d.csv").write_text("\n".join(lines) + "\n")
    return "d.csv"


def test_json_has_the_updates_of_each_class(colours, thin):
    said = thin("train", colours, "--classes", "red,green,blue", "-a", "arow", "--json")
    assert len(json.loads(said.splitlines()[-1])["updates"]) == 3


def test_train_predict_evaluate_inspect_export_merge(colours, thin):
    said = thin("train", colours, "--classes", "red,green,blue", "-m", "m.ts", "-a", "arow", "--class-weight", "1,2,1")
    assert "recall %" in said
    assert "green" in said
    model = ts.load("m.ts")
    assert model.classes_.tolist() == list(LABELS)
    assert model.class_weight == {"red": 1.0, "green": 2.0, "blue": 1.0}
    assert model.t_ == 90
    labels = thin("predict", colours, "-m", "m.ts").split()
    truth = [line.split(",")[0] for line in Path(colours).read_text().splitlines()[1:]]
    assert np.mean(np.array(labels) == truth) > 0.9
    scores = [
        list(map(float, line.split("\t"))) for line in thin("predict", colours, "-m", "m.ts", "--scores").splitlines()
    ]
    assert [LABELS[int(np.argmax(row))] for row in scores] == labels
    first = json.loads(thin("predict", colours, "-m", "m.ts", "--json").splitlines()[0])
    assert first["label"] == labels[0]
    assert np.allclose(first["scores"], scores[0])
    report = json.loads(thin("evaluate", colours, "-m", "m.ts", "--json"))
    assert report["error"] == pytest.approx(np.mean(np.array(labels) != truth))
    assert "precision %" in thin("evaluate", colours, "-m", "m.ts")
    shown = thin("inspect", "m.ts")
    assert "red, green, blue (one-vs-rest)" in shown
    assert "1, 2, 1" in shown
    told = json.loads(thin("inspect", "m.ts", "--json", "--top", "2"))
    assert told["classes"] == list(LABELS)
    assert {"feature", "name", "class", "weight"} == set(told["top"][0])
    assert "wrote a chart to m.svg" in thin("inspect", "m.ts", "--plot", "m.svg")
    assert Path("m.svg").read_bytes().startswith(b"<?xml")
    thin("export", "m.ts", "m.json")
    assert len(json.loads(Path("m.json").read_text())["models"]) == 3
    shutil.copy("m.ts", "copy.ts")
    assert "180 examples" in thin("merge", "m.ts", "copy.ts", "-m", "both.ts")
    thin("train", colours, "--from", "m.ts", "-m", "more.ts", "-q")
    assert ts.load("more.ts").t_ == 180
    for more, message in (
        (["--from", "m.ts", "--classes", "red,green"], "'red', 'green', 'blue', and cannot continue with red,green"),
        (
            ["--from", "m.ts", "--class-weight", "1,1,1"],
            "was trained with class weights 1,2,1, and cannot continue with 1,1,1",
        ),
        (["--classes", "red,green,blue", "--class-weight", "1,2"], "--class-weight must be balanced or 3 numbers"),
    ):
        assert message in thin("train", colours, *more, code=2).errors
    said = thin("train", colours, "--classes", "red,green,violet", code=1)
    assert "d.csv, line 5, column 1: a label must be 'red', 'green' or 'violet', got 'blue'" in said.errors


@pytest.mark.parametrize("weights_only", [False, True])
def test_checkpoints_and_weights(colours, thin, monkeypatch, weights_only):
    """Resumed after a stop anywhere: the same bytes."""
    common = [colours, "-a", "adarda", "--classes", "red,green,blue", "-q", "--checkpoint-every", "20", "--passes", "2"]
    common += ["--weights-only"] * weights_only
    thin("train", *common, "-m", "whole.ts")
    write = Checkpoints.write

    def stopping(self, state, source):
        write(self, state, source)
        if state.progress.rows >= 100:
            raise InvalidInputError("stopped")

    with monkeypatch.context() as patch:
        patch.setattr(Checkpoints, "write", stopping)
        thin("train", *common, "-m", "parts.ts", code=1)
    assert Path("parts.ts.checkpoint").exists()
    thin("train", *common, "-m", "parts.ts", "--resume")
    assert Path("parts.ts").read_bytes() == Path("whole.ts").read_bytes()
