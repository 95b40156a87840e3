"""Datasets in memory for scikit-learn, and generated data."""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from thinstream.batch import Batch
from thinstream.data.opening import open_stream
from thinstream.datasets.catalogue import catalogue, find, parts_of
from thinstream.errors import InvalidInputError, InvalidParameterError, listed


class LabelledRows(NamedTuple):
    """Rows (CSR, float32) and labels ±1."""

    X: Any
    y: NDArray[np.int8]


#: Generated datasets: train and test rows, the same in every call.
GENERATED = {"sparse_gaussian": lambda: sparse_gaussian(5_000, 1_000)}


def load(name: str, split: str | None = None, **options: Any) -> tuple[sp.csr_matrix, NDArray[Any]]:
    """Return the rows and labels of a dataset in memory.

    Parameters
    ----------
    name : str
        Name of a dataset in `catalogue` that was downloaded (`thinstream datasets NAME --download`), of other files in
        `folders()`, or ``"sparse_gaussian"``, which is generated.
    split : {"train", "test"} or None
        A part of the dataset, if it was published in parts. None: all rows, training rows first.
    **options
        Reading options, see `open_stream`. The default ``dtype`` is float64.

    Returns
    -------
    X : scipy.sparse.csr_matrix
        The rows. All parts of a dataset have the same width.
    y : ndarray
        The labels, ±1; numbers of classes if ``classes`` names more than two.

    Examples
    --------
    >>> X, y = load("sparse_gaussian", split="test")
    >>> X.shape, y.shape
    ((1000, 1000), (1000,))

    """
    if name in GENERATED:
        parts: dict[str, Any] = dict(zip(("train", "test"), GENERATED[name](), strict=True))
    else:
        paths = find(name)
        parts = {part: path for part, path in parts_of(name, paths[0].parent).items() if path in paths}
    if split is not None and split not in parts:
        allowed = listed(sorted(filter(None, parts))) if any(parts) else "None, because there is only one part"
        raise InvalidParameterError(f"split of the dataset {name!r} must be {allowed}, got {split!r}")
    entry = catalogue().get(name)
    published = entry.features if entry is not None else None
    # without a published width, all parts must be read to find it
    read = {k: _read(v, options) for k, v in parts.items() if split in (None, k) or published is None}
    width = max(published or 0, *(rows.X.shape[1] for rows in read.values()))
    chosen = [rows for part, rows in read.items() if split in (None, part)]
    for rows in chosen:
        rows.X.resize(rows.X.shape[0], width)
    X = chosen[0].X if len(chosen) == 1 else sp.vstack([rows.X for rows in chosen], format="csr")
    return X, np.concatenate([rows.y for rows in chosen])


def _read(part: LabelledRows | Path, options: dict[str, Any]) -> LabelledRows:
    if isinstance(part, LabelledRows):
        return part
    stream = open_stream(part, **{"dtype": "float64", "look": 0, **options})
    batches = list(stream.batches())
    if not sum(map(len, batches)):
        raise InvalidInputError(f"{part} has no rows")
    rows = Batch.concatenate(batches)
    hashing = stream.feature_space.get("hashing")
    width = rows.n_features if hashing is None else 2 ** hashing["bits"]
    X = sp.csr_matrix((rows.values, rows.indices, rows.indptr), shape=(len(rows), width))
    return LabelledRows(X, rows.require_labels("load"))


def sparse_gaussian(
    n_train: int = 100_000,
    n_test: int = 10_000,
    *,
    n_features: int = 1_000,
    n_informative: int = 100,
    n_noise: int = 200,
    seed: int = 0,
) -> tuple[LabelledRows, LabelledRows]:
    """Generate the train and test streams of P0 §5.2: few informative dimensions under much noise.

    The first ``n_informative`` dimensions are Gaussian, each with a mean from [−1, 1] and a variance from [0.5, 100];
    the mean vector is also the separating plane. Each example has ``n_noise`` random other dimensions,
    with values from N(0, 100).

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
        noisy = np.empty((n, n_noise), dtype=np.int32)
        for start in range(0, n, 4096):  # a block of random orders at a time
            order = rng.random((min(4096, n - start), n_others)).argpartition(max(n_noise - 1, 0), axis=1)
            noisy[start : start + 4096] = np.sort(order[:, :n_noise], axis=1)
        noise = rng.normal(0.0, 10.0, (n, n_noise))
        columns = np.hstack([np.tile(np.arange(n_informative, dtype=np.int32), (n, 1)), noisy + n_informative])
        values = np.hstack([informative, noise]).astype(np.float32)
        indptr = np.arange(n + 1) * (n_informative + n_noise)
        return LabelledRows(sp.csr_matrix((values.ravel(), columns.ravel(), indptr), shape=(n, n_features)), y)

    return draw(n_train), draw(n_test)


def zipf_text(
    n_rows: int, n_features: int, *, words: int = 90, exponent: float = 1.1, noise: float = 0.05, seed: int = 0
) -> LabelledRows:
    """Generate rows like hashed documents, with word frequencies by Zipf's law, unit length and linear labels.

    Each row has ``words`` random words. Repeated ones are added, which leaves about two thirds as many non-zeros. A
    share ``noise`` of the labels is flipped.

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
