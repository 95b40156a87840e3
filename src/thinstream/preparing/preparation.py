"""How rows are prepared: by scales of their features, to unit length, or both in that order."""

from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from thinstream.batch import Batch
from thinstream.errors import InvalidInputError, InvalidParameterError, listed
from thinstream.learners.learner import EVERY_WEIGHT_1, LARGEST
from thinstream.preparing.scales import AS_THEY_STAND, KINDS, Numbers, Scales
from thinstream.preparing.unit_rows import unit_rows

#: Values of the two parameters.
SCALE, NORMALIZE = (None, *KINDS), (None, "l2")
#: Largest |x| taken: squares of more rows than there are still have a finite sum.
_MOST = {"float32": 1e38, "float64": 1e145}
#: No value of a row of unit length is above it, however it was rounded.
_UNIT = 1.0 + 1e-6
_NOTHING = np.empty(0)


class Preparation:
    """What is done to rows before they are learned or scored, and what has been learned for it.

    Parameters
    ----------
    scale : {"max", "rms", "idf"} or None
        Divide each feature by the largest |x_j| of the rows learned so far, or by the root of the mean of x_j²; or
        multiply it by its inverse document frequency, ln((1 + n)/(1 + df_j)) + 1 of n rows of which df_j have it.
    normalize : "l2" or None
        Divide each row by its length, after that.

    Examples
    --------
    >>> rows = Batch.of(np.array([0, 2, 3]), np.array([0, 1, 0]), np.array([2.0, 30.0, 1.0]), 2)
    >>> preparation = Preparation("max")
    >>> preparation.widen(2)
    >>> preparation.learn(rows, np.dtype("float64"))[0].values
    array([1. , 1. , 0.5])

    """

    vectors = 1  #: of weights that rows prepared like this are multiplied with

    def __init__(self, scale: str | None = None, normalize: str | None = None) -> None:
        for name, value, allowed in (("scale", scale, SCALE), ("normalize", normalize, NORMALIZE)):
            if not (value is None or isinstance(value, str)) or value not in allowed:
                raise InvalidParameterError(f"{name} must be {listed(allowed)}, got {value!r}")
        self.scale, self.normalize = scale, normalize
        self.scales: Scales | None = None if scale is None else KINDS[scale].fresh()
        self._before, self._values = _NOTHING, np.empty(0, np.float32)  # used again: fresh memory costs as much again

    def __bool__(self) -> bool:
        return self.scale is not None or self.normalize is not None

    @property
    def kinds(self) -> dict[str, str | None]:
        """The two parameters."""
        return {"scale": self.scale, "normalize": self.normalize}

    @property
    def described(self) -> dict[str, Any]:
        """As a file has it."""
        return self.kinds

    @property
    def each(self) -> "list[Preparation]":
        """The kinds of rows it makes, of which there is one, unless they are `Several`."""
        return [self]

    @property
    def is_scaled(self) -> bool:
        """Whether features have scales."""
        return self.scales is not None

    def with_scales(self, scales: Scales | None) -> Self:
        """The same kind of preparation, with these scales."""
        found = type(self)(self.scale, self.normalize)
        found.scales = scales
        return found

    def copy(self, n_features: int | None = None) -> Self:
        """One of its own, for so many features at least."""
        return self.with_scales(None if self.scales is None else self.scales.copy(n_features))

    def at(self, features: NDArray[Any]) -> Self:
        """The same for these features only, renumbered in their order."""
        return self.with_scales(None if self.scales is None else self.scales.at(features))

    def widen(self, n_features: int) -> None:
        """Room for the scales of so many features."""
        if self.scales is not None:
            self.scales.widen(n_features)

    def divisors(self, n_features: int) -> Numbers:
        """m_j, by which values of feature j are divided; 0 of one never learned, whose values count nothing."""
        return np.ones(n_features) if self.scales is None else self.scales.divisors(n_features)

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_before": _NOTHING, "_values": np.empty(0, np.float32)}

    def learn(self, batch: Batch, dtype: np.dtype[Any]) -> tuple[Batch, Numbers]:
        """The rows as they are to be learned, and what `take_back` needs; both are good until the next call.

        Rows of weight 0 leave no trace.
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
        """Raises if a value is so large that sums of squares would overflow."""
        most = _MOST[dtype.name]
        batch.require_below(most, f"scale and normalize allow {most:g} in {dtype.name}: sums of squares would overflow")

    def take_back(self, batch: Batch, before: Numbers, row: int = 0) -> None:
        """Forgets what `learn` learned of the rows from ``row`` on."""
        if self.scales is not None:
            weights = EVERY_WEIGHT_1 if batch.weights is None else batch.weights
            type(self.scales).take_back(_long(batch.indptr), batch.indices, weights, self.scales.state, before, row)

    def apply(self, batch: Batch, dtype: np.dtype[Any]) -> Batch:
        """The rows as they are to be scored, with the scales as they stand; features without one are left out."""
        known = batch if self.scales is None else batch.narrowed(len(self.scales))
        return self._prepared(known, dtype, AS_THEY_STAND, _NOTHING, np.empty(known.nnz, dtype))

    def _prepared(
        self, batch: Batch, dtype: np.dtype[Any], weights: NDArray[Any], before: Numbers, out: NDArray[Any]
    ) -> Batch:
        self.require_range(batch, dtype)
        indptr, values, largest = _long(batch.indptr), batch.values.astype(dtype, copy=False), batch.largest
        if self.scales is not None:
            run = type(self.scales).scale
            largest = float(run(indptr, batch.indices, values, weights, self.scales.state, before, out))
            values = out
            if largest > LARGEST[dtype.name]:
                self.take_back(batch, before) if len(before) else None
                raise self._too_large(batch, out, LARGEST[dtype.name])
        if self.normalize is not None:
            unit_rows(indptr, values, None if values is out else out)
            largest = _UNIT
        return replace(batch, values=out, largest=largest)

    def _too_large(self, batch: Batch, out: NDArray[Any], limit: float) -> InvalidInputError:
        place = int(np.argmax(np.abs(out) > limit))
        row, column = int(np.searchsorted(batch.indptr, place, side="right")) - 1, int(batch.indices[place])
        m = self.divisors(column + 1)[-1]
        return InvalidInputError(
            f"X has {batch.values[place]} at row {batch.first_row + row}, column {column}, more than {limit:g} times "
            f"the scale of this feature, {m:g}, in the rows learned"
        )


def _long(indptr: NDArray[Any]) -> NDArray[np.int64]:
    return indptr.astype(np.int64, copy=False)
