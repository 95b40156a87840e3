"""Rows with the crosses of their features behind them, compiled."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thinstream.jit import compiled, scalar
from thinstream.streams.crossing.declared import MARK
from thinstream.streams.crossing.plan import Crosses
from thinstream.streams.crossing.spelling import Members
from thinstream.streams.expansion import require_few
from thinstream.streams.text.hashing import absorbed, finished, signed_by, stirred

#: Crosses of one row at most: more would be a mistake, and fill the memory.
MOST = 1 << 20
_MARK, _LOW, _WORD = np.uint64(int.from_bytes(MARK.encode(), "little")), np.uint64(2**32 - 1), np.uint64(32)


class Crossed(NamedTuple):
    """Rows, each with its own features first; a row with too many crosses, and those behind it, are left out."""

    indptr: NDArray[np.int64]
    indices: NDArray[np.int32]
    values: NDArray[np.float64]
    parts: NDArray[np.int64]  # of each feature, numbers of the given ones it is made of, −1 behind; empty if not asked


def cross_rows(
    crosses: Crosses,
    plain: tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float64]],
    members: Members,
    traced: bool = False,
) -> Crossed:
    """The rows ``plain`` (indptr, indices, values) with the crosses of their members; ``traced`` tells their parts.

    >>> from thinstream.streams.crossing.spelling import spelled
    >>> from thinstream.streams.text.hashing import Hashing
    >>> crosses = Crosses([("user", "age")], Hashing(bits=18))
    >>> names, ends = ["user=ann", "age"], np.array([0, 2])
    >>> members = spelled(names, crosses.slots_of(["user", "age"]), np.array([1.0, 31.0]), ends)
    >>> found = cross_rows(crosses, (ends, np.array([5, 9], np.int32), members.values), members)
    >>> found.indices, found.values, Hashing(bits=18).index("user=ann × age")
    (array([    5,     9, 64464], dtype=int32), array([ 1., 31., 31.]), 64464)
    """
    indptr, hashing = np.zeros(len(members.indptr), np.int64), crosses.hashing
    rows = _sizes(members.indptr, members.slots, crosses.plan, plain[0], len(crosses.names), MOST, indptr)
    indptr, size = indptr[: rows + 1], int(indptr[rows])
    require_few(size, "crosses")
    indices, values = np.empty(size, np.int32), np.empty(size, np.float64)
    parts = np.full((size if traced else 0, max(crosses.widest, 1)), -1, np.int64)
    made = np.zeros(len(crosses.wanted), np.int64)
    how = (np.uint64(hashing.namespace()), np.uint64(hashing.mask), hashing.signed)
    _cross(*plain, members, crosses.plan, len(crosses.names), *how, indptr, indices, values, parts, made)
    crosses.count(members.slots[: members.indptr[rows]], made)
    return Crossed(indptr, indices, values, parts)


@scalar
def _taken(plan: Any, place: Any) -> Any:
    """How often the same name stands before in a cross."""
    found, before = 0, plan.earlier[place]
    while before >= 0:
        found, before = found + 1, plan.earlier[before]
    return found


@compiled()
def _sizes(member_ends: Any, slots: Any, plan: Any, plain_ends: Any, names: Any, most: Any, ends: Any) -> Any:
    """How many rows there are before one of more than ``most`` crosses; ``ends`` takes where their features end."""
    counts = np.zeros(names, np.int64)
    for i in range(len(member_ends) - 1):
        for name in range(names):
            counts[name] = 0
        for k in range(member_ends[i], member_ends[i + 1]):
            for name in range(names):
                counts[name] += np.int64(slots[k] >> np.uint64(name) & np.uint64(1))
        total, begin = 0, 0
        for cross in range(len(plan.ends)):
            found = 1
            for place in range(begin, plan.ends[cross]):
                if counts[plan.names[place]] <= _taken(plan, place):
                    found = 0
            for place in range(begin, plan.ends[cross]):
                taken = _taken(plan, place)  # n over m, factor by factor
                found = min(found * (counts[plan.names[place]] - taken) // (taken + 1), most + 1)
            total, begin = total + found, plan.ends[cross]
        if total > most:
            return i
        ends[i + 1] = ends[i] + plain_ends[i + 1] - plain_ends[i] + total
    return len(member_ends) - 1


@compiled("thinstream.streams.text.digits", "thinstream.streams.text.hashing")
def _cross(
    plain_ends: Any,
    plain_indices: Any,
    plain_values: Any,
    members: Any,
    plan: Any,
    names: Any,
    seed: Any,
    mask: Any,
    signed: Any,
    ends: Any,
    indices: Any,
    values: Any,
    parts: Any,
    made: Any,
) -> None:
    """Fills in the rows whose ends are known, and how many of each cross there are.

    A cross is a tree: a level for each of its names, with a hash of the names so far, and their product.
    """
    rows, deep, longest = len(ends) - 1, len(plan.names), 0
    for i in range(rows):
        longest = max(longest, members.indptr[i + 1] - members.indptr[i])
    counts, listed = np.zeros(names, np.int64), np.empty((names, longest), np.int64)
    at, sizes, products = np.zeros(deep, np.int64), np.zeros(deep, np.int64), np.ones(deep, np.float64)
    hashes, words, held = np.zeros(deep, np.uint64), np.zeros(deep, np.uint64), np.zeros(deep, np.uint64)
    for i in range(rows):
        k = ends[i]
        for j in range(plain_ends[i], plain_ends[i + 1]):
            indices[k], values[k] = plain_indices[j], plain_values[j]
            if len(parts) > 0:
                parts[k, 0] = j
            k += 1
        for name in range(names):
            counts[name] = 0
        for j in range(members.indptr[i], members.indptr[i + 1]):
            if members.slots[j] != 0:
                for name in range(names):
                    if members.slots[j] >> np.uint64(name) & np.uint64(1) != 0:
                        listed[name, counts[name]] = j
                        counts[name] += 1
        begin = 0
        for cross in range(len(plan.ends)):
            last, level, before = plan.ends[cross] - 1, begin, k
            hashes[begin], at[begin] = seed, 0
            while level >= begin:
                name = plan.names[level]
                if level == last:
                    begun, word, bits = hashes[level], words[level], held[level]
                    size, product = sizes[level], products[level]
                    for place in range(at[level], counts[name]):
                        j = listed[name, place]
                        start, stop = members.starts[j], members.stops[j]
                        whole, rest, more = absorbed(members.text, start, stop, begun, word, bits)
                        hashed = finished(whole, rest, more, size + stop - start)
                        indices[k] = np.int32(hashed & mask)
                        values[k] = signed_by(hashed, signed, product * members.values[j])
                        if len(parts) > 0:
                            parts[k, level - begin] = j
                            for above in range(begin, level):
                                parts[k, above - begin] = listed[plan.names[above], at[above]]
                        k += 1
                if level == last or at[level] >= counts[name]:
                    level -= 1
                    if level >= begin:
                        at[level] += 1
                    continue
                j = listed[name, at[level]]
                start, stop = members.starts[j], members.stops[j]
                begun, word, bits = absorbed(members.text, start, stop, hashes[level], words[level], held[level])
                product, size = products[level] * members.values[j], sizes[level] + stop - start + 4
                level += 1
                hashes[level] = stirred(begun, word | _MARK << bits & _LOW)
                words[level], held[level] = _MARK >> _WORD - bits, bits
                products[level], sizes[level] = product, size
                at[level] = at[plan.earlier[level]] + 1 if plan.earlier[level] >= 0 else 0
            made[cross] += k - before
            begin = last + 1
