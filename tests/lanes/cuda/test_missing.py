"""Without the package, or without a GPU, an error says what to install."""

import importlib.util
import sys

import pytest

from thinstream.errors import InvalidParameterError, MissingPackageError
from thinstream.lanes import devices
from thinstream.lanes.devices import chosen_device
from thinstream.lanes.lanes import Lanes


def test_without_the_package(monkeypatch):
    for name in [name for name in sys.modules if name.startswith("thinstream.lanes.cuda")]:
        monkeypatch.delitem(sys.modules, name)
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "numba_cuda" else find(name))
    with pytest.raises(MissingPackageError, match=r"numba-cuda.*: pip install 'numba-cuda"):
        Lanes("fsol", [{}], n_features=1, device="cuda")
    assert chosen_device("auto", 10**6, 1) == "cpu"


def test_without_a_gpu():
    pytest.importorskip("numba_cuda", reason="numba-cuda is not installed: pip install -e '.[cuda]'")
    from thinstream.lanes.cuda.package import cuda

    if cuda.is_available():
        pytest.skip("there is a GPU, or its simulator")
    with pytest.raises(MissingPackageError, match=r"needs an NVIDIA GPU .* pip install 'numba-cuda"):
        Lanes("fsol", [{}], n_features=1, device="cuda")


def test_a_gpu_is_taken_where_it_pays(monkeypatch):
    monkeypatch.setattr(devices, "has_gpu", lambda: True)
    assert [chosen_device("auto", lanes, 1) for lanes in (1, 255, 256)] == ["cpu", "cpu", "cuda"]
    assert [chosen_device("auto", lanes, 16) for lanes in (1023, 1024)] == ["cpu", "cuda"]
    assert chosen_device("cpu", 10**6, 1) == "cpu"
    with pytest.raises(InvalidParameterError, match="device must be 'auto', 'cpu' or 'cuda', got 'gpu'"):
        chosen_device("gpu", 1, 1)
