"""What holds of every prepared learner: errors leave no trace, nothing of the caller's is touched, threads, growth."""

import copy
import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import thinstream as ts
from thinstream.batch import Batch
from thinstream.engine.loop import Costs
from thinstream.errors import InvalidInputError, InvalidParameterError, NumericalError, WeightsOnlyError
from thinstream.lanes.learner import Frozen, Learner
from thinstream.models import pipeline as module
from thinstream.models.model import make_learner, make_outputs
from thinstream.models.pipeline import Pipeline
from thinstream.models.preparation import Preparation

KINDS = [("max", None), ("rms", None), ("idf", None), (None, "l2"), ("max", "l2"), ("rms", "l2"), ("idf", "l2")]
SCALED = [kind for kind in KINDS if kind[0]]


def rows(n=40, d=6, seed=0, dtype=np.float32, classes=2, weights=False, unit=100.0):
    rng = np.random.default_rng(seed)
    X = sp.random(n, d, 0.6, "csr", dtype=dtype, random_state=rng, data_rvs=lambda k: rng.normal(size=k) * unit)
    y = rng.choice(np.array([-1, 1], np.int8), n) if classes == 2 else rng.integers(0, classes, n).astype(np.int32)
    given = rng.choice([0.0, 1.0, 2.0], n) if weights else None
    return Batch.of(X.indptr, X.indices, X.data, d, y, given)


def learner(kind, n_features=6, algorithm="fsol", **options):
    return Pipeline.of(make_learner(algorithm, n_features=n_features, **options), Preparation(*kind))


def state(model):
    """All bits."""
    scales = model.preparation.scales
    memories = [array.tobytes() for each in model.outputs for array in each.memory]
    return memories, None if scales is None else scales.state.tobytes()


@pytest.mark.parametrize("kind", KINDS)
def test_the_callers_rows_stay_as_they_are(kind):
    batch = rows(weights=True)
    before = copy.deepcopy((batch.indptr, batch.indices, batch.values, batch.y, batch.weights))
    model = learner(kind)
    model.learn(batch)
    model.scores(batch)
    for was, now in zip(before, (batch.indptr, batch.indices, batch.values, batch.y, batch.weights), strict=True):
        assert np.array_equal(was, now)


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=15)
@given(cut=st.integers(0, 40), size=st.sampled_from([1, 7, 50]))
def test_blocks_are_of_any_size(kind, cut, size):
    batch = rows(weights=True)
    one, other = learner(kind), learner(kind)
    scores = one.learn(batch)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "BLOCK", size)
        again = np.concatenate([other.learn(batch.until(cut)), other.learn(batch.after(cut))])
    assert scores.tobytes() == again.tobytes()
    assert state(one) == state(other)


@pytest.mark.parametrize("kind", SCALED)
@settings(max_examples=15)
@given(bad=st.integers(0, 39), cut=st.integers(0, 40), size=st.sampled_from([3, 1000]))
def test_a_row_that_cannot_be_learned_leaves_no_trace(kind, bad, cut, size):
    batch = rows(unit=0.1)  # idf leaves values large that are: the logistic loss of such rows may have no slope at all
    weights = np.ones(40)
    weights[bad] = 1e200  # G would not be finite
    batch = batch.labelled(batch.y, weights)
    if batch.indptr[bad] == batch.indptr[bad + 1]:
        return  # an empty row can be learned
    model, until = (learner(kind, algorithm="rda", loss="logistic") for _ in range(2))  # which updates on every row
    until.learn(batch.until(bad))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "BLOCK", size)
        done = [model.learn(batch.until(cut))] if cut <= bad else []
        with pytest.raises(NumericalError, match=f"row {bad} cannot be learned"):
            model.learn(batch.after(cut) if done else batch.until(cut))
    assert state(model) == state(until)
    assert model.t == bad


@pytest.mark.parametrize("kind", KINDS)
def test_bad_input_leaves_no_trace(kind):
    batch = rows()
    model = learner(kind)
    model.learn(batch)
    before = state(model)
    wide = Batch.of(batch.indptr, batch.indices, batch.values, 9, batch.y)
    with pytest.raises(InvalidInputError, match="X has 9 features, but the model has 6"):
        model.learn(wide)
    with pytest.raises(InvalidInputError, match="needs labels"):
        model.learn(Batch.of(batch.indptr, batch.indices, batch.values, 6))
    with pytest.raises(InvalidInputError, match="two classes"):
        model.learn(batch.labelled(batch.y.astype(np.int32)))
    large = Batch.of(np.array([0, 1]), np.array([0]), np.array([2e38]), 6, batch.y[:1])
    for call in (model.learn, model.scores):
        with pytest.raises(InvalidInputError, match=r"X has 2e\+38 at row 0, column 0; scale and normalize allow"):
            call(large)
    frozen = Pipeline.of(Frozen.of(model.outputs.one), model.preparation.copy())
    with pytest.raises(WeightsOnlyError):
        frozen.learn(batch)
    assert state(frozen)[1] == before[1]
    assert state(model) == before


