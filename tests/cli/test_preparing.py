"""``--scale`` and ``--normalize``: a part of the model, from training to predicting, resuming, tuning and merging."""

import json
import shlex
from pathlib import Path

import numpy as np
import pytest

import thinstream as ts
from thinstream.models.file import read, write
from thinstream.models.model import Model

KINDS = [("--scale", "max"), ("--scale", "rms"), ("--normalize", "l2"), ("--scale", "rms", "--normalize", "l2")]
KINDS += [("--scale", "idf", "--normalize", "l2")]


@pytest.fixture
def rows(there):
    """Features of very different units; only the smallest tells the class."""
    rng = np.random.default_rng(1)
    lines = []
    for _ in range(300):
        y = rng.choice([-1, 1])
        lines.append(
            f"{y} 1:{y * rng.uniform(0.5, 1) * 1e-3:.6g} 2:{rng.normal() * 50:.4g} 3:{rng.normal() * 1e4:.4g}\n"
        )
    Path("d.svm").write_text("".join(lines))
    Path("first.svm").write_text("".join(lines[:140]))
    Path("rest.svm").write_text("".join(lines[140:]))
    return "d.svm"


@pytest.mark.parametrize("kind", KINDS)
def test_the_command_trains_what_the_estimator_does(rows, thin, kind):
    thin("train", rows, "-a", "arow", *kind, "-m", "m.ts", "-q")
    given = dict(zip([name.removeprefix("--") for name in kind[::2]], kind[1::2], strict=True))
    model = ts.AROW(**given).fit_stream(ts.open_stream(rows))
    loaded = ts.load("m.ts")
    assert np.array_equal(loaded.coef_, model.coef_)
    assert {name: loaded.get_params()[name] for name in given} == given
    scores = [float(line) for line in thin("predict", rows, "-m", "m.ts", "--scores").split()]
    (batch,) = ts.open_stream(rows).batches()
    assert np.array_equal(np.array(scores, np.float32), model._model.learner.scores(batch))
    assert "error" in thin("evaluate", rows, "-m", "m.ts")
    assert "AROW" in thin("diagnose", rows, "-m", "m.ts")
    shown = thin("inspect", "m.ts")
    for name, value in given.items():
        assert f"{name:<20} {value}" in shown


def test_what_scales_are_for(rows, thin):
    errors = [
        json.loads(thin("train", rows, "-a", "fsol", *kind, "--json").splitlines()[-1])["error"]
        for kind in ((), ("--scale", "max"))
    ]
    assert errors[0] > 0.3 > 0.1 > errors[1]


@pytest.mark.parametrize("kind", KINDS)
def test_going_on_and_resuming_give_the_same_bytes(rows, thin, kind):
    thin("train", rows, "-a", "ssol", *kind, "-m", "whole.ts", "-q")
    thin("train", "first.svm", "-a", "ssol", *kind, "-m", "a.ts", "-q")
    thin("train", "rest.svm", "--from", "a.ts", "-m", "b.ts", "-q")
    thin("train", "rest.svm", "--from", "a.ts", *kind, "-m", "c.ts", "-q")
    whole, parts = read("whole.ts"), read("b.ts")
    assert Path("b.ts").read_bytes() == Path("c.ts").read_bytes()
    for name, model in (("x.ts", whole), ("y.ts", parts)):
        write(name, Model(model.learner, model.classes))
    assert Path("x.ts").read_bytes() == Path("y.ts").read_bytes()


def test_a_run_resumes_from_its_checkpoint(rows, thin):
    text = Path(rows).read_text().splitlines(keepends=True)
    thin("train", rows, "-a", "fsol", "--scale", "rms", "-m", "whole.ts", "-q")
    Path(rows).write_text("".join([*text[:200], "1 x:y\n", *text[201:]]))
    thin("train", rows, "-a", "fsol", "--scale", "rms", "-m", "m.ts", "--checkpoint-every", "64", "-q", code=1)
    assert read("m.ts.checkpoint").preparation.scale == "rms"
    said = thin("train", rows, "-a", "fsol", "--scale", "max", "-m", "m.ts", "--resume", "-q", code=1).errors
    assert "the model differs in scale: it was 'rms' and is now 'max'" in said
    thin(
        "train", rows, "-a", "fsol", "--scale", "rms", "-m", "m.ts", "--checkpoint-every", "64", "--resume", "-q",
        "--on-error", "skip",
    )  # fmt: skip
    Path(rows).write_text("".join([*text[:200], *text[201:]]))
    thin("train", rows, "-a", "fsol", "--scale", "rms", "-m", "without.ts", "-q")
    assert read("m.ts").learner.weights().tobytes() == read("without.ts").learner.weights().tobytes()


