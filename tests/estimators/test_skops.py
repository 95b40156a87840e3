"""skops reads estimators back, being told to trust the types that `trusted_types` lists."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

import thinstream as ts

skops = pytest.importorskip("skops.io", reason="needs skops")
X = np.random.default_rng(0).normal(size=(120, 6)).astype(np.float32)
TWO, THREE = (X[:, 0] > 0).astype(int), (X[:, 0] > 0).astype(int) + (X[:, 1] > 0)
FRAME = pd.DataFrame(X, columns=[*"abcdef"])
WIDE = sp.random_array((120, 1 << 27), density=1e-7, rng=np.random.default_rng(0), format="csr", dtype=np.float32)


def comes_back(estimator, X, y):
    estimator.fit(X, y)
    raw = skops.dumps(estimator)
    back = skops.loads(raw, trusted=ts.trusted_types())
    assert back.decision_function(X).tobytes() == estimator.decision_function(X).tobytes()
    assert back.predict(X).tolist() == estimator.predict(X).tolist()
    for each in (estimator, back):  # which goes on learning
        if hasattr(each, "partial_fit"):
            each.partial_fit(X, y)
    assert back.decision_function(X).tobytes() == estimator.decision_function(X).tobytes()


def test_two_and_more_classes():
    comes_back(ts.AROW(), X, TWO)
    comes_back(ts.AROW(), X, np.array(["a", "b", "c"])[THREE])


def test_skops_asks_whom_to_trust():
    raw = skops.dumps(ts.AROW().fit(X, TWO))
    with pytest.raises(TypeError, match="Untrusted types"):
        skops.loads(raw)


def test_the_list_has_classes_of_models_alone():
    types = ts.trusted_types()
    assert all(name.startswith("thinstream.") for name in types if name != "numpy.dtype")
    assert not [name for name in types if name.startswith(("thinstream.serve", "thinstream.cli"))]
    data = {name for name in types if name.startswith("thinstream.data")}
    assert data == {"thinstream.data.labels.Classes", "thinstream.data.labels.GrowingClasses"}


@pytest.mark.slow
@pytest.mark.parametrize("name", [algorithm.name for algorithm in ts.algorithms()])
def test_every_algorithm(name):
    comes_back(ts.make(name), X, TWO)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "parameters", "X", "y"),
    [
        ("Auto", {}, X, TWO),
        ("Auto", {}, X, THREE),
        ("AROW", {"calibrate": True}, X, TWO),
        ("AROW", {"scale": "max", "normalize": "l2"}, X, TWO),
        ("AROW", {"scale": "rms"}, X, THREE),
        ("AROW", {"scale": "idf"}, X, TWO),
        ("AROW", {"max_features": 4}, X, TWO),
        ("AROW", {"half_life": 50.0}, X, TWO),
        ("AROW", {"grow_classes": True}, X, THREE),
        ("AROW", {"class_weight": {0: 1.0, 1: 2.0}}, FRAME, TWO),
        ("AROW", {"covariance": "full"}, X, TWO),
        ("SSOL", {"diagonal": "drop"}, X, TWO),
        ("AROW", {}, WIDE, TWO),
    ],
)
def test_every_kind_of_model(name, parameters, X, y):
    comes_back(ts.make(name, **parameters), X, y)
