"""The estimator of a blend: parameters, files, classes, what is told of its models."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.feature_selection import SelectFromModel

import thinstream as ts
from thinstream import datasets
from thinstream.algorithms.auto import Member
from thinstream.data import from_memory
from thinstream.errors import InvalidInputError, InvalidParameterError, UnknownNameError, WeightsOnlyError
from thinstream.models import blend as learner

FEATURES = 30


def data(rows=600, classes=2, seed=0):
    rng = np.random.default_rng(seed)
    X = sp.random(rows, FEATURES, 0.3, format="csr", dtype=np.float32, random_state=rng)
    X.indices = X.indices.astype(np.int32)
    score = X @ np.linspace(-2, 2, FEATURES) + 0.1 * rng.normal(size=rows)
    edges = np.quantile(score, np.linspace(0, 1, classes + 1)[1:-1])
    return X, np.array(["a", "b", "c"])[np.digitize(score, edges)]


def auto(**options):
    return ts.Auto(**{"portfolio": [ts.FSOL(), ts.AROW(), ts.AROW(r=0.1)], **options})


def file_of(model, path, **options):
    model.save(path, **options)
    return path.read_bytes()


OWN = {"a": 1.0, "covariance": "diagonal", "diagonal": "exact", "r": 1.0}
PRODUCTS = Member("AROW", OWN, "rms", "l2", 300, True)
KINDS = {
    "two classes": {},
    "balanced": {"class_weight": "balanced"},
    "thin": {"max_nnz": 7},
    "prepared for all": {"scale": "rms", "normalize": "l2"},
    "scaled for one": {"portfolio": [ts.FSOL(), ts.AROW(scale="rms")]},
    "unit rows": {"portfolio": [ts.FSOL(normalize="l2"), ts.AROW(normalize="l2")]},
    "two vectors": {"portfolio": [ts.FSOL(), ts.AROW(scale="rms", normalize="l2")]},
    "two vectors, thin": {"portfolio": [ts.FSOL(), ts.AROW(normalize="l2")], "max_density": 0.2},
    "grow_classes": {"grow_classes": True},
    "interactions": {"portfolio": [ts.FSOL(), PRODUCTS]},
    "interactions, grow_classes": {"portfolio": [ts.FSOL(normalize="l2"), PRODUCTS], "grow_classes": True},
}


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("kind", KINDS)
def test_saved_and_resumed_with_the_same_bytes(kind, classes, tmp_path):
    X, y = data(classes=classes)
    weights = np.tile([0.0, 1.0, 2.0], 200)
    labels = ["a", "b", "c"][:classes]
    whole = auto(**KINDS[kind]).partial_fit(X, y, labels, weights)
    model = auto(**KINDS[kind])
    for part in (slice(0, 1), slice(1, 130), slice(130, 130), slice(130, 600)):
        if part.start != part.stop:
            model.partial_fit(X[part], y[part], labels, weights[part])
        model.save(tmp_path / "half.ts")
        model = ts.load(tmp_path / "half.ts")
        assert repr(model) == repr(whole)
    assert file_of(model, tmp_path / "model.ts") == file_of(whole, tmp_path / "whole.ts")
    assert pickle.loads(pickle.dumps(model)).lanes_ == whole.lanes_ == model.lanes_


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("kind", KINDS)
def test_weights_alone_predict_the_same(kind, classes, tmp_path):
    X, y = data(classes=classes)
    model = auto(**KINDS[kind]).fit(X, y)
    model.save(tmp_path / "small.ts", weights_only=True)
    small = ts.load(tmp_path / "small.ts")
    assert small.decision_function(X).tobytes() == model.decision_function(X).tobytes()
    assert small.predict_proba(X).tobytes() == model.predict_proba(X).tobytes()
    assert small.coef_.tobytes() == model.coef_.tobytes()
    assert small.intercept_.tolist() == model.intercept_.tolist()
    with pytest.raises(WeightsOnlyError, match="so it predicts but cannot learn"):
        small.partial_fit(X, y)
    with pytest.raises(AttributeError, match="saved with weights_only=True, without its members"):
        small.lanes_  # noqa: B018


@pytest.mark.parametrize("classes", [2, 3])
def test_scores_are_the_linear_models(classes):
    X, y = data(classes=classes)
    model = auto().fit(X, y)
    expected = np.squeeze(X @ model.coef_.T + model.intercept_)
    np.testing.assert_allclose(model.decision_function(X), expected, rtol=1e-4, atol=1e-4)
    assert model.score(X, y) > 0.8
    assert np.allclose(model.predict_proba(X).sum(axis=1), 1.0)


@pytest.mark.parametrize("classes", [2, 3])
def test_the_head_learns_in_the_first_pass_only(classes):
    X, y = data(classes=classes)
    one, two = auto().fit(X, y), auto(n_passes=2).fit(X, y)
    for first, second in zip(one._model.blends, two._model.blends, strict=True):
        assert first.head.w.tobytes() == second.head.w.tobytes()
        assert (first.t, second.t) == (600, 1200)
    assert two.score(X, y) > one.score(X, y)  # the models learned in both
    before = two._model.blends[0].head.w.copy()
    two.partial_fit(X, y)  # rows that come later are new
    assert not np.array_equal(two._model.blends[0].head.w, before)


def test_passes_over_a_stream_are_those_over_a_matrix():
    X, y = data()
    streamed, fitted = auto(n_passes=3).fit_stream(from_memory(X, y)), auto(n_passes=3).fit(X, y)
    for _ in range(2):
        assert streamed.decision_function(X).tobytes() == fitted.decision_function(X).tobytes()
        for model in (streamed, fitted):
            model.partial_fit(X, y)


def test_lanes_are_a_table():
    X, y = data()
    model = auto().fit(X, y)
    assert [line["learner"] for line in model.lanes_] == ["FSOL", "AROW", "AROW"]
    assert [line["parameters"].get("r") for line in model.lanes_] == [None, 1.0, 0.1]
    assert sum(abs(line["share"]) for line in model.lanes_) == pytest.approx(1.0)
    for line, alone in zip(model.lanes_, model.portfolio, strict=True):
        assert line["error"] == clone(alone).fit(X, y).n_mistakes_ / 600
        assert line["out"] is None
    X, y = data(classes=3)
    assert [line["class"] for line in auto().fit(X, y).lanes_] == list("aaabbbccc")


def test_one_class_against_the_rest_is_a_blend_alone():
    X, y = data(classes=3)
    model, alone = auto().fit(X, y), auto().fit(X, y == "b")
    assert model.coef_[1].tobytes() == alone.coef_[0].tobytes()
    assert [line["share"] for line in model.lanes_[3:6]] == [line["share"] for line in alone.lanes_]


def test_balanced_is_for_the_head_too():
    """Positives of little weight in the head would leave its probabilities low: one half is where costs are equal."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(4000, 1))
    y = rng.random(4000) < 1 / (1 + np.exp(-X[:, 0] + 3))
    called = {w: auto(class_weight=w).fit(X, y).predict(X).mean() for w in (None, "balanced")}
    assert called[None] < 0.02
    assert 0.3 < called["balanced"] < 0.7


