"""Examples of a batch: a dense or sparse matrix, labels ±1 and how much each row counts."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thinstream.batch_learners.devices import is_device_array, like, to_host
from thinstream.errors import InvalidInputError

#: Bytes of a block of dense rows: they are made, used and forgotten block by block.
BLOCK = 1 << 24

#: The same for rows on a device, where every block costs a matrix of features × features that comes to the host.
DEVICE_BLOCK = 1 << 30

Arrays = dict[str, NDArray[Any]]


@dataclass(frozen=True, slots=True)
class Examples:
    """Rows (a numpy array, a scipy CSR matrix, or an array on a device), labels ±1, weights > 0."""

    X: Any
    y: NDArray[np.int8]
    weights: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.y)

    @property
    def n_features(self) -> int:
        """Columns."""
        return int(self.X.shape[1])

    def take(self, rows: Any) -> "Examples":
        """The given rows (a slice, or numbers)."""
        chosen = like(rows, self.X) if isinstance(rows, np.ndarray) and is_device_array(self.X) else rows
        return Examples(self.X[chosen], self.y[rows], self.weights[rows])

    def with_constant(self) -> "Examples":
        """The same rows with a first column of ones."""
        import scipy.sparse as sp

        if is_device_array(self.X):
            raise InvalidInputError(
                "fit_intercept must be False for arrays on a device; give X a column of ones instead"
            )
        ones = np.ones((len(self), 1), dtype=self.X.dtype)
        if sp.issparse(self.X):
            return replace(self, X=sp.hstack([sp.csr_matrix(ones), self.X], format="csr"))
        return replace(self, X=np.hstack([ones, self.X]))

    def sparse(self, dtype: Any) -> Any:
        """The rows as a CSR matrix of that precision, indices sorted and unique, no zeros stored."""
        import scipy.sparse as sp

        X = to_host(self.X) if is_device_array(self.X) else self.X
        found = sp.csr_matrix(X, dtype=dtype)
        if not (found.has_canonical_format and np.all(found.data)):
            found = found.copy() if found is X or found.data is getattr(X, "data", None) else found
            found.sum_duplicates()
            found.eliminate_zeros()
        return found

    def blocks(self, dtype: Any) -> Iterator[tuple[slice, Any]]:
        """The rows in their order, dense, a block at a time: a view where the precision is right, else a copy."""
        import scipy.sparse as sp

        size = DEVICE_BLOCK if is_device_array(self.X) else BLOCK
        height = max(64, size // max(1, self.n_features * np.dtype(dtype).itemsize))
        for start in range(0, len(self), height):
            rows = slice(start, min(start + height, len(self)))
            block = self.X[rows]
            if sp.issparse(block):
                block = block.toarray()
            if not is_device_array(block):
                block = np.ascontiguousarray(block, dtype=dtype)
            yield rows, block


def require_finite(examples: Examples) -> None:
    """Raises, with the place, if a value is NaN or infinite (or so large that its square is)."""
    import scipy.sparse as sp

    X: Any = to_host(examples.X) if is_device_array(examples.X) else examples.X
    values: Any = X.data if sp.issparse(X) else np.asarray(X)
    limit = 1e15 if values.dtype == np.float32 else 1e150
    with np.errstate(invalid="ignore"):
        if values.size == 0 or max(values.max(), -values.min()) <= limit:  # false if one is NaN
            return
        bad = ~(np.abs(values) <= limit)
    if sp.issparse(X):
        place = int(np.argmax(bad))
        row, column = int(np.searchsorted(X.indptr, place, side="right")) - 1, int(X.indices[place])
        value = values[place]
    else:
        row, column = (int(i) for i in np.argwhere(bad)[0])
        value = values[row, column]
    what = "NaN" if np.isnan(value) else "infinity" if np.isinf(value) else f"{value}, whose square overflows,"
    raise InvalidInputError(f"X contains {what} at row {row}, column {column}; all values must be finite")


def stacked(pieces: Sequence[Examples]) -> Examples:
    """Pieces, one after the other; sparse as soon as one of them is."""
    import scipy.sparse as sp

    if len(pieces) == 1:
        return pieces[0]
    parts = [to_host(piece.X) if is_device_array(piece.X) else piece.X for piece in pieces]
    if any(sp.issparse(part) for part in parts):
        width = max(piece.n_features for piece in pieces)
        X = sp.vstack([of_width(sp.csr_matrix(part), width) for part in parts], format="csr")
    else:
        X = np.concatenate(parts)
    return Examples(X, np.concatenate([p.y for p in pieces]), np.concatenate([p.weights for p in pieces]))


class Waiting:
    """Rows that wait for their batch to be full: part of a learner's state."""

    def __init__(self, size: int, pieces: Iterable[Examples] = ()) -> None:
        self.size, self.pieces = size, list(pieces)

    def __len__(self) -> int:
        return sum(map(len, self.pieces))

    def batches(self, examples: Examples, *, last: bool) -> Iterator[Examples]:
        """Every batch that these rows fill (size 0: they are one), and if they are the last, what is left."""
        if self.size == 0:
            if len(examples):
                yield examples
            return
        start = 0
        while len(self) + len(examples) - start >= self.size:
            stop = start + self.size - len(self)
            yield stacked([*self.pieces, examples.take(slice(start, stop))])
            self.pieces, start = [], stop
        if start < len(examples):
            rest = examples.take(slice(start, None))
            self.pieces.append(replace(rest, X=rest.X.copy()) if isinstance(rest.X, np.ndarray) else rest)
        if last and self.pieces:
            yield stacked(self.pieces)
            self.pieces = []

    def arrays(self) -> Arrays:
        """What is saved: the rows as CSR in the precision they came in."""
        if not self.pieces:
            return {}
        rows = stacked(self.pieces)
        return {f"waiting.{n}": a for n, a in csr_arrays(rows.sparse(rows.X.dtype)).items()} | {
            "waiting.y": rows.y,
            "waiting.weights": rows.weights,
        }

    def restore(self, arrays: Arrays, width: int) -> None:
        """Takes back what was saved."""
        self.pieces = []
        if "waiting.y" in arrays:
            X = csr_of_arrays({n: arrays[f"waiting.{n}"] for n in ("indptr", "indices", "values")}, width)
            self.pieces = [Examples(X, arrays["waiting.y"], arrays["waiting.weights"])]


def of_width(X: Any, width: int) -> Any:
    """A CSR matrix with so many columns, at least as many as it has; its arrays are not copied."""
    import scipy.sparse as sp

    return X if X.shape[1] == width else sp.csr_matrix((X.data, X.indices, X.indptr), shape=(X.shape[0], width))


def csr_arrays(X: Any) -> Arrays:
    """A CSR matrix as arrays."""
    return {"indptr": X.indptr.astype(np.int64), "indices": X.indices.astype(np.int64), "values": X.data}


def csr_of_arrays(arrays: Arrays, width: int) -> Any:
    """A CSR matrix of arrays, checked."""
    import scipy.sparse as sp

    indptr, indices, values = (arrays[name] for name in ("indptr", "indices", "values"))
    X = sp.csr_matrix((values, indices, indptr), shape=(len(indptr) - 1, width))
    X.check_format(full_check=True)
    return X
