"""What lanes get right and wrong, counted where their scores are: a matrix of them is never fetched."""

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thinstream.jit import Compiled
from thinstream.lanes.cuda.kernels import Array, convert, empty, launch
from thinstream.lanes.cuda.package import SIMULATED, cuda, kernel


class Held:
    """Arrays that stay on the device for as long as kernels count in them; models are their last axis."""

    def __init__(self, *arrays: NDArray[Any]) -> None:
        self._arrays = [cuda.to_device(array) for array in arrays]
        self._sent: dict[bytes, Array] = {}

    def fetch(self) -> list[NDArray[Any]]:
        """What they are by now."""
        return [array.copy_to_host() for array in self._arrays]

    def count(
        self, function: Compiled, models: Any, scores: Array, y: Array, roles: Array, role_of: Any, option: Any
    ) -> None:
        """Counts the rows of some models as ``function(scores, y, roles, *arrays, option)`` would.

        ``scores`` are [row, model, …], of these models alone; ``role_of`` has the column of each model there is in
        ``roles``.
        """
        threads = 1 if SIMULATED else 64
        which = _once(self._sent, models), _once(self._sent, role_of)
        launch(
            _counting(function), -(-len(models) // threads), threads, scores, y, roles, *which, *self._arrays, option
        )


def _once(sent: dict[bytes, Array], numbers: Any) -> Array:
    """Numbers on the device, where they were sent before or are now: whoever sends waits for all kernels."""
    array = np.ascontiguousarray(numbers, np.int64)
    if (key := array.tobytes()) not in sent:
        sent[key] = cuda.to_device(array)
    return sent[key]


class HeldBins:
    """Counts of scores in bins, [age, model, …], in memory of the device."""

    def __init__(self, shape: tuple[int, ...], bins: NDArray[np.int64] | None) -> None:
        self._sent: dict[bytes, Array] = {}
        if bins is None:
            self._ages = [cuda.device_array(shape[1:], np.int64) for _ in range(shape[0])]
            self.forget()
        else:
            self._ages = [cuda.to_device(np.ascontiguousarray(array)) for array in bins]

    def count(
        self, function: Compiled, models: Any, bits: Array, y: Array, roles: Array, role_of: Any, role: int
    ) -> None:
        """Counts rows as ``function(bits, y, roles, bins, role)`` would; the rest as of `Held.count`."""
        threads = 1 if SIMULATED else 64
        which = _once(self._sent, models), _once(self._sent, role_of)
        launch(_binning(function), -(-len(models) // threads), threads, bits, y, roles, *which, self._ages[-1], role)

    def of(self, model: int) -> NDArray[np.int64]:
        """Those of a model, of all ages."""
        return np.stack([array[model].copy_to_host() for array in self._ages])

    def turn(self) -> None:
        """What is new becomes old; what was old is forgotten."""
        self._ages.insert(0, self._ages.pop())
        empty(self._ages[-1])

    def forget(self) -> None:
        """Counting begins again."""
        for array in self._ages:
            empty(array)


def score_bits(scores: Array) -> Array:
    """The scores in 32 bits, as the whole numbers that these bits are."""
    if scores.dtype != np.float32:
        rounded = cuda.device_array(scores.shape, np.float32)
        convert(rounded, scores)
        scores = rounded
    return scores.view(np.uint32)


@cache
def _counting(function: Compiled) -> Any:
    """A kernel with a thread per model, which counts its rows by a function of all of them."""
    count = cuda.jit(device=True)(function.function)

    def count_models(
        scores: Any, y: Any, roles: Any, models: Any, role_of: Any, counts: Any, totals: Any, option: Any
    ) -> None:
        k = cuda.grid(1)
        if k < models.size:
            m = models[k]
            column, own = role_of[m], slice(m, m + 1)
            count(scores[:, k : k + 1], y, roles[:, column : column + 1], counts[..., own], totals[..., own], option)

    return kernel(count_models, None, function.modules)


@cache
def _binning(function: Compiled) -> Any:
    """The same for bins, of which each model has its own."""
    count = cuda.jit(device=True)(function.function)

    def count_models(scores: Any, y: Any, roles: Any, models: Any, role_of: Any, bins: Any, option: Any) -> None:
        k = cuda.grid(1)
        if k < models.size:
            m = models[k]
            column = role_of[m]
            count(scores[:, k : k + 1], y, roles[:, column : column + 1], bins[m : m + 1], option)

    return kernel(count_models, None, function.modules)
