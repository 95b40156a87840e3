"""The memory of models: allocating, growing and copying it for any rule, and how much the machine has."""

import os
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thinstream.engine import records
from thinstream.engine.covariance import DIAGONAL, FULL, Matrix
from thinstream.engine.records import Memory
from thinstream.engine.rule import Algorithm
from thinstream.errors import InvalidInputError

#: Names of the fields of a record, and of its clocks.
field_names = cache(records.field_names)
#: Linux's files with the limits of control groups, and with the groups of this process.
GROUPS, OWN_GROUPS = Path("/sys/fs/cgroup"), Path("/proc/self/cgroup")


def allocate(algorithm: Algorithm, rule: Any, width: int, dtype: np.dtype[Any]) -> Memory:
    """Allocate the memory of a fresh model, for at least ``width`` coordinates."""
    require_room(algorithm, rule, width, dtype)
    extra = widen_covariance(rule, np.empty(0, dtype), width) if is_full(rule) else rule.extra()
    width = width if is_full(rule) else max(width, len(extra))  # see `kept_width`
    fields, clocks = _fresh(algorithm, rule, width, dtype)
    totals = np.concatenate([[0.0], np.array(algorithm.totals(), dtype=np.float64)])
    return Memory(fields, clocks, np.zeros(5, dtype=np.int64), totals, extra)


def capacity(algorithm: Algorithm, memory: Memory) -> int:
    """Return the number of coordinates that fit."""
    return len(memory.state) // len(field_names(algorithm.coordinate)[0])


def widen(algorithm: Algorithm, rule: Any, memory: Memory, width: int) -> Memory:
    """Return memory for ``width`` coordinates.

    If possible, it is 50% larger, so growing by single features is cheap.
    """
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
    """Return whether a rule keeps a full covariance, as a packed matrix in ``Memory.extra``."""
    return getattr(rule, "covariance", DIAGONAL) == FULL


def extra_size(rule: Any) -> int:
    """Return the length of a rule's own array; rules whose parameters set it compute it without making the array."""
    return int(rule.extra_size()) if hasattr(rule, "extra_size") else len(rule.extra())


def is_plain(rule: Any) -> bool:
    """Return whether a rule updates each coordinate independently of its number and of the number of features."""
    return not (rule.needs_dimension() or is_full(rule) or extra_size(rule))


def widen_covariance(rule: Any, packed: NDArray[Any], width: int) -> NDArray[Any]:
    """Return the packed matrix for at least ``width`` coordinates. New ones have the initial variance."""
    return Matrix(packed).grown(width, float(rule.variance(rule.fresh()))).packed


def require_room(
    algorithm: Algorithm, rule: Any, width: int, dtype: np.dtype[Any], models: int = 1, held: int = 0
) -> None:
    """Raise if models this wide would not fit, so that one huge feature number cannot exhaust the machine.

    ``held`` is the number of bytes of a narrower model that exists until it is copied.
    """
    fields, clocks = field_names(algorithm.coordinate)
    matrix, have = models * Matrix.size(width) * dtype.itemsize if is_full(rule) else 0, physical_memory()
    if matrix > 0.7 * have:
        raise InvalidInputError(
            f"{algorithm.name}: covariance='full' on {width:,} features needs {matrix / 1e9:,.1f} GB of memory, but "
            f"this machine has {have / 1e9:,.1f} GB. Use covariance='diagonal', or fewer features"
        )
    needed = held + models * width * (len(fields) * dtype.itemsize + 8 * len(clocks))
    if needed > 0.7 * have:
        of = f" of {models} classes" if models > 1 else ""
        of += " while it grows" if held else ""
        raise InvalidInputError(
            f"{algorithm.name}{of} needs {needed / 1e9:,.0f} GB of memory for feature number {width - 1}, but this "
            f"machine has {have / 1e9:,.0f} GB. Number the features from 0 without gaps, or hash them into fewer"
        )


def kept_width(rule: Any, memory: Memory, width: int) -> int:
    """Return the number of coordinates that can differ from fresh ones: the model's, and those in ``extra``."""
    return width if is_full(rule) else max(width, len(memory.extra))


def record_views(algorithm: Algorithm, memory: Memory, width: int) -> tuple[NDArray[Any], NDArray[np.float64]]:
    """Return views of state and clocks with a row for each of the first ``width`` coordinates."""
    state, clocks = (
        array[: width * len(names)].reshape(width, len(names))
        for array, names in zip(memory[:2], field_names(algorithm.coordinate), strict=True)
    )
    return state, clocks


def touched_coordinates(algorithm: Algorithm, rule: Any, memory: Memory, width: int) -> NDArray[np.int64]:
    """Return the coordinates below ``width`` whose record differs in any bit from a fresh one."""
    fresh = _fresh(algorithm, rule, 1, memory.state.dtype)
    marks = np.zeros(width, dtype=np.bool_)
    for array, row in zip(record_views(algorithm, memory, width), fresh, strict=True):
        bits = f"u{row.itemsize}"
        marks |= (array.view(bits) != row.view(bits)).any(axis=1)
    return np.flatnonzero(marks)


def field_views(algorithm: Algorithm, memory: Memory, start: int, stop: int) -> Any:
    """Return the record of coordinates start:stop. Each field is a view into memory."""
    fields, clocks = field_names(algorithm.coordinate)
    views = {n: memory.state[i + start * len(fields) : stop * len(fields) : len(fields)] for i, n in enumerate(fields)}
    views |= {
        n: memory.clocks[i + start * len(clocks) : stop * len(clocks) : len(clocks)] for i, n in enumerate(clocks)
    }
    return algorithm.coordinate(**views)


def _fresh(algorithm: Algorithm, rule: Any, width: int, dtype: np.dtype[Any]) -> tuple[Any, Any]:
    """Return the interleaved fields and clocks of ``width`` fresh coordinates."""
    fresh = rule.fresh()._asdict()
    fields, clocks = ([fresh[name] for name in names] for names in field_names(algorithm.coordinate))
    return _repeat(np.array(fields, dtype=dtype), width), _repeat(np.array(clocks, dtype=np.float64), width)


def _repeat(row: NDArray[Any], times: int) -> NDArray[Any]:
    """Return repetitions of the row. Zeros need no write."""
    array = np.zeros(len(row) * times, dtype=row.dtype)
    for k in np.flatnonzero(row):
        array[k :: len(row)] = row[k]
    return array


@cache
def physical_memory() -> int:
    """Return the bytes of memory that this process may use, or a huge number if the system does not report it."""
    try:
        machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # Windows
        machine = 1 << 62
    return min([machine, *group_limits()])


def group_limits() -> list[int]:
    """Return the limits of the control groups (of both versions) of this process, and of their parents."""
    try:
        lines = OWN_GROUPS.read_text().splitlines()
    except OSError:  # not Linux
        return []
    limits = []
    for line in lines:
        _, controllers, group = line.split(":", 2)
        if controllers == "":
            root, file = GROUPS, "memory.max"
        elif "memory" in controllers.split(","):
            root, file = GROUPS / "memory", "memory.limit_in_bytes"
        else:
            continue
        folder = root / group.lstrip("/")
        while folder.is_relative_to(root):
            with suppress(OSError, ValueError):  # no such file, or "max": no limit here
                limits.append(int((folder / file).read_text()))
            folder = folder.parent
    return [limit for limit in limits if limit > 0]
