"""Merging: against the table of rules computed densely on the twins, and the laws a merge must keep."""

import copy
import pickle
from itertools import permutations
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from tools.generate import merge_table

import thinstream as ts
from tests.rules.conformance import TOLERANCE, class_weights, streams
from tests.rules.golden import daily, twins
from thinstream.batch import Batch
from thinstream.datasets import sparse_gaussian
from thinstream.engine import heap
from thinstream.engine.loop import Costs
from thinstream.engine.merge_rule import UNDECLARED
from thinstream.errors import InvalidParameterError, MergeError
from thinstream.lanes import Lanes
from thinstream.learners import Learner, algorithms, merge, merging, require_mergeable
from thinstream.learners.memory import field_views

TWINS = twins()
RULES = {algorithm.name: algorithm.rule() for algorithm in algorithms("online")}
FORGETFUL = [algorithm.name for algorithm in algorithms("online") if algorithm.forgetting]
MERGEABLE = sorted(name for name, rule in RULES.items() if rule.merge_rule().declared)
some = settings(max_examples=20, suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow])


def rows(X, y, weights=None):
    X = sp.csr_matrix(X)
    return Batch.of(X.indptr, X.indices, X.data, X.shape[1], y=np.asarray(y, np.int8), weights=weights)


def same_bits(one: Learner, other: Learner) -> bool:
    """All they know is the same; there may be room for more features in one of them."""
    arrays = [
        (*field_views(model.algorithm, model.memory, 0, model.n_features + model.offset), *model.memory[2:])
        for model in (one, other)
    ]
    return all(a.tobytes() == b.tobytes() for a, b in zip(*arrays, strict=True))


class Case(NamedTuple):
    """A stream cut into parts, and how to make the models that learn them."""

    X: np.ndarray
    y: np.ndarray
    weights: np.ndarray
    cuts: tuple[int, int]
    class_weight: Any
    parameters: dict[str, Any]

    def part(self, k):
        cut = slice(*[(0, self.cuts[0]), self.cuts, (self.cuts[1], len(self.y))][k])
        return self.X[cut], self.y[cut], self.weights[cut]

    def empty(self, name, d=None, dtype="float64", **more):
        costs = {None: Costs(), "balanced": Costs(balanced=True)}.get(self.class_weight)
        return Learner(
            name,
            n_features=self.X.shape[1] if d is None else d,
            costs=Costs(*self.class_weight) if costs is None else costs,
            dtype=dtype,
            **self.parameters,
            **more,
        )

    def learner(self, name, k, **more):
        model = self.empty(name, **more)
        model.learn(rows(*self.part(k)))
        return model

    def twin(self, name, k):
        naive = TWINS[name][0](self.X.shape[1], class_weight=self.class_weight, **self.parameters)
        return taught(naive, self.part(k))


def taught(naive, part):
    for x, y, weight in zip(*part, strict=True):
        naive.learn(x, y, weight)
    return naive


def cases(name, **fixed):
    """Streams in three parts, none of them empty, under parameters that can be merged."""
    own = {"diagonal": st.just("exact")} if name == "SSOL" else {}
    strategies = TWINS[name][1] | own | fixed

    @st.composite
    def case(draw):
        stream = draw(streams().filter(lambda s: len(s.y) > 2))
        first = draw(st.integers(1, len(stream.y) - 2))
        second = draw(st.integers(first + 1, len(stream.y) - 1))
        weights = np.ones(len(stream.y)) if stream.weights is None else stream.weights
        parameters = draw(st.fixed_dictionaries(strategies))
        return Case(stream.X, stream.y, weights, (first, second), draw(class_weights), parameters)

    return case()


def test_every_algorithm_has_a_rule_or_a_reason():
    """What a rule declares and what its twin defines go together; what cannot be merged says why."""
    declared = {name: rule.merge_rule() for name, rule in RULES.items()}
    assert set(MERGEABLE) == {name for name, (twin, _) in TWINS.items() if twin.can_merge()}
    assert all(declared[name].refused for name in set(RULES) - set(MERGEABLE))
    table = merge_table()
    assert all(f"| `{name}" in table for name in RULES)
    assert len(table.splitlines()) == 2 + len(RULES) + 2


