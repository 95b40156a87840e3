"""Explanations: contributions of features add up to the score, and have the names of the features."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

import thinstream as ts
from thinstream.data import Numbering, from_memory
from thinstream.errors import InvalidParameterError
from thinstream.models.explain import explain

rng = np.random.default_rng(0)
X = sp.random_array((300, 20), density=0.3, rng=rng, format="csr", dtype=np.float32)
SCORE = X @ np.linspace(-2, 2, 20)

MODELS = {
    "AROW": lambda: ts.AROW(),
    "scaled": lambda: ts.AdaRDA(scale="rms", normalize="l2"),
    "Auto": lambda: ts.Auto(portfolio=[ts.FSOL(), ts.AROW(scale="rms", normalize="l2")]),
    "budget": lambda: ts.AROW(max_features=8, admit=1),
    "batch": lambda: ts.FGM(),
}


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("classes", [2, 3])
def test_contributions_add_up_to_the_score(name, classes):
    if (name, classes) == ("batch", 3):
        pytest.skip("FGM has two classes")
    y = np.digitize(SCORE, np.quantile(SCORE, np.linspace(0, 1, classes + 1)[1:-1]))
    model = MODELS[name]().fit(X, y)
    scores, labels = model.decision_function(X), model.predict(X)
    for i, one in enumerate(model.explain(X)):
        assert one.label == labels[i]
        assert one.explained == (1 if classes == 2 else labels[i])
        assert one.score == (scores[i] if classes == 2 else scores[i, labels[i]])
        total = one.intercept + sum(one.contributions.values())
        assert total == pytest.approx(one.score, rel=1e-4, abs=1e-4)
        assert one.others == 0.0
        there = {f"column {j}" for j in X[[i]].indices}
        assert {*one.contributions} <= there
        sizes = [abs(value) for value in one.contributions.values()]
        assert sizes == sorted(sizes, reverse=True)


def test_a_contribution_is_weight_times_value():
    model = ts.AROW().fit(X, SCORE > 0)
    for i, one in enumerate(model.explain(X[:50])):
        row = X[[i]]
        for j, value in zip(row.indices, row.data, strict=True):
            assert one.contributions[f"column {j}"] == pytest.approx(model.coef_[0, j] * value, rel=1e-6)


def test_the_largest_and_the_others():
    model = ts.Auto(portfolio=[ts.FSOL()]).fit(X, SCORE > 0)
    for whole, few in zip(model.explain(X), model.explain(X, top=2), strict=True):
        assert [*few.contributions.items()] == [*whole.contributions.items()][:2]
        rest = [*whole.contributions.values()][2:]
        assert few.others == pytest.approx(sum(rest))
        assert few.probability == whole.probability
    probability = model.predict_proba(X)[:, 1]
    assert [one.probability for one in model.explain(X)] == pytest.approx(probability.tolist())
    for top in (0, True, 1.5):
        with pytest.raises(InvalidParameterError, match="top must be a whole number ≥ 1 or None"):
            model.explain(X, top=top)


def test_weights_only_explain_the_same(tmp_path):
    model = ts.Auto().fit(X, SCORE > 0)
    model.save(tmp_path / "m.ts", weights_only=True)
    one, other = model.explain(X), ts.load(tmp_path / "m.ts").explain(X)
    assert [each.contributions for each in one] == [each.contributions for each in other]


def test_names_of_frames_dicts_and_texts():
    frame = pd.DataFrame(X.toarray(), columns=[f"x{j}" for j in range(20)])
    assert {*ts.AROW().fit(frame, SCORE > 0).explain(frame)[0].contributions} <= {*frame.columns}
    rows = [{"size": 3.0, "city": "Oslo", "text": "Free offer"}, {"size": 1.0, "city": "Rome", "text": "see you"}] * 20
    stream = from_memory(list(zip(rows, [1, 0] * 20)), hasher=Numbering(), text=("text",))
    model = ts.AROW().fit_stream(stream)
    expected = {"size", "city=Oslo", "text^free", "text^offer"}
    for given in (rows[:1], pd.DataFrame(rows[:1])):
        assert {*model.explain(given)[0].contributions} == expected
    unnamed = next(explain(model._model, model._read_rows(rows[:1])))
    assert all(name.startswith("hash ") for name in unnamed.contributions)
