"""Rows on their way to the device: two sets of buffers, of which one is filled while kernels read the other.

Kernels run in one stream, copies in another. A set is filled again only when its last copy is over, which the host
waits for, and when the kernels that read it are done, which the copy waits for. So the host parses, the bus copies and
the device learns at the same time, and the host is never more than two chunks ahead.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thinstream.lanes.cuda.kernels import Array, working
from thinstream.lanes.cuda.package import cuda


class _Buffers:
    """Memory for the arrays of one chunk, on the host (pinned, so that copies need not wait) and on the device."""

    def __init__(self) -> None:
        self._here: list[Any] = []
        self._there: list[Any] = []
        self._copied, self._read = cuda.event(), cuda.event()
        self._used = False

    def fill(self, arrays: Sequence[NDArray[Any]], stream: Any) -> list[Array]:
        """The arrays on the device, once the stream has got so far."""
        if self._used:
            self._copied.synchronize()
            self._read.wait(stream)
        self._used = True
        sent = []
        for place, array in enumerate(arrays):
            self._require(place, array)
            here, there = self._here[place][: array.size], self._there[place][: array.size]
            here.reshape(array.shape)[...] = array
            if array.size:
                there.copy_to_device(here, stream=stream)
            sent.append(there.reshape(*array.shape))
        self._copied.record(stream)
        self._copied.wait(working())
        return sent

    def release(self) -> None:
        """All kernels that read them have been launched."""
        self._read.record(working())

    def _require(self, place: int, array: NDArray[Any]) -> None:
        """Room for an array, and for somewhat larger ones."""
        if place == len(self._here):
            self._here.append(np.empty(0))
            self._there.append(None)
        if self._here[place].dtype != array.dtype or self._here[place].size < max(array.size, 1):
            size = array.size + array.size // 4 + 1
            self._here[place] = cuda.pinned_array(size, array.dtype)
            self._there[place] = cuda.device_array(size, array.dtype)


class Stage:
    """Sends chunks of rows."""

    def __init__(self) -> None:
        self._sets, self._turn, self._stream = (_Buffers(), _Buffers()), 0, cuda.stream()

    def send(self, *arrays: NDArray[Any]) -> list[Array]:
        """The arrays on the device, for kernels launched before the next but one is sent."""
        self._sets[self._turn].release()
        self._turn = 1 - self._turn
        return self._sets[self._turn].fill(arrays, self._stream)