def test_a_model_that_is_not_finite_is_out_and_told():
    X, y = data()
    wild = ts.FSOL(eta=1e38)
    model = auto(portfolio=[ts.FSOL(), wild, ts.AROW()])
    with pytest.warns(RuntimeWarning, match=r"FSOL eta=1e\+38.* is no longer part of the blend"):
        model.fit(X, y)
    out = model.lanes_[1]
    assert out["share"] == 0.0
    assert out["out"].startswith("not finite after")
    assert np.isfinite(model.decision_function(X)).all()
    assert model.score(X, y) > 0.8


def test_the_model_does_not_depend_on_threads(tmp_path):
    X, y = data()
    one, two = (auto(n_jobs=n).fit(X, y) for n in (1, 2))
    assert file_of(one, tmp_path / "one.ts") == file_of(two, tmp_path / "two.ts")


def test_grows(tmp_path):
    X, y = data()
    model = auto(grow=True).partial_fit(X[:300, :20], y[:300], ["a", "b"]).partial_fit(X[300:], y[300:])
    wide = auto(grow=True).partial_fit(sp.csr_matrix((X[:300, :20]).toarray(), shape=(300, 20)), y[:300], ["a", "b"])
    wide.save(tmp_path / "narrow.ts")
    wide = ts.load(tmp_path / "narrow.ts").partial_fit(X[300:], y[300:])
    assert model.coef_.shape == (1, FEATURES)
    assert file_of(model, tmp_path / "one.ts") == file_of(wide, tmp_path / "two.ts")


