"""Columns of tables that are declared: numbers written as text, categories that are numbers, dates that are text."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thinstream.errors import InvalidInputError, InvalidParameterError
from thinstream.streams.tables.columns import Column, says_nothing
from thinstream.streams.text.dates import date_parts

_TRUTH = {"True": 1.0, "true": 1.0, "TRUE": 1.0, "False": 0.0, "false": 0.0, "FALSE": 0.0}


class Kinds(NamedTuple):
    """Which columns are declared to be numbers, categories and dates; see `Options`."""

    numeric: tuple[str, ...] = ()
    categorical: tuple[str, ...] = ()
    dates: tuple[str, ...] = ()

    @classmethod
    def of(cls, **named: Sequence[str]) -> "Kinds":
        """Raises where names are no list of them, or one has several kinds."""
        taken: dict[str, str] = {}
        for kind, names in named.items():
            if isinstance(names, str) or not all(isinstance(name, str) for name in names):
                raise InvalidParameterError(f"{kind} must be a list of names of columns, got {names!r}")
            for name in names:
                if taken.setdefault(name, kind) != kind:
                    raise InvalidParameterError(f"a column has one role, {name!r} has {taken[name]} and {kind}")
        return cls(**{kind: tuple(names) for kind, names in named.items()})

    @property
    def space(self) -> dict[str, Any]:
        """What of it is part of what features mean."""
        return {"categorical": sorted(self.categorical)} if self.categorical else {}

    def applied(self, column: Column, place: str, first: int) -> Column:
        """The column as what it is declared to be; ``place`` and ``first`` are what errors call it and its first row.

        >>> sizes = Column("size", codes=np.array([0, 1, 0]), categories=["2.5", "NA"])
        >>> Kinds.of(numeric=["size"]).applied(sizes, "X", 0).numbers
        array([2.5, nan, 2.5])
        """
        if column.texts is not None:
            return column
        if column.name in self.numeric and column.numbers is None:
            return _numbers(column, place, first)
        if column.name in self.dates and column.times is None:
            return _dates(column, place, first)
        if column.name in self.categorical and column.codes is None:
            return _categories(column, place)
        return column


def _refused(column: Column, what: str, given: str, place: str, row: int) -> InvalidInputError:
    return InvalidInputError(f"{place}: column {column.name!r} {what}, got {given} at row {row}")


def _first_of(column: Column, code: int, first: int) -> int:
    return first + int(np.argmax(np.asarray(column.codes) == code))


def _numbers(column: Column, place: str, first: int) -> Column:
    if column.codes is None:
        raise _refused(column, "is numeric", "times", place, first)
    found = [np.nan if says_nothing(text) else _number(text) for text in column.categories]
    for code, value in enumerate(found):
        if value is None and code in np.asarray(column.codes):
            given, row = repr(column.categories[code])[:60], _first_of(column, code, first)
            raise _refused(column, "is numeric, so a cell must be a finite number, empty or NA", given, place, row)
    numbers = np.array([np.nan if value is None else value for value in found] + [np.nan])[np.asarray(column.codes)]
    return Column(column.name, numbers=numbers, present=~np.isnan(numbers))


def _number(text: str) -> float | None:
    """As cells of CSV have it, or None."""
    try:
        value = _TRUTH[text] if text in _TRUTH else float(text)
    except ValueError:
        return None
    return value if np.isfinite(value) and "_" not in text else None


def _dates(column: Column, place: str, first: int) -> Column:
    if column.codes is None:
        raise _refused(column, "holds dates", "numbers", place, first)
    codes = np.asarray(column.codes)
    nothing = [code for code, text in enumerate(column.categories) if says_nothing(text)]
    for code in np.setdiff1d(codes, [-1, *nothing]).tolist():
        if date_parts(column.categories[code]) is None:
            given, row = repr(column.categories[code])[:60], _first_of(column, code, first)
            raise _refused(
                column, "holds dates, so a cell must be one as in 2024-05-17 or 2024-05-17T13:05", given, place, row
            )
    return Column(
        column.name, codes=np.where(np.isin(codes, nothing), -1, codes), categories=column.categories, dated=True
    )


def _categories(column: Column, place: str) -> Column:
    if column.numbers is None:
        raise InvalidInputError(f"{place}: column {column.name!r} is categorical, got times")
    numbers: NDArray[Any] = np.asarray(column.numbers)
    there = np.ones(len(numbers), np.bool_) if column.present is None else column.present
    if numbers.dtype.kind == "f":
        there = there & ~np.isnan(numbers)
    met, codes = np.unique(np.where(there, numbers, numbers.dtype.type(0)), return_inverse=True)
    texts = [category_of(value) for value in met.tolist()]
    return Column(column.name, codes=np.where(there, codes.reshape(-1), -1), categories=texts)


def category_of(value: Any) -> str:
    """The text of a number as a category: a whole one has no point, as where it was read.

    >>> category_of(3.0), category_of(2.5), category_of(True)
    ('3', '2.5', 'True')
    """
    whole = isinstance(value, float | np.floating) and float(value).is_integer()
    return str(int(value)) if whole else str(value)