@pytest.mark.parametrize("kind", SCALED)
def test_a_value_far_beyond_its_scale_is_refused_where_it_is_scored(kind):
    model = learner(kind)
    model.learn(Batch.of(np.array([0, 1]), np.array([2]), np.array([1e-3]), 6, y=np.array([1], np.int8)))
    before = state(model)
    far = Batch.of(np.array([0, 1]), np.array([2]), np.array([1e20]), 6, np.array([1], np.int8), np.zeros(1))
    for call in (model.scores, model.learn):
        with pytest.raises(
            InvalidInputError, match=r"X has 1e\+20 at row 0, column 2. This is more than 1e\+15 times the scale "
        ):
            call(far)
    assert state(model) == before


def test_scales_take_values_that_are_too_large_for_a_model_without():
    batch = Batch.of(np.array([0, 1, 2]), np.array([0, 0]), np.array([1e20, -1e20]), 1, np.array([1, -1], np.int8))
    with pytest.raises(InvalidInputError, match=r"float32 allows 1e\+15"):
        make_learner("fsol", n_features=1).learn(batch)
    model = learner(("max", None), 1)
    model.learn(batch)
    assert np.sign(model.scores(batch)).tolist() == [1, -1]


@pytest.mark.parametrize("kind", KINDS)
def test_growing_is_as_if_the_width_had_been_known(kind):
    wide, grown = learner(kind), learner(kind, 0, grow=True)
    for seed, width in enumerate((2, 4, 6)):
        batch = rows(d=width, seed=seed)
        batch = Batch.of(batch.indptr, batch.indices, batch.values, width, batch.y)
        wide.learn(batch)
        grown.learn(batch)
    assert wide.weights().tobytes() == grown.weights().tobytes()
    assert grown.n_features == 6
    assert np.array_equal(wide.preparation.divisors(6), grown.preparation.divisors(6))


def test_a_feature_number_too_high_is_refused_before_scales_get_room():
    model = learner(("rms", None), 0, grow=True)
    far = Batch.of(np.array([0, 1]), np.array([2**45]), np.ones(1), 2**45 + 1, y=np.array([1], np.int8))
    with pytest.raises(InvalidInputError, match="this machine has"):
        model.learn(far)
    assert len(model.preparation.scales) == 0


@pytest.mark.parametrize("kind", KINDS)
def test_copies_and_pickles_go_on_alike(kind):
    model, batch = learner(kind, algorithm="arow"), rows()
    model.learn(batch)
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        other.learn(rows(seed=3))
        fresh = learner(kind, algorithm="arow")
        fresh.learn(batch)
        fresh.learn(rows(seed=3))
        assert state(other) == state(fresh)


@pytest.mark.parametrize("kind", KINDS)
def test_more_classes_share_their_scales(kind):
    """Each class's model is the one of two classes on the same rows."""
    batch = rows(60, classes=3)
    model = Pipeline.of(make_outputs("arow", [Costs()] * 3, n_features=6), Preparation(*kind))
    scores = model.learn(batch)
    for k, one in enumerate(model.models):
        alone = learner(kind, algorithm="arow")
        signs = np.where(batch.y == k, 1, -1).astype(np.int8)
        assert alone.learn(batch.labelled(signs)).tobytes() == np.ascontiguousarray(scores[:, k]).tobytes()
        assert alone.weights().tobytes() == one.weights().tobytes() == model.weights()[k].tobytes()
        assert alone.variance().tobytes() == model.variance()[k].tobytes()
    before = [each.weights().tobytes() for each in model.models]
    with pytest.raises(InvalidInputError, match="class numbers must be from 0 to 2, got 7"):
        model.learn(batch.labelled(np.full(60, 7, np.int32)))
    assert before == [each.weights().tobytes() for each in model.models]


