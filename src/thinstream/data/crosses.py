"""Crosses: features made of two or more columns, with their hashes and names."""

from collections.abc import Sequence
from functools import reduce
from operator import or_
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thinstream.data.options import MARK, Cross, answers, as_crosses, names_of, require_few
from thinstream.data.text.hashing import Hashing, absorbed, encode_names, finished, signed_by, stirred
from thinstream.errors import InvalidParameterError, meant
from thinstream.jit import compiled, scalar

# Crosses as numbers: each different name is a bit. A column matches some of the names.

#: The most columns that are cached, to look them up and to suggest one for a misspelled name.
_KNOWN = 1 << 12


class Plan(NamedTuple):
    """The crosses for compiled code."""

    names: NDArray[np.int64]  # numbers of the names of all crosses, concatenated
    earlier: NDArray[np.int64]  # previous position of the same name in the same cross, or −1
    ends: NDArray[np.int64]  # end of each cross


class Crosses:
    """The requested crosses, the columns they match, and statistics on the crosses made.

    Parameters
    ----------
    wanted : sequence of crosses
    hashing : Hashing
        How names become feature numbers.

    Examples
    --------
    >>> crosses = Crosses([("user", "item"), ("item", "day")])
    >>> crosses.names, crosses.slots("item"), crosses.slots("user.age"), crosses.slots("colour")
    (['item', 'day', 'user'], 1, 4, 0)

    """

    def __init__(self, wanted: Sequence[Cross] = (), hashing: Hashing | None = None) -> None:
        self.wanted, self.hashing = as_crosses(wanted), hashing or Hashing()
        if self.wanted and self.hashing.bits > 31:
            raise InvalidParameterError(
                f"cross: crossed features need bits of at most 31, got bits={self.hashing.bits}"
            )
        self.names = names_of(self.wanted)
        number = {name: k for k, name in enumerate(self.names)}
        flat: list[int] = []
        earlier, ends = [], []
        for cross in self.wanted:
            begin = len(flat)
            for name in cross:
                same = [position for position in range(begin, len(flat)) if flat[position] == number[name]]
                earlier.append(same[-1] if same else -1)
                flat.append(number[name])
            ends.append(len(flat))
        self.plan = Plan(np.array(flat, np.int64), np.array(earlier, np.int64), np.array(ends, np.int64))
        self._met: set[int] = set()  # name bits of features so far
        self.made = np.zeros(len(self.wanted), np.int64)  # how often each cross was made
        self._known: dict[str, int] = {}

    def __bool__(self) -> bool:
        return bool(self.wanted)

    @property
    def widest(self) -> int:
        """The number of names in the longest cross."""
        return max(map(len, self.wanted), default=0)

    def slots(self, column: str) -> int:
        """Return the names that a column matches, as bits."""
        if column in self._known:
            return self._known[column]
        bits = sum(1 << k for k, name in enumerate(self.names) if answers(column, name))
        if len(self._known) < _KNOWN:
            self._known[column] = bits
        return bits

    def slots_of(self, columns: Sequence[str]) -> NDArray[np.uint64]:
        """Return the bits of several columns."""
        if not self.wanted:
            return np.zeros(len(columns), np.uint64)
        return np.array([self.slots(column) for column in columns], np.uint64)

    def count(self, slots: NDArray[np.uint64], made: NDArray[np.int64]) -> None:
        self._met.add(int(np.bitwise_or.reduce(slots, initial=np.uint64(0))))
        self.made += made

    def remarks(self) -> list[str]:
        """Return remarks on names that no row has, and on crosses that were never made.

        >>> crosses = Crosses([("usr", "item")])
        >>> _ = crosses.slots_of(["user", "item"])
        >>> crosses.remarks()
        ["cross: no row has 'usr'; did you mean 'user'?", "cross: no row has 'item'"]
        """
        met = reduce(or_, self._met, 0)
        absent = [name for k, name in enumerate(self.names) if not met >> k & 1]
        remarks = [f"cross: no row has {name!r}{self._hint(name)}" for name in absent]
        for cross, made in zip(self.wanted, self.made.tolist(), strict=True):
            if not made and not {*cross} & {*absent}:
                remarks.append(f"cross: no row has features of all columns of {MARK.join(cross)}")
        return remarks

    def _hint(self, name: str) -> str:
        hint = "" if name in self._known else meant(name, self._known)
        return f"; {hint}" if hint.startswith("did") else ""

    def patterns(self, *, single: bool = False) -> "Patterns":
        """Return the names for compiled code; with ``single``, a letter matches all names that begin with it."""
        text, ends = encode_names(self.names)
        begins = np.concatenate([[0], ends]).astype(np.int64)
        letters = np.array([single and len(name) == 1 for name in self.names], np.bool_)
        return Patterns(np.frombuffer(bytearray(text), np.uint8), begins, letters)


class Patterns(NamedTuple):
    """The names in crosses for compiled code."""

    text: NDArray[np.uint8]
    begins: NDArray[np.int64]
    letters: NDArray[np.bool_]  # whether a name matches all that begin with it, as in VW


_POINT, _BRACKET = 46, 91


@scalar
def slots_at(text: Any, start: Any, stop: Any, patterns: Any) -> Any:
    """Return the names in crosses that a column or namespace matches, as bits; see `answers`."""
    slots = np.uint64(0)
    for name in range(len(patterns.letters)):
        begin = patterns.begins[name]
        size = patterns.begins[name + 1] - begin
        same = stop - start >= size
        for k in range(size if same else 0):
            same = same and text[start + k] == patterns.text[begin + k]
        if same and stop - start > size and not patterns.letters[name]:
            same = text[start + size] == _POINT or text[start + size] == _BRACKET
        if same:
            slots |= np.uint64(1) << np.uint64(name)
    return slots