@pytest.mark.parametrize("more", [(), ("--progressive",)])
def test_the_best_of_tune_is_what_train_makes(rows, thin, more):
    said = thin(
        "tune", rows, "-a", "fsol", "-g", "eta=0.1,1", "--scale", "rms", "--normalize", "l2", "-m", "m.ts", *more
    )
    whole, command = Path("m.ts").read_bytes(), said.splitlines()[-1]
    assert "--scale rms --normalize l2" in command
    thin(*shlex.split(command)[1:])
    model = read("m.ts")
    before = Path("m.ts").write_bytes(whole) and read("m.ts")
    assert model.learner.weights().tobytes() == before.learner.weights().tobytes()


def test_a_model_of_the_path_is_what_train_makes(rows, thin):
    thin(
        "path", rows, "-a", "fsol", "--scale", "max", "--l1", "0.1..10", "-n", "3", "--pick", "best", "-m", "p.ts", "-q"
    )
    l1 = read("p.ts").learner.parameters["l1"]
    thin("train", rows, "-a", "fsol", "--scale", "max", "--l1", repr(l1), "-m", "t.ts", "-q")
    assert read("p.ts").learner.weights().tobytes() == read("t.ts").learner.weights().tobytes()
    assert thin("path", rows, "-a", "fsol", "--scale", "max", "-n", "3") != thin("path", rows, "-a", "fsol", "-n", "3")


def test_costs_take_them(rows, thin):
    with_scale = thin("costs", rows, "--scale", "max", "--weights", "0.5,0.9")
    assert with_scale != thin("costs", rows, "--weights", "0.5,0.9")


def test_models_merge(rows, thin):
    for name in ("first", "rest"):
        thin("train", f"{name}.svm", "-a", "arow", "--scale", "max", "-m", f"{name}.ts", "-q")
    thin("merge", "first.ts", "rest.ts", "-m", "ab.ts")
    thin("merge", "rest.ts", "first.ts", "-m", "ba.ts")
    assert Path("ab.ts").read_bytes() == Path("ba.ts").read_bytes()
    thin("train", "rest.svm", "-a", "arow", "-m", "plain.ts", "-q")
    said = thin("merge", "first.ts", "plain.ts", "-m", "x.ts", code=1).errors
    assert "first.ts and plain.ts differ in their preparation of rows: {'scale': 'max', 'normalize': None} and" in said


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["train", "d.svm", "--scale", "std"], "scale must be None, 'max', 'rms' or 'idf', got 'std'"),
        (["tune", "d.svm", "--scale", "std"], "scale must be None, 'max', 'rms' or 'idf', got 'std'"),
        (["train", "d.svm", "-a", "bcw", "--scale", "max"], "BCW needs many rows at once"),
        (
            ["train", "d.svm", "--from", "m.ts", "--scale", "max"],
            "m.ts was trained with scale None, and cannot continue with max",
        ),
        (
            ["train", "d.svm", "--from", "m.ts", "--normalize", "l2"],
            "trained with normalize None, and cannot continue with l2",
        ),
        (
            ["train", "d.svm", "--scale", "max", "--engine", "local", "--mode", "features"],
            "--engine cannot be used with --mode features",
        ),
        (["train", "d.svm", "-a", "smidas", "--p", "3", "--scale", "max", "--engine", "local"], "SMIDAS with scale"),
    ],
)
def test_what_does_not_go_is_said(rows, thin, arguments, message):
    thin("train", "first.svm", "-m", "m.ts", "-q")
    code = 1 if "SMIDAS" in message else 2
    assert message in thin(*arguments, code=code).errors


def test_a_batch_method_has_rows_of_unit_length_from_its_stream(rows, thin):
    thin("train", rows, "-a", "bcw", "--normalize", "l2", "-m", "b.ts", "-q")
    model = read("b.ts")
    assert model.feature_space == {"normalize": "l2"}
    thin("export", "b.ts", "b.json")
    assert json.loads(Path("b.json").read_text())["space"] == {"normalize": "l2"}
    assert len(thin("predict", rows, "-m", "b.ts").split()) == 300


def test_an_export_of_normalised_rows_says_so(rows, thin):
    """Scores of rows as they are were exported without a word."""
    thin("train", rows, "-a", "arow", "--normalize", "l2", "-m", "m.ts", "-q")
    for name in ("m.txt", "m.h", "m.json"):
        thin("export", "m.ts", name)
    assert "/ length of the row" in Path("m.txt").read_text()
    assert "m_length(" in Path("m.h").read_text()
