"""Records of one lane, read from and written to arrays in which the lanes of a field lie side by side.

As in `engine.records`, the code for a record is generated from its class; here every function takes the lane, too. What
takes arrays is inlined by numba itself: a call would count references to them.

On the stack the loop keeps three arrays, rows × lanes: in the model's precision, in 64 bits, and of whole numbers. The
records of a lane (its parameters, its round, its totals) have fixed rows in them.
"""

from functools import cache
from typing import Any, get_type_hints

import numpy as np
from numba import types

from thinstream.engine.parameters import OneOf
from thinstream.engine.records import split
from thinstream.engine.rule import REGISTRY
from thinstream.jit import compiles

#: Rows from which on the fields of a round and the parameters stand, and how many there are in all.
NOW, PARAMETERS, ROWS = 16, 24, 40
#: The same for whole parameters, behind the counts.
WHOLES, COUNTS = 8, 16


def _made(source: str, **names: Any) -> Any:
    scope: dict[str, Any] = {"uint64": np.uint64, **names}
    exec(source, scope)
    return scope["made"]


def _type(p: Any) -> Any:
    return type(p)


def coordinate_of(rule: Any) -> Any:
    """The record a rule keeps per feature."""
    return REGISTRY[rule.__name__.lower()].coordinate


def totals_of(rule: Any) -> Any:
    """The record of a rule's own totals."""
    return REGISTRY[rule.__name__.lower()].totals


def _places(record: Any) -> list[str]:
    """Where each field of coordinate ``j`` stands, as source text over flat arrays; all numbers are unsigned."""
    fields, clocks = split(record)
    place = {n: f"state[(j * uint64({len(fields)}) + uint64({i})) * lanes + lane]" for i, n in enumerate(fields)}
    place |= {n: f"clocks[(j * uint64({len(clocks)}) + uint64({i})) * lanes + lane]" for i, n in enumerate(clocks)}
    return [place[name] for name in record._fields]


@cache
def _reader(rule: Any) -> Any:
    record = coordinate_of(rule)
    parts = ", ".join(_places(record))
    return _made(f"def made(p, state, clocks, j, lane, lanes):\n return Record({parts})", Record=record)


@cache
def _writer(rule: Any) -> Any:
    record = coordinate_of(rule)
    lines = [f" {place} = f.{name}" for name, place in zip(record._fields, _places(record), strict=True)]
    return _made("def made(p, state, clocks, j, lane, lanes, f):\n" + "\n".join(lines))


@cache
def _chooser(rule: Any) -> Any:
    record = coordinate_of(rule)
    parts = ", ".join(f"new.{name} if on else old.{name}" for name in record._fields)
    return _made(f"def made(p, on, new, old):\n return Record({parts})", Record=record)


@cache
def numbers_of(rule: Any) -> tuple[list[str], list[str]]:
    """Names of the parameters lanes may differ in, real and whole; the others, codes and kinds, a block shares."""
    found = [p.name for p in REGISTRY[rule.__name__.lower()].parameters if not isinstance(p.constraint, OneOf)]
    hints = get_type_hints(rule)
    return [name for name in found if hints[name] is float], [name for name in found if hints[name] is int]


@cache
def _ruler(rule: Any) -> Any:
    """The rule of a lane: kinds and codes from the template, numbers from tables."""
    reals, wholes = numbers_of(rule)
    _require_rows(rule, len(reals), ROWS - PARAMETERS)
    _require_rows(rule, len(wholes), COUNTS - WHOLES)
    place = {name: f"reals[{PARAMETERS + i}, lane]" for i, name in enumerate(reals)}
    place |= {name: f"wholes[{WHOLES + i}, lane]" for i, name in enumerate(wholes)}
    parts = ", ".join(place.get(name, f"p.{name}") for name in rule._fields)
    return _made(f"def made(p, reals, wholes, lane):\n return Rule({parts})", Rule=rule)


def read(p: Any, state: Any, clocks: Any, j: Any, lane: Any, lanes: Any) -> Any:
    """Coordinate j of a lane."""
    return _reader(_type(p))(p, state, clocks, j, lane, lanes)


def write(p: Any, state: Any, clocks: Any, j: Any, lane: Any, lanes: Any, f: Any) -> None:
    """Coordinate j of a lane becomes ``f``."""
    _writer(_type(p))(p, state, clocks, j, lane, lanes, f)


def choose(p: Any, on: Any, new: Any, old: Any) -> Any:
    """``new`` where ``on``, else ``old``."""
    return _chooser(_type(p))(p, on, new, old)


