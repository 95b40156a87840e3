"""Cells of Python objects: values in dicts, and in columns of objects."""

from collections.abc import Mapping
from datetime import date
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thinstream.data.cells import (
    CATEGORICAL,
    DATE,
    DAY,
    FALSE,
    IGNORED,
    ITEM,
    LABEL,
    NULL,
    NUMBER,
    STRING,
    TEXT,
    TIME,
    TRUE,
    WEIGHT,
    Cells,
)
from thinstream.data.text.hashing import encode_names

#: Roles of columns that cannot have lists or objects.
_ONE_VALUE = (DATE, LABEL, WEIGHT)


#: Types of most values, roles that need more than a cell type and a number, and the limit of numbers without a check.
_QUICK, _SLOW_ROLES, _EXACT = {str, bool, int, float}, (IGNORED, CATEGORICAL), 1e15


class Unreadable(Exception):
    """Raised for a value that cannot be a cell; the message has the allowed and the given value."""


def category_of(value: Any) -> str:
    """Return a number as the text of a category: a whole number has no decimal point.

    >>> category_of(3.0), category_of(2.5), category_of(True)
    ('3', '2.5', 'True')
    """
    if isinstance(value, Written):
        return value.text
    whole = isinstance(value, float | np.floating) and float(value).is_integer()
    return str(int(value)) if whole else str(value)


class Written(float):
    """A number with its original text: ids and categories may have more digits than doubles."""

    def __new__(cls, text: str) -> "Written":
        """Parse a number."""
        number = super().__new__(cls, text)
        number.text = text
        return number

    text: str


def time_of(value: Any) -> tuple[int, float]:
    """Return the type of cell for a date or a time, and its seconds since 1970; NaN for NaT."""
    time = np.datetime64(value)
    if np.isnat(time):
        return NULL, np.nan
    by_day = np.datetime_data(time)[0] == "D" if isinstance(value, np.datetime64) else not hasattr(value, "hour")
    return (DAY if by_day else TIME), float(time.astype("M8[s]").astype(np.int64))