@pytest.mark.parametrize("classes", [2, 3])
def test_vectors_of_two_preparations_follow_one_another(classes):
    X, y = data(classes=classes)
    model = auto(portfolio=[ts.FSOL(), ts.AROW(normalize="l2")]).fit(X, y)
    assert model.score(X, y) > 0.8
    assert model.raw_coef_.shape == (1 if classes == 2 else 3, 2 * FEATURES)
    assert model.nnz_ == np.count_nonzero(model.coef_)
    assert model.density_ == model.nnz_ / model.coef_.size
    unit = X.multiply(1 / sp.linalg.norm(X, axis=1)[:, None])
    expected = np.squeeze(sp.hstack([X, unit]) @ model.raw_coef_.T + model.intercept_)
    np.testing.assert_allclose(model.decision_function(X), expected, rtol=1e-4, atol=1e-4)
    dense = model.raw_coef_.copy()
    assert model.sparsify().raw_coef_.toarray().tolist() == dense.tolist()


def unit_squares(X, scale):
    """Σx² per feature of rows that are scaled along the stream, then of unit length; and the scales at the end."""
    largest, squares, counts, documents = (np.zeros(FEATURES) for _ in range(4))
    total = np.zeros(FEATURES)
    for row, x in enumerate(X.toarray().astype(np.float64), 1):
        there = x != 0
        largest, squares = np.maximum(largest, abs(x)), squares + x * x
        counts, documents = counts + there, documents + there
        with np.errstate(divide="ignore", invalid="ignore"):
            m = {
                None: np.ones(FEATURES),
                "max": largest,
                "rms": np.sqrt(squares / counts),
                "idf": 1.0 / (np.log((1.0 + row) / (1.0 + documents)) + 1.0),
            }[scale]
            ready = np.where(there, x / m, 0.0)
        total += (ready / (np.linalg.norm(ready) or 1.0)) ** 2
    return total, m


@pytest.mark.parametrize("scale", [None, "max", "rms", "idf"])
@pytest.mark.parametrize("classes", [2, 3])
def test_coef_has_one_column_per_feature(classes, scale, tmp_path):
    """Weights for rows of unit length are divided by the mean length of the rows in which their feature occurs."""
    X, y = data(classes=classes)
    model = auto(portfolio=[ts.FSOL(), ts.AROW(scale=scale, normalize="l2")]).fit(X, y)
    plain, unit = np.moveaxis(model.raw_coef_.reshape(len(model.coef_), 2, FEATURES), 1, 0)
    squares, m = unit_squares(X, scale)
    lengths = np.sqrt(X.multiply(X).sum(axis=0).A1 / squares) / m
    np.testing.assert_allclose(model.coef_, plain + unit / lengths, rtol=1e-4, atol=1e-6)
    dense = model.coef_.copy()
    assert np.array_equal(model.sparsify().coef_.toarray(), dense)
    model.save(tmp_path / "small.ts", weights_only=True)
    small = ts.load(tmp_path / "small.ts")
    assert small.coef_.tobytes() == dense.tobytes()
    small.save(tmp_path / "again.ts")
    assert (tmp_path / "again.ts").read_bytes() == (tmp_path / "small.ts").read_bytes()
    few = np.abs(small.thin(9).coef_) > 0
    assert 0 < np.count_nonzero(few.any(axis=0)) <= 9