def rule_at(p: Any, reals: Any, wholes: Any, lane: Any) -> Any:
    """The rule of a lane; p is any rule of the same kinds and codes."""
    return _ruler(_type(p))(p, reals, wholes, lane)


def store(record: Any, reals: Any, clocks: Any, lane: Any) -> None:
    """A record of scalars into arrays, a row per field: all in 64 bits, and what is no clock in the model's, too."""
    held = split(type(record))[1]
    for i, name in enumerate(record._fields):
        clocks[NOW + i, lane] = getattr(record, name)
        if name not in held:
            reals[NOW + i, lane] = getattr(record, name)


def fetch(record: Any, reals: Any, clocks: Any, lane: Any) -> Any:
    """The record of a lane; ``record`` is any of its class."""
    held = split(type(record))[1]
    return type(record)(*((clocks if name in held else reals)[NOW + i, lane] for i, name in enumerate(record._fields)))


def totals_at(p: Any, totals: Any, lane: Any) -> Any:
    """A lane's own totals, which stand behind its cumulative loss."""
    record = totals_of(type(p))
    return record(*(totals[i + 1, lane] for i in range(len(record._fields))))


def store_totals(p: Any, totals: Any, lane: Any, own: Any) -> None:
    """A lane's own totals become ``own``."""
    for i, value in enumerate(own):
        totals[i + 1, lane] = value


def _require_rows(record: Any, needed: int, have: int) -> None:
    if needed > have:
        raise TypeError(f"{record.__name__}: lanes have room for {have} such numbers, it has {needed}")


def _class_of(p: Any) -> Any:
    return p.instance_class if isinstance(p, types.BaseNamedTuple) else None


@compiles(read, inline="always")
def _read_compiled(p: Any, state: Any, clocks: Any, j: Any, lane: Any, lanes: Any) -> Any:
    return _class_of(p) and _reader(_class_of(p))


@compiles(write, inline="always")
def _write_compiled(p: Any, state: Any, clocks: Any, j: Any, lane: Any, lanes: Any, f: Any) -> Any:
    return _class_of(p) and _writer(_class_of(p))


@compiles(choose)
def _choose_compiled(p: Any, on: Any, new: Any, old: Any) -> Any:
    return _class_of(p) and _chooser(_class_of(p))


@compiles(rule_at, inline="always")
def _rule_at_compiled(p: Any, reals: Any, wholes: Any, lane: Any) -> Any:
    return _class_of(p) and _ruler(_class_of(p))


@compiles(store, inline="always")
def _store_compiled(record: Any, reals: Any, clocks: Any, lane: Any) -> Any:
    if _class_of(record) is None:
        return None
    cls = _class_of(record)
    held = split(cls)[1]
    _require_rows(cls, len(cls._fields), PARAMETERS - NOW)
    lines = [f" clocks[{NOW + i}, lane] = record.{name}" for i, name in enumerate(cls._fields)]
    lines += [f" reals[{NOW + i}, lane] = record.{name}" for i, name in enumerate(cls._fields) if name not in held]
    return _made("def made(record, reals, clocks, lane):\n" + "\n".join(lines or [" pass"]))


@compiles(fetch, inline="always")
def _fetch_compiled(record: Any, reals: Any, clocks: Any, lane: Any) -> Any:
    cls = _class_of(record)
    if cls is None:
        return None
    held = split(cls)[1]
    parts = ", ".join(f"{'clocks' if n in held else 'reals'}[{NOW + i}, lane]" for i, n in enumerate(cls._fields))
    return _made(f"def made(record, reals, clocks, lane):\n return Record({parts})", Record=cls)


@compiles(totals_at, inline="always")
def _totals_at_compiled(p: Any, totals: Any, lane: Any) -> Any:
    if _class_of(p) is None:
        return None
    record = totals_of(_class_of(p))
    parts = ", ".join(f"totals[{i + 1}, lane]" for i in range(len(record._fields)))
    return _made(f"def made(p, totals, lane):\n return Record({parts})", Record=record)


@compiles(store_totals, inline="always")
def _store_totals_compiled(p: Any, totals: Any, lane: Any, own: Any) -> Any:
    if _class_of(p) is None:
        return None
    record = totals_of(_class_of(p))
    lines = [f" totals[{i + 1}, lane] = own.{name}" for i, name in enumerate(record._fields)]
    return _made("def made(p, totals, lane, own):\n" + "\n".join(lines or [" pass"]))
