"""The datasets as the experiments use them: in memory, 64 bits, labels ±1."""

from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from thinstream.batch import Batch
from thinstream.data import open_stream
from thinstream.datasets import catalogue, find
from thinstream.errors import InvalidInputError, MissingDataError, UnknownNameError


class Data(NamedTuple):
    """Rows and labels."""

    X: sp.csr_matrix
    y: NDArray[np.int8]

    def take(self, rows: NDArray[np.intp] | slice) -> "Data":
        """Return some rows, in this order."""
        return Data(self.X[rows], self.y[rows])


def batch_of(data: Data, order: NDArray[np.intp] | slice = slice(None)) -> Batch:
    """Return the rows as a batch."""
    X = data.X[order]
    return Batch.of(X.indptr, X.indices, X.data, X.shape[1], y=data.y[order])


def unit_vectors(width: int) -> Batch:
    """Return a row for each feature. Their scores are the weights."""
    numbers = np.arange(width + 1, dtype=np.int32)
    return Batch.of(numbers, numbers[:-1], np.ones(width), width)


def is_here(name: str) -> bool:
    """Return whether a dataset is in the data folder."""
    try:
        return bool(find(name))
    except (MissingDataError, UnknownNameError):
        return False


@lru_cache(maxsize=4)
def parts(name: str, normalise: bool = True, rows: int | None = None) -> tuple[Data, ...]:
    """Return the files of a dataset, training rows before test rows, all of the same width.

    By default, rows are scaled to unit length. With ``rows``, only the first rows of each file are read.
    """
    found = [_read(path, rows) for path in find(name)]
    width = max(data.X.shape[1] for data in found)
    for data in found:
        require_ranges(name, data.X)
        data.X.resize(data.X.shape[0], width)
    return tuple(Data(unit(data.X), data.y) if normalise else data for data in found)


def require_ranges(name: str, X: sp.csr_matrix) -> None:
    """Raise if a column has values outside its published range, as a file does that has lost its decimal points."""
    for column, (low, high) in (catalogue()[name].ranges if name in catalogue() else {}).items():
        values = X[:, int(column) - 1].toarray()
        if values.min() < low or values.max() > high:
            raise InvalidInputError(
                f"dataset {name}: column {column} must have values from {low:g} to {high:g}, as published, got "
                f"{values.min():g} to {values.max():g}; replace the file"
            )


def whole(name: str, normalise: bool = True) -> Data:
    """Return all files of a dataset, one after the other."""
    found = parts(name, normalise)
    return found[0] if len(found) == 1 else joined(found)


def joined(found: tuple[Data, ...]) -> Data:
    """Join several datasets."""
    return Data(sp.vstack([data.X for data in found], format="csr"), np.concatenate([data.y for data in found]))


def split(
    name: str, seed: int = 0, share: float = 0.7, normalise: bool = True, rows: int | None = None
) -> tuple[Data, Data]:
    """Return training rows in random order, and test rows: the parts of the dataset, or a random split."""
    found, rng = parts(name, normalise, rows), np.random.default_rng(seed)
    if len(found) > 1:
        return found[0].take(rng.permutation(len(found[0].y))), joined(found[1:])
    order, cut = rng.permutation(len(found[0].y)), round(share * len(found[0].y))
    return found[0].take(order[:cut]), found[0].take(order[cut:])


def scaled(X: NDArray[np.float64]) -> NDArray[np.float64]:
    """Scale every column to the range from 0 to 1. Constant columns become 0.

    >>> scaled(np.array([[1.0, 7.0], [3.0, 7.0], [2.0, 7.0]])).tolist()
    [[0.0, 0.0], [1.0, 0.0], [0.5, 0.0]]
    """
    span = np.ptp(X, axis=0)
    found: NDArray[np.float64] = (X - X.min(axis=0)) / np.where(span > 0, span, 1.0)
    return found


def unit(X: sp.csr_matrix) -> sp.csr_matrix:
    """Scale rows to Euclidean length 1. Empty rows stay empty."""
    lengths = np.sqrt(np.asarray(X.multiply(X).sum(axis=1)).ravel())
    return sp.csr_matrix(sp.diags(1.0 / np.where(lengths > 0, lengths, 1.0)) @ X)


def _read(path: Path, most: int | None) -> Data:
    batches, taken = [], 0
    for batch in open_stream(str(path), dtype="float64", look=0).batches():
        if most is not None and taken + len(batch) >= most:
            batches.append(batch.until(most - taken))
            break
        batches.append(batch)
        taken += len(batch)
    return of_batches(batches)


def of_batches(batches: list[Batch]) -> Data:
    """Join the batches of a stream."""
    width = max(batch.n_features for batch in batches)
    rows = [sp.csr_matrix((batch.values, batch.indices, batch.indptr), (len(batch), width)) for batch in batches]
    return Data(sp.vstack(rows, format="csr"), np.concatenate([batch.y for batch in batches if batch.y is not None]))
