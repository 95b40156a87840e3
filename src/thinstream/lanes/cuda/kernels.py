"""The code on the device: a thread per lane learns rows; small kernels fill, copy and fetch the lanes' memory.

State is [group of 32 lanes][coordinate][field][lane of the group]: a warp reads a coordinate of its lanes in one piece.
"""

from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thinstream.engine.loop import Costs, loop
from thinstream.engine.records import Memory
from thinstream.engine.rows import Bounds, Rows
from thinstream.jit import Compiled
from thinstream.lanes.cuda.package import SIMULATED, cuda, kernel, unfused
from thinstream.lanes.loop import read_rule

#: An array on the device.
Array = Any
#: Lanes that lie side by side: a warp's.
GROUP = 32


class DeviceMemory(NamedTuple):
    """All the lanes know, on the device."""

    state: Array  # in the model's precision, [group, coordinate × field × lane]
    clocks: Array  # [group, coordinate × clock × lane]
    counts: Array  # [count, lane]
    totals: Array  # [total, lane]
    extra: Array  # [place, lane]: an array of the rule's own (SOFS: its heap)


class DeviceTables(NamedTuple):
    """Parameters, in the rows of `lanes.loop`; class costs; how long a lane's own array is."""

    reals: Array
    wholes: Array
    negative: Array
    positive: Array
    balanced: Array
    extra: Array


class DeviceRows(NamedTuple):
    """Rows without labels and weights, as of `engine.rows`."""

    indptr: Array
    indices: Array
    values: Array
    offset: int = 0
    first: int = 0  # the number the first of them has in the stream


class Columns(NamedTuple):
    """Labels and weights of the rows, and which column of each is a lane's: folds and classes are stored but once."""

    y: Array
    weights: Array
    label_of: Array
    weight_of: Array


@cache
def working() -> Any:
    """The stream kernels run in; what is copied without one waits for it."""
    return cuda.stream()


@cache
def learning(rule: Any) -> Any:
    """The kernel in which lanes of a rule learn: `engine.loop` itself, over views of one lane."""
    learn = cuda.jit(device=True)(loop)

    def learn_lanes(
        p: Any, tables: Any, rows: Any, columns: Any, largest: Any, memory: Any, failed: Any, scores: Any
    ) -> None:
        lane = cuda.grid(1)
        if lane >= failed.size:
            return
        group, me, n = cuda.blockIdx.x, cuda.threadIdx.x, rows.indptr.size - 1
        own = Memory(
            memory.state[group, me::GROUP],
            memory.clocks[group, me::GROUP],
            memory.counts[:, lane],
            memory.totals[:, lane],
            memory.extra[: tables.extra[lane], lane],
        )
        y, weights = columns.y[:, columns.label_of[lane]], columns.weights[:, columns.weight_of[lane]]
        seen = Rows(rows.indptr, rows.indices, rows.values, y, weights, rows.offset)
        costs = Costs(tables.negative[lane], tables.positive[lane], tables.balanced[lane])
        done = 0
        if failed[lane] < 0:
            q = read_rule(p, tables.reals, tables.wholes, lane)
            done = learn(q, seen, Bounds(-1, largest), costs, own, scores[:, lane])
            if done < 0:
                done = -1 - done
                failed[lane] = rows.first + done
        if scores.size:
            for i in range(done, n):
                scores[i, lane] = np.nan

    return kernel(learn_lanes, None, (rule.__module__,), (rule.__qualname__,))


@kernel
def _fill(array: Any, fresh: Any) -> None:
    for k in range(cuda.grid(1), array.size, cuda.gridsize(1)):
        group, position = k // array.shape[1], k % array.shape[1]
        array[group, position] = fresh[position // GROUP % fresh.shape[0], group * GROUP + position % GROUP]


@kernel
def _take(array: Any, here: Any, source: Any, there: Any, count: Any) -> None:
    for k in range(cuda.grid(1), here.size * count, cuda.gridsize(1)):
        lane, position = k % here.size, k // here.size
        a, b = here[lane], there[lane]
        array[a // GROUP, position * GROUP + a % GROUP] = source[b // GROUP, position * GROUP + b % GROUP]


@kernel
def _fetch(array: Any, lane: Any, out: Any) -> None:
    for k in range(cuda.grid(1), out.size, cuda.gridsize(1)):
        out[k] = array[lane // GROUP, k * GROUP + lane % GROUP]


@kernel
def _store(array: Any, lane: Any, values: Any) -> None:
    for k in range(cuda.grid(1), values.size, cuda.gridsize(1)):
        array[lane // GROUP, k * GROUP + lane % GROUP] = values[k]


@kernel
def _empty(array: Any) -> None:
    for k in range(cuda.grid(1), array.size, cuda.gridsize(1)):
        array[k] = 0


@kernel
def _convert(array: Any, values: Any) -> None:
    for k in range(cuda.grid(1), array.size, cuda.gridsize(1)):
        array[k] = values[k]


def launch(started: Any, blocks: int, threads: Any, *arguments: Any) -> None:
    """Runs a kernel, which is compiled if it never was."""
    with unfused():
        started[blocks, threads, working()](*arguments)


def _launch_over(work: int, started: Any, *arguments: Any) -> None:
    """Runs one of the small kernels, if there is anything to do."""
    if work:
        blocks, threads = (1, 1) if SIMULATED else (min(-(-work // 256), 4096), 256)
        launch(started, blocks, threads, *arguments)


def fill(array: Any, fresh: NDArray[Any]) -> None:
    """Every coordinate of every lane becomes a fresh one, [field, lane]."""
    _launch_over(array.size, _fill, array, cuda.to_device(fresh))


def empty(array: Any) -> None:
    """All numbers become 0."""
    _launch_over(array.size, _empty, array.reshape(array.size))


def convert(array: Any, values: Any) -> None:
    """All numbers become those values, in another precision."""
    _launch_over(array.size, _convert, array.reshape(array.size), values.reshape(values.size))


def take(array: Any, here: NDArray[np.int64], source: Any, there: NDArray[np.int64], count: int) -> None:
    """The first ``count`` numbers of some lanes become those of lanes of another array."""
    lanes = cuda.to_device(here), cuda.to_device(there)
    _launch_over(len(here) * count, _take, array, lanes[0], source, lanes[1], count)


def fetch(array: Any, lane: int, count: int) -> NDArray[Any]:
    """The first ``count`` numbers of a lane."""
    out = cuda.device_array(max(count, 1), array.dtype)
    _launch_over(count, _fetch, array, lane, out[:count])
    numbers: NDArray[Any] = out.copy_to_host()[:count]
    return numbers


def store(array: Any, lane: int, values: NDArray[Any]) -> None:
    """The first numbers of a lane become those values."""
    if len(values):
        _launch_over(len(values), _store, array, lane, cuda.to_device(np.ascontiguousarray(values)))


# Mistakes of lanes, counted on the device: a matrix of scores is never fetched.


class Held:
    """Arrays that stay on the device for as long as kernels count in them; models are their last axis."""

    def __init__(self, *arrays: NDArray[Any]) -> None:
        self._arrays = [cuda.to_device(array) for array in arrays]
        self._sent: dict[bytes, Array] = {}

    def fetch(self) -> list[NDArray[Any]]:
        """Return the current counts."""
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
    """Numbers on the device, sent before or now. Sending waits for all kernels."""
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
        """Make the new numbers the old ones, which are forgotten."""
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
