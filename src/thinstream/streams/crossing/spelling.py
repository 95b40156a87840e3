"""How the features of rows are spelled that are to be crossed, whatever format they come from."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thinstream.jit import compiled, scalar
from thinstream.streams.crossing.plan import Crosses
from thinstream.streams.text.hashing import encode_names

_QUOTE, _POINT, _BRACKET, _EQUALS, _CARET = 34, 46, 91, 61, 94


class Members(NamedTuple):
    """Features of rows, of which those with ``slots`` are crossed."""

    indptr: NDArray[np.int64]  # of the rows
    slots: NDArray[np.uint64]  # names of crosses a feature answers to, as bits
    text: NDArray[np.uint8]  # readable names
    starts: NDArray[np.int64]  # of each feature's in the text; only of those with slots
    stops: NDArray[np.int64]
    values: NDArray[np.float64]  # without the sign a hash may give them


def spelled(
    names: Sequence[str], slots: NDArray[np.uint64], values: NDArray[np.float64], indptr: NDArray[np.int64]
) -> Members:
    """Features by their readable names."""
    text, stops = encode_names([name if slot else "" for name, slot in zip(names, slots.tolist(), strict=True)])
    starts = np.concatenate([[0], stops[:-1]]) if len(stops) else stops
    return Members(indptr, slots, np.frombuffer(bytearray(text), np.uint8), starts, stops, values)


def of_columns(
    text: NDArray[np.uint8],
    spans: NDArray[np.int64],
    columns: Sequence[str],
    crosses: Crosses,
    values: NDArray[np.float64],
    indptr: NDArray[np.int64],
) -> Members:
    """Features of columns, as the CSV parser tells them: ``column`` of a number, ``column=cell`` of a category."""
    heads, ends = encode_names([f"{column}=" for column in columns])
    begins = np.concatenate([[0], ends]).astype(np.int64)
    column = np.where(spans[:, 0] < 0, -1 - spans[:, 0], spans[:, 0])
    room = int(np.sum(np.diff(begins)[column] + spans[:, 2] - spans[:, 1]))
    found = _room(len(spans), room, values, indptr)
    _spell_columns(text, spans, np.frombuffer(bytearray(heads), np.uint8), begins, crosses.slots_of(columns), found)
    return found


def of_namespaces(
    text: NDArray[np.uint8],
    spans: NDArray[np.int64],
    crosses: Crosses,
    values: NDArray[np.float64],
    indptr: NDArray[np.int64],
) -> Members:
    """Features of namespaces, as the VW parser tells them: ``namespace^name``.

    A cross that names one letter means all namespaces that begin with it.
    """
    names, ends = encode_names(crosses.names)
    single = np.array([len(name) == 1 for name in crosses.names])
    begins = np.concatenate([[0], ends]).astype(np.int64)
    found = _room(len(spans), 0, values, indptr)
    size = _measure_namespaces(text, spans, np.frombuffer(bytearray(names), np.uint8), begins, single, found)
    found = found._replace(text=np.empty(size, np.uint8))
    _spell_namespaces(text, spans, found)
    return found


def _room(features: int, size: int, values: NDArray[np.float64], indptr: NDArray[np.int64]) -> Members:
    starts, stops = np.empty(features, np.int64), np.empty(features, np.int64)
    return Members(indptr, np.empty(features, np.uint64), np.empty(size, np.uint8), starts, stops, values)


@scalar
def _copied(source: Any, start: Any, stop: Any, found: Any, at: Any) -> Any:
    while start < stop:
        found[at] = source[start]
        at += 1
        start += 1
    return at


@compiled()
def _spell_columns(text: Any, spans: Any, heads: Any, begins: Any, slots: Any, found: Any) -> None:
    at = 0
    for k in range(len(spans)):
        column, start, stop, doubled = spans[k, 0], spans[k, 1], spans[k, 2], spans[k, 3]
        category = column < 0
        if category:
            column = -1 - column
        found.slots[k], found.starts[k] = slots[column], at
        if slots[column] != 0:
            at = _copied(heads, begins[column], begins[column + 1] - (0 if category else 1), found.text, at)
            if category:
                while start < stop:
                    found.text[at] = text[start]
                    at += 1
                    start += 2 if doubled and text[start] == _QUOTE else 1
        found.stops[k] = at


@scalar
def _meant(text: Any, start: Any, stop: Any, names: Any, begin: Any, end: Any, single: Any) -> Any:
    """Whether a namespace is meant by a name: see `answers`."""
    size = end - begin
    if stop - start < size:
        return False
    for k in range(size):
        if text[start + k] != names[begin + k]:
            return False
    if single or stop - start == size:
        return True
    return (text[start + size] == _POINT) | (text[start + size] == _BRACKET)


@compiled()
def _measure_namespaces(text: Any, spans: Any, names: Any, begins: Any, single: Any, found: Any) -> Any:
    """Which features are crossed, and where they will be spelled; returns how much room that takes."""
    at, space, slots, head = 0, np.int64(-1), np.uint64(0), 0
    for k in range(len(spans)):
        if spans[k, 0] != space:
            space, stop, slots = spans[k, 0], spans[k, 1], np.uint64(0)
            for name in range(len(single)):
                if _meant(text, space, stop, names, begins[name], begins[name + 1], single[name]):
                    slots |= np.uint64(1) << np.uint64(name)
            if slots != 0:
                head = stop - space + (1 if text[stop - 1] != _EQUALS else 0)
        found.slots[k], found.starts[k] = slots, at
        if slots != 0:
            at += head + spans[k, 3] - spans[k, 2]
        found.stops[k] = at
    return at


@compiled()
def _spell_namespaces(text: Any, spans: Any, found: Any) -> None:
    for k in range(len(spans)):
        if found.slots[k] != 0:
            at = _copied(text, spans[k, 0], spans[k, 1], found.text, found.starts[k])
            if text[spans[k, 1] - 1] != _EQUALS:
                found.text[at] = _CARET
                at += 1
            _copied(text, spans[k, 2], spans[k, 3], found.text, at)
