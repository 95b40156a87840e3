"""Samples of a model as it learns: what the page is told is what the run has counted."""

import json
from itertools import pairwise

import numpy as np
import pytest

from thinstream.batch import Batch
from thinstream.data.labels import Classes, GrowingClasses
from thinstream.data.opening import open_stream
from thinstream.models.model import Model, Names
from thinstream.serve.dashboard import DashboardSampler, History, top_weights
from thinstream.training.metrics import Progress, progress_for
from thinstream.training.monitors import DriftWatch
from thinstream.training.run import Run


def learned(tmp_path, n=3000, **options):
    """A run whose labels turn in the middle."""
    rng = np.random.default_rng(0)
    lines = []
    for k in range(n):
        x = rng.normal(size=4).round(3)
        y = (1 if x[0] - x[1] > 0 else -1) * (1 if k < n // 2 else -1)
        lines.append(f"{y} " + " ".join(f"{j + 1}:{v}" for j, v in enumerate(x) if v))
    (tmp_path / "rows.svm").write_text("\n".join(lines) + "\n")
    model = Model.fresh("arow", Classes(-1, 1), grow=True, fit_intercept=True, **options)
    run = Run(open_stream(tmp_path / "rows.svm"), model, drift=DriftWatch(["adwin"]))
    run.run()
    return run


def test_samples_agree_with_the_run(tmp_path):
    run = learned(tmp_path)
    sampler, report = DashboardSampler(), run.report()
    assert sampler.due(run.state.progress.rows)
    sampler.sample(run.state.model, run.state.progress, run.drift, report, run.state.model.learner.nnz)
    told = json.loads(json.dumps(sampler.data(), allow_nan=False))
    (sample,) = told["samples"]
    assert (sample["rows"], sample["error"], sample["auc"]) == (3000, report["error"], report["auc"])
    assert sum(wrong for _, _, wrong in told["curve"]) == round(3000 * report["error"])
    assert told["curve"][-1][0] == 3000
    (drift,) = told["drifts"]
    assert 1500 < drift[0] < 1700
    assert drift[2] == "adwin"
    assert sum(told["calibration"]["rows"]) == 3000
    assert [*sample["top"]][:1] == ["column 1"]
    assert not sampler.due(3000)  # nothing is new
    assert not sampler.due(3001)  # too early
    assert sampler.data(since=sample["number"])["samples"] == []


def test_more_than_two_classes_have_no_calibration():
    model = Model.fresh("arow", Classes("a", "b", "c"), n_features=2, grow=True)
    sampler = DashboardSampler()
    sampler.sample(model, Progress(3), None, {}, 0)
    assert sampler.data()["calibration"] == {}
    assert sampler.data()["classes"] == ["a", "b", "c"]


def test_largest_weights_are_those_of_a_sort():
    rng = np.random.default_rng(3)
    model = Model.fresh("arow", Classes(-1, 1), n_features=300, names=Names.of([f"w{k}" for k in range(300)]))
    values = rng.normal(size=300).astype(np.float32)
    model.learner.outputs.one.memory.state.reshape(300, -1)[:, 0] = values
    expected = np.argsort(-np.abs(model.learner.weights()))[:12]
    assert [*top_weights(model)] == [f"w{k}" for k in expected]


def test_a_blend_has_one_weight_per_feature():
    import thinstream as ts

    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3))
    model = ts.Auto(portfolio=[ts.FSOL(), ts.AROW(normalize="l2")]).fit(X, X[:, 1] > 0)
    expected = {f"column {j}": float(model.coef_[0, j]) for j in np.argsort(-np.abs(model.coef_[0]))}
    assert top_weights(model._model) == expected


def test_weights_say_their_class():
    model = Model.fresh("perceptron", Classes("a", "b", "c"), n_features=2)
    next(iter(model.learner.models)).memory.state[0] = 1.0
    assert top_weights(model) == {"column 0 → a": 1.0}


@pytest.mark.parametrize("many", [5, 241, 5000])
def test_history_is_bounded_and_keeps_both_ends(many):
    history = History()
    for k in range(many):
        history.add(float(k), k, {}, None, 0, {})
    numbers = [sample.number for sample in history.after()]
    assert len(numbers) <= 240
    assert (numbers[0], numbers[-1]) == (0, many - 1)
    assert numbers == sorted(numbers)
    assert len({later - earlier for earlier, later in pairwise(numbers[:-1])}) == 1  # evenly
    assert [sample.number for sample in history.after(many - 2)] == [many - 1]


KINDS = {
    "two": {},
    "three": {"classes": Classes("a", "b", "c")},
    "prepared": {"scale": "max", "normalize": "l2"},
    "budget": {"max_features": 20},
    "to come": {"classes": GrowingClasses()},
    "hashed": {"feature_space": {"hashing": {"bits": 18, "signed": False}}},
    "full": {"parameters": {"covariance": "full"}},
    "auto": {"algorithm": "auto"},
}


@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=pytest.mark.slow if kind in ("full", "auto") else ()) for kind in KINDS]
)
def test_every_kind_of_model_can_be_sampled(kind):
    """Before its first row and after some, as JSON has it."""
    options = {"algorithm": "arow", "classes": Classes(-1, 1), "grow": True, "fit_intercept": True} | KINDS[kind]
    model = Model.fresh(options.pop("algorithm"), options.pop("classes"), **options)
    progress, sampler, rng = progress_for(model.classes, 0.0), DashboardSampler(), np.random.default_rng(0)
    for _ in range(2):
        sampler.sample(model, progress, DriftWatch(["adwin"]), {}, model.learner.nnz)
        told = json.loads(json.dumps(sampler.data(), allow_nan=False))
        classes = model.classes
        codes = rng.integers(max(len(classes), 2), size=60)
        if isinstance(classes, GrowingClasses):
            classes, y = classes.numbered(["x", "y"], codes.astype(np.int32))
        else:
            y = np.where(codes > 0, 1, -1).astype(np.int8) if classes.are_two else codes.astype(np.int32)
        indices = np.concatenate([np.sort(rng.choice(40, 5, replace=False)) for _ in range(60)]).astype(np.int32)
        values = rng.normal(size=300).astype(np.float32)
        model, scores = model.learn(Batch.of(np.arange(0, 301, 5), indices, values, 40, y=y), classes)
        progress.update(scores, y)
    sampler.sample(model, progress, None, progress.report().as_dict(), model.learner.nnz)
    told = json.loads(json.dumps(sampler.data(), allow_nan=False))
    assert len(told["samples"][-1]["top"]) == 12
    assert told["samples"][-1]["rows"] == 120
