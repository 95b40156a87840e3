"""Classes that come later: the model of each is, to the bit, the one it would have if it had been known all along."""

import copy
import itertools
import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import thinstream as ts
from tests.models.test_models import PARAMETERS, reforged
from tests.models.test_one_vs_rest import together
from thinstream.batch import Batch
from thinstream.data.labels import Classes, GrowingClasses
from thinstream.engine.loop import Costs
from thinstream.errors import (
    InvalidInputError,
    InvalidParameterError,
    MergeError,
    ModelFileError,
    NumericalError,
    WeightsOnlyError,
)
from thinstream.models import packing
from thinstream.models.file import read, write
from thinstream.models.merging import merge_outputs
from thinstream.models.model import Model, make_growing, make_outputs
from thinstream.models.pipeline import Pipeline

NAMES = [algorithm.name for algorithm in ts.algorithms("online")]
#: What a class may weigh: nothing in particular, "balanced", or costs of which some are of classes that come late.
COSTS = [None, "balanced", {0: 2.0, 1: 0.25, 2: 3.0, 9: 7.0}]
FULL = [name for name in NAMES if "covariance" in ts.make(name).get_params()]


def rows_of(X, y, weights=None):
    X = sp.csr_matrix(X)
    batch = Batch.of(X.indptr, X.indices, X.data, X.shape[1], first_row=0)
    return batch.labelled(np.asarray(y, np.int32), weights)


