"""Crosses in numbers: each different name is a bit, and a column answers to some of them."""

from collections.abc import Sequence
from functools import reduce
from operator import or_
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from thinstream.errors import InvalidParameterError, meant
from thinstream.streams.crossing.declared import MARK, Cross, answers, as_crosses, names_of
from thinstream.streams.text.hashing import Hashing

#: Columns whose names are kept: to be looked up, and to be named where one was meant that is not there.
_KNOWN = 1 << 12


class Plan(NamedTuple):
    """The crosses for compiled code."""

    names: NDArray[np.int64]  # of all crosses, one behind another, as numbers
    earlier: NDArray[np.int64]  # where in the same cross the same name stands before; −1: nowhere
    ends: NDArray[np.int64]  # of the crosses


class Crosses:
    """What is to be crossed, which columns that concerns, and what has come of it.

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
            raise InvalidParameterError(f"cross: crossed names have at most 31 bits, got bits={self.hashing.bits}")
        self.names = names_of(self.wanted)
        number = {name: k for k, name in enumerate(self.names)}
        flat: list[int] = []
        earlier, ends = [], []
        for cross in self.wanted:
            begin = len(flat)
            for name in cross:
                same = [place for place in range(begin, len(flat)) if flat[place] == number[name]]
                earlier.append(same[-1] if same else -1)
                flat.append(number[name])
            ends.append(len(flat))
        self.plan = Plan(np.array(flat, np.int64), np.array(earlier, np.int64), np.array(ends, np.int64))
        self._met: set[int] = set()  # of the slots features were found with
        self.made = np.zeros(len(self.wanted), np.int64)  # of each cross
        self._known: dict[str, int] = {}

    def __bool__(self) -> bool:
        return bool(self.wanted)

    @property
    def widest(self) -> int:
        """Names of the longest cross."""
        return max(map(len, self.wanted), default=0)

    def slots(self, column: str) -> int:
        """The names a column answers to, as bits."""
        if column in self._known:
            return self._known[column]
        found = sum(1 << k for k, name in enumerate(self.names) if answers(column, name))
        if len(self._known) < _KNOWN:
            self._known[column] = found
        return found

    def slots_of(self, columns: Sequence[str]) -> NDArray[np.uint64]:
        """The same of several."""
        return np.array([self.slots(column) for column in columns], np.uint64)

    def count(self, slots: NDArray[np.uint64], made: NDArray[np.int64]) -> None:
        """Takes note of what was met, and of how many crosses came of it."""
        self._met.add(int(np.bitwise_or.reduce(slots, initial=np.uint64(0))))
        self.made += made

    def remarks(self) -> list[str]:
        """What is odd about what came of it: names that nothing has, columns that were never in a row together.

        >>> crosses = Crosses([("usr", "item")])
        >>> _ = crosses.slots_of(["user", "item"])
        >>> crosses.remarks()
        ["cross: no row has 'usr'; did you mean 'user'?", "cross: no row has 'item'"]
        """
        met = reduce(or_, self._met, 0)
        absent = [name for k, name in enumerate(self.names) if not met >> k & 1]
        found = [f"cross: no row has {name!r}{self._hint(name)}" for name in absent]
        for cross, made in zip(self.wanted, self.made.tolist(), strict=True):
            if not made and not {*cross} & {*absent}:
                found.append(f"cross: nothing was made of {MARK.join(cross)}: no row has features of all of it")
        return found

    def _hint(self, name: str) -> str:
        hint = "" if name in self._known else meant(name, self._known)
        return f"; {hint}" if hint.startswith("did") else ""
