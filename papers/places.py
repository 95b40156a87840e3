"""The device on which the grids of experiments are trained. The runner sets it, and cells do not depend on it."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from thinstream.errors import DeviceWarning
from thinstream.lanes.devices import chosen_device

_asked: ContextVar[str] = ContextVar("_asked", default="cpu")


@contextmanager
def grids_on(device: str) -> Iterator[None]:
    """Grids learn on the device, "cpu", "cuda" or "auto", for the length of the block, or on the CPU if they must."""
    token = _asked.set(device)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeviceWarning)  # of every full covariance
            yield
    finally:
        _asked.reset(token)


def asked_device() -> str:
    """Return the requested device."""
    return _asked.get()


def device_for(lanes: int) -> str:
    """Return the device for a number of lanes, with one thread: "cpu" or "cuda"."""
    return chosen_device(asked_device(), lanes, 1)
