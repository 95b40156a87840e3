"""Rows prepared in several ways, side by side: what a model of several vectors of weights is multiplied with.

Of d features and two preparations a row has 2d columns: those of the first preparation, then those of the second. Such
models only predict; what they are made of learns each kind of rows for itself.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from thinstream.batch import Batch
from thinstream.learners.learner import require_range
from thinstream.preparing.preparation import Preparation
from thinstream.preparing.scales import Numbers


class Several(Preparation):
    """Several preparations of rows of so many features.

    Examples
    --------
    >>> rows = Batch.of(np.array([0, 2]), np.array([0, 1]), np.array([3.0, 4.0]), 2)
    >>> ready = Several([Preparation(), Preparation(normalize="l2")], 2).apply(rows, np.dtype("float64"))
    >>> ready.indices, ready.values
    (array([0, 1, 2, 3]), array([3. , 4. , 0.6, 0.8]))

    """

    def __init__(self, each: Sequence[Preparation], n_features: int) -> None:
        super().__init__()
        self._each, self.n_features, self.vectors = list(each), n_features, len(each)

    def __bool__(self) -> bool:
        return True

    @property
    def each(self) -> list[Preparation]:
        """One after another."""
        return self._each

    @property
    def described(self) -> dict[str, Any]:
        """As a file has it."""
        return {"several": [one.kinds for one in self.each]}

    @property
    def is_scaled(self) -> bool:
        """Whether features of one of them have scales."""
        return any(one.is_scaled for one in self.each)

    def divisors(self, n_features: int) -> Numbers:
        """Those of each, one after another."""
        return np.concatenate([one.divisors(n_features) for one in self.each])

    def apply(self, batch: Batch, dtype: np.dtype[Any]) -> Batch:
        """The rows as they are to be scored."""
        require_range(batch, dtype)
        return side_by_side([one.apply(batch, dtype) if one else batch for one in self.each], self.n_features, dtype)


def described_by(described: Mapping[str, Any], n_weights: int) -> Preparation:
    """What `Preparation.described` says of rows for vectors of so many weights together; scales are still to come."""
    if "several" not in described:
        return Preparation(**described)
    each = [Preparation(**one) for one in described["several"]]
    if len(each) < 2 or n_weights % len(each):
        raise ValueError(f"{n_weights} weights are none for {len(each)} kinds of rows")
    return Several(each, n_weights // len(each))


def side_by_side(kinds: Sequence[Batch], n_features: int, dtype: np.dtype[Any]) -> Batch:
    """The same rows of several kinds as rows of so many features for each kind, one kind after another."""
    kinds = [rows.narrowed(n_features) for rows in kinds]
    width = n_features * len(kinds)
    indptr = np.asarray(np.sum([rows.indptr for rows in kinds], axis=0, dtype=np.int64))
    indices = np.empty(int(indptr[-1]), kinds[0].indices.dtype if width < 2**31 else np.int64)
    values, start = np.empty(len(indices), dtype), indptr[:-1].copy()
    for k, rows in enumerate(kinds):
        counts = np.diff(rows.indptr)
        places = np.repeat(start - rows.indptr[:-1], counts) + np.arange(rows.nnz)
        indices[places] = rows.indices[: rows.nnz] + indices.dtype.type(k * n_features)
        values[places] = rows.values[: rows.nnz]
        start += counts
    largest = max(rows.largest for rows in kinds)
    return replace(kinds[0], indptr=indptr, indices=indices, values=values, n_features=width, largest=largest)
