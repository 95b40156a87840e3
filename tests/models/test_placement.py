"""Where models learn: what is asked for, what stays on the CPU, and what is said of it."""

import pickle

import pytest
from sklearn.base import clone

import thinstream as ts
from tests.lanes.test_on_device import rows
from thinstream.data.labels import Classes
from thinstream.errors import DeviceWarning, InvalidParameterError, MissingPackageError
from thinstream.models.model import Model

FULL = {"covariance": "full"}


def fresh(name, classes=3, **parameters):
    return Model.fresh(name, Classes(*range(classes)), None, n_features=7, parameters=parameters)


@pytest.mark.parametrize(
    ("model", "why"),
    [
        (fresh("fsol", 2), "FSOL with two classes is a single model, which runs on the CPU"),
        (fresh("smidas"), "SMIDAS runs on the CPU only"),
        (fresh("arow", **FULL), "AROW with covariance='full' runs on the CPU only"),
        (fresh("auto", portfolio=[ts.AROW(**FULL)]), "members of this Auto run on the CPU only"),
    ],
)
def test_what_stays(model, why):
    with pytest.warns(DeviceWarning, match=why):
        model.learner.outputs.check_device("cuda")
    model.learner.outputs.place("cuda")
    model, _ = model.learn(rows(0, 0, classes=2), model.classes) if len(model.classes) > 2 else (model, None)
    assert not model.learner.outputs.n_lanes_on_gpu


def test_nobody_keeps_a_device():
    model = fresh("auto", portfolio=[ts.FSOL()])
    model.learner.outputs.place("auto")
    assert (model.learner.outputs.device, model.copy().learner.outputs.device) == ("auto", "auto")
    assert pickle.loads(pickle.dumps(model)).learner.outputs.device == "cpu"
    model, _ = model.learn(rows(0, 20, classes=3), model.classes)
    assert not model.learner.outputs.n_lanes_on_gpu


def test_estimators_on_the_cpu():
    X, y = [[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]], ["a", "b", "c"]
    model = ts.AROW(device="auto").fit(X, y)
    assert clone(model).get_params()["device"] == "auto"
    assert model.coef_.tobytes() == ts.AROW().fit(X, y).coef_.tobytes()
    assert pickle.loads(pickle.dumps(model)).set_params(device="cpu").partial_fit(X, y).t_ == 6
    with pytest.raises(InvalidParameterError, match="device must be 'auto', 'cpu' or 'cuda', got 'gpu'"):
        ts.AROW(device="gpu").fit(X, y)
    with pytest.warns(DeviceWarning, match="AROW with two classes is a single model"):
        ts.AROW(device="cuda").fit(X[:2], y[:2])


def test_without_a_gpu():
    pytest.importorskip("numba_cuda", reason="numba-cuda is not installed: pip install -e '.[cuda]'")
    from thinstream.lanes.cuda.package import cuda

    if cuda.is_available():
        pytest.skip("there is a GPU, or its simulator")
    for make in (ts.AROW, ts.Auto):
        with pytest.raises(MissingPackageError, match="needs an NVIDIA GPU"):
            make(device="cuda").fit([[1.0], [2.0], [3.0]], ["a", "b", "c"])
