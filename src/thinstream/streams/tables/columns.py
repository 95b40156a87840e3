"""Columns of tables as the columns of features they give: what is missing, and the parts of dates."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thinstream.errors import InvalidInputError
from thinstream.streams.options import NOTHING
from thinstream.streams.tables.texts import Texts
from thinstream.streams.text.dates import PARTS, WEEKDAYS, date_parts

#: The category of a cell that says nothing.
ABSENT = "?"
#: What to do with a frame of numbers some of which are missing.
MISSING_CELLS = (
    "Frames with missing cells are learned as a stream: fit_stream(from_memory(X, y, hasher=Numbering())), both of "
    "thinstream.streams; or fill the cells first"
)


def says_nothing(value: Any) -> bool:
    """None, NaN, and words for them."""
    return value is None or (isinstance(value, str) and value.strip(" ") in ("", *NOTHING)) or bool(value != value)


class Column(NamedTuple):
    """Cells of one column: numbers, codes of categories (-1: absent), times, or texts."""

    name: str
    numbers: NDArray[Any] | None = None
    present: NDArray[np.bool_] | None = None  # where there is a number or a time; None: everywhere
    codes: NDArray[Any] | None = None
    categories: Sequence[Any] = ()
    times: NDArray[np.datetime64] | None = None
    by_day: bool = False  # whether times are dates, without hours
    texts: Texts | None = None  # to be taken apart
    dated: bool = False  # whether categories are texts of dates


def of_features(columns: Sequence[Column], missing: str, place: str, first: int) -> list[Column]:
    """The columns of numbers and categories they give; ``missing`` as in `Options`.

    >>> rain = Column("rain", numbers=np.array([0.5, np.nan]))
    >>> sky = Column("sky", codes=np.array([0, 1]), categories=("?", "blue"))
    >>> [(c.name, c.present, c.codes, c.categories) for c in of_features([rain, sky], "indicator", "X", 0)]
    [('rain', array([ True, False]), None, ()), ('rain', None, array([-1,  0]), ('?',)),
     ('sky', None, array([2, 1]), ('?', 'blue', '?'))]
    """
    return [found for column in columns for found in _expanded(column, missing, place, first)]


def _expanded(column: Column, missing: str, place: str, first: int) -> Iterator[Column]:
    gone = _gone(column, missing)
    some = bool(gone.any())
    if some and missing == "error":
        row = first + int(np.argmax(gone))
        raise InvalidInputError(
            f"{place}: column {column.name!r} must have a value in every row, got none at row {row}"
        )
    told = some and missing == "indicator"
    if column.codes is not None and not column.dated:
        if some:
            codes = np.where(gone, len(column.categories) if told else -1, column.codes)
            column = column._replace(
                codes=codes, categories=(*column.categories, ABSENT) if told else column.categories
            )
        yield column
        return
    column = column._replace(present=~gone) if some else column
    if column.dated:
        yield from _parts_of_texts(column)
    else:
        yield from [column] if column.times is None else _parts(column)
    if told:
        yield Column(column.name, codes=np.where(gone, 0, -1), categories=(ABSENT,))


def _gone(column: Column, missing: str) -> NDArray[np.bool_]:
    """Where cells say nothing."""
    as_is = missing == "as-is"
    if column.codes is not None:
        codes = np.asarray(column.codes)
        words = [k for k, text in enumerate(column.categories) if not as_is and text.strip(" ") in ("", *NOTHING)]
        return np.asarray((codes < 0) | np.isin(codes, words), dtype=np.bool_)
    if column.times is not None:
        found = np.isnat(column.times)
    else:
        numbers = np.asarray(column.numbers)
        found = np.isnan(numbers) if numbers.dtype.kind == "f" and not as_is else np.zeros(len(numbers), np.bool_)
    return np.asarray(found if column.present is None else found | ~column.present, dtype=np.bool_)


def _parts_of_texts(column: Column) -> Iterator[Column]:
    """The same of dates that are texts, as cells of CSV are; of a date without a time there is no hour."""
    found = [date_parts(text) or {} for text in column.categories]
    for part in PARTS:
        texts = sorted({parts[part] for parts in found if part in parts})
        codes = np.array([*(texts.index(parts[part]) if part in parts else -1 for parts in found), -1])
        yield Column(f"{column.name}.{part}", codes=codes[np.asarray(column.codes)], categories=texts)


def _parts(column: Column) -> Iterator[Column]:
    """Year, month, day, day of the week and hour, each a category."""
    assert column.times is not None
    times = column.times.astype("M8[s]")
    there = ~np.isnat(times) if column.present is None else column.present
    times = np.where(there, times, np.datetime64(0, "s"))
    days, months = times.astype("M8[D]"), times.astype("M8[M]")
    parts = {
        "year": times.astype("M8[Y]").astype(np.int64) + 1970,
        "month": months.astype(np.int64) % 12 + 1,
        "day": (days - months.astype("M8[D]")).astype(np.int64) + 1,
        "hour": (times - days).astype(np.int64) // 3600,
        "weekday": (days.astype(np.int64) + 3) % 7,  # of the first of 1970, a Thursday
    }
    for part, codes in parts.items():
        if part == "hour" and column.by_day:
            continue
        met, places = np.unique(codes, return_inverse=True)
        digits = 4 if part == "year" else 2
        texts = [WEEKDAYS[code] if part == "weekday" else f"{code:0{digits}d}" for code in met.tolist()]
        yield Column(f"{column.name}.{part}", codes=np.where(there, places.reshape(-1), -1), categories=texts)