def test_a_rule_that_declares_nothing_refuses_by_name(monkeypatch):
    """No guess is made."""
    parts = [Learner("rda", n_features=1) for _ in range(2)]
    for part in parts:
        part.learn(rows([[1.0]], [1]))
    monkeypatch.setattr(type(parts[0].rule), "merge_rule", lambda p: UNDECLARED)
    for average in (False, True):
        with pytest.raises(MergeError, match="RDA cannot be merged: it declares no merge_rule"):
            merge(parts, average=average)


def test_what_a_rule_declares_are_its_fields():
    """A field that is not there would be found out late."""
    for algorithm in algorithms("online"):
        rule = algorithm.rule().merge_rule()
        named = {*rule.sums, *rule.means, *(rule.belief or ()), *([rule.weight] if rule.weight else [])}
        named |= set(rule.clocks(1, algorithm.totals()))
        assert named <= set(algorithm.coordinate._fields)


def assert_merges_as_defined(name, case):
    """Weights and counters after the merge, and scores and weights after a third part was learned."""
    with np.errstate(all="ignore"):  # twins whose variance has collapsed are discarded below
        naive = case.twin(name, 0)
        naive.merge(case.twin(name, 1))
        merged_weights, merged_counts = naive.weights().copy(), (naive.t, naive.mistakes, naive.updates)
        naive.scores = []
        taught(naive, case.part(2))
        assume(naive.edge > 1e-9 * (1.0 + np.abs(naive.scores).max()))
    parts = [case.learner(name, k) for k in (0, 1)]
    before = [[array.copy() for array in part.memory] for part in parts]
    model = merge(parts)
    for part, arrays in zip(parts, before):
        assert all(np.array_equal(a, b) for a, b in zip(part.memory, arrays))
    np.testing.assert_allclose(model.weights(), merged_weights, **TOLERANCE)
    assert (model.t, model.n_mistakes, model.n_updates) == merged_counts
    scores = model.learn(rows(*case.part(2)))
    np.testing.assert_allclose(scores, naive.scores, **TOLERANCE)
    np.testing.assert_allclose(model.weights(), naive.weights(), **TOLERANCE)
    np.testing.assert_allclose(model.cumulative_loss, naive.loss, **TOLERANCE)
    assert model.n_positives == naive.positives
    if hasattr(naive, "variance"):
        np.testing.assert_allclose(model.variance(), naive.variance(), **TOLERANCE)


@pytest.mark.twin
@pytest.mark.parametrize("name", MERGEABLE)
def test_merged_models_and_their_future_are_those_of_the_definition(name):
    some(given(case=cases(name))(lambda case: assert_merges_as_defined(name, case)))()


@pytest.mark.parametrize("name", [*map(daily, FORGETFUL)])
def test_models_that_forget_are_merged_as_they_stand(name):
    """Each after its own last row; T adds."""
    fixed = {"diagonal": st.just("exact")} if "diagonal" in TWINS[name][1] else {}
    drawn = cases(name, half_life=st.floats(1.0, 30.0), **fixed)
    some(given(case=drawn)(lambda case: assert_merges_as_defined(name, case)))()


def test_laws_of_merging_hold_for_models_that_forget():
    @some
    @given(case=cases("FSOL", half_life=st.floats(1.0, 30.0)))
    def check(case):
        parts, empty = [case.learner("FSOL", k) for k in range(3)], case.empty("FSOL")
        model = merge(parts)
        for order in permutations(parts):
            assert same_bits(merge(order), model)
        assert same_bits(merge([empty, parts[0]]), parts[0])
        grouped = merge([merge(parts[:2]), parts[2]])
        np.testing.assert_allclose(grouped.weights(), model.weights(), **TOLERANCE)
        unseen = ~np.vstack([case.part(k)[0][case.part(k)[2] > 0] for k in range(3)]).any(axis=0)
        assert not model.memory.clocks[unseen].any()  # a feature nobody saw takes no room in a file

    check()


def test_models_that_forget_differently_are_not_merged():
    models = [Learner("fsol", n_features=1, half_life=half_life) for half_life in (None, 5)]
    with pytest.raises(MergeError, match="FSOL: models to merge must agree in half_life, got None and 5"):
        require_mergeable(*models)


