"""The default of the command line: a blend, from the rows to what is made of its file."""

import json
from pathlib import Path

import numpy as np
import pytest

import thinstream as ts

SMALL = ("--portfolio", "arow,fsol,adarda")


@pytest.fixture
def blend(data, thin):
    thin("train", data, *SMALL, "-m", "blend.ts", "-q")
    return "blend.ts"


def test_is_the_default(data, thin):
    thin("train", data, "-m", "one.ts", "-q")
    said = thin("train", data, "-a", "auto", "-m", "two.ts")
    assert Path("one.ts").read_bytes() == Path("two.ts").read_bytes()
    assert isinstance(ts.load("one.ts"), ts.Auto)
    (line,) = [line for line in said.splitlines() if line.startswith("lanes ")]
    assert line.count(" %") == 3


def test_the_last_words_name_those_with_the_largest_shares(data, thin):
    said = thin("train", data, *SMALL, "--json").splitlines()
    lanes = json.loads(said[-1])["lanes"]
    shares = {lane["learner"]: lane["share"] for lane in lanes}
    assert set(shares) == {"AROW", "FSOL", "AdaRDA"}
    (line,) = [line for line in thin("train", data, *SMALL).splitlines() if line.startswith("lanes ")]
    named = [part.split()[0] for part in line.removeprefix("lanes").split(",")]
    assert named == sorted(shares, key=lambda name: -shares[name])


def test_what_is_made_of_its_file(data, blend, thin):
    model = ts.load(blend)
    assert thin("inspect", blend, "-n", "1").splitlines()[0] == "algorithm            Auto"
    assert [lane["learner"] for lane in json.loads(thin("inspect", blend, "--json"))["lanes"]] == [
        lane["learner"] for lane in model.lanes_
    ]
    probabilities = [float(line.split()[-1]) for line in thin("predict", data, "-m", blend, "--proba").splitlines()]
    assert all(0.0 < p < 1.0 for p in probabilities)
    thin("export", blend, "m.json")
    exported = json.loads(Path("m.json").read_text())
    weights = np.zeros(model.n_features_in_, np.float32)
    weights[exported["indices"]] = exported["weights"]
    assert weights.tolist() == model.coef_[0].tolist()
    assert np.float32(exported["intercept"]) == model.intercept_[0]


def test_the_last_words_name_a_thin_model(there, thin, monkeypatch):
    """The fewest weights that carry 99 % of Σ v²x², of a model that is not small already."""
    rng = np.random.default_rng(0)
    lines = []
    for _ in range(400):
        x = rng.normal(size=30) * np.exp(-np.arange(30) / 3)
        lines.append(f"{1 if x.sum() > 0 else -1} " + " ".join(f"{j + 1}:{v:.4f}" for j, v in enumerate(x)))
    Path("wide.svm").write_text("\n".join(lines))
    assert "thinner" not in thin("train", "wide.svm", *SMALL, "-m", "blend.ts")
    monkeypatch.setattr("thinstream.cli.lanes.SMALL", 30)
    said = thin("train", "wide.svm", *SMALL, "-m", "blend.ts").splitlines()[-1].split()
    assert said[:4] == ["thinner", "thinstream", "thin", "blend.ts"]
    model, n = ts.load("blend.ts"), int(said[5])
    X = np.array([[float(cell.split(":")[1]) for cell in line.split()[1:]] for line in lines])
    done = np.sort(model.coef_[0] ** 2 * (X**2).sum(axis=0))[::-1]
    assert done[: n - 1].sum() < 0.99 * done.sum() <= done[:n].sum() * (1 + 1e-6)
    thin("thin", "blend.ts", "--nnz", n, "-m", "small.ts")
    assert ts.load("small.ts").nnz_ == n < model.nnz_


def test_diagnose_looks_at_what_it_predicts_with(data, blend, thin):
    assert "Auto" in thin("diagnose", data, "-m", blend)


def test_thresholds_are_probabilities(data, thin):
    thin("train", data, *SMALL, "--threshold", "0.8", "-m", "m.ts", "-q")
    assert ts.load("m.ts").threshold_ == pytest.approx(np.log(4.0), rel=1e-6)
    assert "a probability between 0 and 1" in thin("train", data, *SMALL, "--threshold", "3", code=2).errors


def test_goes_on_from_a_file(data, blend, thin):
    thin("train", data, "--from", blend, "-m", "twice.ts", "-q")
    thin("train", data, *SMALL, "--passes", "2", "-m", "both.ts", "-q")
    once, both = ts.load("twice.ts"), ts.load("both.ts")
    assert once.coef_.tobytes() == both.coef_.tobytes()
    assert once.lanes_ == both.lanes_


def test_vectors_of_several_preparations_are_shown(data, thin):
    portfolio = [ts.FSOL(), ts.AROW(normalize="l2")]
    X, y = np.eye(4, dtype=np.float32), [0, 1, 0, 1]
    ts.Auto(portfolio=portfolio).fit(X, y).save("mixed.ts")
    said = thin("inspect", "mixed.ts")
    assert "vectors              rows as they are, rows over their length" in said
    assert "non zeros            8" in said
    assert "sparsity             0.00 %" in said
    thin("export", "mixed.ts", "m.h")
    assert "m_2_sum(indices, values, n)" in Path("m.h").read_text()


def test_a_model_that_is_not_finite_is_told(data, thin, monkeypatch):
    from thinstream.blend import learner
    from thinstream.blend.member import Member

    wild = [Member("fsol", {"eta": 1e38}), Member("arow", {})]
    monkeypatch.setattr(learner, "PORTFOLIO", wild)
    said = thin("train", data)
    assert "thinstream: FSOL eta=1e+38 is out of the blend: its numbers would not be finite" in said.errors


def test_the_picture_shows_who_led_when(data, thin):
    pytest.importorskip("matplotlib")
    thin("train", data, *SMALL, "--passes", "9", "--plot", "run.svg", "-q")
    assert "share in the blend" in Path("run.svg").read_text()
    thin("train", data, "-a", "fsol", "--plot", "run.svg", "-q")
    assert "share in the blend" not in Path("run.svg").read_text()


def test_nothing_is_tuned_and_workers_learn_another(data, thin):
    assert "Auto has nothing to tune" in thin("tune", data, "-a", "auto", code=2).errors
    thin("train", data, "--engine", "local", "--workers", "1", "--l1", "0.1", "-m", "m.ts", "-q")
    assert isinstance(ts.load("m.ts"), ts.AdaRDA)


def test_few_weights_of_few_columns_are_remarked(data, blend, thin):
    told = thin("thin", blend, "--nnz", 1, "-m", "small.ts").errors
    assert "weights of few columns make up for one another; --on ROWS tells how many can go" in told
    assert "make up" not in thin("thin", blend, "--on", data, "-m", "small.ts").errors
