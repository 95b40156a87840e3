"""Generated streams, seeded: the synthetic data of P0 §5.2, and text-like rows for benchmarks."""

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray


class LabelledRows(NamedTuple):
    """Rows (CSR, float32) and labels ±1."""

    X: Any
    y: NDArray[np.int8]


def sparse_gaussian(
    n_train: int = 100_000,
    n_test: int = 10_000,
    *,
    n_features: int = 1_000,
    n_informative: int = 100,
    n_noise: int = 200,
    seed: int = 0,
) -> tuple[LabelledRows, LabelledRows]:
    """Train and test stream of P0 §5.2: few effective dimensions under much noise.

    The first ``n_informative`` dimensions are Gaussian, each with a mean from [−1, 1] and a variance from [0.5, 100];
    the mean vector is also the separating plane. Each example has ``n_noise`` of the other dimensions, drawn anew,
    filled from N(0, 100).

    Examples
    --------
    >>> train, test = sparse_gaussian(50, 10)
    >>> train.X.shape, int(train.X.getnnz(axis=1)[0]), test.y.shape
    ((50, 1000), 300, (10,))

    """
    n_others = n_features - n_informative
    if min(n_train, n_test, n_informative) < 1 or not 0 <= n_noise <= n_others:
        raise ValueError(
            "sparse_gaussian: n_train, n_test and n_informative must be ≥ 1 and n_noise from 0 to "
            f"n_features - n_informative = {n_others}, got {n_train}, {n_test}, {n_informative} and {n_noise}"
        )
    rng = np.random.default_rng(seed)
    mean = rng.uniform(-1.0, 1.0, n_informative)
    deviation = np.sqrt(rng.uniform(0.5, 100.0, n_informative))

    def draw(n: int) -> LabelledRows:
        informative = mean + deviation * rng.standard_normal((n, n_informative))
        y = np.where(informative @ mean > 0, 1, -1).astype(np.int8)
        places = np.empty((n, n_noise), dtype=np.int32)
        for start in range(0, n, 4096):  # a block of random orders at a time
            order = rng.random((min(4096, n - start), n_others)).argpartition(max(n_noise - 1, 0), axis=1)
            places[start : start + 4096] = np.sort(order[:, :n_noise], axis=1)
        noise = rng.normal(0.0, 10.0, (n, n_noise))
        columns = np.hstack([np.tile(np.arange(n_informative, dtype=np.int32), (n, 1)), places + n_informative])
        values = np.hstack([informative, noise]).astype(np.float32)
        indptr = np.arange(n + 1) * (n_informative + n_noise)
        return LabelledRows(sp.csr_matrix((values.ravel(), columns.ravel(), indptr), shape=(n, n_features)), y)

    return draw(n_train), draw(n_test)


def zipf_text(
    n_rows: int, n_features: int, *, words: int = 90, exponent: float = 1.1, noise: float = 0.05, seed: int = 0
) -> LabelledRows:
    """Rows like hashed documents: word frequencies follow Zipf's law, rows have unit length, labels a linear rule.

    Each row draws ``words`` words; repeated ones are summed, which leaves about two thirds as many non-zeros. A share
    ``noise`` of the labels is flipped.

    Examples
    --------
    >>> stream = zipf_text(100, 5_000)
    >>> stream.X.shape, stream.X.dtype.name
    ((100, 5000), 'float32')

    """
    rng = np.random.default_rng(seed)
    popularity = np.cumsum(np.arange(1, n_features + 1, dtype=np.float64) ** -exponent)
    ranks = np.searchsorted(popularity, rng.random(n_rows * words) * popularity[-1])
    columns = rng.permutation(n_features).astype(np.int32)[ranks]
    X = sp.csr_matrix(
        (np.ones(n_rows * words, dtype=np.float32), columns, np.arange(n_rows + 1) * words), shape=(n_rows, n_features)
    )
    X.sum_duplicates()
    lengths = np.sqrt(X.multiply(X).sum(axis=1)).A1
    X.data /= np.repeat(lengths, np.diff(X.indptr)).astype(np.float32)
    score = X @ rng.standard_normal(n_features).astype(np.float32)
    flipped = rng.random(n_rows) < noise
    return LabelledRows(X, np.where((score > np.median(score)) ^ flipped, 1, -1).astype(np.int8))