class CellBuilder:
    """Collects the cells of dicts. Keys of nested objects are joined with dots: ``user.paid``.

    A list holds numbers, which become ``size[0]``, ``size[1]``, …, or words, each of which is a category.

    Parameters
    ----------
    roles : dict
        Roles of columns by name. Other columns have none.

    Examples
    --------
    >>> builder = CellBuilder({"note": TEXT})
    >>> builder.take_row({"size": [2, 0.5], "user": {"paid": True}, "note": "free offer"})
    >>> builder.names, builder.words
    (['size[0]', 'size[1]', 'user.paid', 'note'], ['free offer'])

    """

    def __init__(self, roles: Mapping[str, int]) -> None:
        self.roles = roles
        self.numbers: dict[str, int] = {}  # column numbers by name
        self.met: set[str] = set()  # names with a role that have occurred
        self.words: list[str] = []
        self.with_words: list[int] = []  # cells that have a word
        self.columns: list[int] = []
        self.kinds: list[int] = []
        self.values: list[float] = []
        self.ends: list[int] = []
        self.times: set[str] = set()  # columns that had dates or times

    @property
    def names(self) -> list[str]:
        """The names of the columns."""
        return [*self.numbers]

    def take_row(self, record: Mapping[Any, Any]) -> None:
        """Add the cells of a row."""
        columns, kinds, values, numbers = self.columns, self.kinds, self.values, self.numbers
        for name, value in record.items():
            column, value_type = numbers.get(name), type(value)
            if column is None or value_type not in _QUICK or self.roles.get(name) in _SLOW_ROLES:
                self.take(name if type(name) is str else str(name), value)
                continue
            if value_type is str:
                self.with_words.append(len(columns))
                self.words.append(value)
                kinds.append(STRING)
                values.append(0.0)
            elif value_type is bool:
                kinds.append(TRUE if value else FALSE)
                values.append(0.0)
            elif -_EXACT < value < _EXACT:
                kinds.append(NUMBER)
                values.append(value)
            else:
                self.take(name, value)
                continue
            columns.append(column)
        self.ends.append(len(columns))

    def put(self, name: str, cell_type: int, value: float = 0.0, word: str | None = None) -> None:
        if word is not None:
            self.with_words.append(len(self.columns))
            self.words.append(word)
        self.columns.append(self.numbers.setdefault(name, len(self.numbers)))
        self.kinds.append(cell_type)
        self.values.append(value)

    def take(self, name: str, value: Any) -> None:
        """Add the cells of an entry."""
        role = self.roles.get(name)
        if role is not None:
            self.met.add(name)
            if role == IGNORED:
                return
        value_type = type(value)
        if value_type is str:
            self.put(name, STRING, 0.0, value)
        elif value is None:
            self.put(name, NULL)
        elif value_type is bool or isinstance(value, np.bool_):
            self.put(name, TRUE if value else FALSE)
        elif value_type is float or value_type is int or isinstance(value, Real):
            self._number(name, value, role)
        elif isinstance(value, date | np.datetime64):
            cell_type, seconds = time_of(value)
            if cell_type != NULL:
                self.times.add(name)
            self.put(name, cell_type, seconds)
        elif isinstance(value, str):
            self.put(name, STRING, 0.0, str(value))
        elif role in _ONE_VALUE and isinstance(value, Mapping | list | tuple):
            self.put(name, ITEM)  # will be refused for this role
        elif isinstance(value, Mapping):
            if role == TEXT:
                raise _not_text(name, value)
            for inner, part in value.items():
                self.take(f"{name}.{inner}", part)
        elif isinstance(value, list | tuple):
            for k, part in enumerate(value):
                self._item(name, part, k, role)
        elif value != value:  # pandas' NA and NaT
            self.put(name, NULL)
        else:
            raise Unreadable(f"{name!r} must be a number, a string, True, False, None, a list or a dict, got {value!r}")

    def _number(self, name: str, value: Any, role: int | None) -> None:
        try:
            amount = float(value)
        except OverflowError:
            amount = np.inf
        if amount in (np.inf, -np.inf):
            raise Unreadable(f"numbers must be finite, got {shown(value)} in {name!r}")
        self.put(name, NUMBER, amount, category_of(value) if role == CATEGORICAL and amount == amount else None)

    def _item(self, name: str, part: Any, k: int, role: int | None) -> None:
        if isinstance(part, str):
            self.put(name, ITEM, 0.0, part)
        elif isinstance(part, list | tuple | Mapping):
            raise Unreadable(f"a list must hold numbers or strings, got {shown(part)} in {name!r}")
        elif role == TEXT:
            raise _not_text(name, part)
        elif part is not None and part is not False:
            self.take(f"{name}[{k}]", part)

    def built(self, behind: int = 0) -> tuple[NDArray[np.uint8], Cells]:
        """Return the words as one text, and the cells, whose words start ``behind`` bytes later."""
        text, stops = encode_names(self.words)
        cells = Cells(
            np.array(self.ends, np.int64),
            np.array(self.columns, np.int64),
            np.array(self.kinds, np.uint8),
            np.array(self.values, np.float64),
            np.zeros(len(self.columns), np.int64),
            np.zeros(len(self.columns), np.int64),
        )
        if self.words:
            cells.starts[self.with_words] = np.concatenate([[0], stops[:-1]]) + behind
            cells.stops[self.with_words] = stops + behind
        return np.frombuffer(text, np.uint8), cells


def _not_text(name: str, value: Any) -> Unreadable:
    return Unreadable(f"column {name!r} is declared as text, so a cell must be a string, got {shown(value)}")


def shown(value: Any) -> str:
    """Return a value for a message, as JSON writes it.

    >>> shown("Oslo"), shown(2.5), shown(float("inf"))
    ('"Oslo"', '2.5', 'a number beyond 1.8e308')
    """
    import json

    try:
        text = "a number beyond 1.8e308" if value in (np.inf, -np.inf) else json.dumps(value)
    except (TypeError, ValueError):
        text = repr(value)
    return text if len(text) <= 40 else text[:40] + "…"
