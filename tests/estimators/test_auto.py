"""The estimator of a blend: parameters, files, classes, what is told of its models."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.feature_selection import SelectFromModel

import thinstream as ts
from thinstream.blend import learner
from thinstream.blend.member import Member
from thinstream.blend.serving import blends_of
from thinstream.errors import InvalidParameterError, WeightsOnlyError

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
    with pytest.raises(WeightsOnlyError, match="cannot go on learning"):
        small.partial_fit(X, y)
    with pytest.raises(AttributeError, match="weights only"):
        small.lanes_  # noqa: B018


@pytest.mark.parametrize("classes", [2, 3])
def test_scores_are_the_linear_models(classes):
    X, y = data(classes=classes)
    model = auto().fit(X, y)
    expected = np.squeeze(X @ model.coef_.T + model.intercept_)
    np.testing.assert_allclose(model.decision_function(X), expected, rtol=1e-4, atol=1e-4)
    assert model.score(X, y) > 0.8
    assert np.allclose(model.predict_proba(X).sum(axis=1), 1.0)


def test_lanes_are_a_table():
    X, y = data()
    model = auto().fit(X, y)
    assert [line["learner"] for line in model.lanes_] == ["FSOL", "AROW", "AROW"]
    assert [line["parameters"].get("r") for line in model.lanes_] == [None, 1.0, 0.1]
    assert sum(line["share"] for line in model.lanes_) == pytest.approx(1.0)
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
    with pytest.warns(RuntimeWarning, match=r"FSOL eta=1e\+38.* is out of the blend"):
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
    assert model.coef_.shape == (1 if classes == 2 else 3, 2 * FEATURES)
    assert model.density_ == model.nnz_ / model.coef_.size
    unit = X.multiply(1 / sp.linalg.norm(X, axis=1)[:, None])
    expected = np.squeeze(sp.hstack([X, unit]) @ model.coef_.T + model.intercept_)
    np.testing.assert_allclose(model.decision_function(X), expected, rtol=1e-4, atol=1e-4)
    dense = model.coef_.copy()
    assert model.sparsify().coef_.toarray().tolist() == dense.tolist()


def test_features_can_be_selected_where_rows_are_prepared_in_one_way():
    """As the docstring and docs/auto.md say."""
    X, y = data()
    portfolio = [ts.FSOL(), ts.AROW(normalize="l2")]
    assert "(1, V·n_features)" in ts.Auto.__doc__
    assert "(1, n_features)" in ts.AROW.__doc__
    chosen = SelectFromModel(auto(portfolio=portfolio, normalize="l2"), max_features=5).fit(X, y)
    assert chosen.transform(X).shape[1] <= 5
    assert chosen.estimator_.coef_.shape == (1, FEATURES)
    assert auto(portfolio=portfolio).fit(X, y).coef_.reshape(-1, FEATURES).shape == (2, FEATURES)


def test_classes_may_have_lost_the_models_of_a_preparation(tmp_path):
    """Where one class has both vectors and another a single one, zeros stand for the other."""
    X, y = data(classes=3)
    model = auto(portfolio=[ts.FSOL(), ts.AROW(normalize="l2")]).fit(X, y)
    first, *_ = blends_of(model._model.learner)
    first.keep(np.array([0]))
    assert model.coef_.shape == (3, 2 * FEATURES)
    assert np.count_nonzero(model.coef_[0, FEATURES:]) == 0
    model.save(tmp_path / "small.ts", weights_only=True)
    expected = model.decision_function(X)
    np.testing.assert_allclose(ts.load(tmp_path / "small.ts").decision_function(X), expected, rtol=1e-5, atol=1e-6)


def test_a_thin_model_of_two_vectors_has_the_most_important_of_both():
    X, y = data()
    model = auto(portfolio=[ts.AROW(), ts.FSOL(normalize="l2")]).fit(X, y)
    unit = X.multiply(1 / sp.linalg.norm(X, axis=1)[:, None])
    q = np.sqrt(np.concatenate([np.asarray(each.multiply(each).sum(axis=0)).ravel() for each in (X, unit)]))
    kept = np.argsort(-np.abs(model.coef_[0]) * np.sqrt(q))[:9]
    thin = model.thin(9)
    assert np.flatnonzero(thin.coef_[0]).tolist() == sorted(kept.tolist())
    assert thin.coef_[0, kept].tolist() == model.coef_[0, kept].tolist()
    assert model.thin(X=X, y=y).nnz_ <= model.nnz_


@pytest.fixture
def full_for_20(monkeypatch):
    members = [Member("arow", {}), Member("arow", {"covariance": "full"}, max_features=20)]
    monkeypatch.setattr(learner, "PORTFOLIO", members)


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
        ({"portfolio": []}, "portfolio must be a list of estimators that learn online"),
        ({"portfolio": ts.FSOL()}, "portfolio must be a list"),
        ({"portfolio": [ts.BCW()]}, "its models learn online, BCW does not"),
        ({"portfolio": [ts.FSOL(dtype="float64")]}, "dtype is said to Auto"),
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