@compiled("thinstream.data.crosses")
def find_slots(text: Any, names: Any, patterns: Any, out: Any) -> None:
    """Fill in the names in crosses that the namespaces of VW features match."""
    start, stop, slots = -1, -1, np.uint64(0)
    for k in range(len(names)):
        if names[k, 2] != start or names[k, 3] != stop:  # an empty namespace starts where the next one does
            start, stop = names[k, 2], names[k, 3]
            slots = slots_at(text, start, stop, patterns)
        out[k] = slots


# Features to be crossed, of any format.


class Members(NamedTuple):
    """The features of rows that are crossed."""

    indptr: NDArray[np.int64]  # row pointers
    slots: NDArray[np.uint64]  # names that a feature matches, as bits
    text: NDArray[np.uint8]
    spans: NDArray[np.int32]  # start and stop of the head and of the rest of each name
    values: NDArray[np.float64]  # without the sign of the hash


# Append crosses to rows, compiled.

#: The most crosses of one row: more would be a mistake, and fill the memory.
MOST = 1 << 20
_MARK, _LOW, _WORD = np.uint64(int.from_bytes(MARK.encode(), "little")), np.uint64(2**32 - 1), np.uint64(32)


class Crossed(NamedTuple):
    """Rows with their original features first; the first row with too many crosses and those after it are left out."""

    indptr: NDArray[np.int64]
    indices: NDArray[np.int32]
    values: NDArray[np.float64]
    parts: NDArray[np.int64]  # members of each cross, padded with −1; empty if not requested


def cross_rows(
    crosses: Crosses,
    plain: tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float64]],
    members: Members,
    traced: bool = False,
) -> Crossed:
    """Append crosses to the rows ``plain`` (indptr, indices, values); ``traced`` also returns their parts.

    >>> from thinstream.batch import Spelled
    >>> from thinstream.data.text.hashing import Hashing
    >>> crosses = Crosses([("user", "age")], Hashing(bits=18))
    >>> names, ends = Spelled.of([("user=", "ann"), ("", "age")]), np.array([0, 2])
    >>> members = Members(ends, crosses.slots_of(["user", "age"]), *names, np.array([1.0, 31.0]))
    >>> crossed = cross_rows(crosses, (ends, np.array([5, 9], np.int32), members.values), members)
    >>> crossed.indices, crossed.values, Hashing(bits=18).index("user=ann × age")
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
def _taken(plan: Any, position: Any) -> Any:
    """Count how often the same name occurs earlier in a cross."""
    count, before = 0, plan.earlier[position]
    while before >= 0:
        count, before = count + 1, plan.earlier[before]
    return count


@compiled()
def _sizes(member_ends: Any, slots: Any, plan: Any, plain_ends: Any, names: Any, most: Any, ends: Any) -> Any:
    """Return the number of rows before one with more than ``most`` crosses, and fill in where their features end."""
    counts = np.zeros(names, np.int64)
    for i in range(len(member_ends) - 1):
        for name in range(names):
            counts[name] = 0
        for k in range(member_ends[i], member_ends[i + 1]):
            for name in range(names):
                counts[name] += np.int64(slots[k] >> np.uint64(name) & np.uint64(1))
        total, begin = 0, 0
        for cross in range(len(plan.ends)):
            n_crosses = 1
            for position in range(begin, plan.ends[cross]):
                if counts[plan.names[position]] <= _taken(plan, position):
                    n_crosses = 0
            for position in range(begin, plan.ends[cross]):
                taken = _taken(plan, position)  # n over m, factor by factor
                n_crosses = min(n_crosses * (counts[plan.names[position]] - taken) // (taken + 1), most + 1)
            total, begin = total + n_crosses, plan.ends[cross]
        if total > most:
            return i
        ends[i + 1] = ends[i] + plain_ends[i + 1] - plain_ends[i] + total
    return len(member_ends) - 1


@scalar
def _absorbed(members: Any, j: Any, begun: Any, word: Any, bits: Any) -> Any:
    """Continue a hash with the name of a feature."""
    begun, word, bits = absorbed(members.text, members.spans[j, 0], members.spans[j, 1], begun, word, bits)
    return absorbed(members.text, members.spans[j, 2], members.spans[j, 3], begun, word, bits)


@scalar
def _size(members: Any, j: Any) -> Any:
    """Return the length of a feature's name in bytes."""
    return members.spans[j, 1] - members.spans[j, 0] + members.spans[j, 3] - members.spans[j, 2]


@compiled("thinstream.data.text.characters", "thinstream.data.text.hashing")
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
    """Fill in the rows whose ends are known, and count how often each cross was made.

    Each cross is a tree with a level per name. A level has the hash of the names so far and the product of their
    values.
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
            k += 1
        for name in range(names):
            counts[name] = 0
        for j in range(members.indptr[i], members.indptr[i + 1]):
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
                    for position in range(at[level], counts[name]):
                        j = listed[name, position]
                        whole, rest, more = _absorbed(members, j, begun, word, bits)
                        hashed = finished(whole, rest, more, size + _size(members, j))
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
                begun, word, bits = _absorbed(members, j, hashes[level], words[level], held[level])
                product, size = products[level] * members.values[j], sizes[level] + _size(members, j) + 4
                level += 1
                hashes[level] = stirred(begun, word | _MARK << bits & _LOW)
                words[level], held[level] = _MARK >> _WORD - bits, bits
                products[level], sizes[level] = product, size
                at[level] = at[plan.earlier[level]] + 1 if plan.earlier[level] >= 0 else 0
            made[cross] += k - before
            begin = last + 1