def test_of_more_classes_the_scales_are_those_of_all_rows_the_others_have_learned():
    batch = rows(40, classes=3)
    batch = batch.labelled(batch.y, np.where(np.arange(40) == 20, 1e200, 1.0))
    model = Pipeline.of(make_outputs("fsol", [Costs()] * 3, n_features=6), Preparation("max"))
    with pytest.raises(NumericalError, match="the learner of class number"):
        model.learn(batch)
    assert np.array_equal(model.preparation.divisors(6), np.abs(_dense(batch)).max(axis=0).astype(np.float64))


def _dense(batch):
    return sp.csr_matrix((batch.values, batch.indices, batch.indptr), (len(batch), batch.n_features)).toarray()


def test_a_model_that_has_stopped_keeps_its_scales():
    batch = rows()
    options = {"algorithm": "stablesparseperceptron", "max_density": 0.5}
    model, by_row = (learner(("max", "l2"), **options) for _ in range(2))
    scores = model.learn(batch)
    rest = np.concatenate([by_row.learn(batch.until(i + 1).after(i)) for i in range(len(batch))])
    assert model.t < len(batch)
    assert scores.tobytes() == rest.tobytes()
    assert state(model) == state(by_row)
    assert model.learn(batch).tobytes() == model.scores(batch).tobytes()
    assert state(model) == state(by_row)


def test_weights_are_in_the_callers_units():
    model = learner(("max", None), fit_intercept=True, algorithm="arow", dtype="float64")
    batch = rows(dtype=np.float64)
    model.learn(batch)
    (one,) = model.models
    where, values = one.sparse_weights()
    dense = np.zeros(6)
    dense[where] = values
    assert np.array_equal(dense, model.weights())
    np.testing.assert_allclose(_dense(batch) @ model.weights() + one.intercept, model.scores(batch), rtol=1e-12)
    m = model.preparation.divisors(6)
    np.testing.assert_allclose(model.variance(), model.outputs.variance() / m**2, rtol=1e-12)


def test_weights_that_no_number_holds_are_refused():
    model = learner(("max", None), 1)
    model.learn(Batch.of(np.array([0, 1]), np.array([0]), np.array([1e-39]), 1, y=np.array([1], np.int8)))
    with pytest.raises(
        NumericalError, match="a weight or variance, in the units of its feature, is not finite in float32"
    ):
        model.weights()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"scale": "std"}, "scale must be None, 'max', 'rms' or 'idf', got 'std'"),
        ({"scale": True}, "scale must be None, 'max', 'rms' or 'idf', got True"),
        ({"normalize": "l1"}, "normalize must be None or 'l2', got 'l1'"),
        ({"scale": ["max"]}, r"scale must be None, 'max', 'rms' or 'idf', got \['max'\]"),
    ],
)
def test_other_kinds_are_refused(given, message):
    with pytest.raises(InvalidParameterError, match=message):
        Preparation(**given)
    with pytest.raises(InvalidParameterError, match=message):
        ts.FSOL(**given).fit([[1.0], [2.0]], [0, 1])


def test_batch_methods_are_refused():
    with pytest.raises(InvalidParameterError, match="BCW needs many rows at once"):
        Pipeline.of(make_learner("bcw", n_features=3), Preparation("max"))
    plain = Learner("fsol", n_features=2)
    assert Pipeline.of(plain, Preparation()).outputs.one is plain


def test_squares_too_small_for_any_number_count_nothing():
    model = learner(("rms", None), 1, dtype="float64")
    batch = Batch.of(np.array([0, 1]), np.array([0]), np.array([1e-200]), 1, y=np.array([1], np.int8))
    model.learn(batch)
    assert model.outputs.weights().tolist() == [0.0]
    assert model.scores(batch).tolist() == [0.0]


@pytest.mark.parametrize(("stream", "model"), [("float64", "float64"), ("float64", "float32")])
def test_what_a_parser_allows_is_no_value(stream, model, tmp_path):
    """It says that no value is above the largest it takes, which is more than rows that are prepared may have."""
    (tmp_path / "rows.svm").write_text("+1 1:0.5 2:3\n-1 1:2\n" * 5)
    found = ts.FSOL(scale="rms", normalize="l2", dtype=model).fit_stream(
        ts.open_stream(tmp_path / "rows.svm", dtype=stream)
    )
    assert found.t_ == 10
    (tmp_path / "large.svm").write_text("+1 1:0.5 2:3\n-1 1:2 2:1e148\n")
    with pytest.raises(InvalidInputError, match=r"X has 1e\+148 at row 1, column 1"):
        ts.FSOL(scale="rms", normalize="l2", dtype=model).fit_stream(
            ts.open_stream(tmp_path / "large.svm", dtype=stream)
        )
