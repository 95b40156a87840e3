"""The one thing that crosses borders: a few examples as checked CSR arrays.

The invariant, checked once where a batch is made: indices inside a row are sorted, unique and within the width, values
are finite and not zero. Duplicate indices would silently change every second-order update, so they are summed, never
passed on.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thinstream.errors import InvalidInputError
from thinstream.jit import Compiled

_FINE, _INDPTR, _INDEX, _VALUE, _ORDER = range(5)


def _make_check(version: str) -> Callable[..., Any]:
    def check(indptr: Any, indices: Any, values: Any, width: Any) -> Any:
        """(verdict, row, place): the first offence of the gravest kind met."""
        assert len(version) >= 0  # the key of the compile cache, see `jit`
        untidy, untidy_row, untidy_place = False, 0, 0
        if len(indptr) == 0 or indptr[0] != 0 or len(indices) != len(values):
            return _INDPTR, 0, 0
        for i in range(len(indptr) - 1):
            start, end = np.int64(indptr[i]), np.int64(indptr[i + 1])
            if end < start or end > len(indices):
                return _INDPTR, i, 0
            last = np.int64(-1)
            for k in range(start, end):
                j, x = np.int64(indices[k]), values[k]
                if j < 0 or j >= width:
                    return _INDEX, i, k
                if not np.isfinite(x):
                    return _VALUE, i, k
                if (j <= last or x == 0) and not untidy:
                    untidy, untidy_row, untidy_place = True, i, k
                last = j
        return (_ORDER, untidy_row, untidy_place) if untidy else (_FINE, 0, 0)

    return check


_check = Compiled(_make_check, __name__)
_ready: set[str] = set()


@dataclass(frozen=True, slots=True)
class Batch:
    """Examples in CSR form, with labels ±1 and weights where there are any.

    Make one with `Batch.of`, which checks it.

    Examples
    --------
    >>> import numpy as np
    >>> batch = Batch.of(np.array([0, 2, 3]), np.array([0, 4, 1]), np.array([1.0, 0.5, 2.0]), n_features=5)
    >>> len(batch), batch.nnz
    (2, 3)

    """

    indptr: NDArray[Any]
    indices: NDArray[Any]
    values: NDArray[Any]
    n_features: int
    y: NDArray[np.int8] | None = None
    weights: NDArray[np.float64] | None = None

    @classmethod
    def of(
        cls,
        indptr: NDArray[Any],
        indices: NDArray[Any],
        values: NDArray[Any],
        n_features: int,
        y: NDArray[np.int8] | None = None,
        weights: NDArray[np.float64] | None = None,
    ) -> "Batch":
        """Checks the arrays in one pass; sorts, sums and drops on a copy where a row asks for it."""
        indptr, indices, values = _whole(indptr), _whole(indices), _real(values)
        kind = indptr.dtype.char + indices.dtype.char + values.dtype.char
        if kind not in _ready:
            _check.ensure(indptr, indices, values, n_features)
            _ready.add(kind)
        verdict, row, place = _check.function(indptr, indices, values, n_features)
        if verdict != _FINE:
            if verdict != _ORDER:
                raise _offence(verdict, row, place, indices, values, n_features)
            indptr, indices, values = _tidied(indptr, indices, values)
            return cls.of(indptr, indices, values, n_features, y, weights)
        return cls(indptr, indices, values, n_features, y, weights)

    def __len__(self) -> int:
        return len(self.indptr) - 1

    @property
    def nnz(self) -> int:
        """Stored values."""
        return int(self.indptr[-1] - self.indptr[0])

    def labelled(self, y: NDArray[np.int8], weights: NDArray[np.float64] | None = None) -> "Batch":
        """The same rows with labels ±1 (and weights)."""
        return replace(self, y=y, weights=weights)

    def take(self, rows: NDArray[np.int64]) -> "Batch":
        """The given rows, in that order."""
        starts, lengths = self.indptr[rows].astype(np.int64), np.diff(self.indptr)[rows]
        indptr = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
        places = np.repeat(starts - indptr[:-1], lengths) + np.arange(indptr[-1])
        return replace(
            self,
            indptr=indptr,
            indices=self.indices[places],
            values=self.values[places],
            y=None if self.y is None else self.y[rows],
            weights=None if self.weights is None else self.weights[rows],
        )

    def narrowed(self, n_features: int) -> "Batch":
        """Without the features from ``n_features`` on."""
        if self.n_features <= n_features:
            return self
        kept = self.indices < n_features
        indptr = np.concatenate([[0], np.cumsum(kept, dtype=np.int64)])[self.indptr]
        return replace(self, indptr=indptr, indices=self.indices[kept], values=self.values[kept], n_features=n_features)


def _whole(array: NDArray[Any]) -> NDArray[Any]:
    """Contiguous, int32 or int64."""
    return np.ascontiguousarray(array, None if array.dtype.char in "ilq" else np.int64)


def _real(array: NDArray[Any]) -> NDArray[Any]:
    """Contiguous, float32 or float64."""
    return np.ascontiguousarray(array, None if array.dtype.char in "fd" else np.float64)


def _tidied(
    indptr: NDArray[Any], indices: NDArray[Any], values: NDArray[Any]
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """A copy with each row's indices sorted, equal ones summed, zeros dropped."""
    rows = np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))
    used = slice(int(indptr[0]), int(indptr[-1]))
    order = np.lexsort((indices[used], rows))
    rows, indices, values = rows[order], indices[used][order], values[used][order]
    if len(rows):
        heads = np.flatnonzero(np.concatenate([[True], (np.diff(rows) != 0) | (np.diff(indices) != 0)]))
        rows, indices, values = rows[heads], indices[heads], np.add.reduceat(values, heads)
    kept = values != 0
    counts = np.bincount(rows[kept], minlength=len(indptr) - 1)
    return np.concatenate([[0], np.cumsum(counts)]).astype(indptr.dtype), indices[kept], values[kept]


def _offence(
    verdict: int, row: int, place: int, indices: NDArray[Any], values: NDArray[Any], width: int
) -> InvalidInputError:
    if verdict == _INDPTR:
        return InvalidInputError(f"X is not a valid CSR matrix: its row pointers are broken at row {row}")
    if verdict == _INDEX:
        return InvalidInputError(
            f"X: column indices must be from 0 to {width - 1} ({width} features), got {indices[place]} in row {row}"
        )
    what = "NaN" if np.isnan(values[place]) else "infinity"
    return InvalidInputError(f"X contains {what} at row {row}, column {indices[place]}; all values must be finite")
