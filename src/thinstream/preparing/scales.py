"""Scales of features, learned as rows pass: the largest |x_j| so far, the root of the mean of x_j², or how rare it is.

Rows of weight 0 use them as they stand. What each value found before it is noted, so that rows that could not be
learned after all are taken back to the bit.
"""

from collections.abc import Sequence
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from thinstream.jit import compiled, scalar

Numbers = NDArray[np.float64]
#: Weights of rows that are all to be prepared with the scales as they stand.
AS_THEY_STAND = np.zeros(1)


@scalar
def over(x: float, m: float) -> float:
    """x/m; 0 of a feature that was never learned, or of values that are 0 in the model's precision."""
    return x / m if m > 0.0 else 0.0


@scalar
def counts(weights: Any, i: int) -> bool:
    """Whether row i is one to learn; no weights: all are, one weight: it is that of all."""
    return len(weights) == 0 or weights[min(i, len(weights) - 1)] != 0.0


@scalar
def over_rms(x: float, q: float, n: float) -> float:
    """x/√(q/n); 0 where q is: of a feature never learned, or of values whose squares are 0."""
    return x * np.sqrt(n / q) if q > 0.0 else 0.0


# A row that counts takes two loops: the second, with all the divisions, runs as SIMD. Places are unsigned, which keeps
# it free of checks.


@compiled()
def _scale_by_max(indptr: Any, indices: Any, values: Any, weights: Any, m: Any, before: Any, out: Any) -> Any:
    """Values over scales, which rows that count update first; no result is above what is returned."""
    largest: Any = 0.0
    for i in range(len(indptr) - 1):
        first, last = np.uint64(indptr[i]), np.uint64(indptr[i + 1])
        if counts(weights, i):
            for k in range(first, last):
                j, size = np.uint64(indices[k]), np.float64(abs(values[k]))
                old = m[j]
                before[k] = old
                m[j] = size if size > old else old  # a branch would be guessed wrong as long as scales grow
            for k in range(first, last):
                x = np.float64(values[k])
                out[k] = over(x, max(before[k], abs(x)))
            largest = max(largest, 1.0)
        else:
            for k in range(first, last):
                z = over(np.float64(values[k]), m[np.uint64(indices[k])])
                largest, out[k] = max(largest, abs(z)), z
    return largest


