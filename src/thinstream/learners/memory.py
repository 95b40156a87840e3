"""Making, growing and copying a model's memory, written once over the records of any rule."""

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thinstream.engine import records
from thinstream.engine.diagonal import DIAGONAL, FULL
from thinstream.engine.full import Matrix
from thinstream.engine.records import Memory
from thinstream.engine.rule import Algorithm
from thinstream.errors import InvalidInputError
from thinstream.learners.limits import physical_memory

#: Names of the fields of a record, and of its clocks; they are asked for again and again.
field_names = cache(records.field_names)


def allocate(algorithm: Algorithm, rule: Any, width: int, dtype: np.dtype[Any]) -> Memory:
    """The memory of a model that has seen nothing, for ``width`` coordinates (at least)."""
    require_room(algorithm, rule, width, dtype)
    extra = widen_covariance(rule, np.empty(0, dtype), width) if is_full(rule) else rule.extra()
    width = width if is_full(rule) else max(width, len(extra))  # (see `kept_width`) what its array names must be there
    fields, clocks = _fresh(algorithm, rule, width, dtype)
    totals = np.concatenate([[0.0], np.array(algorithm.totals(), dtype=np.float64)])
    return Memory(fields, clocks, np.zeros(5, dtype=np.int64), totals, extra)


def capacity(algorithm: Algorithm, memory: Memory) -> int:
    """Coordinates there is room for."""
    return len(memory.state) // len(field_names(algorithm.coordinate)[0])


def widen(algorithm: Algorithm, rule: Any, memory: Memory, width: int) -> Memory:
    """Room for ``width`` coordinates, half as much again if it fits, so that growing feature by feature stays cheap."""
    have, dtype = capacity(algorithm, memory), memory.state.dtype
    held = memory.state.nbytes + memory.clocks.nbytes if width > have else 0
    require_room(algorithm, rule, width, dtype, held=held)
    if is_full(rule):
        memory = memory._replace(extra=widen_covariance(rule, memory.extra, width))
    if width <= have:
        return memory
    room = max(width, have + have // 2)
    try:
        require_room(algorithm, rule, room, dtype, held=held)
    except InvalidInputError:
        room = width
    wide = _fresh(algorithm, rule, room, dtype)
    for old, new in zip(memory[:2], wide, strict=True):
        new[: len(old)] = old
    return memory._replace(state=wide[0], clocks=wide[1])


def is_full(rule: Any) -> bool:
    """Whether a rule keeps a full covariance: the packed matrix is its own array."""
    return getattr(rule, "covariance", DIAGONAL) == FULL


def extra_size(rule: Any) -> int:
    """Return the length of a rule's own array; rules whose parameters set it compute it without making the array."""
    return int(rule.extra_size()) if hasattr(rule, "extra_size") else len(rule.extra())


def widen_covariance(rule: Any, packed: NDArray[Any], width: int) -> NDArray[Any]:
    """The packed matrix for ``width`` coordinates at least, those that are new uncorrelated and of a fresh variance."""
    return Matrix(packed).grown(width, float(rule.variance(rule.fresh()))).packed


def require_room(
    algorithm: Algorithm, rule: Any, width: int, dtype: np.dtype[Any], models: int = 1, held: int = 0
) -> None:
    """Raises if models this wide would not fit: a single feature number too high must not take the machine down.

    ``held`` are bytes of a narrower one that has to be there until it is copied.
    """
    fields, clocks = field_names(algorithm.coordinate)
    matrix, have = models * Matrix.size(width) * dtype.itemsize if is_full(rule) else 0, physical_memory()
    if matrix > 0.7 * have:
        raise InvalidInputError(
            f"{algorithm.name}: covariance='full' on {width:,} features needs {matrix / 1e9:,.1f} GB, this machine has "
            f"{have / 1e9:,.1f} GB; use covariance='diagonal', or fewer features"
        )
    needed = held + models * width * (len(fields) * dtype.itemsize + 8 * len(clocks))
    if needed > 0.7 * have:
        of = f" of {models} classes" if models > 1 else ""
        of += " while it grows" if held else ""
        raise InvalidInputError(
            f"feature number {width - 1} makes {algorithm.name}{of} need {needed / 1e9:,.0f} GB, this machine has "
            f"{have / 1e9:,.0f} GB; number features more densely, or hash them into fewer"
        )


def kept_width(rule: Any, memory: Memory, width: int) -> int:
    """Coordinates that can differ from fresh ones: the model's, and those a rule's own array may name."""
    return width if is_full(rule) else max(width, len(memory.extra))


def record_views(algorithm: Algorithm, memory: Memory, width: int) -> tuple[NDArray[Any], NDArray[np.float64]]:
    """Views of state and clocks with a row for each of the first ``width`` coordinates."""
    state, clocks = (
        array[: width * len(names)].reshape(width, len(names))
        for array, names in zip(memory[:2], field_names(algorithm.coordinate), strict=True)
    )
    return state, clocks


def touched_coordinates(algorithm: Algorithm, rule: Any, memory: Memory, width: int) -> NDArray[np.int64]:
    """Coordinates below ``width`` whose record differs in any bit from that of a feature never seen."""
    fresh = _fresh(algorithm, rule, 1, memory.state.dtype)
    marks = np.zeros(width, dtype=np.bool_)
    for array, row in zip(record_views(algorithm, memory, width), fresh, strict=True):
        bits = f"u{row.itemsize}"
        marks |= (array.view(bits) != row.view(bits)).any(axis=1)
    return np.flatnonzero(marks)


def field_views(algorithm: Algorithm, memory: Memory, start: int, stop: int) -> Any:
    """The record of coordinates start:stop, each field a view into memory."""
    fields, clocks = field_names(algorithm.coordinate)
    views = {n: memory.state[i + start * len(fields) : stop * len(fields) : len(fields)] for i, n in enumerate(fields)}
    views |= {
        n: memory.clocks[i + start * len(clocks) : stop * len(clocks) : len(clocks)] for i, n in enumerate(clocks)
    }
    return algorithm.coordinate(**views)


def _fresh(algorithm: Algorithm, rule: Any, width: int, dtype: np.dtype[Any]) -> tuple[Any, Any]:
    """Interleaved fields and clocks of ``width`` coordinates nobody touched."""
    fresh = rule.fresh()._asdict()
    fields, clocks = ([fresh[name] for name in names] for names in field_names(algorithm.coordinate))
    return _repeat(np.array(fields, dtype=dtype), width), _repeat(np.array(clocks, dtype=np.float64), width)


def _repeat(row: NDArray[Any], times: int) -> NDArray[Any]:
    """The row again and again; zeros come untouched from the system."""
    array = np.zeros(len(row) * times, dtype=row.dtype)
    for k in np.flatnonzero(row):
        array[k :: len(row)] = row[k]
    return array
