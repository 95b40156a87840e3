"""Records of one lane, read from and written to arrays in which the lanes of a field lie side by side.

As in `engine.records`, the code for a record is generated from its class; here every function takes the lane, too. What
takes arrays is inlined by numba itself: a call would count references to them.
"""

from functools import cache
from typing import Any

from numba import types

from thinstream.engine.records import split
from thinstream.engine.rule import REGISTRY
from thinstream.jit import compiles


def _made(source: str, **names: Any) -> Any:
    scope = dict(names)
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


@cache
def _reader(rule: Any) -> Any:
    record = coordinate_of(rule)
    fields, clocks = split(record)
    place = {n: f"state[j, {i}, lane]" for i, n in enumerate(fields)}
    place |= {n: f"clocks[j, {i}, lane]" for i, n in enumerate(clocks)}
    parts = ", ".join(place[name] for name in record._fields)
    return _made(f"def made(p, state, clocks, j, lane):\n return Record({parts})", Record=record)


@cache
def _writer(rule: Any) -> Any:
    record = coordinate_of(rule)
    fields, clocks = split(record)
    place = {n: f"state[j, {i}, lane]" for i, n in enumerate(fields)}
    place |= {n: f"clocks[j, {i}, lane]" for i, n in enumerate(clocks)}
    lines = [f" {place[name]} = f.{name}" for name in record._fields]
    return _made("def made(p, state, clocks, j, lane, f):\n" + "\n".join(lines))


@cache
def _chooser(rule: Any) -> Any:
    record = coordinate_of(rule)
    parts = ", ".join(f"new.{name} if on else old.{name}" for name in record._fields)
    return _made(f"def made(p, on, new, old):\n return Record({parts})", Record=record)


def is_kind(value: Any) -> bool:
    """Whether a parameter is of the kind that selects code: an empty tuple."""
    return isinstance(value, tuple)


def _ruler(rule: Any, kinds: tuple[bool, ...], whole: tuple[bool, ...]) -> Any:
    """The rule of a lane: kinds from the template, codes and numbers from tables."""
    parts, reals, codes = [], 0, 0
    for name, kind, code in zip(rule._fields, kinds, whole, strict=True):
        if kind:
            parts.append(f"p.{name}")
        elif code:
            parts.append(f"codes[{codes}, lane]")
            codes += 1
        else:
            parts.append(f"reals[{reals}, lane]")
            reals += 1
    return _made(f"def made(p, reals, codes, lane):\n return Rule({', '.join(parts)})", Rule=rule)


def read(p: Any, state: Any, clocks: Any, j: Any, lane: Any) -> Any:
    """Coordinate j of a lane."""
    return _reader(_type(p))(p, state, clocks, j, lane)


def write(p: Any, state: Any, clocks: Any, j: Any, lane: Any, f: Any) -> None:
    """Coordinate j of a lane becomes ``f``."""
    _writer(_type(p))(p, state, clocks, j, lane, f)


def choose(p: Any, on: Any, new: Any, old: Any) -> Any:
    """``new`` where ``on``, else ``old``."""
    return _chooser(_type(p))(p, on, new, old)


def rule_at(p: Any, reals: Any, codes: Any, lane: Any) -> Any:
    """The rule of a lane; p is any rule of the same kinds."""
    kinds = tuple(is_kind(value) for value in p)
    whole = tuple(isinstance(value, int) for value in p)
    return _ruler(type(p), kinds, whole)(p, reals, codes, lane)


def store(record: Any, reals: Any, clocks: Any, lane: Any) -> None:
    """A record of scalars into arrays, a row per field."""
    fields, held = split(type(record))
    for i, name in enumerate(fields):
        reals[i, lane] = getattr(record, name)
    for i, name in enumerate(held):
        clocks[i, lane] = getattr(record, name)


def fetch(record: Any, reals: Any, clocks: Any, lane: Any) -> Any:
    """The record of a lane; ``record`` is any of its class."""
    fields, held = split(type(record))
    values = {name: reals[i, lane] for i, name in enumerate(fields)}
    values |= {name: clocks[i, lane] for i, name in enumerate(held)}
    return type(record)(**values)


def totals_at(p: Any, totals: Any, lane: Any) -> Any:
    """A lane's own totals, which stand behind its cumulative loss."""
    record = totals_of(type(p))
    return record(*(totals[i + 1, lane] for i in range(len(record._fields))))


def store_totals(p: Any, totals: Any, lane: Any, own: Any) -> None:
    """A lane's own totals become ``own``."""
    for i, value in enumerate(own):
        totals[i + 1, lane] = value


def _class_of(p: Any) -> Any:
    return p.instance_class if isinstance(p, types.BaseNamedTuple) else None


@compiles(read, inline="always")
def _read_compiled(p: Any, state: Any, clocks: Any, j: Any, lane: Any) -> Any:
    return _class_of(p) and _reader(_class_of(p))


@compiles(write, inline="always")
def _write_compiled(p: Any, state: Any, clocks: Any, j: Any, lane: Any, f: Any) -> Any:
    return _class_of(p) and _writer(_class_of(p))


@compiles(choose)
def _choose_compiled(p: Any, on: Any, new: Any, old: Any) -> Any:
    return _class_of(p) and _chooser(_class_of(p))


@compiles(rule_at, inline="always")
def _rule_at_compiled(p: Any, reals: Any, codes: Any, lane: Any) -> Any:
    if _class_of(p) is None:
        return None
    kinds = tuple(isinstance(kind, types.BaseTuple) for kind in p.types)
    whole = tuple(isinstance(kind, types.Integer) for kind in p.types)
    return _ruler(_class_of(p), kinds, whole)


@compiles(store, inline="always")
def _store_compiled(record: Any, reals: Any, clocks: Any, lane: Any) -> Any:
    if _class_of(record) is None:
        return None
    fields, held = split(_class_of(record))
    lines = [f" reals[{i}, lane] = record.{name}" for i, name in enumerate(fields)]
    lines += [f" clocks[{i}, lane] = record.{name}" for i, name in enumerate(held)]
    return _made("def made(record, reals, clocks, lane):\n" + "\n".join(lines or [" pass"]))


@compiles(fetch, inline="always")
def _fetch_compiled(record: Any, reals: Any, clocks: Any, lane: Any) -> Any:
    cls = _class_of(record)
    if cls is None:
        return None
    fields, held = split(cls)
    place = {name: f"reals[{i}, lane]" for i, name in enumerate(fields)}
    place |= {name: f"clocks[{i}, lane]" for i, name in enumerate(held)}
    parts = ", ".join(place[name] for name in cls._fields)
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
