"""Frames with words, categories, dates, booleans and missing cells, in all estimators."""

import numpy as np
import pytest

import thinstream as ts
from thinstream.data import in_memory
from thinstream.errors import InvalidInputError

pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")

N = 300


def a_table():
    """A frame and labels: cities, dates and words matter."""
    generator = np.random.default_rng(0)
    city, hour = generator.choice(["Oslo", "Rome", "Bonn"], N), generator.integers(0, 24, N)
    words = [" ".join(generator.choice(["free", "money", "hello", "noon", "see", "you"], 5)) for _ in range(N)]
    frame = pd.DataFrame(
        {
            "city": np.where(generator.random(N) < 0.1, None, city),
            "sent": pd.Timestamp("2024-03-01") + pd.to_timedelta(hour, unit="h"),
            "size": np.where(generator.random(N) < 0.1, np.nan, generator.normal(size=N)),
            "is_known": generator.random(N) < 0.5,
            "kind": pd.Categorical(generator.choice(["a", "b"], N)),
            "subject": words,
        }
    )
    is_free = np.array(["free" in text for text in words])
    score = 1.0 * (city == "Oslo") + (hour > 12) + is_free
    return frame, np.where(score > 1.5, "spam", "ham")


X, Y = a_table()


@pytest.fixture
def as_file(tmp_path):
    X.assign(label=Y).to_csv(tmp_path / "table.csv", index=False)
    return ts.open_stream(tmp_path / "table.csv", classes=("ham", "spam"))


@pytest.mark.parametrize("as_frame", [lambda X: X, pl.from_pandas, lambda X: pl.from_pandas(X).lazy()])
def test_frames_are_learned_as_the_same_table_in_a_file(as_file, as_frame, monkeypatch):
    monkeypatch.setattr(in_memory, "LAZY_ROWS", 64)
    like, model = ts.AROW().fit_stream(as_file), ts.AROW().fit(as_frame(X), Y)
    assert np.array_equal(model.decision_function(as_frame(X)), like.decision_function(X))
    assert model.classes_.tolist() == ["ham", "spam"]
    assert model.score(as_frame(X), Y) > 0.8
    # the rows may come in parts, and the first part decides what columns are
    parts = ts.AROW()
    for start in range(0, N, 150):
        parts.partial_fit(as_frame(X)[start : start + 150], Y[start : start + 150], classes=["ham", "spam"])
    assert np.array_equal(parts.decision_function(X), model.decision_function(X))


def test_lazy_labels():
    lazy = pl.from_pandas(X.assign(label=Y)).lazy()
    model = ts.AROW().fit(lazy.drop("label"), lazy.select("label"))
    assert np.array_equal(model.decision_function(X), ts.AROW().fit(X, Y).decision_function(X))


def test_probabilities_and_names_of_auto(tmp_path):
    model = ts.Auto().fit(X, Y)
    assert model.predict_proba(X).shape == (N, 2)
    assert {"city=Oslo", "city=?", "subject^free", "kind=a", "size", "sent.hour=13"} <= {*model._model.names.texts}
    [one] = model.explain(X[:1])
    assert one.score == pytest.approx(one.intercept + sum(one.contributions.values()), abs=1e-5)
    assert f"city={X.city[0]}" in one.contributions
    model.save(tmp_path / "model.ts")
    assert np.array_equal(ts.load(tmp_path / "model.ts").predict(X), model.predict(X))


def test_missing_cells_of_numbers_are_a_feature():
    numbers = pd.DataFrame({"a": [1.0, np.nan, 2.0, np.nan], "b": [0.0, 1.0, 0.0, 1.0]})
    model = ts.AROW().fit(numbers, [0, 1, 0, 1])
    assert "a=?" in model._model.names.texts
    assert model.predict(numbers).tolist() == [0, 1, 0, 1]
    numbered = ts.AROW().fit(numbers.fillna(0), [0, 1, 0, 1])
    assert numbered.n_features_in_ == 2  # columns of numbers keep their numbers
    with pytest.raises(InvalidInputError, match=r"X contains NaN at row 1, column 'a'.*fit the model on such a frame"):
        numbered.predict(numbers)


@pytest.mark.parametrize("make", [ts.BCW, ts.SBCW, ts.SMIDAS, ts.SOFS, lambda: ts.SSOL(shuffle=True, n_passes=2)])
def test_every_kind_of_estimator(make):
    model = make().fit(X, Y)
    assert model.score(X, Y) >= 0.5
    assert "city=Oslo" in model._model.names.texts
    if hasattr(model, "partial_fit") and not getattr(model, "shuffle", False):
        again = make().partial_fit(X, Y, classes=["ham", "spam"]).partial_fit(X, Y)
        assert again.predict(X).shape == (N,)


def test_weights_and_classes_that_come_later():
    weights = np.where(Y == "spam", 3.0, 1.0)
    weighted = ts.AROW().fit(X, Y, weights)
    assert not np.array_equal(weighted.decision_function(X), ts.AROW().fit(X, Y).decision_function(X))
    growing = ts.AROW(grow_classes=True).partial_fit(X[:150], Y[:150])
    growing.partial_fit(X[150:], np.where(X.kind[150:] == "a", "third", Y[150:]))
    assert growing.classes_.tolist() == ["ham", "spam", "third"]


def test_columns_that_are_missing_are_named():
    model = ts.AROW().fit(X, Y)
    with pytest.raises(InvalidInputError, match="columns that the model has learned from: 'city'"):
        model.predict(X.drop(columns="city"))
    with pytest.raises(InvalidInputError, match="X has 300 rows, y has 299 labels"):
        ts.AROW().fit(X, Y[1:])
    numbered = ts.AROW().fit(X[["is_known"]], Y)
    with pytest.raises(InvalidInputError, match="got text, categories or times in 'city'"):
        numbered.partial_fit(X[["city"]], Y)


def test_categories_that_are_numbers_and_a_column_called_label():
    codes = pd.DataFrame({"code": pd.Categorical([7, 1, 5] * 20)})
    model = ts.AROW().fit(codes, ["no", "yes", "no"] * 20)
    assert {"code=7", "code=1", "code=5"} <= {*model._model.names.texts}
    assert model.predict(codes[:3]).tolist() == ["no", "yes", "no"]
    assert model.predict(pd.DataFrame({"code": [1, 5]})).tolist() == ["yes", "no"]
    labels = pd.DataFrame({"label": ["a", "b"] * 4})
    assert ts.AROW().fit(labels, [0, 1] * 4).predict(labels).tolist() == [0, 1] * 4


def test_cells_that_are_no_cells():
    with pytest.raises(InvalidInputError, match=r"column 'a' must have numbers or strings, got \[1\] at row 0"):
        ts.AROW().fit(pd.DataFrame({"a": [[1], ["b"]]}), [0, 1])