@pytest.mark.parametrize("name", MERGEABLE)
def test_order_does_not_matter_and_empty_models_change_nothing(name):
    """Bit for bit, in both precisions, with and without an intercept."""
    # in float32 only loops that other tests compile, too: merging is the same code for all
    usual = {"diagonal": st.just("exact"), "update_on": st.just("every" if name == "SSOL" else "mistake")}
    usual = {key: value for key, value in usual.items() if key in TWINS[name][1]}
    in_32 = st.tuples(cases(name, **usual), st.just("float32"))

    @some
    @given(drawn=in_32 | st.tuples(cases(name), st.just("float64")), intercept=st.booleans())
    def check(drawn, intercept):
        case, dtype = drawn
        more = {"dtype": dtype, "fit_intercept": intercept}
        parts, empty = [case.learner(name, k, **more) for k in range(3)], case.empty(name, **more)
        model = merge(parts)
        for order in permutations(parts):
            assert same_bits(merge(order), model)
        assert same_bits(merge([empty, *parts[1:], empty, parts[0]]), model)
        for part in parts:
            assert same_bits(merge([part]), part)
            assert same_bits(merge([part, empty]), part)
            assert same_bits(merge([empty, part]), part)
        assert same_bits(merge([empty, empty]), empty)

    check()


@pytest.mark.parametrize("name", sorted(set(MERGEABLE) - {"SOFS"}))
def test_models_can_be_merged_in_any_groups(name):
    """Up to rounding; SOFS forgets the means of what it leaves out, so there it depends on the groups."""
    exact = {"diagonal": st.just("exact")} if "diagonal" in TWINS[name][1] else {}

    @some
    @given(case=cases(name, **exact))
    def check(case):
        a, b, c = (case.learner(name, k) for k in range(3))
        model = merge([a, b, c])
        for other in (merge([merge([a, b]), c]), merge([a, merge([b, c])])):
            np.testing.assert_allclose(other.weights(), model.weights(), **TOLERANCE)
            np.testing.assert_array_equal(other.memory.counts, model.memory.counts)

    check()


@pytest.mark.parametrize("name", MERGEABLE)
def test_a_narrow_model_is_one_that_never_saw_the_other_features(name):
    """The same bits as merging a model made wide from the start; in blocks of any size."""

    @some
    @given(case=cases(name), cut=st.integers(0, 10), intercept=st.booleans(), block=st.integers(1, 4))
    def check(case, cut, intercept, block):
        d, (X, y, weights) = case.X.shape[1], case.part(0)
        cut, X = min(cut, d), X.copy()
        X[:, cut:] = 0
        narrow, padded = (case.empty(name, d=width, fit_intercept=intercept) for width in (cut, d))
        narrow.learn(rows(X[:, :cut], y, weights))
        padded.learn(rows(X, y, weights))
        wide = case.learner(name, 1, fit_intercept=intercept)
        model = merge([padded, wide])
        assert same_bits(merge([narrow, wide]), model)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(merging, "BLOCK", block)
            assert same_bits(merge([wide, narrow]), model)
        grown = merge([narrow, case.empty(name, fit_intercept=intercept)])
        assert grown.n_features == d
        np.testing.assert_array_equal(grown.weights(), padded.weights())

    check()


def test_the_matrix_of_ssol_is_exactly_that_of_one_run():
    """No labels, every example: only rounding differs."""

    @some
    @given(case=cases("SSOL", update_on=st.just("every")))
    def check(case):
        whole = case.empty("SSOL")
        whole.learn(rows(case.X, case.y, case.weights))
        model = merge([case.learner("SSOL", k) for k in range(3)])
        np.testing.assert_allclose(1 / model.variance(), 1 / whole.variance(), rtol=1e-12)

    check()


@pytest.mark.parametrize("name", ["FSOL", "SSOL"])
def test_where_every_example_updates_the_merged_model_is_the_sequential_one(name):
    """Steps so short that no margin is reached, and costs that do not depend on what was seen before."""

    @some
    @given(case=cases(name, eta=st.just(1e-4), l1=st.sampled_from([0.0, 0.5])))
    def check(case):
        assume(case.class_weight != "balanced")
        whole = case.empty(name)
        whole.learn(rows(case.X, case.y, case.weights))
        assert whole.n_updates == whole.t
        model = merge([case.learner(name, k) for k in range(3)])
        np.testing.assert_allclose(model.weights(), whole.weights(), rtol=1e-9, atol=1e-14)
        assert model.t == whole.t

    check()


