"""Merging: against the table of rules computed densely on the twins, and the laws a merge must keep."""

from itertools import permutations
from typing import Any, NamedTuple

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from tools.generate import merge_table

from tests.algorithms.online.conformance import TOLERANCE, class_weights, streams
from tests.algorithms.online.golden import daily, twins
from thinstream.algorithms.online import sofs
from thinstream.algorithms.registry import algorithms
from thinstream.batch import Batch
from thinstream.engine.loop import Costs
from thinstream.engine.memory import field_views
from thinstream.errors import MergeError
from thinstream.lanes.learner import Learner
from thinstream.models import merging
from thinstream.models.merging import merge

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
    assert [sofs.slot_of(memory, j) for j in kept] == list(range(B))
    for slot in range(1, B):
        parent = (slot - 1) // 2
        assert (precisions[parent], -kept[parent]) <= (precisions[slot], -kept[slot])
    outside = np.setdiff1d(np.arange(len(f.A)), kept)
    assert all(sofs.slot_of(memory, j) == -1 for j in outside)
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
