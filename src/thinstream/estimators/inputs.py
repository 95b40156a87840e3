"""Whatever scikit-learn users pass in (sparse, dense, frames, lists), as CSR arrays, labels and weights."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils import check_array, column_or_1d
from sklearn.utils.validation import validate_data

from thinstream.errors import InvalidInputError, MergeError
from thinstream.streams.at_hand import require_numbers
from thinstream.streams.tables.columns import MISSING_CELLS


class Csr(NamedTuple):
    """A CSR matrix that nothing was checked of yet."""

    indptr: NDArray[Any]
    indices: NDArray[Any]
    values: NDArray[Any]
    n_features: int

    def __len__(self) -> int:
        return len(self.indptr) - 1


def csr_of(estimator: Any, X: Any, *, reset: bool, any_width: bool = False) -> Csr:
    """X as CSR arrays; ``any_width`` lets it be wider or narrower than what the estimator has seen."""
    require_numbers(X)
    options = {
        "accept_sparse": "csr",
        "dtype": [np.float64, np.float32],  # what is neither becomes the first: nothing is rounded
        "ensure_all_finite": False,  # a compiled pass does it, and names row and column
    }
    columns = getattr(X, "columns", None)
    if any_width and not reset:
        _require_same_names(estimator, feature_names(X))
        X = check_array(X, estimator=estimator, **options)
    else:
        X = validate_data(estimator, X, reset=reset, **options)
    found = Csr(X.indptr, X.indices, X.data, X.shape[1]) if sp.issparse(X) else _from_dense(X)
    if columns is not None and np.isnan(found.values.sum()):  # which is quicker than looking at each
        _require_no_nan(found, columns)
    return found


def _require_no_nan(rows: Csr, columns: Any) -> None:
    """Raises with the name of the column, and what to do, where a cell of a frame is missing."""
    bad = np.flatnonzero(np.isnan(rows.values))
    if len(bad):
        k = int(bad[0])
        row, name = int(np.searchsorted(rows.indptr, k, side="right")) - 1, columns[rows.indices[k]]
        raise InvalidInputError(
            f"X contains NaN at row {row}, column {name!r}; all values must be finite. {MISSING_CELLS}"
        )


def feature_names(X: Any) -> NDArray[Any] | None:
    """Column names of a frame whose names are all strings, else None."""
    columns = getattr(X, "columns", None)
    names = np.empty(0, dtype=object) if columns is None else np.asarray(columns, dtype=object)
    return names if len(names) and all(isinstance(name, str) for name in names) else None


def _require_same_names(estimator: Any, names: NDArray[Any] | None) -> None:
    """A growing model meets the columns it knows under the names it knows."""
    known = getattr(estimator, "feature_names_in_", None)
    if names is None or known is None:
        return
    for column, (was, name) in enumerate(zip(known, names, strict=False)):
        if was != name:
            raise InvalidInputError(f"X: column {column} was {was!r} when learning began, got {name!r}")


def common_names(estimators: Sequence[Any]) -> NDArray[Any] | None:
    """The names of the columns of several models, which must be the same as far as each goes; None if none has any."""
    known = [getattr(estimator, "feature_names_in_", None) for estimator in estimators]
    named: list[NDArray[Any]] = [names for names in known if names is not None]
    if not named:
        return None
    if len(named) < len(known):
        raise MergeError("models to merge must all have feature names or none, got some with and some without")
    longest = max(named, key=len)
    for names in named:
        for column, (one, other) in enumerate(zip(longest, names, strict=False)):
            if one != other:
                raise MergeError(
                    f"models to merge must agree in feature names, got {one!r} and {other!r} for column {column}"
                )
    return longest.copy()


def _from_dense(X: NDArray[Any]) -> Csr:
    rows, columns = np.nonzero(X)  # NaN counts as non-zero and is found by the check
    indptr = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=len(X)))])
    kind = np.int32 if X.shape[1] < 2**31 else np.int64
    return Csr(indptr.astype(np.int64), columns.astype(kind), X[rows, columns], X.shape[1])


def labels_of(y: Any, n: int) -> NDArray[Any]:
    """Y as a vector of n labels."""
    if y is None:
        raise ValueError("requires y to be passed, but the target y is None")
    plain = isinstance(y, np.ndarray) and y.ndim == 1
    if isinstance(y, list | tuple):  # of which numpy would make the text 'nan'
        _require_each(y)
    labels: NDArray[Any] = y if plain else column_or_1d(y, warn=True)
    if labels.dtype.kind == "O":
        _require_each(labels.tolist())
    if labels.dtype.kind in "fc" and not np.all(np.isfinite(labels)):
        row = int(np.flatnonzero(~np.isfinite(labels))[0])
        raise InvalidInputError(f"y contains {'NaN' if np.isnan(labels[row]) else 'infinity'} at row {row}")
    if len(labels) != n:
        raise InvalidInputError(f"X has {n} rows, y has {len(labels)} labels")
    return labels


def _require_each(labels: Sequence[Any]) -> None:
    """Raises where a label is None, NaN or pandas' NA."""
    for row, label in enumerate(labels):
        nan = isinstance(label, float | np.floating) and bool(label != label)
        if label is None or nan or type(label).__name__ == "NAType":
            shown = "NaN" if nan else str(label)
            raise InvalidInputError(
                f"y contains {shown} at row {row}; every row must have a label: leave such rows out"
            )


def weights_of(sample_weight: Any, n: int) -> NDArray[np.float64] | None:
    """Sample weights as a vector of n finite numbers ≥ 0, or None."""
    if sample_weight is None:
        return None
    weights = np.asarray(sample_weight, dtype=np.float64)
    if weights.ndim == 0:
        weights = np.full(n, float(weights))
    if weights.shape != (n,):
        raise InvalidInputError(f"sample_weight must have shape ({n},), one weight per row of X, got {weights.shape}")
    bad = np.flatnonzero(~(np.isfinite(weights) & (weights >= 0)))
    if len(bad):
        row = int(bad[0])
        raise InvalidInputError(f"sample_weight must be finite and not negative, got {weights[row]} at row {row}")
    return np.ascontiguousarray(weights)
