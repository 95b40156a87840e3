"""Matrices and labels as users have them, made into batches."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from thinstream.batch import Batch
from thinstream.batch_learners.rows import Examples
from thinstream.errors import InvalidInputError
from thinstream.learners import Classes


def batch_of(X: Any, y: NDArray[np.int8] | None = None) -> Batch:
    """Rows of a matrix (scipy's, numpy's, a frame, lists), checked."""
    import scipy.sparse as sp

    if isinstance(X, Batch):
        return X.check() if y is None else X.check().labelled(y)
    if not sp.issparse(X):
        X = np.asarray(X, dtype=np.float64)
    if X.ndim != 2:
        raise InvalidInputError(f"X must have two dimensions, rows and features, got {X.ndim}")
    rows = sp.csr_matrix(X)
    if y is not None and len(y) != rows.shape[0]:
        raise InvalidInputError(f"X has {rows.shape[0]} rows, y has {len(y)} labels")
    return Batch.of(rows.indptr, rows.indices, rows.data, rows.shape[1], y=y)


def matrix_of(batch: Batch) -> Any:
    """The batch as a scipy matrix."""
    return Examples.of(batch, batch.n_features).X


def signs_of(y: Any, classes: Classes | None = None) -> NDArray[np.int8]:
    """Labels as ±1: of the given classes, or the larger of the two there are is positive."""
    labels = np.asarray(y)
    if classes is None and set(np.unique(labels).tolist()) <= {-1, 1}:
        return labels.astype(np.int8)
    return (classes or Classes.of(labels).require_two()).coded(labels)