@compiled()
def _scale_by_rms(indptr: Any, indices: Any, values: Any, weights: Any, qn: Any, before: Any, out: Any) -> Any:
    """The same, with q_j and n_j side by side; ``before`` has all q, then all n."""
    largest: Any = 0.0
    half, one, two = np.uint64(len(before) // 2), np.uint64(1), np.uint64(2)
    for i in range(len(indptr) - 1):
        first, last = np.uint64(indptr[i]), np.uint64(indptr[i + 1])
        if counts(weights, i):
            most: Any = 0.0
            for k in range(first, last):
                j, x = two * np.uint64(indices[k]), np.float64(values[k])
                q, n = qn[j], qn[j + one]
                before[k], before[half + k] = q, n
                qn[j], qn[j + one] = q + x * x, n + 1.0
                most = max(most, n)
            for k in range(first, last):
                x = np.float64(values[k])
                out[k] = over_rms(x, before[k] + x * x, before[half + k] + 1.0)
            largest = max(largest, 1.001 * np.sqrt(most + 1.0))  # q_j is x_j² at least
        else:
            for k in range(first, last):
                j = two * np.uint64(indices[k])
                z = over_rms(np.float64(values[k]), qn[j], qn[j + one])
                largest, out[k] = max(largest, abs(z)), z
    return largest


@scalar
def rarity(n: float, df: float) -> float:
    """Inverse document frequency, smoothed: one row more has every feature; 0 of a feature never learned."""
    return np.log((1.0 + n) / (1.0 + df)) + 1.0 if df > 0.0 else 0.0


@compiled()
def _scale_by_idf(indptr: Any, indices: Any, values: Any, weights: Any, state: Any, before: Any, out: Any) -> Any:
    """Values times their features' rarity; ``state`` has the number of rows, then of each feature those that have it.

    What was before need not be noted: all counts went up by one.
    """
    largest: Any = 0.0
    one = np.uint64(1)
    for i in range(len(indptr) - 1):
        first, last = np.uint64(indptr[i]), np.uint64(indptr[i + 1])
        if counts(weights, i):
            state[0] += 1.0
            for k in range(first, last):
                state[one + np.uint64(indices[k])] += 1.0
        for k in range(first, last):
            z = np.float64(values[k]) * rarity(state[0], state[one + np.uint64(indices[k])])
            largest, out[k] = max(largest, abs(z)), z
    return largest


@compiled()
def _take_back_max(indptr: Any, indices: Any, weights: Any, m: Any, before: Any, row: Any) -> None:
    """The scales as they were before ``row``, the last value first."""
    for i in range(len(indptr) - 2, row - 1, -1):
        if counts(weights, i):
            for k in range(indptr[i + 1] - 1, indptr[i] - 1, -1):
                m[indices[k]] = before[k]


@compiled()
def _take_back_rms(indptr: Any, indices: Any, weights: Any, qn: Any, before: Any, row: Any) -> None:
    half = len(before) // 2
    for i in range(len(indptr) - 2, row - 1, -1):
        if counts(weights, i):
            for k in range(indptr[i + 1] - 1, indptr[i] - 1, -1):
                j = 2 * np.int64(indices[k])
                qn[j], qn[j + 1] = before[k], before[half + k]


@compiled()
def _take_back_idf(indptr: Any, indices: Any, weights: Any, state: Any, before: Any, row: Any) -> None:
    for i in range(row, len(indptr) - 1):
        if counts(weights, i):
            state[0] -= 1.0
            for k in range(indptr[i], indptr[i + 1]):
                state[1 + np.int64(indices[k])] -= 1.0


class Scales:
    """Scales of the features of a model, in 64 bits.

    ``state`` has first what they ``share``, then ``width`` numbers of each, and room for more.
    """

    width: ClassVar[int]
    names: ClassVar[tuple[str, ...]]  # of what is kept per feature
    shared: ClassVar[tuple[str, ...]] = ()  # and of what is kept once
    scale: ClassVar[Any]  # the compiled functions
    take_back: ClassVar[Any]

    def __init__(self, state: Numbers) -> None:
        self.state = state

    def __setstate__(self, state: dict[str, Any]) -> None:
        held = state["state"]  # which may come back read-only, mapped from a file
        self.state = held if held.flags.writeable else np.array(held)

    @classmethod
    def fresh(cls) -> Self:
        """Of no feature yet."""
        return cls(np.zeros(len(cls.shared)))

    def __len__(self) -> int:
        """Features there is room for."""
        return (len(self.state) - len(self.shared)) // self.width

    @property
    def rows(self) -> Numbers:
        """What is kept of each feature, a row each."""
        return self.state[len(self.shared) :].reshape(-1, self.width)

    def widen(self, n_features: int) -> None:
        """Room for so many, half as much again: growing by one feature stays cheap."""
        if n_features > len(self):
            wide = np.zeros(len(self.shared) + max(n_features, len(self) + len(self) // 2) * self.width)
            wide[: len(self.state)] = self.state
            self.state = wide

    def copy(self, n_features: int | None = None) -> Self:
        """Of their own, for so many features at least."""
        found = type(self)(self.state.copy())
        found.widen(n_features or 0)
        return found

    def divisors(self, n_features: int) -> Numbers:
        """m_j of the first features; 0 of those never learned."""
        raise NotImplementedError

    def at(self, features: NDArray[Any]) -> Self:
        """Those of these features only, in their order."""
        return type(self)(np.concatenate([self.state[: len(self.shared)], self.rows[features].ravel()]))

    def cut(self, n_features: int) -> Self:
        """Those of the first features only, which must be there."""
        return type(self)(self.state[: len(self.shared) + n_features * self.width])

    def changed(self, before: "Scales", n_features: int) -> NDArray[np.int64]:
        """Features among the first whose scales are no longer what they were."""
        return np.flatnonzero((self.rows[:n_features] != before.rows[:n_features]).any(axis=1))

    @classmethod
    def merged(cls, parts: Sequence["Scales"], base: "Scales | None" = None) -> Self:
        """Those of several that learned different rows, all as wide; ``base`` is what they all began with."""
        raise NotImplementedError

    def learned(self, n_features: int) -> NDArray[np.bool_]:
        """Of the first features: whether it was in a row that was learned."""
        return np.asarray(self.rows[:n_features].any(axis=1))

    def columns(self, where: NDArray[Any]) -> dict[str, Numbers]:
        """What is kept of these features and of all, by name."""
        rows = self.rows[where]
        found = {name: np.ascontiguousarray(rows[:, k]) for k, name in enumerate(self.names)}
        return found | {name: self.state[k : k + 1].copy() for k, name in enumerate(self.shared)}

    def put(self, where: NDArray[Any], columns: dict[str, Numbers]) -> None:
        """What `columns` gave."""
        self.rows[where] = np.stack([columns[name] for name in self.names], axis=1)
        for k, name in enumerate(self.shared):
            self.state[k] = columns[name][0]


class MaxScales(Scales):
    """m_j ← max(m_j, |x_j|)."""

    width, names = 1, ("max",)
    scale, take_back = _scale_by_max, _take_back_max

    def divisors(self, n_features: int) -> Numbers:
        """The largest |x_j|."""
        return self.state[:n_features].copy()

    @classmethod
    def merged(cls, parts: Sequence[Scales], base: Scales | None = None) -> Self:
        """The largest of all."""
        return cls(np.maximum.reduce([part.state for part in parts]))


class SummedScales(Scales):
    """Scales made of sums."""

    @classmethod
    def merged(cls, parts: Sequence[Scales], base: Scales | None = None) -> Self:
        """Sums, what all began with counted once."""
        known = np.zeros_like(parts[0].state) if base is None else base.state
        added = np.sort([part.state - known for part in parts], axis=0)  # so that their order does not matter
        return cls(known + np.add.reduce(added))


class RmsScales(SummedScales):
    """q_j += x_j², n_j += 1, m_j = √(q_j/n_j)."""

    width, names = 2, ("squares", "counts")
    scale, take_back = _scale_by_rms, _take_back_rms

    def divisors(self, n_features: int) -> Numbers:
        """√(q_j/n_j)."""
        q, n = self.state[: 2 * n_features : 2], self.state[1 : 2 * n_features : 2]
        return np.sqrt(np.divide(q, n, out=np.zeros(len(q)), where=n > 0))


class IdfScales(SummedScales):
    """n += 1, df_j += 1, 1/m_j = ln((1 + n)/(1 + df_j)) + 1: words that most texts have count less."""

    width, names, shared = 1, ("documents",), ("rows",)
    scale, take_back = _scale_by_idf, _take_back_idf

    def divisors(self, n_features: int) -> Numbers:
        """1/(ln((1 + n)/(1 + df_j)) + 1)."""
        df = self.rows[:n_features, 0]
        return np.asarray(np.where(df > 0.0, 1.0 / (np.log((1.0 + self.state[0]) / (1.0 + df)) + 1.0), 0.0))


KINDS: dict[str, type[Scales]] = {"max": MaxScales, "rms": RmsScales, "idf": IdfScales}
