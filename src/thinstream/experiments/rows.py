"""Rows of results: which of them, what of them, and how it is written."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from thinstream.experiments.experiment import Row


def pick(rows: Iterable[Row], **wanted: Any) -> list[Row]:
    """The rows with these entries."""
    return [row for row in rows if all(row.get(key) == value for key, value in wanted.items())]


def distinct(rows: Iterable[Row], column: str = "set") -> list[Any]:
    """The values of a column, each once, in the order in which they come."""
    return list(dict.fromkeys(row[column] for row in rows if column in row))


def mean(rows: Sequence[Row], column: str = "value") -> float:
    """Over rows."""
    return float(np.mean([row[column] for row in rows])) if rows else math.nan


def spread(rows: Sequence[Row], column: str = "value") -> float:
    """Standard deviation over rows; NaN of a single one."""
    return float(np.std([row[column] for row in rows], ddof=1)) if len(rows) > 1 else math.nan


def plus_minus(value: tuple[float, float] | None, digits: int = 2) -> str:
    """A mean with its spread.

    >>> plus_minus((1.234, 0.5)), plus_minus((1.234, math.nan)), plus_minus(None)
    ('1.23 ± 0.50', '1.23', '–')
    """
    if value is None or math.isnan(value[0]):
        return "–"
    deviation = f" ± {value[1]:.{digits}f}" if math.isfinite(value[1]) else ""
    return f"{value[0]:.{digits}f}{deviation}"


def listed(values: Mapping[Any, float], form: str = ".2f") -> str:
    """Names and numbers in a sentence.

    >>> listed({"a9a": 1.0, ("w8a", "PA"): -2.0}, "+.1f")
    'a9a +1.0, PA on w8a -2.0'
    """
    names = [f"{name[1]} on {name[0]}" if isinstance(name, tuple) else name for name in values]
    return ", ".join(f"{name} {value:{form}}" for name, value in zip(names, values.values(), strict=True))