@given(case=cases("SOFS"))
@some
def test_the_heap_of_a_merged_sofs_is_a_heap(case):
    """Each slot's feature knows its place, nothing leaves before its parent, and what is outside has no mean."""
    model = merge([case.learner("SOFS", k) for k in range(3)])
    B, memory = case.parameters["B"], model.memory
    kept, precisions = memory.extra[:B].astype(int), memory.extra[B:]
    f = field_views(model.algorithm, memory, 0, len(memory.clocks))
    np.testing.assert_array_equal(f.A[kept], precisions)
    assert [heap.slot_of(memory, j) for j in kept] == list(range(B))
    for slot in range(1, B):
        parent = (slot - 1) // 2
        assert (precisions[parent], -kept[parent]) <= (precisions[slot], -kept[slot])
    outside = np.setdiff1d(np.arange(len(f.A)), kept)
    assert all(heap.slot_of(memory, j) == -1 for j in outside)
    assert not f.mu[outside].any()
    assert set(kept) == set(sorted(range(len(f.A)), key=lambda j: (-f.A[j], j))[:B])


def test_ssol_as_printed_is_refused_or_averaged():
    """θ and σ by t, as an explicit choice; a single part needs no choice."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(9, 4)), np.where(rng.random(9) < 0.5, 1, -1)
    one, other = (Learner("ssol", n_features=4, dtype="float64") for _ in range(2))
    one.learn(rows(X[:3], y[:3]))
    other.learn(rows(X[3:], y[3:]))
    with pytest.raises(MergeError, match=r"SSOL cannot be merged: .*diagonal='drop'.*diagonal='exact'.*average=True"):
        merge([one, other])
    model = merge([one, other], average=True)
    np.testing.assert_allclose(model.variance(), (3 * one.variance() + 6 * other.variance()) / 9)
    theta = [part.memory.state[0::2] for part in (one, other, model)]
    np.testing.assert_allclose(theta[2], (3 * theta[0] + 6 * theta[1]) / 9)
    assert same_bits(merge([other, one], average=True), model)
    assert same_bits(merge([one, Learner("ssol", n_features=4, dtype="float64")]), one)


def test_a_model_is_not_merged_with_itself():
    """Its examples would count twice, whatever the number of classes; models that know nothing may come twice."""
    X = [[1.0, 0.0], [0.0, 1.0]]
    one, other = (ts.FSOL().fit(X, [0, 1]) for _ in range(2))
    assert one.merge(other).t_ == 4
    three, lanes = (ts.FSOL().fit([*X, [1.0, 1.0]], [0, 1, 2]) for _ in range(2))
    lanes._model.learner._held = Lanes.of(lanes._model.learner._held)
    bcw = ts.BCW().fit(X, [0, 1])
    for model in (one, three, lanes, bcw):
        with pytest.raises(MergeError, match="a model cannot be merged with itself, its examples would count twice"):
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
        ([1, -1, 1], "not negative, got -1 at 1"),
        ([1, np.nan, 1], "finite and not negative, got nan at 1"),
        ([0, 0, 0], "finite sum > 0, got 0"),
        ([1e308, 1e308, 1e308], "finite sum > 0, got inf"),
    ):
        with pytest.raises(InvalidParameterError, match=message):
            merge(parts, bad)
    sums = [Learner("fsol", n_features=1) for _ in range(2)]
    for part in sums:
        part.learn(rows([[1.0]], [1]))
    with pytest.raises(MergeError, match="FSOL: weights of models are for algorithms that average, but here θ adds"):
        merge(sums, [1, 1])
    with pytest.raises(MergeError, match="at least one model, got none"):
        merge([])


@pytest.mark.parametrize(
    ("diagonal", "collapsed", "dtype"),
    [
        ("exact", np.inf, "float32"),
        ("exact", np.inf, "float64"),
        ("drop", 0.0, "float64"),
        pytest.param("drop", 0.0, "float32", marks=pytest.mark.slow),
    ],
)
def test_a_collapsed_variance_gives_no_nan(diagonal, collapsed, dtype):
    """CW without a bound on its confidence can get there; the certain shard decides."""
    parts = [Learner("cw", n_features=2, diagonal=diagonal, dtype=dtype) for _ in range(3)]
    for part in parts:
        part.learn(rows([[1.0, 1.0]], [1]))
        part.memory.state[:2] = (3.0, collapsed)
    parts[2].memory.state[:2] = (-5.0, 1.0)
    model = merge(parts)
    assert np.isfinite(model.memory.state).all()
    assert model.weights()[0] == pytest.approx(3.0)


@pytest.mark.parametrize("name", MERGEABLE)
def test_merged_shards_predict_no_worse_than_a_shard(name):
    """Two halves of a stream; the estimators' face, defaults, float32; the merged model is saved and goes on."""
    train, test = sparse_gaussian(3_000, 1_000, n_features=300, n_informative=50, n_noise=60, seed=1)
    parameters = {"diagonal": "exact"} if name == "SSOL" else {}
    shards = [ts.make(name, **parameters) for _ in range(2)]
    for k, shard in enumerate(shards):
        shard.partial_fit(train.X[k:2_000:2], train.y[k:2_000:2], classes=[-1, 1])
    model = shards[0].merge(shards[1])
    apart = np.mean([shard.score(test.X, test.y) for shard in shards])
    assert model.score(test.X, test.y) > apart - 0.01
    assert model.t_ == 2_000
    saved = pickle.loads(pickle.dumps(model))
    for one in (model, saved):
        one.partial_fit(train.X[2_000:], train.y[2_000:])
    assert same_bits(model._model.learner, saved._model.learner)
    assert model.score(test.X, test.y) > apart - 0.01