@pytest.mark.parametrize("name", ["a9a", "campaign", "australian"])
def test_effects_have_the_sign_of_what_features_do(name):
    """The mean change of the score when a feature is taken out of the rows that have it, for all but tiny effects.

    Without members that learn products of features: what a feature does through products is not in its effect.
    """
    X, y = real_rows(name)
    model = ts.Auto(portfolio=learner.PORTFOLIO).fit(X, y)
    scores, columns = model.decision_function(X), X.tocsc()
    done = 0
    for j in range(X.shape[1]):
        rows = columns.indices[columns.indptr[j] : columns.indptr[j + 1]]
        values = columns.data[columns.indptr[j] : columns.indptr[j + 1]]
        if not len(rows) or abs(model.coef_[0, j] * values.mean()) < 0.05 * scores.std():
            continue
        without = X[rows].tolil()
        without[:, j] = 0
        without = without.tocsr()
        without.eliminate_zeros()
        change = np.mean(scores[rows] - model.decision_function(without))
        assert np.sign(change) == np.sign(model.coef_[0, j] * values.mean()), j
        done += 1
    assert done >= 5


def test_opposite_vectors_have_one_effect():
    """In a9a, many features have opposite signs in the two vectors: neither alone shows the effect."""
    X, y = real_rows("a9a")
    raw = ts.Auto(portfolio=learner.PORTFOLIO).fit(X, y).raw_coef_.reshape(2, -1)
    assert np.mean(raw[0] * raw[1] < 0) > 0.1


def real_rows(name):
    try:
        X, y = datasets.load(name)
    except (InvalidInputError, UnknownNameError):
        pytest.skip(f"{name} is not in the data folder (THINSTREAM_DATA)")
    chosen = np.random.default_rng(0).permutation(len(y))[:4000]
    return X[chosen], y[chosen]


