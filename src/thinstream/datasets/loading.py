"""Data sets in memory, as scikit-learn takes them."""

from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from thinstream.batch import Batch
from thinstream.datasets.catalogue import catalogue, find, parts_of
from thinstream.datasets.synthetic import LabelledRows, sparse_gaussian
from thinstream.errors import InvalidInputError, InvalidParameterError, listed
from thinstream.streams.opening import open_stream

#: Generated data: train and test rows, the same at every call.
GENERATED = {"sparse_gaussian": lambda: sparse_gaussian(5_000, 1_000)}


def load(name: str, split: str | None = None, **options: Any) -> tuple[sp.csr_matrix, NDArray[Any]]:
    """Rows and labels of a data set, in memory.

    Parameters
    ----------
    name : str
        Of a data set in `catalogue` whose files are here (`thinstream datasets NAME --download` gets public ones), of
        other files in `folders()`, or ``"sparse_gaussian"``, which is generated.
    split : {"train", "test"} or None
        A part; sets have the parts they were published with. None: all of it, training rows first.
    **options
        How files are read, see `open_stream`; values are in float64 unless ``dtype`` says otherwise.

    Returns
    -------
    X : scipy.sparse.csr_matrix
        The rows; parts of one set have the same width.
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
        allowed = listed(sorted(filter(None, parts))) if any(parts) else "None, it has one part only"
        raise InvalidParameterError(f"split of data set {name!r} must be {allowed}, got {split!r}")
    entry = catalogue().get(name)
    known = entry.features if entry is not None else None
    # without a published width, only all parts together tell it
    found = {k: _read(v, options) for k, v in parts.items() if split in (None, k) or known is None}
    width = max(known or 0, *(rows.X.shape[1] for rows in found.values()))
    chosen = [rows for part, rows in found.items() if split in (None, part)]
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
        raise InvalidInputError(f"{part}: there is no example in it")
    rows = Batch.concatenate(batches)
    hashing = stream.feature_space.get("hashing")
    width = rows.n_features if hashing is None else 2 ** hashing["bits"]
    X = sp.csr_matrix((rows.values, rows.indices, rows.indptr), shape=(len(rows), width))
    return LabelledRows(X, rows.require_labels("load"))