def test_estimators_must_agree_in_what_learners_do_not_know():
    """Classes, columns, names, growth, unchanged parameters."""
    X = [[1.0, 0.0], [0.0, 1.0]]
    model = ts.FSOL().fit(X, [0, 1])
    for other, message in (
        (ts.FSOL().fit(X, [0, 2]), r"must agree in classes, got \[0, 1\] and \[0, 2\]"),
        (ts.FSOL(eta=2).fit(X, [0, 1]), r"must agree in eta, got 1.0 and 2"),
        (ts.PA().fit(X, [0, 1]), "must agree in algorithm, got 'FSOL' and 'PA'"),
        (ts.FSOL(class_weight="balanced").fit(X, [0, 1]), "must agree in class costs, got '1.0 : 1.0' and 'balanced'"),
        (ts.FSOL(grow=True).fit(X, [0, 1]), "must agree in grow, got False and True"),
        (ts.FSOL().fit([[1.0], [2.0]], [0, 1]), "must agree in n_features_in_, got 2 and 1"),
        (ts.FSOL().fit(pd.DataFrame(X, columns=["a", "b"]), [0, 1]), "feature names or none"),
        ("model", "only its own kind can be merged with it, got 'model'"),
    ):
        with pytest.raises(MergeError, match=message):
            model.merge(other)
    with pytest.raises(ValueError, match="not fitted"):
        model.merge(ts.FSOL())
    with pytest.raises(InvalidParameterError, match="eta was changed"):
        model.merge(ts.FSOL().fit(X, [0, 1]).set_params(eta=3.0))
    with pytest.raises(MergeError, match="SSOL cannot be merged"):
        ts.SSOL().fit(X, [0, 1]).merge(ts.SSOL().fit(X, [0, 1]))
    assert ts.SSOL().fit(X, [0, 1]).merge(ts.SSOL().fit(X, [0, 1]), average=True).t_ == 4


def test_growing_estimators_keep_the_longer_names():
    """Names agree as far as each goes."""
    frame = pd.DataFrame([[1.0, 0.0, 2.0], [0.0, 1.0, 0.0]], columns=["a", "b", "c"])
    wide, narrow = (ts.FSOL(grow=True).fit(X, ["ham", "spam"]) for X in (frame, frame[["a", "b"]]))
    model = narrow.merge(wide, copy.deepcopy(narrow))
    assert model.feature_names_in_.tolist() == ["a", "b", "c"]
    assert model.n_features_in_ == 3
    assert model.predict(frame).tolist() == ["ham", "spam"]
    assert model.partial_fit(frame, ["ham", "spam"]).t_ == 8
    assert narrow.n_features_in_ == 2
    with pytest.raises(MergeError, match="agree in feature names, got 'b' and 'c' for column 1"):
        wide.merge(ts.FSOL(grow=True).fit(frame[["a", "c"]], ["ham", "spam"]))


def test_a_merged_estimator_is_its_own():
    """Learning on changes none of the parts, and the parts' learning not the whole."""
    X = [[1.0, 0.0], [0.0, 1.0]]
    one, other = (ts.AROW(class_weight="balanced").fit(X, [0, 1]) for _ in range(2))
    model = one.merge(other)
    before = model.coef_.copy()
    one.partial_fit(X, [1, 0])
    np.testing.assert_array_equal(model.coef_, before)
    model.partial_fit(X, [1, 0])
    assert (one.t_, other.t_, model.t_) == (4, 2, 6)
