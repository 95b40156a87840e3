"""The estimator classes themselves: signatures, source, docs, pickles, and what they remember."""

import inspect
import pickle
import re
import subprocess
import sys

import numpy as np
import pytest

import thinstream as ts
from thinstream.errors import UnknownNameError
from thinstream.estimators import algorithms, estimator, named

NAMES = [algorithm.name for algorithm in ts.algorithms()]
X, Y = [[1.0, 0.0, 2.0], [0.0, 1.0, 0.0], [1.0, 1.0, 0.0]], [1, 0, 1]


@pytest.mark.parametrize("name", NAMES)
def test_signature_and_source_are_real(name):
    cls = getattr(ts, name)
    source = inspect.getsource(cls)
    assert source.startswith(f"class {name}(")
    assert "    def __init__(\n        self,\n        *,\n" in source
    signature = inspect.signature(cls)
    assert list(signature.parameters) == list(cls.__init__.__kwdefaults__)
    assert all(p.kind is p.KEYWORD_ONLY for p in signature.parameters.values())
    assert {"class_weight", "fit_intercept"} <= set(signature.parameters)
    assert inspect.getsource(cls.__init__) in source


def test_online_learners_have_an_intercept_by_default():
    for algorithm in ts.algorithms():
        assert ts.make(algorithm.name).fit_intercept is (algorithm.kind == "online")


def test_wrong_arguments_say_what_there_is():
    with pytest.raises(TypeError, match=r"FSOL accepts only keyword arguments, such as FSOL\(eta=1.0\)"):
        ts.FSOL(1.0)
    with pytest.raises(TypeError, match="FSOL has no parameter 'rate'; it has eta, l1, l1_schedule, half_life, class_"):
        ts.FSOL(rate=1.0)


def test_an_algorithm_without_a_generated_class_says_how_to_get_one(monkeypatch):
    monkeypatch.delattr(algorithms, "FSOL")
    message = "thinstream.estimators.algorithms has no class FSOL. Run `make docs` to generate it"
    for asked in (named, estimator, ts.make):
        with pytest.raises(UnknownNameError, match=re.escape(message)):
            asked("FSOL")
    monkeypatch.setattr(algorithms, "__all__", [name for name in algorithms.__all__ if name != "FSOL"])
    with pytest.raises(UnknownNameError, match=re.escape(message)):
        named("FSOL")
    assert named("Nothing") is None


def test_a_class_is_imported_without_its_rule():
    code = (
        "import sys, thinstream as ts; ts.FSOL;"
        "print(sum('thinstream.algorithms.online.' in name for name in sys.modules))"
    )
    found = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert found.stdout == "0\n"


def test_a_pickle_is_read_by_another_process(tmp_path):
    (tmp_path / "m.pickle").write_bytes(pickle.dumps(ts.FSOL(eta=0.5).fit(X, Y)))
    code = "import pickle, sys; print(pickle.load(open(sys.argv[1], 'rb')))"
    found = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "m.pickle")], check=True, capture_output=True, text=True
    )
    assert found.stdout == "FSOL(eta=0.5)\n"


@pytest.mark.parametrize("name", ["FSOL", "StableSparsePerceptron", "BCW"])
def test_coef_is_computed_once_between_updates(name):
    model = ts.make(name).fit(X, Y)
    first = model.coef_
    assert model.coef_ is first
    with pytest.raises(ValueError, match="read-only"):
        first[0, 0] = 1.0
    model = ts.make(name).partial_fit(X, Y, classes=[0, 1])
    before = model.coef_
    model.partial_fit([[3.0, 5.0, 0.0]], [0])
    assert model.coef_ is not before
    np.testing.assert_array_equal(model.coef_, pickle.loads(pickle.dumps(model)).coef_)
    assert model.sparsify().coef_.shape == before.shape
    np.testing.assert_array_equal(model.coef_.toarray(), model.densify().coef_)


def test_parts_of_the_package_are_found():
    code = (
        "import sys, thinstream as ts; assert 'sklearn' not in sys.modules; "
        "print(ts.data.__name__, ts.diagnostics.diagnose, ts.distributed.train)"
    )
    found = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    assert found.startswith("thinstream.data <function diagnose")
