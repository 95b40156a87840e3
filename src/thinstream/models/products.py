"""Products of features: the rows that some members of Auto learn, and how a linear model of them is scored.

If data has few features, they have slots from 1 on in order of appearance. The product of two features with slots a ≥ b
has the number a(a + 1)/2 + b, so numbers never change when more features appear, and no two products share one. Slot 0
is the constant 1, so feature a has the number a(a + 1)/2, like a product with the constant.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thinstream.batch import Batch
from thinstream.jit import compiled
from thinstream.models.slots import FewFeatures

#: Larger products are replaced by this number, so that sums of their squares are finite.
MOST = 1e140
#: The sign between the names of two features in a product.
MARK = " × "


@compiled()
def _expand(
    indptr: Any, indices: Any, values: Any, slots: Any, base: Any, most: Any, ends: Any, out_indices: Any, out: Any
) -> Any:
    """Write each row's features and their products; a feature keeps its number unless ``base`` is negative."""
    done = np.int64(0)
    ends[0] = 0
    for i in range(len(indptr) - 1):
        for k in range(indptr[i], indptr[i + 1]):
            slot, x = np.int64(slots[k]), values[k]
            first = slot * (slot + 1) // 2
            out_indices[done], out[done] = indices[k] if base >= 0 else first, x
            done += 1
            for other in range(indptr[i], k + 1):
                another = np.int64(slots[other])
                if slot == 0 or another == 0 or (other == k and x == 1.0):
                    continue
                number = first + another if slot >= another else another * (another + 1) // 2 + slot
                product = min(max(np.float64(x) * np.float64(values[other]), -most), most)
                out_indices[done], out[done] = max(base, 0) + number, product
                done += 1
        ends[i + 1] = done
    return done


def n_products(features: int) -> int:
    """Return how many numbers a number of features and their products need.

    >>> n_products(2)  # 1·1 (which does not occur), x₁, x₁², x₂, x₁x₂, x₂²
    6
    """
    return (features + 1) * (features + 2) // 2


def feature_columns(features: int) -> NDArray[np.int64]:
    """Return the numbers of the features themselves."""
    slots = np.arange(1, features + 1, dtype=np.int64)
    return slots * (slots + 1) // 2


def product_columns(features: int) -> NDArray[np.int64]:
    """Return the column numbers of the feature products."""
    every = np.ones(n_products(features), np.bool_)
    every[0] = every[feature_columns(features)] = False
    return np.flatnonzero(every)


def factors(numbers: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the two slots of each product, the larger first.

    >>> factors(np.array([2, 4, 5]))
    (array([1, 2, 2]), array([1, 1, 2]))
    """
    larger = ((np.sqrt(8.0 * numbers + 1.0) - 1.0) / 2.0).astype(np.int64)
    return larger, numbers - larger * (larger + 1) // 2


def costs(batch: Batch) -> NDArray[np.int64]:
    """Return the number of features and products in the rows before each row, and in all rows."""
    n = np.diff(batch.indptr).astype(np.int64)
    return np.append(0, np.cumsum(n + n * (n + 1) // 2))


def expanded(batch: Batch, few: FewFeatures, dtype: np.dtype[Any], base: int = -1) -> Batch:
    """Return the rows with their products, numbered from ``base`` on. By default, features are renumbered as well."""
    indptr, nnz = batch.indptr.astype(np.int64, copy=False), int(batch.indptr[-1])
    values, size = batch.values[:nnz].astype(dtype, copy=False), int(costs(batch)[-1])
    ends, width = np.empty(len(indptr), np.int64), n_products(len(few)) + max(base, 0)
    indices, products = np.empty(size, np.int32 if width < 2**31 else np.int64), np.empty(size, dtype)
    slots = few.find(batch.indices[:nnz])
    size = int(_expand(indptr, batch.indices[:nnz], values, slots, base, MOST, ends, indices, products))
    largest = max(batch.largest, min(batch.largest**2, MOST))
    return replace(
        batch,
        indptr=ends,
        indices=indices[:size],
        values=products[:size],
        n_features=max(width, batch.n_features if base >= 0 else 0),
        largest=largest,
        names=None,
    )


class Products:
    """The products of features that rows are extended by before a linear model scores them.

    Parameters
    ----------
    numbers : array of int
        Features whose products are used, in the order of their slots.
    base : int
        The number of features of the rows. Products are numbered from there on.

    Examples
    --------
    >>> rows = Batch.of(np.array([0, 2]), np.array([3, 7]), np.array([2.0, 5.0]), 9)
    >>> expanded = Products(np.array([7, 3]), 9).expand(rows, np.dtype("float64"))
    >>> expanded.indices, expanded.values
    (array([ 3, 14,  7, 13, 11], dtype=int32), array([ 2.,  4.,  5., 10., 25.]))

    """

    def __init__(self, numbers: NDArray[np.int64], base: int) -> None:
        self.base, self._few = base, FewFeatures(len(numbers))
        self._few.numbers = numbers

    @property
    def numbers(self) -> NDArray[np.int64]:
        """Features whose products are used, in the order of their slots."""
        return self._few.numbers

    def __len__(self) -> int:
        """Return how many numbers the products need."""
        return n_products(len(self._few))

    def expand(self, batch: Batch, dtype: np.dtype[Any]) -> Batch:
        """Return the rows with their products."""
        return expanded(batch.narrowed(self.base), self._few, dtype, self.base)

    def factors(self, numbers: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the two features of each product, the smaller number first."""
        one, two = (self.numbers[slots - 1] for slots in factors(numbers - self.base))
        return np.minimum(one, two), np.maximum(one, two)

    def names(self, numbers: NDArray[np.int64], names: Mapping[int, str]) -> dict[int, str]:
        """Return the names of the products among these numbers, made from the names of their features.

        >>> Products(np.array([7, 3]), 9).names(np.array([3, 11, 13]), {7: "age"})
        {11: 'age × age', 13: 'column 3 × age'}
        """
        products = np.unique(numbers[numbers >= self.base])
        pairs = zip(*(factor.tolist() for factor in self.factors(products)), strict=True)
        texts = [MARK.join(str(names.get(j, f"column {j}")) for j in pair) for pair in pairs]
        return dict(zip(products.tolist(), texts, strict=True))
