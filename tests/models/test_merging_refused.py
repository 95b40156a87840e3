"""Merging: what is refused, and what models must agree in."""

import numpy as np
import pytest

import thinstream as ts
from tests.models.test_merging import rows
from thinstream.engine.loop import Costs
from thinstream.engine.protocol import require_mergeable
from thinstream.engine.rule import UNDECLARED
from thinstream.errors import InvalidParameterError, MergeError
from thinstream.lanes.lanes import Lanes
from thinstream.lanes.learner import Learner
from thinstream.models.merging import merge


def test_a_rule_that_declares_nothing_refuses_by_name(monkeypatch):
    """No guess is made."""
    parts = [Learner("rda", n_features=1) for _ in range(2)]
    for part in parts:
        part.learn(rows([[1.0]], [1]))
    monkeypatch.setattr(type(parts[0].rule), "merge_rule", lambda p: UNDECLARED)
    for average in (False, True):
        with pytest.raises(MergeError, match="RDA cannot be merged: it declares no merge_rule"):
            merge(parts, average=average)


def test_models_that_forget_differently_are_not_merged():
    models = [Learner("fsol", n_features=1, half_life=half_life) for half_life in (None, 5)]
    with pytest.raises(MergeError, match="FSOL: models to merge must agree in half_life, got None and 5"):
        require_mergeable(*models)


def test_a_model_is_not_merged_with_itself():
    """Its examples would count twice, whatever the number of classes; models that know nothing may come twice."""
    X = [[1.0, 0.0], [0.0, 1.0]]
    one, other = (ts.FSOL().fit(X, [0, 1]) for _ in range(2))
    assert one.merge(other).t_ == 4
    three, lanes = (ts.FSOL().fit([*X, [1.0, 1.0]], [0, 1, 2]) for _ in range(2))
    lanes._model.learner.outputs._held = Lanes.of(lanes._model.learner.outputs._held)
    bcw = ts.BCW().fit(X, [0, 1])
    for model in (one, three, lanes, bcw):
        with pytest.raises(
            MergeError, match="a model cannot be merged with itself, because its examples would count twice"
        ):
            model.merge(model)
    with pytest.raises(MergeError, match="cannot be merged with itself"):
        one.merge(other, other)
    with pytest.raises(MergeError, match="cannot be merged with itself"):
        merge([one._model.learner] * 2)
    empty = Learner("fsol", n_features=2)
    assert merge([empty, empty]).t == 0


def test_the_stable_sparse_perceptron_says_what_to_do_instead():
    """Average or not."""
    parts = [Learner("stablesparseperceptron", n_features=1) for _ in range(2)]
    for part in parts:
        part.learn(rows([[1.0]], [1]))
    for average in (False, True):
        with pytest.raises(MergeError, match="split the features instead of the examples: partial scores add exactly"):
            merge(parts, average=average)


@pytest.mark.parametrize(
    ("one", "other", "message"),
    [
        ({"eta": 1.0}, {"eta": 0.5}, "FSOL: models to merge must agree in eta, got 1.0 and 0.5"),
        ({}, {"l1_schedule": "sqrt"}, "must agree in l1_schedule, got 'eta' and 'sqrt'"),
        ({}, {"algorithm": "pa"}, "must agree in algorithm, got 'FSOL' and 'PA'"),
        ({}, {"dtype": "float64"}, "must agree in dtype, got 'float32' and 'float64'"),
        ({}, {"fit_intercept": True}, "must agree in fit_intercept, got False and True"),
        ({}, {"costs": Costs(1.0, 2.0)}, "must agree in class costs, got '1.0 : 1.0' and '1.0 : 2.0'"),
        ({"costs": Costs(balanced=True)}, {}, "must agree in class costs, got 'balanced' and '1.0 : 1.0'"),
    ],
)
def test_models_must_agree(one, other, message):
    """The message names what differs, and both values; even an empty model must agree."""
    first, second = (Learner(**{"algorithm": "fsol", "n_features": 2} | given) for given in (one, other))
    with pytest.raises(MergeError) as error:
        merge([first, first, second])
    assert message in str(error.value)
    with pytest.raises(ValueError, match="must agree"):
        require_mergeable(first, second)


def test_rules_that_need_the_dimension_must_agree_in_it():
    """A density is a share of all features."""
    parts = [Learner("stablesparseperceptron", n_features=d, max_density=0.5) for d in (2, 3)]
    with pytest.raises(MergeError, match="must agree in n_features, got 2 and 3"):
        merge(parts)


def test_weights_of_models():
    """Instead of t where weights are averaged; refused where nothing is."""
    parts = [Learner("pa", n_features=1, dtype="float64") for _ in range(3)]
    for part, x in zip(parts, (1.0, 2.0, 4.0)):
        part.learn(rows([[x]] * 2, [1, 1]))
    w = [part.weights()[0] for part in parts]
    assert merge(parts, [1, 0, 3]).weights()[0] == pytest.approx((w[0] + 3 * w[2]) / 4)
    assert merge(parts[::-1], [3, 0, 1]).weights() == merge(parts, [1, 0, 3]).weights()
    assert merge(parts).weights()[0] == pytest.approx(sum(w) / 3)
    for bad, message in (
        ([1, 2], "one per model, got 2 for 3"),
        ([1, -1, 1], "not negative, got -1 at position 1"),
        ([1, np.nan, 1], "finite and not negative, got nan at position 1"),
        ([0, 0, 0], "finite sum > 0, got 0"),
        ([1e308, 1e308, 1e308], "finite sum > 0, got inf"),
    ):
        with pytest.raises(InvalidParameterError, match=message):
            merge(parts, bad)
    sums = [Learner("fsol", n_features=1) for _ in range(2)]
    for part in sums:
        part.learn(rows([[1.0]], [1]))
    with pytest.raises(
        MergeError, match="FSOL: weights only apply to algorithms whose models are averaged, but here θ adds"
    ):
        merge(sums, [1, 1])
    with pytest.raises(MergeError, match="at least one model, got none"):
        merge([])
