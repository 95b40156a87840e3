"""Where models learn: what is asked for, what stays on the CPU, and what is said of it."""

import pickle

import pytest
from sklearn.base import clone

import thinstream as ts
from tests.test_on_device import rows
from thinstream.blend.placing import check_device, device_of, lanes_away, place
from thinstream.errors import DeviceWarning, InvalidParameterError, MissingPackageError
from thinstream.learners import Classes
from thinstream.models import Model

FULL = {"covariance": "full"}


def fresh(name, classes=3, **parameters):
    return Model.fresh(name, Classes(*range(classes)), None, n_features=7, parameters=parameters)


@pytest.mark.parametrize(
    ("model", "why"),
    [
        (fresh("fsol", 2), "FSOL of two classes is a single model, which runs on the CPU"),
        (fresh("smidas"), "SMIDAS runs on the CPU only"),
        (fresh("arow", **FULL), "AROW with covariance='full' runs on the CPU only"),
        (fresh("auto", portfolio=[ts.AROW(**FULL)]), "models of this Auto run on the CPU only"),
    ],
)
def test_what_stays(model, why):
    with pytest.warns(DeviceWarning, match=why):
        check_device(model.learner, "cuda")
    place(model.learner, "cuda")
    model, _ = model.learn(rows(0, 0, classes=2), model.classes) if len(model.classes) > 2 else (model, None)
    assert not lanes_away(model.learner)


def test_nobody_keeps_a_device():
    model = fresh("auto", portfolio=[ts.FSOL()])
    place(model.learner, "auto")
    assert (device_of(model.learner), device_of(model.copy().learner)) == ("auto", "auto")
    assert device_of(pickle.loads(pickle.dumps(model)).learner) == "cpu"
    model, _ = model.learn(rows(0, 20, classes=3), model.classes)
    assert not lanes_away(model.learner)


def test_estimators_on_the_cpu():
    X, y = [[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]], ["a", "b", "c"]
    model = ts.AROW(device="auto").fit(X, y)
    assert clone(model).get_params()["device"] == "auto"
    assert model.coef_.tobytes() == ts.AROW().fit(X, y).coef_.tobytes()
    assert pickle.loads(pickle.dumps(model)).set_params(device="cpu").partial_fit(X, y).t_ == 6
    with pytest.raises(InvalidParameterError, match="device must be 'auto', 'cpu' or 'cuda', got 'gpu'"):
        ts.AROW(device="gpu").fit(X, y)
    with pytest.warns(DeviceWarning, match="AROW of two classes is a single model"):
        ts.AROW(device="cuda").fit(X[:2], y[:2])


def test_without_a_gpu():
    pytest.importorskip("numba_cuda", reason="numba-cuda is not installed: pip install 'thinstream[cuda]'")
    from thinstream.lanes.cuda.package import cuda

    if cuda.is_available():
        pytest.skip("there is a GPU, or its simulator")
    for make in (ts.AROW, ts.Auto):
        with pytest.raises(MissingPackageError, match="needs an NVIDIA GPU"):
            make(device="cuda").fit([[1.0], [2.0], [3.0]], ["a", "b", "c"])
