"""Arrays on devices: a stand-in that does what the array API promises, and refuses everything else."""

import numpy as np
import pytest

import thinstream as ts
from thinstream.algorithms.batch.bcw import ByFeatures
from thinstream.errors import InvalidInputError


class Namespace:
    float32, float64 = np.dtype("float32"), np.dtype("float64")

    def asarray(self, x, device):
        assert device == "moon"
        return Elsewhere(np.array(x))

    def astype(self, x, dtype):
        return Elsewhere(x._hidden.astype(dtype))


class Elsewhere:
    """An array numpy must not touch: only products, sums, slices and transposes are there, with its own kind."""

    __array_ufunc__ = None
    device = "moon"

    def __init__(self, hidden):
        self._hidden = hidden

    shape = property(lambda self: self._hidden.shape)
    ndim = property(lambda self: self._hidden.ndim)
    dtype = property(lambda self: self._hidden.dtype)
    T = property(lambda self: Elsewhere(self._hidden.T))

    def __len__(self):
        return len(self._hidden)

    def __array__(self, *_, **__):
        raise AssertionError("taken to the host behind its back")

    def __array_namespace__(self):
        return Namespace()

    def __dlpack__(self, **options):
        return np.ascontiguousarray(self._hidden).__dlpack__(**options)

    def __dlpack_device__(self):
        return (1, 0)

    def __getitem__(self, key):
        return Elsewhere(self._hidden[key._hidden if isinstance(key, Elsewhere) else key])

    def _with(self, other, operation):
        if not isinstance(other, Elsewhere):
            raise TypeError(f"cannot mix with {type(other)}")
        return Elsewhere(operation(self._hidden, other._hidden))

    def __matmul__(self, other):
        return self._with(other, np.matmul)

    def __add__(self, other):
        return self._with(other, np.add)


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(2)
    X = rng.normal(size=(300, 12))
    return X, np.where(X @ rng.normal(size=12) > 0, 1, -1)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_the_same_model_as_on_the_host(data, dtype, loss):
    X, y = data
    host, device = (ts.BCW(dtype=dtype, loss=loss, shuffle=True, random_state=0) for _ in range(2))
    host.fit(X, y).partial_fit(X[:100], y[:100])
    device.fit(Elsewhere(X), y).partial_fit(Elsewhere(X[:100]), y[:100])
    tolerance = {"rtol": 1e-9, "atol": 1e-9} if dtype == "float64" else {"rtol": 1e-2, "atol": 1e-3}
    assert isinstance(device._model.learner.outputs.one.covariance, ByFeatures)
    np.testing.assert_allclose(device.coef_, host.coef_, **tolerance)
    np.testing.assert_allclose(device.variance_, host.variance_, **tolerance)
    scores = device.decision_function(Elsewhere(X))
    assert type(scores) is np.ndarray
    np.testing.assert_allclose(scores, device.decision_function(X), rtol=1e-4, atol=1e-5)


def libraries():
    """Arrays of the libraries that are there, on every device they have."""
    for library, devices in (("torch", ("cpu", "cuda")), ("cupy", ("cuda",))):
        yield from (pytest.param(library, device, id=f"{library}-{device}") for device in devices)


@pytest.mark.parametrize(("library", "device"), list(libraries()))
def test_pytorch_and_cupy(data, library, device):
    """Skipped where they, or their device, are not there."""
    X, y = data
    module = pytest.importorskip(library)
    if device == "cuda" and not module.cuda.is_available():
        pytest.skip("no CUDA device")
    there = module.asarray(X, device=device) if library == "torch" else module.asarray(X)
    for parameters in ({}, {"loss": "squared_hinge"}, {"shuffle": True, "random_state": 1}, {"dtype": "float32"}):
        parameters = {"dtype": "float64", **parameters}
        one, other = ts.BCW(**parameters).fit(there, y), ts.BCW(**parameters).fit(X, y)
        tolerance = 1e-9 if parameters["dtype"] == "float64" else 1e-2
        np.testing.assert_allclose(one.coef_, other.coef_, rtol=tolerance, atol=tolerance)
        np.testing.assert_allclose(one.decision_function(there), one.decision_function(X), rtol=1e-4, atol=1e-5)
        one.partial_fit(there[:50], y[:50])


def test_few_rows_and_waiting_rows(data):
    """They are small and come to the host."""
    X, y = data
    for parameters in ({}, {"batch_size": 40}):
        host, device = (ts.BCW(dtype="float64", **parameters) for _ in range(2))
        for a, b in ((0, 7), (7, 90)):
            host.partial_fit(X[a:b], y[a:b], classes=[-1, 1])
            device.partial_fit(Elsewhere(X[a:b]), y[a:b], classes=[-1, 1])
        np.testing.assert_allclose(device.coef_, host.coef_, rtol=1e-9)
        assert device.n_waiting_ == host.n_waiting_


def test_bad_arrays_are_named(data):
    X, y = data
    bad = X.copy()
    bad[4, 3] = np.nan
    with pytest.raises(InvalidInputError, match="NaN at row 4, column 3"):
        ts.BCW().fit(Elsewhere(bad), y)
    with pytest.raises(InvalidInputError, match=r"two dimensions and at least one row, got shape \(300,\)"):
        ts.BCW().fit(Elsewhere(X[:, 0]), y)
    with pytest.raises(InvalidInputError, match="fit_intercept must be False for arrays on a device"):
        ts.BCW(fit_intercept=True).fit(Elsewhere(X), y)
    model = ts.BCW().fit(Elsewhere(X), y)
    with pytest.raises(InvalidInputError, match="X has 5 features, but the model has 12"):
        model.predict(Elsewhere(X[:, :5]))
    with pytest.raises(InvalidInputError, match=r"SBCW accepts NumPy arrays and sparse matrices, got .*Elsewhere"):
        ts.SBCW().fit(Elsewhere(X), y)
