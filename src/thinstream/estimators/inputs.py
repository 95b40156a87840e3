"""Conversion of the inputs of estimators (sparse, dense, data frames, lists) to CSR arrays, labels and weights."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils import check_array, column_or_1d
from sklearn.utils.validation import validate_data

from thinstream.data.in_memory import collected, is_lazy, require_numbers
from thinstream.errors import InvalidInputError, MergeError


class Csr(NamedTuple):
    """A CSR matrix before any check."""

    indptr: NDArray[Any]
    indices: NDArray[Any]
    values: NDArray[Any]
    n_features: int

    def __len__(self) -> int:
        return len(self.indptr) - 1


def csr_of(estimator: Any, X: Any, *, reset: bool, any_width: bool = False) -> Csr:
    """Return X as CSR arrays. ``any_width`` allows more or fewer columns than in training."""
    X = collected(X)
    require_numbers(X)
    _require_matrix(X)
    options = {
        "accept_sparse": "csr",
        "dtype": [np.float64, np.float32],  # other types become float64, which does not round
        "ensure_all_finite": False,  # a compiled pass checks it, and reports row and column
    }
    columns = getattr(X, "columns", None)
    if any_width and not reset:
        _require_same_names(estimator, feature_names(X))
        X = check_array(X, estimator=estimator, **options)
    else:
        X = validate_data(estimator, X, reset=reset, **options)
    rows = Csr(X.indptr, X.indices, X.data, X.shape[1]) if sp.issparse(X) else _from_dense(X)
    if columns is not None and np.isnan(rows.values.sum()):  # faster than a test of each value
        _require_no_nan(rows, columns)
    return rows


def _require_matrix(X: Any) -> None:
    """Raise a clear error for data frames and arrays whose conversion would fail in scikit-learn."""
    names = getattr(X, "columns", None)
    if names is not None:
        seen = set[Any]()
        for name in names:
            if name in seen:
                raise InvalidInputError(f"X has two columns with the name {name!r}. Rename or drop one of them")
            seen.add(name)
    text = _first_text(X)
    if text is not None:
        raise InvalidInputError(
            f"X must contain numbers, got the string {text!r}. Pass categories and texts in a DataFrame or as dicts"
        )


def _first_text(X: Any) -> str | None:
    """Return the first string in an array or a list of lists, if there is one."""
    if isinstance(X, list | tuple) and X and isinstance(X[0], list | tuple):
        return next((cell for row in X if isinstance(row, list | tuple) for cell in row if isinstance(cell, str)), None)
    dtype_kind = getattr(getattr(X, "dtype", None), "kind", "")
    if not isinstance(X, np.ndarray) or dtype_kind not in "OUT" or X.ndim != 2:
        return None
    return next((str(cell) for cell in X.ravel().tolist() if isinstance(cell, str)), None)


def _require_no_nan(rows: Csr, columns: Any) -> None:
    """Raise if a cell of a data frame is missing, with the name of its column and advice."""
    bad = np.flatnonzero(np.isnan(rows.values))
    if len(bad):
        k = int(bad[0])
        row, name = int(np.searchsorted(rows.indptr, k, side="right")) - 1, columns[rows.indices[k]]
        raise InvalidInputError(
            f"X contains NaN at row {row}, column {name!r}; all values must be finite. To learn from missing cells, "
            "fit the model on such a frame, or fill the cells first"
        )


def feature_names(X: Any) -> NDArray[Any] | None:
    """Return the column names of a data frame if all of them are strings, else None."""
    columns = X.collect_schema().names() if is_lazy(X) else getattr(X, "columns", None)
    names = np.empty(0, dtype=object) if columns is None else np.asarray(columns, dtype=object)
    return names if len(names) and all(isinstance(name, str) for name in names) else None


def _require_same_names(estimator: Any, names: NDArray[Any] | None) -> None:
    """Raise if a known column has another name than in training."""
    seen = getattr(estimator, "feature_names_in_", None)
    if names is None or seen is None:
        return
    for column, (was, name) in enumerate(zip(seen, names, strict=False)):
        if was != name:
            raise InvalidInputError(f"column {column} of X must have the name {was!r} as in training, got {name!r}")


def common_names(estimators: Sequence[Any]) -> NDArray[Any] | None:
    """Return the column names of several models, which must agree, or None if they have no names."""
    names_of_each = [getattr(estimator, "feature_names_in_", None) for estimator in estimators]
    named: list[NDArray[Any]] = [names for names in names_of_each if names is not None]
    if not named:
        return None
    if len(named) < len(names_of_each):
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
    dtype = np.int32 if X.shape[1] < 2**31 else np.int64
    return Csr(indptr.astype(np.int64), columns.astype(dtype), X[rows, columns], X.shape[1])


def labels_of(y: Any, n: int) -> NDArray[Any]:
    """Y as a vector of n labels."""
    if y is None:
        raise ValueError("requires y to be passed, but the target y is None")
    y = collected(y)
    if hasattr(y, "get_columns"):
        if y.shape[1] != 1:
            raise InvalidInputError(f"y must be one column of labels, got a frame of {y.shape[1]} columns")
        y = y.get_columns()[0].to_numpy()
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
    """Raise if a label is None, NaN or pandas' NA, or if some labels are text and others are not."""
    first = isinstance(labels[0], str) if len(labels) else False
    for row, label in enumerate(labels):
        nan = isinstance(label, float | np.floating) and bool(label != label)
        if label is None or nan or type(label).__name__ == "NAType":
            shown = "NaN" if nan else str(label)
            raise InvalidInputError(
                f"y contains {shown} at row {row}; every row must have a label: leave such rows out"
            )
        if isinstance(label, str) != first and np.ndim(label) == 0:
            raise InvalidInputError(
                f"y has text and other labels: {labels[0]!r} at row 0, {label!r} at row {row}; make all of them text, "
                "as in [str(label) for label in y]"
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