def test_coef_ranks_features_of_the_usual_blend():
    """A row of the mean length, one more unit of a feature: the score changes by the feature's weight, about."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(800, 30))
    model = ts.Auto().fit(X, X[:, 3] - 2 * X[:, 7] > 0)
    assert model.coef_.shape == (1, 30)
    assert set(np.argsort(-np.abs(model.coef_[0]))[:2]) == {3, 7}
    assert model.coef_[0, 7] < 0 < model.coef_[0, 3]
    score = model.decision_function(X)
    assert np.corrcoef(X @ model.coef_[0], score)[0, 1] > 0.98


def test_without_row_lengths_coef_is_for_rows_of_unit_length():
    """Members for rows of unit length alone, without root mean squares, tell no length of the rows as they were."""
    X, y = data()
    model = auto(portfolio=[ts.FSOL(normalize="l2")]).fit(X, y)
    assert model.coef_.tobytes() == model.raw_coef_.tobytes()


def test_features_can_be_selected():
    """As the docstring and docs/auto.md show."""
    X, y = data()
    portfolio = [ts.FSOL(), ts.AROW(normalize="l2")]
    assert all("coef_ : array or sparse matrix of shape (1, n_features)" in each.__doc__ for each in (ts.Auto, ts.AROW))
    chosen = SelectFromModel(auto(portfolio=portfolio, normalize="l2"), max_features=5).fit(X, y)
    assert chosen.transform(X).shape[1] <= 5
    assert chosen.estimator_.coef_.shape == (1, FEATURES)
    usual = SelectFromModel(auto(portfolio=portfolio), max_features=5).fit(X, y)
    assert usual.transform(X).shape[1] <= 5


def test_classes_may_have_lost_the_models_of_a_preparation(tmp_path):
    """Where one class has both vectors and another a single one, zeros stand for the other."""
    X, y = data(classes=3)
    model = auto(portfolio=[ts.FSOL(), ts.AROW(normalize="l2")]).fit(X, y)
    first, *_ = model._model.learner.blends
    first.keep(np.array([0]))
    assert model.coef_.shape == (3, FEATURES)
    assert model.raw_coef_.shape == (3, 2 * FEATURES)
    assert np.count_nonzero(model.raw_coef_[0, FEATURES:]) == 0
    model.save(tmp_path / "small.ts", weights_only=True)
    expected = model.decision_function(X)
    np.testing.assert_allclose(ts.load(tmp_path / "small.ts").decision_function(X), expected, rtol=1e-5, atol=1e-6)


def test_a_thin_model_of_two_vectors_has_the_most_important_of_both():
    X, y = data()
    model = auto(portfolio=[ts.AROW(), ts.FSOL(normalize="l2")]).fit(X, y)
    unit = X.multiply(1 / sp.linalg.norm(X, axis=1)[:, None])
    q = np.sqrt(np.concatenate([np.asarray(each.multiply(each).sum(axis=0)).ravel() for each in (X, unit)]))
    signed = (model.raw_coef_[0] * np.sqrt(q)).reshape(2, -1)
    features = np.argsort(-np.abs(signed.sum(axis=0)), kind="stable")[:9]
    kept = np.sort(np.concatenate([features, features + FEATURES]))
    thin = model.thin(9)
    assert thin.nnz_ == 9
    assert set(np.flatnonzero(thin.raw_coef_[0])) <= set(kept)
    assert thin.raw_coef_[0, kept].tolist() == model.raw_coef_[0, kept].tolist()
    assert model.thin(X_val=X, y_val=y).nnz_ <= model.nnz_


@pytest.fixture
def full_for_20(monkeypatch):
    members = [Member("arow", {}), Member("arow", {"covariance": "full"}, max_features=20)]
    monkeypatch.setattr(learner, "PORTFOLIO", members)
    monkeypatch.setattr(learner, "INTERACTIONS", ())


def narrow_first(rows):
    """So many rows that have the first 20 features only, then some that have all."""
    X, y = data()
    X = X.tocoo()
    kept = (X.row >= rows) | (X.col < 20)
    narrow = sp.csr_matrix((X.data[kept], (X.row[kept], X.col[kept])), X.shape)
    narrow.indices = narrow.indices.astype(np.int32)
    return narrow, y


def test_models_for_few_features_go_when_a_row_has_more(full_for_20, tmp_path):
    """Whatever the chunks are: they learn the rows before, with room for what these have."""
    X, y = narrow_first(300)
    first = 300 + int(np.argmax(np.diff(X[300:, 20:].indptr) > 0))
    whole = ts.Auto().partial_fit(X, y, ["a", "b"])
    assert whole.lanes_[1]["out"] == f"more than 20 features after {first} rows"
    assert whole.lanes_[1]["error"] == ts.AROW(covariance="full").fit(X[:first], y[:first]).n_mistakes_ / first
    model = ts.Auto()
    for part in np.array_split(np.arange(600), 7):
        model.partial_fit(X[part], y[part], ["a", "b"])
        model.save(tmp_path / "half.ts")
        model = ts.load(tmp_path / "half.ts")
    assert file_of(model, tmp_path / "model.ts") == file_of(whole, tmp_path / "whole.ts")


def test_models_for_few_features_are_a_part_of_the_vector(full_for_20, tmp_path):
    X, y = narrow_first(600)
    model = ts.Auto().fit(X, y)
    assert model.lanes_[1]["out"] is None
    assert model.lanes_[1]["share"] > 0.05
    assert model.coef_.shape == (1, FEATURES)
    expected = X @ model.coef_[0] + model.intercept_[0]
    np.testing.assert_allclose(model.decision_function(X), expected, rtol=1e-4, atol=1e-4)
    halves = [ts.Auto().fit(X[part], y[part]) for part in (slice(0, 300), slice(300, 600))]
    both = halves[0].merge(halves[1])
    assert both.lanes_[1]["out"] is None
    assert both.score(X, y) > model.score(X, y) - 0.05
    both.save(tmp_path / "both.ts")
    assert ts.load(tmp_path / "both.ts").decision_function(X).tobytes() == both.decision_function(X).tobytes()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"portfolio": []}, "portfolio must be a list of at least one estimator that learns online"),
        ({"portfolio": ts.FSOL()}, "portfolio must be a list"),
        ({"portfolio": [ts.BCW()]}, "members must learn online, but BCW does not"),
        ({"portfolio": [ts.FSOL(dtype="float64")]}, r"has dtype='float64'\. Set dtype on Auto"),
        ({"portfolio": [ts.FSOL(eta=-1.0)]}, "FSOL: eta must be a number > 0"),
        ({"drop": 1}, "drop must be True or False, got 1"),
        ({"max_density": 2.0}, "max_density must be a number > 0 and ≤ 1, or None, got 2.0"),
        ({"max_nnz": 0}, "max_nnz must be a whole number ≥ 1, or None, got 0"),
    ],
)
def test_parameters_are_checked(options, message):
    X, y = data()
    with pytest.raises(InvalidParameterError, match=message):
        auto(**options).fit(X, y)


def test_parameters_belong_to_the_state():
    X, y = data()
    model = auto().fit(X, y)
    model.set_params(portfolio=[ts.FSOL(), ts.AROW(), ts.AROW(r=0.1)], n_jobs=2).partial_fit(X, y)
    with pytest.raises(InvalidParameterError, match="portfolio was changed"):
        model.set_params(portfolio=[ts.FSOL()]).partial_fit(X, y)


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("name", ["FSOL", "AROW"])
def test_every_online_learner_can_be_calibrated(name, classes, tmp_path):
    """A blend of one: its scores, times what the head has found."""
    X, y = data(classes=classes)
    model, plain = ts.make(name, calibrate=True).fit(X, y), ts.make(name).fit(X, y)
    with pytest.raises(AttributeError, match="has no attribute"):
        plain.predict_proba(X)
    ratio = np.linalg.norm(model.coef_, axis=1) / np.linalg.norm(plain.coef_, axis=1)
    np.testing.assert_allclose(model.coef_, ratio[:, np.newaxis] * plain.coef_, rtol=1e-3, atol=1e-5)
    alone = ts.Auto(portfolio=[ts.make(name)]).fit(X, y)
    assert model.coef_.tobytes() == alone.coef_.tobytes()
    assert model.predict_proba(X).tobytes() == alone.predict_proba(X).tobytes()
    for weights_only in (False, True):
        model.save(tmp_path / "model.ts", weights_only=weights_only)
        loaded = ts.load(tmp_path / "model.ts")
        assert repr(loaded) == f"{name}(calibrate=True)"
        assert loaded.predict_proba(X).tobytes() == model.predict_proba(X).tobytes()
    model.partial_fit(X, y)
    with pytest.raises(InvalidParameterError, match="calibrate was changed"):
        model.set_params(calibrate=False).partial_fit(X, y)


def test_calibrated_probabilities_are_those_of_the_stream():
    """However long the rows, and whatever the loss: of rows called p, a share of p is positive."""
    rng = np.random.default_rng(3)
    X = np.exp(3) * rng.normal(size=(20_000, 5)).astype(np.float32)
    y = rng.random(20_000) < 1 / (1 + np.exp(-X @ np.linspace(-1, 1, 5) / np.exp(3)))
    p = ts.AROW(calibrate=True).fit(X[:15_000], y[:15_000]).predict_proba(X[15_000:])[:, 1]
    for low in (0.1, 0.3, 0.5, 0.7):
        near = (p >= low) & (p < low + 0.2)
        assert y[15_000:][near].mean() == pytest.approx(p[near].mean(), abs=0.06)


def test_blends_are_not_compared():
    X, y = data()
    for estimator, message in ((ts.Auto(), "nothing to tune"), (ts.FSOL(calibrate=True), "calibrate must be False")):
        with pytest.raises(InvalidParameterError, match=message):
            ts.SparsityPath(estimator).fit(X, y)
