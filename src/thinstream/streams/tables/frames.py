"""Columns of frames of pandas and polars, neither of which is imported: what a frame can do tells which it is."""

from typing import Any

import numpy as np

from thinstream.errors import InvalidInputError
from thinstream.streams.tables.cells import Column


def is_frame(X: Any) -> bool:
    """Whether X is a frame of pandas or polars."""
    return hasattr(X, "iloc") or hasattr(X, "get_columns")


def frame_columns(X: Any, first: int, end: int) -> list[Column]:
    """The columns of a frame, from row ``first`` to ``end``."""
    if hasattr(X, "iloc"):
        return [_pandas(str(X.columns[j]), X.iloc[first:end, j]) for j in range(X.shape[1])]
    return [_polars(series) for series in X[first:end].get_columns()]


def _pandas(name: str, series: Any) -> Column:
    """A series of pandas. NaN in a plain column of numbers is a number that is not finite, not a missing one."""
    kind = series.dtype.kind
    if hasattr(series, "cat"):
        return _categories(name, series.cat.codes.to_numpy(), series.cat.categories)
    if kind in "biuf":
        if isinstance(series.dtype, np.dtype):
            return Column(name, numbers=series.to_numpy())
        present = ~series.isna().to_numpy()
        return Column(name, numbers=series.to_numpy(dtype=np.float64, na_value=0.0), present=present)
    if kind not in "OU":
        raise _unknown(name, series.dtype)
    codes, categories = series.factorize()
    return _categories(name, codes, categories)


def _polars(series: Any) -> Column:
    name, kind, word = series.name, series.dtype, str(series.dtype).split("(")[0]
    if kind.is_numeric() or word == "Boolean":
        present = series.is_not_null().to_numpy()
        filled = series.fill_null(False if word == "Boolean" else 0)
        return Column(name, numbers=filled.to_numpy().astype(float, copy=False), present=present)
    if word not in ("String", "Categorical", "Enum", "Null"):
        raise _unknown(name, kind)
    codes = np.full(len(series), -1)
    categories, codes[series.is_not_null().to_numpy()] = np.unique(
        series.drop_nulls().cast(str).to_numpy(), return_inverse=True
    )
    return _categories(name, codes, categories)


def _categories(name: str, codes: Any, categories: Any) -> Column:
    texts = list(categories)
    for text in texts:
        if not isinstance(text, str):
            raise InvalidInputError(f"X: column {name!r} must hold numbers or text, got {text!r}")
    return Column(name, codes=codes, categories=texts)


def _unknown(name: str, kind: Any) -> InvalidInputError:
    return InvalidInputError(f"X: column {name!r} must hold numbers, booleans, text or categories, got {kind}")