def late(seed, n=60, k=4):
    """Rows and numbers of classes that come one after another, in order of their numbers."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 7)) * (rng.random((n, 7)) < 0.5)
    y = rng.integers(0, k, n)
    ceiling = np.sort(rng.integers(0, n, k - 1))
    for row in range(n):
        most = int(np.searchsorted(ceiling, row, side="right"))
        y[row] = min(y[row], most, max(y[:row], default=-1) + 1)
    return X, y


def known_all_along(name, y, costs, **options):
    """The learner that knows all classes from the start."""
    k = int(y.max()) + 1
    given = {n: costs.get(n, 1.0) for n in range(k)} if isinstance(costs, dict) else {}
    each = [Costs(balanced=True) if costs == "balanced" else Costs(1.0, given.get(n, 1.0)) for n in range(k)]
    return make_outputs(name, each, **options)


def begun(name, costs, **options):
    return Model.fresh(name, GrowingClasses(class_weight=costs), **options)


def learn(model, X, y, weights, cuts=()):
    """The model after rows with labels, in chunks, and the scores of each."""
    edges, scores = [0, *sorted(cuts), len(y)], []
    for a, b in itertools.pairwise(edges):
        classes = model.classes.meeting(y[a:b])
        rows = rows_of(X[a:b], classes.coded(y[a:b]), None if weights is None else weights[a:b])
        model, found = model.learn(rows, classes)
        scores.append(found)
    return model, scores


def assert_same_models(one, other):
    for mine, theirs in zip(one, other, strict=True):
        found, wanted = packing.full(mine), packing.full(theirs)
        assert found.keys() == wanted.keys()
        for key in wanted:
            assert found[key].tobytes() == wanted[key].tobytes(), key


# To the bit -----------------------------------------------------------------------------------------------------------


def check_bits(name, seed, costs, weighted, cuts, **options):
    X, y = late(seed)
    weights = np.random.default_rng(seed).choice([0.0, 0.5, 2.0], len(y)) if weighted else None
    options = {"n_features": 7, "dtype": "float64", **PARAMETERS.get(name, {}), **options}
    whole = known_all_along(name, y, costs, **options)
    wanted = whole.learn(rows_of(X, y, weights))
    model, scores = learn(begun(name, costs, **options), X, y, weights, cuts)
    learner = model.learner.outputs
    assert model.classes == tuple(range(int(y.max()) + 1))
    assert_same_models(learner, whole)
    row, mistakes = 0, 0
    for found in scores:
        part = wanted[row : row + len(found), : found.shape[1]]
        assert found.tobytes() == np.ascontiguousarray(part).tobytes()
        row += len(found)
    for row, own in enumerate(y):  # only what was met before can be called
        met = int(max(y[:row], default=-1)) + 1
        mistakes += (weights is None or weights[row] > 0) and (not met or wanted[row, :met].argmax() != own)
    assert learner.n_mistakes == mistakes
    assert learner.scores(rows_of(X, y)).tobytes() == whole.scores(rows_of(X, y)).tobytes()
    assert (learner.n_updates == whole.n_updates).all()
    assert (learner.cumulative_loss == whole.cumulative_loss).all()
    assert learner.t == whole.t
    return model


@pytest.mark.parametrize("name", NAMES)
def test_every_algorithm_learns_a_late_class_as_one_known_all_along(name):
    for seed, costs in enumerate(COSTS):
        check_bits(name, seed, costs, weighted=seed > 0, cuts=[7, 8, 30], fit_intercept=bool(seed % 2))


@pytest.mark.parametrize("name", FULL)
def test_with_a_full_covariance_as_well(name):
    check_bits(name, 1, COSTS[2], weighted=True, cuts=[20], covariance="full")


@pytest.mark.parametrize("name", ["PA", "CW"])
def test_costs_that_enter_steps_on_negatives_have_a_spare_each(name):
    own = {"variant": "PA"} if name == "PA" else {}
    model = check_bits(name, 3, COSTS[2], weighted=False, cuts=[11], **own)
    assert model.learner.outputs.spare_costs == (
        Costs(),
        Costs(1.0, 2.0),
        Costs(1.0, 0.25),
        Costs(1.0, 3.0),
        Costs(1.0, 7.0),
    )


@settings(deadline=None, max_examples=40)
@given(
    seed=st.integers(0, 2**32 - 1),
    costs=st.sampled_from(COSTS),
    weighted=st.booleans(),
    cuts=st.lists(st.integers(0, 60), max_size=4),
    lanes=st.booleans(),
)
def test_in_any_chunks_alone_or_in_lanes(seed, costs, weighted, cuts, lanes):
    with pytest.MonkeyPatch.context() as patch:
        if lanes:
            together(patch)
        check_bits("SSOL", seed, costs, weighted, cuts)


def test_parameters_that_need_the_dimension():
    check_bits("StableSparsePerceptron", 5, None, False, [13], max_density=0.5)
    check_bits("SMIDAS", 5, None, False, [13])


def test_models_that_forget():
    check_bits("AROW", 2, COSTS[2], weighted=True, cuts=[10, 33], half_life=20.0)


def test_a_model_that_grows_in_width_too():
    X, y = late(8)
    X = np.hstack([X, np.zeros((len(y), 2))])
    whole = known_all_along("AROW", y, None, n_features=9, dtype="float64")
    whole.learn(rows_of(X, y))
    model = begun("AROW", None, n_features=0, dtype="float64", grow=True)
    for row in range(len(y)):
        width = 3 + row % 7 if not X[row, 3 + row % 7 :].any() else 9
        classes = model.classes.meeting(y[row : row + 1])
        model, _ = model.learn(rows_of(X[row : row + 1, :width], classes.coded(y[row : row + 1])), classes)
    assert_same_models(model.learner.outputs, whole)


# Files, copies, merging -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("costs", COSTS)
def test_a_saved_model_goes_on_with_the_same_bytes(tmp_path, costs):
    X, y = late(11)
    options = {"n_features": 7, "dtype": "float64"}
    whole, _ = learn(begun("SSOL", costs, **options), X, y, None)
    half, _ = learn(begun("SSOL", costs, **options), X[:25], y[:25], None)
    write(tmp_path / "half", half)
    back = read(tmp_path / "half")
    write(tmp_path / "again", back)
    assert (tmp_path / "half").read_bytes() == (tmp_path / "again").read_bytes()
    assert back.classes.grow
    assert back.class_weight == costs
    resumed, _ = learn(back, X[25:], y[25:], None)
    write(tmp_path / "resumed", resumed)
    write(tmp_path / "whole", whole)
    assert (tmp_path / "resumed").read_bytes() == (tmp_path / "whole").read_bytes()


def test_each_model_in_the_file_is_that_of_a_class_known_all_along(tmp_path):
    X, y = late(12)
    model, _ = learn(begun("AROW", None, n_features=7, dtype="float64"), X, y, None, [9])
    whole = known_all_along("AROW", y, None, n_features=7, dtype="float64")
    whole.learn(rows_of(X, y))
    found, wanted = packing.pack(model.learner, "full"), packing.pack(Pipeline.of(whole), "full")
    classes = range(int(y.max()) + 1)
    for name in wanted:
        if name.partition("/")[0].isdecimal() and int(name.partition("/")[0]) in classes:
            assert found[name].tobytes() == wanted[name].tobytes(), name


def test_weights_only_predict_and_learn_no_more(tmp_path):
    X, y = late(13)
    model, _ = learn(begun("SSOL", None, n_features=7, dtype="float64"), X, y, None)
    write(tmp_path / "small", model, "weights")
    small = read(tmp_path / "small")
    assert small.learner.scores(rows_of(X, y)).tobytes() == model.learner.scores(rows_of(X, y)).tobytes()
    write(tmp_path / "again", small, "weights")
    assert (tmp_path / "again").read_bytes() == (tmp_path / "small").read_bytes()
    for label in (0, 99):
        classes = small.classes.meeting([label])
        with pytest.raises(WeightsOnlyError, match="it predicts but cannot learn"):
            small.learn(rows_of(X[:1], classes.coded([label])), classes)


def test_forged_files_are_refused(tmp_path):
    X, y = late(14)
    model, _ = learn(begun("SSOL", {1: 2.0}, n_features=7), X, y, None)
    for change, said in (
        ({"class_weight": [[1, 3.0]]}, "class weights"),
        ({"spares": []}, "no spare model for new classes|missing"),
        ({"class_weight": 7}, "class_weight|class weights"),
    ):
        write(tmp_path / "m", model)
        with pytest.raises(ModelFileError, match=said):
            read(reforged(tmp_path / "m", **change))


def test_copies_are_of_their_own():
    X, y = late(15)
    model, _ = learn(begun("SSOL", None, n_features=7), X[:20], y[:20], None)
    before = packing.pack(model.learner, "full")
    twins = [copy.deepcopy(model), pickle.loads(pickle.dumps(model)), model.copy()]
    grown = [learn(twin, X[20:], y[20:], None)[0] for twin in twins]
    assert all(np.array_equal(packing.pack(model.learner, "full")[name], before[name]) for name in before)
    for other in grown[1:]:
        assert_same_models(other.learner.outputs, grown[0].learner.outputs)


def merged_by_hand(name, parts, labels, **options):
    """Per class: the two-class models that knew all classes, merged."""
    shards = []
    for X, y in parts:
        whole = make_outputs(name, [Costs()] * len(labels), **options)
        whole.learn(rows_of(X, [labels.index(label) for label in y]))
        shards.append(whole)
    return merge_outputs(shards)


@pytest.mark.parametrize("name", ["AROW", "FSOL", "AdaRDA", "FTRLProximal"])
def test_shards_that_met_different_classes_merge_as_if_all_had_known_all(name):
    X, _ = late(16)
    y = np.array(["b", "a", "b"] * 10 + ["c", "a", "c"] * 10)
    options = {"n_features": 7, "dtype": "float64"}
    one, _ = learn(begun(name, None, **options), X[:30], y[:30], None)
    two, _ = learn(begun(name, None, **options), X[30:], y[30:], None)
    both = one.merge(two)
    assert tuple(both.classes) == ("b", "a", "c")
    wanted = merged_by_hand(name, [(X[:30], y[:30]), (X[30:], y[30:])], ["b", "a", "c"], **options)
    assert_same_models(both.learner.outputs, wanted)
    assert both.learner.n_mistakes == one.learner.n_mistakes + two.learner.n_mistakes
    other_way = two.merge(one)
    assert tuple(other_way.classes) == ("c", "a", "b")
    for label in "abc":
        assert_same_models(
            [list(both.learner.outputs)[both.classes.index(label)]],
            [list(other_way.learner.outputs)[other_way.classes.index(label)]],
        )
    late_class = learn(both, X[:5], np.array(["d"] * 5), None)[0]  # and it goes on growing
    assert late_class.classes[-1] == "d"


def test_models_that_differ_in_growing_do_not_merge():
    X, y = late(17)
    growing, _ = learn(begun("FSOL", None, n_features=7), X, y, None)
    weighed, _ = learn(begun("FSOL", {0: 2.0}, n_features=7), X, y, None)
    fixed = Model.fresh("FSOL", Classes(0, 1, 2, 3), n_features=7)
    with pytest.raises(MergeError, match="grow_classes"):
        growing.merge(fixed)
    with pytest.raises(MergeError, match="class weight"):
        growing.merge(weighed)


# Errors ---------------------------------------------------------------------------------------------------------------


def test_a_row_that_cannot_be_learned_leaves_the_classes_as_they_were():
    model = begun("FSOL", None, n_features=1, dtype="float32", eta=1e25)
    model, _ = learn(model, np.ones((1, 1)), np.array([0]), None)
    bad = rows_of(np.full((2, 1), 1e14), [1, 0])
    with pytest.raises(NumericalError):
        model.learn(bad, model.classes.meeting([1]))
    assert len(model.learner.outputs) == 1 == len(model.classes)


def test_bad_numbers_of_classes_are_refused():
    learner = make_growing("fsol", GrowingClasses(), n_features=7)
    X, _ = late(18)
    with pytest.raises(InvalidInputError, match="must be numbered consecutively after the known ones, got 2 at row 1"):
        learner.learn(rows_of(X[:2], [0, 2]))
    with pytest.raises(InvalidInputError, match="from 0"):
        learner.learn(rows_of(X[:1], [-1]))
    assert len(learner) == 0
    with pytest.raises(InvalidInputError, match="X has 9 features"):
        learner.learn(rows_of(np.ones((1, 9)), [0]))
    assert len(learner) == 0


def test_batch_methods_do_not_grow():
    with pytest.raises(InvalidParameterError, match="SCD: grow_classes needs an algorithm that learns online"):
        begun("SCD", None, n_features=3)


def test_labels_are_of_one_kind():
    classes = GrowingClasses("a")
    for mixed in ([1], ["b", 2], np.array(["b", True], dtype=object)):
        with pytest.raises(InvalidInputError, match="labels must all be of one type"):
            classes.meeting(mixed)
    with pytest.raises(InvalidInputError, match="classes must all be of one type"):
        GrowingClasses("a", 1)
    assert tuple(GrowingClasses().meeting([True, False])) == (True, False)
    assert GrowingClasses(1).meeting(np.array([1.0, 2.5])) == (1, 2.5)
