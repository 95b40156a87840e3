"""Preparation of rows: scaling by maximum, root mean square or idf, then unit length."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from thinstream.batch import Batch
from thinstream.engine.protocol import LIMITS, require_range
from thinstream.engine.rows import EVERY_WEIGHT_1, unit_rows
from thinstream.errors import InvalidInputError, InvalidParameterError, listed
from thinstream.jit import compiled, scalar

# Scales of features, learned during the stream: the largest |x_j|, the root mean square of x_j, or how rare it is.
#
# Rows of weight 0 use the current scales. The previous scale of each value is recorded, so that rows that could not be
# learned are undone exactly.

Numbers = NDArray[np.float64]
#: Weights of rows that are prepared without learning their scales.
ALL_WEIGHTS_0 = np.zeros(1)


@scalar
def over(x: float, m: float) -> float:
    """Return x/m, or 0 for a feature that never occurred (or whose values are 0 in the model's precision)."""
    return x / m if m > 0.0 else 0.0


@scalar
def counts(weights: Any, i: int) -> bool:
    """Return whether row i is learned. Without weights, all rows are; a single weight holds for all rows."""
    return len(weights) == 0 or weights[min(i, len(weights) - 1)] != 0.0


@scalar
def over_rms(x: float, q: float, n: float) -> float:
    """Return x/√(q/n), or 0 if q is 0: for a feature that never occurred, or values whose squares are 0."""
    return x * np.sqrt(n / q) if q > 0.0 else 0.0


# A row that is learned runs through two loops. The second, with all divisions, runs as SIMD, because unsigned positions
# need no checks.


@compiled()
def _scale_by_max(indptr: Any, indices: Any, values: Any, weights: Any, m: Any, before: Any, out: Any) -> Any:
    """Divide values by scales, which learned rows update first. Return a bound of the results."""
    largest: Any = 0.0
    for i in range(len(indptr) - 1):
        first, last = np.uint64(indptr[i]), np.uint64(indptr[i + 1])
        if counts(weights, i):
            for k in range(first, last):
                j, size = np.uint64(indices[k]), np.float64(abs(values[k]))
                old = m[j]
                before[k] = old
                m[j] = size if size > old else old  # a branch would be mispredicted while scales grow
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
    """Do the same with q_j and n_j, which are side by side. ``before`` has all q, then all n."""
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
            largest = max(largest, 1.001 * np.sqrt(most + 1.0))  # q_j ≥ x_j²
        else:
            for k in range(first, last):
                j = two * np.uint64(indices[k])
                z = over_rms(np.float64(values[k]), qn[j], qn[j + one])
                largest, out[k] = max(largest, abs(z)), z
    return largest


@scalar
def rarity(n: float, df: float) -> float:
    """Return the smoothed inverse document frequency, or 0 for a feature that never occurred."""
    return np.log((1.0 + n) / (1.0 + df)) + 1.0 if df > 0.0 else 0.0


@compiled()
def _scale_by_idf(indptr: Any, indices: Any, values: Any, weights: Any, state: Any, before: Any, out: Any) -> Any:
    """Multiply values by the rarity of their features. ``state`` has the number of rows, and of rows per feature.

    Previous values are not recorded, because all counts increase by one.
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
    """Restore the scales from before ``row``, the last value first."""
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

    ``state`` has the ``shared`` numbers, then ``width`` numbers per feature, and room for more.
    """

    width: ClassVar[int]
    names: ClassVar[tuple[str, ...]]  # of the numbers per feature
    shared: ClassVar[tuple[str, ...]] = ()  # and of those that are stored once
    scale: ClassVar[Any]  # the compiled functions
    take_back: ClassVar[Any]

    def __init__(self, state: Numbers) -> None:
        self.state = state

    def __setstate__(self, state: dict[str, Any]) -> None:
        array = state["state"]  # read-only if it is mapped from a file
        self.state = array if array.flags.writeable else np.array(array)

    @classmethod
    def fresh(cls) -> Self:
        return cls(np.zeros(len(cls.shared)))

    def __len__(self) -> int:
        """Return the number of features that fit."""
        return (len(self.state) - len(self.shared)) // self.width

    @property
    def rows(self) -> Numbers:
        """The numbers of each feature, a row each."""
        return self.state[len(self.shared) :].reshape(-1, self.width)

    def widen(self, n_features: int) -> None:
        """Make room for a number of features, and 50% more, so that growing by single features stays cheap."""
        if n_features > len(self):
            wide = np.zeros(len(self.shared) + max(n_features, len(self) + len(self) // 2) * self.width)
            wide[: len(self.state)] = self.state
            self.state = wide

    def copy(self, n_features: int | None = None) -> Self:
        """Return a copy with room for at least a number of features."""
        made = type(self)(self.state.copy())
        made.widen(n_features or 0)
        return made

    def divisors(self, n_features: int) -> Numbers:
        """Return m_j of the first features, or 0 for those that never occurred."""
        raise NotImplementedError

    def at(self, features: NDArray[Any]) -> Self:
        """Return the scales of these features only, in their order."""
        return type(self)(np.concatenate([self.state[: len(self.shared)], self.rows[features].ravel()]))

    def cut(self, n_features: int) -> Self:
        """Return the scales of the first features only."""
        return type(self)(self.state[: len(self.shared) + n_features * self.width])

    def changed(self, before: "Scales", n_features: int) -> NDArray[np.int64]:
        """Return those of the first features whose scales have changed."""
        return np.flatnonzero((self.rows[:n_features] != before.rows[:n_features]).any(axis=1))

    @classmethod
    def merged(cls, parts: Sequence["Scales"], base: "Scales | None" = None) -> Self:
        """Merge scales of equal width that learned different rows; ``base`` has the scales that all started from."""
        raise NotImplementedError

    def learned(self, n_features: int) -> NDArray[np.bool_]:
        """Return, for each of the first features, whether it was in a row that was learned."""
        return np.asarray(self.rows[:n_features].any(axis=1))

    def columns(self, where: NDArray[Any]) -> dict[str, Numbers]:
        """Return the numbers of these features, and the shared ones, by name."""
        rows = self.rows[where]
        columns = {name: np.ascontiguousarray(rows[:, k]) for k, name in enumerate(self.names)}
        return columns | {name: self.state[k : k + 1].copy() for k, name in enumerate(self.shared)}

    def put(self, where: NDArray[Any], columns: dict[str, Numbers]) -> None:
        """Store the numbers that `columns` returned."""
        self.rows[where] = np.stack([columns[name] for name in self.names], axis=1)
        for k, name in enumerate(self.shared):
            self.state[k] = columns[name][0]


class MaxScales(Scales):
    """m_j ← max(m_j, |x_j|)."""

    width, names = 1, ("max",)
    scale, take_back = _scale_by_max, _take_back_max

    def divisors(self, n_features: int) -> Numbers:
        """Return the largest |x_j|."""
        return self.state[:n_features].copy()

    @classmethod
    def merged(cls, parts: Sequence[Scales], base: Scales | None = None) -> Self:
        """Return the maxima of all."""
        return cls(np.maximum.reduce([part.state for part in parts]))


class SummedScales(Scales):
    """Scales made of sums."""

    @classmethod
    def merged(cls, parts: Sequence[Scales], base: Scales | None = None) -> Self:
        """Return the sums. The base counts once."""
        start = np.zeros_like(parts[0].state) if base is None else base.state
        added = np.sort([part.state - start for part in parts], axis=0)  # so that their order does not matter
        return cls(start + np.add.reduce(added))


class RmsScales(SummedScales):
    """q_j += x_j², n_j += 1, m_j = √(q_j/n_j)."""

    width, names = 2, ("squares", "counts")
    scale, take_back = _scale_by_rms, _take_back_rms

    def divisors(self, n_features: int) -> Numbers:
        """Return √(q_j/n_j)."""
        q, n = self.state[: 2 * n_features : 2], self.state[1 : 2 * n_features : 2]
        return np.sqrt(np.divide(q, n, out=np.zeros(len(q)), where=n > 0))


class IdfScales(SummedScales):
    """n += 1, df_j += 1, 1/m_j = ln((1 + n)/(1 + df_j)) + 1: common words count less."""

    width, names, shared = 1, ("documents",), ("rows",)
    scale, take_back = _scale_by_idf, _take_back_idf

    def divisors(self, n_features: int) -> Numbers:
        """Return 1/(ln((1 + n)/(1 + df_j)) + 1)."""
        df = self.rows[:n_features, 0]
        return np.asarray(np.where(df > 0.0, 1.0 / (np.log((1.0 + self.state[0]) / (1.0 + df)) + 1.0), 0.0))


KINDS: dict[str, type[Scales]] = {"max": MaxScales, "rms": RmsScales, "idf": IdfScales}


# Preparing rows: scaling features, unit length, or both in this order.

#: Values of the two parameters.
SCALE, NORMALIZE = (None, *KINDS), (None, "l2")
#: Largest |x| allowed: sums of squares stay finite for any number of rows.
_MOST = {np.dtype("float32"): 1e38, np.dtype("float64"): 1e145}
#: Bound of the values in a row of unit length, including rounding.
_UNIT = 1.0 + 1e-6
_NOTHING = np.empty(0)


class Preparation:
    """How rows are prepared for learning and scoring, and the scales for it.

    Parameters
    ----------
    scale : {"max", "rms", "idf"} or None
        Divide each feature by the largest |x_j| of the rows learned so far, or by the root of the mean of x_j²; or
        multiply it by its inverse document frequency, ln((1 + n)/(1 + df_j)) + 1, if df_j of n rows have it.
    normalize : "l2" or None
        Divide each row by its length, after that.
    length : float or None
        The mean length of these rows, known for the rows of a blend. It is used to compute one weight per feature.
    products : bool
        Whether the rows have products of features (see `Products`).

    The attribute ``lengths`` has the mean length of the rows with each feature, if it is known.

    Examples
    --------
    >>> rows = Batch.of(np.array([0, 2, 3]), np.array([0, 1, 0]), np.array([2.0, 30.0, 1.0]), 2)
    >>> preparation = Preparation("max")
    >>> preparation.widen(2)
    >>> preparation.learn(rows, np.dtype("float64"))[0].values
    array([1. , 1. , 0.5])

    """

    vectors = 1  #: number of weight vectors that prepared rows are multiplied with

    def __init__(
        self,
        scale: str | None = None,
        normalize: str | None = None,
        length: float | None = None,
        products: bool = False,
    ) -> None:
        for name, value, allowed in (("scale", scale, SCALE), ("normalize", normalize, NORMALIZE)):
            if not (value is None or isinstance(value, str)) or value not in allowed:
                raise InvalidParameterError(f"{name} must be {listed(allowed)}, got {value!r}")
        if not (length is None or (isinstance(length, float) and 0.0 < length < np.inf)):
            raise InvalidParameterError(f"the mean length of rows must be a number > 0, got {length!r}")
        self.scale, self.normalize, self.length, self.products = scale, normalize, length, products
        self.lengths: NDArray[np.float32] | None = None
        self.scales: Scales | None = None if scale is None else KINDS[scale].fresh()
        self._before, self._values = _NOTHING, np.empty(0, np.float32)  # reused, because allocating memory is slow

    def __bool__(self) -> bool:
        return self.scale is not None or self.normalize is not None

    @property
    def kinds(self) -> dict[str, str | None]:
        """The two parameters."""
        return {"scale": self.scale, "normalize": self.normalize}

    @property
    def kind(self) -> tuple[str | None, str | None, bool]:
        """The two parameters, and whether rows have products."""
        return self.scale, self.normalize, self.products

    @property
    def described(self) -> dict[str, Any]:
        """The description for model files."""
        length = {} if self.length is None else {"length": self.length}
        return {**self.kinds, **length, **({"products": True} if self.products else {})}

    @property
    def each(self) -> "list[Preparation]":
        """The preparation of each kind of rows: one, except for `Several`."""
        return [self]

    @property
    def is_scaled(self) -> bool:
        """Whether features have scales."""
        return self.scales is not None

    def with_scales(self, scales: Scales | None) -> Self:
        """Return a preparation of the same kind, with these scales."""
        made = type(self)(self.scale, self.normalize, self.length, self.products)
        made.scales = scales
        return made

    def of_length(self, length: float | None, lengths: NDArray[np.float32] | None = None) -> Self:
        """Return the same preparation with the mean length of its rows. Scales are shared."""
        made = self.with_scales(self.scales)
        made.length, made.lengths = length, lengths
        return made

    def feature_lengths(self, n_features: int) -> Numbers:
        """Return the mean length of the rows with each feature, or of all rows if it is not known."""
        result = np.full(n_features, self.length or 1.0)
        if self.lengths is not None:
            lengths = self.lengths[:n_features]
            result[: len(lengths)][lengths > 0.0] = lengths[lengths > 0.0]
        return result

    def copy(self, n_features: int | None = None) -> Self:
        """Return a copy with room for at least a number of features."""
        made = self.with_scales(None if self.scales is None else self.scales.copy(n_features))
        made.lengths = self.lengths
        return made

    def moved(self, where: NDArray[np.int64], width: int) -> "Preparation":
        """Return a copy for ``width`` features: feature j becomes ``where[j]``, or is left out if that is -1."""
        made = self.with_scales(None if self.scales is None else type(self.scales).fresh())
        made.widen(width)
        if self.lengths is not None:
            made.lengths = np.zeros(width, np.float32)
            kept = np.flatnonzero(where[: len(self.lengths)] >= 0)
            made.lengths[where[kept]] = self.lengths[kept]
        if self.scales is not None and made.scales is not None:
            kept = np.flatnonzero(where >= 0)
            made.scales.put(where[kept], self.scales.columns(kept))
        return made

    def reset_features(self, features: NDArray[np.int64]) -> None:
        """Remove the scales of features."""
        if self.scales is not None:
            self.scales.rows[features] = 0.0

    def mark_touched(self, marks: NDArray[np.bool_]) -> None:
        """Mark the features that have a scale."""
        if self.scales is not None:
            marks |= self.scales.learned(len(marks))

    def at(self, features: NDArray[Any]) -> Self:
        """Return the preparation of these features only, renumbered in their order."""
        return self.with_scales(None if self.scales is None else self.scales.at(features))

    def widen(self, n_features: int) -> None:
        """Make room for the scales of a number of features."""
        if self.scales is not None:
            self.scales.widen(n_features)

    def divisors(self, n_features: int) -> Numbers:
        """Return the divisors m_j, or 0 for features that never occurred, whose values become 0."""
        return np.ones(n_features) if self.scales is None else self.scales.divisors(n_features)

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_before": _NOTHING, "_values": np.empty(0, np.float32)}

    def learn(self, batch: Batch, dtype: np.dtype[Any]) -> tuple[Batch, Numbers]:
        """Return the prepared rows and what `take_back` needs. Both are valid until the next call.

        Rows of weight 0 do not change the scales.
        """
        weights = EVERY_WEIGHT_1 if batch.weights is None else batch.weights
        needed = 0 if self.scales is None else batch.nnz * self.scales.width
        if needed > len(self._before):
            self._before = np.empty(needed)
        if batch.nnz > len(self._values) or dtype != self._values.dtype:
            self._values = np.empty(batch.nnz, dtype)
        before = self._before[:needed]
        return self._prepared(batch, dtype, weights, before, self._values[: batch.nnz]), before

    def require_range(self, batch: Batch, dtype: np.dtype[Any]) -> None:
        """Raise if a value is so large that sums of squares would overflow."""
        most = _MOST[dtype]
        if batch.largest <= most:
            return
        batch.require_below(most, f"scale and normalize allow {most:g} in {dtype.name}: sums of squares would overflow")

    def take_back(self, batch: Batch, before: Numbers, row: int = 0) -> None:
        """Undo what `learn` learned from the rows from ``row`` on."""
        if self.scales is not None:
            weights = EVERY_WEIGHT_1 if batch.weights is None else batch.weights
            type(self.scales).take_back(_long(batch.indptr), batch.indices, weights, self.scales.state, before, row)

    def apply(self, batch: Batch, dtype: np.dtype[Any]) -> Batch:
        """Return the rows for scoring, with the current scales. Features without a scale are left out."""
        rows = batch if self.scales is None else batch.narrowed(len(self.scales))
        return self._prepared(rows, dtype, ALL_WEIGHTS_0, _NOTHING, np.empty(rows.nnz, dtype))

    def _prepared(
        self, batch: Batch, dtype: np.dtype[Any], weights: NDArray[Any], before: Numbers, out: NDArray[Any]
    ) -> Batch:
        self.require_range(batch, dtype)
        indptr, values, largest = _long(batch.indptr), batch.values.astype(dtype, copy=False), batch.largest
        if self.scales is not None:
            run = type(self.scales).scale
            largest = float(run(indptr, batch.indices, values, weights, self.scales.state, before, out))
            values = out
            if largest > LIMITS[dtype]:
                self.take_back(batch, before) if len(before) else None
                raise self._too_large(batch, out, LIMITS[dtype])
        if self.normalize is not None:
            unit_rows(indptr, values, None if values is out else out)
            largest = _UNIT
        return replace(batch, values=out, largest=largest)

    def _too_large(self, batch: Batch, out: NDArray[Any], limit: float) -> InvalidInputError:
        position = int(np.argmax(np.abs(out) > limit))
        row, column = int(np.searchsorted(batch.indptr, position, side="right")) - 1, int(batch.indices[position])
        m = self.divisors(column + 1)[-1]
        return InvalidInputError(
            f"X has {batch.values[position]} at row {batch.first_row + row}, column {column}. This is more than "
            f"{limit:g} "
            f"times the scale {m:g} of this feature in the rows so far. Check the value"
        )


def _long(indptr: NDArray[Any]) -> NDArray[np.int64]:
    return indptr.astype(np.int64, copy=False)


# Rows prepared in several ways, side by side, for models with several weight vectors.
#
# With d features and two preparations, a row has 2d columns: those of the first preparation, then those of the second.
# Such models only predict. The members of the blend behind them learn one kind of rows each.


class Several(Preparation):
    """Several preparations of rows with ``n_features`` columns. Products start at column ``n_inputs``.

    Examples
    --------
    >>> rows = Batch.of(np.array([0, 2]), np.array([0, 1]), np.array([3.0, 4.0]), 2)
    >>> ready = Several([Preparation(), Preparation(normalize="l2")], 2).apply(rows, np.dtype("float64"))
    >>> ready.indices, ready.values
    (array([0, 1, 2, 3]), array([3. , 4. , 0.6, 0.8]))

    """

    def __init__(self, preparations: Sequence[Preparation], n_features: int) -> None:
        super().__init__()
        self._each, self.n_features, self.vectors = list(preparations), n_features, len(preparations)
        self.n_inputs: int | None = None  # None without products

    def __bool__(self) -> bool:
        return True

    @property
    def each(self) -> list[Preparation]:
        return self._each

    @property
    def described(self) -> dict[str, Any]:
        """The description for model files."""
        return {"several": [one.described for one in self.each]}

    @property
    def is_scaled(self) -> bool:
        """Whether features have scales in one of them."""
        return any(one.is_scaled for one in self.each)

    def moved(self, where: NDArray[np.int64], width: int) -> "Several":
        return Several([one.moved(where, width) for one in self.each], width)

    def divisors(self, n_features: int) -> Numbers:
        """Return the divisors of each, one after another."""
        return np.concatenate([one.divisors(n_features) for one in self.each])

    def apply(self, batch: Batch, dtype: np.dtype[Any]) -> Batch:
        """Return the rows for scoring."""
        require_range(batch, dtype)
        plain = batch if self.n_inputs is None else batch.narrowed(self.n_inputs)
        rows = [(one, batch if one.products else plain) for one in self.each]
        return side_by_side([one.apply(own, dtype) if one else own for one, own in rows], self.n_features, dtype)


def described_by(described: Mapping[str, Any], n_weights: int) -> Preparation:
    """Return the preparation of a description, without its scales, for ``n_weights`` weights in all vectors."""
    if "several" not in described:
        return Preparation(**described)
    preparations = [Preparation(**one) for one in described["several"]]
    if len(preparations) < 2 or n_weights % len(preparations):
        raise ValueError(
            f"expected a multiple of {len(preparations)} weights, one vector per kind of rows, got {n_weights}"
        )
    return Several(preparations, n_weights // len(preparations))


def side_by_side(kinds: Sequence[Batch], n_features: int, dtype: np.dtype[Any]) -> Batch:
    """Concatenate the columns of the same rows, prepared in several ways. Each kind has ``n_features`` columns."""
    kinds = [rows.narrowed(n_features) for rows in kinds]
    width = n_features * len(kinds)
    if len(kinds[0]) == 1:  # as most requests of a server
        return _one_row(kinds, n_features, dtype)
    indptr = np.asarray(np.sum([rows.indptr for rows in kinds], axis=0, dtype=np.int64))
    indices = np.empty(int(indptr[-1]), kinds[0].indices.dtype if width < 2**31 else np.int64)
    values, start = np.empty(len(indices), dtype), indptr[:-1].copy()
    for k, rows in enumerate(kinds):
        counts = np.diff(rows.indptr)
        targets = np.repeat(start - rows.indptr[:-1], counts) + np.arange(rows.nnz)
        indices[targets] = rows.indices[: rows.nnz] + indices.dtype.type(k * n_features)
        values[targets] = rows.values[: rows.nnz]
        start += counts
    largest = max(rows.largest for rows in kinds)
    return replace(kinds[0], indptr=indptr, indices=indices, values=values, n_features=width, largest=largest)


def _one_row(kinds: Sequence[Batch], n_features: int, dtype: np.dtype[Any]) -> Batch:
    """`side_by_side` of one row, which needs no places."""
    width = n_features * len(kinds)
    index_dtype = kinds[0].indices.dtype if width < 2**31 else np.dtype(np.int64)
    own = [rows.indices[: rows.nnz].astype(index_dtype, copy=False) for rows in kinds]
    indices = np.concatenate([part + index_dtype.type(k * n_features) for k, part in enumerate(own)])
    values = np.concatenate([rows.values[: rows.nnz] for rows in kinds], dtype=dtype)
    indptr, largest = np.array([0, len(indices)]), max(rows.largest for rows in kinds)
    return replace(kinds[0], indptr=indptr, indices=indices, values=values, n_features=width, largest=largest)
