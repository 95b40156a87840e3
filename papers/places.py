"""Where the grids of experiments learn: whoever runs a cell says so, and no cell is told."""

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
    """What was asked for."""
    return _asked.get()


def device_for(lanes: int) -> str:
    """Where so many lanes learn, with one thread: "cpu" or "cuda"."""
    return chosen_device(asked_device(), lanes, 1)
