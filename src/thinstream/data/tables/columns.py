"""Columns of tables in memory, their cells, and the common parts of table streams."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from types import NoneType
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from thinstream.batch import Batch, Position
from thinstream.data.cells import (
    ALL,
    AUTO,
    CATEGORICAL,
    DATE,
    DAY,
    FALSE,
    FEATURE_ROLES,
    FINE,
    IGNORED,
    NULL,
    NUMBER,
    ROLES,
    STRING,
    TEXT,
    TIME,
    TRUE,
    Cells,
    Columns,
    Labels,
    Out,
    take_cells,
)
from thinstream.data.labels import ClassBook, label_of
from thinstream.data.objects import CellBuilder, Unreadable, category_of
from thinstream.data.options import MISSING, Cross, Options, as_crosses, as_range, as_stop_list, feature_space
from thinstream.data.text.hashed_rows import ColumnFormat, NamedFeatures, Raw
from thinstream.data.text.hashing import Hashing, Numbering, encode_names
from thinstream.data.text.protocol import Parsed, ParseError, Text
from thinstream.errors import InvalidInputError, InvalidParameterError, listed

#: Advice on frames of numbers with missing cells.
MISSING_CELLS = "To learn from missing cells, pass hasher=Numbering() (from thinstream.data), or fill the cells first"
#: The number of dicts from which they are read by column if all have the same keys.
_MANY = 8
_SCALARS = {float, int, bool, str, NoneType}
_NO_TEXT, _NO_LABELS = np.empty(0, np.uint8), Labels.of(None)


class Column(NamedTuple):
    """The cells of one column. Words are parts of the text."""

    name: str
    kinds: NDArray[np.uint8]
    numbers: NDArray[Any] | None = None  # of any dtype, so that integers keep all digits as categories
    text: NDArray[np.uint8] = _NO_TEXT
    starts: NDArray[np.int64] | None = None
    stops: NDArray[np.int64] | None = None

    @classmethod
    def of_numbers(cls, name: str, numbers: NDArray[Any], present: NDArray[np.bool_] | None = None) -> "Column":
        """Create a column of numbers or booleans, missing if ``present`` is False."""
        if numbers.dtype.kind == "b":
            types = np.where(numbers, np.uint8(TRUE), np.uint8(FALSE))
        else:
            types = np.full(len(numbers), NUMBER, np.uint8)
        if present is not None:
            types[~present] = NULL
        return cls(name, types, numbers)

    @classmethod
    def of_times(cls, name: str, times: NDArray[Any], by_day: bool = False) -> "Column":
        """Create a column of times, or of dates."""
        types = np.where(np.isnat(times), np.uint8(NULL), np.uint8(DAY if by_day else TIME))
        return cls(name, types, times.astype("M8[s]").astype(np.int64).astype(np.float64))

    @classmethod
    def of_words(
        cls,
        name: str,
        text: NDArray[np.uint8],
        starts: NDArray[np.int64],
        stops: NDArray[np.int64],
        present: NDArray[np.bool_],
    ) -> "Column":
        """Create a column from parts of a text in UTF-8."""
        return cls(name, np.where(present, np.uint8(STRING), np.uint8(NULL)), None, text, starts, stops)

    @classmethod
    def of_codes(cls, name: str, codes: NDArray[Any], words: Sequence[str]) -> "Column":
        """Create a column of words from their positions in a list; −1: missing."""
        text, ends = encode_names([*words])
        starts = np.concatenate([[0], ends]).astype(np.int64)  # the last one is for −1
        positions = np.asarray(codes, dtype=np.int64)
        stops = np.append(ends, ends[-1:] if len(ends) else 0)
        return cls.of_words(name, np.frombuffer(text, np.uint8), starts[positions], stops[positions], positions >= 0)

    @classmethod
    def of_objects(cls, name: str, values: Sequence[Any], source: str, first: int) -> "Column":
        """Create a column of any objects that are cells; most often all are strings."""
        types = {*map(type, values)}
        if types <= {int, float}:
            with suppress(OverflowError):
                return cls.of_numbers(name, np.array(values, np.float64))
        try:
            text, ends = encode_names(["" if value is None else value for value in values])
        except TypeError:
            pass
        else:
            present = np.array([value is not None for value in values], np.bool_)
            starts = np.concatenate([[0], ends[:-1]]).astype(np.int64) if len(ends) else ends
            return cls.of_words(name, np.frombuffer(text, np.uint8), starts, ends, present)
        builder = CellBuilder({})
        for row, value in enumerate(values):
            try:
                builder.take_row({name: value})
            except Unreadable as error:
                raise InvalidInputError(f"{source}: {error} at row {first + row}") from None
            if builder.ends[-1] != row + 1 or isinstance(value, list | tuple | Mapping):
                raise InvalidInputError(
                    f"{source}: column {name!r} must have numbers or strings, got {value!r} at row {first + row}"
                )
        text_of, cells = builder.built()
        return cls(name, cells.kinds, cells.numbers, text_of, cells.starts, cells.stops)

    def with_categories(self) -> "Column":
        """Return the column with a word for each number, as categorical columns need."""
        numbers = self.numbers
        if numbers is None or not (self.kinds == NUMBER).any():
            return self
        chosen = np.flatnonzero((self.kinds == NUMBER) & (numbers == numbers))
        distinct, codes = np.unique(numbers[chosen], return_inverse=True)
        text, ends = encode_names([category_of(value) for value in distinct.tolist()])
        begins = np.concatenate([[0], ends]).astype(np.int64) + len(self.text)
        starts, stops = (np.zeros(len(numbers), np.int64) if part is None else part.copy() for part in self[4:6])
        starts[chosen], stops[chosen] = begins[codes.reshape(-1)], begins[codes.reshape(-1) + 1]
        whole = np.concatenate([self.text, np.frombuffer(text, np.uint8)])
        return self._replace(text=whole, starts=starts, stops=stops)


def cells_of(columns: Sequence[Column], n: int) -> tuple[NDArray[np.uint8], Cells]:
    """Return the cells of columns row by row, and the text of their words."""
    shape = n, len(columns)
    types, numbers = np.empty(shape, np.uint8), np.zeros(shape)
    starts, stops, behind = np.zeros(shape, np.int64), np.zeros(shape, np.int64), 0
    for j, column in enumerate(columns):
        types[:, j] = column.kinds
        if column.numbers is not None:
            numbers[:, j] = column.numbers
        if column.starts is not None and column.stops is not None:
            starts[:, j], stops[:, j] = column.starts, column.stops
            starts[:, j] += behind
            stops[:, j] += behind
            behind += len(column.text)
    text = np.concatenate([_NO_TEXT, *(column.text for column in columns if column.starts is not None)])
    ends = np.arange(1, n + 1) * len(columns)
    column_numbers = np.tile(np.arange(len(columns)), n)
    return text, Cells(ends, column_numbers, types.ravel(), numbers.ravel(), starts.ravel(), stops.ravel())


@dataclass(kw_only=True)
class Table(ColumnFormat):
    """Rows of named columns in memory.

    Parameters
    ----------
    hasher : function or None
        Maps feature names to indices, instead of ``hashing``.

    Examples
    --------
    >>> from thinstream.data.text.hashing import Hashing
    >>> Table(hashing=Hashing(bits=10), label=None).of_records([{"age": 31, "city": "Oslo"}]).values
    array([31.,  1.], dtype=float32)

    """

    hasher: Callable[[Sequence[str]], NDArray[Any]] | None = None
    _known: dict[tuple[tuple[str, ...], frozenset[str]], Columns] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.role_of: dict[str, int] = dict.fromkeys(self.columns, AUTO)
        for role, value in self.roles.items():
            names = [value] if isinstance(value, str) else value or ()
            # labels and weights of rows in memory are not among their cells
            self.role_of |= dict.fromkeys(names, IGNORED if role in ("label", "weight") else ROLES[role])
        required = [name for name in self.columns if self.role_of[name] in FEATURE_ROLES]
        self.required = [name for name in required if self.role_of[name] != TEXT]

    @property
    def named(self) -> int:
        """The features whose names are needed: all if there is another hasher."""
        return ALL if self.hasher is not None else super().named

    def of_records(self, records: Sequence[Mapping[Any, Any]], source: str = "X", first: int = 0) -> Batch:
        """Return the rows of dicts."""
        if len(records) >= _MANY and (columns := self._same_keys(records, source, first)) is not None:
            return self.rows(*self.of_columns(columns, len(records)), source, first)
        builder = CellBuilder(self.role_of)
        for row, record in enumerate(records):
            try:
                builder.take_row(record)
            except Unreadable as error:
                raise InvalidInputError(f"{source}: {error} at row {first + row}") from None
            if self.required:
                for name in self.required:
                    if name not in record:
                        builder.put(name, NULL)
                builder.ends[-1] = len(builder.columns)
        return self.rows(builder.names, *builder.built(), frozenset(builder.times), source, first)

    def _same_keys(self, records: Sequence[Mapping[Any, Any]], source: str, first: int) -> list[Column] | None:
        """Return columns if all dicts have the same keys in order, with values of one type per key, else None."""
        names = [*records[0]]
        if any([*record] != names for record in records) or not all(isinstance(name, str) for name in names):
            return None
        columns = list[Column]()
        for name, values in zip(names, zip(*(record.values() for record in records), strict=True), strict=True):
            types = {*map(type, values)}
            if types == {float} or types == {bool}:
                columns.append(Column.of_numbers(name, np.array(values)))
            elif types <= _SCALARS and not (int in types and self.role_of.get(name) == CATEGORICAL):
                columns.append(Column.of_objects(name, values, source, first))
            else:
                return None
        missing = np.zeros(len(records), np.bool_)
        absent = [name for name in self.required if name not in records[0]]
        return columns + [Column.of_numbers(name, np.zeros(len(records)), missing) for name in absent]

    def of_columns(
        self, columns: Sequence[Column], n: int
    ) -> tuple[list[str], NDArray[np.uint8], Cells, frozenset[str]]:
        """Return the arguments of `rows` for columns."""
        used = [column for column in columns if self.role_of.get(column.name) != IGNORED]
        used = [c.with_categories() if self.role_of.get(c.name) == CATEGORICAL else c for c in used]
        if len(names := [column.name for column in used]) > len({*names}):
            twice = next(name for k, name in enumerate(names) if name in names[:k])
            raise InvalidInputError(f"X: columns must have different names, got {twice!r} twice")
        times = [c.name for c in used if c.numbers is not None and np.any((c.kinds == TIME) | (c.kinds == DAY))]
        return names, *cells_of(used, n), frozenset(times)

    def rows(
        self,
        names: list[str],
        text: NDArray[np.uint8],
        cells: Cells,
        times: frozenset[str],
        source: str = "X",
        first: int = 0,
    ) -> Batch:
        """Return the rows of cells; columns in ``times`` without a role are dates.

        Messages use ``source`` and ``first``, the number of the first row.
        """
        key = tuple(names), times
        if key not in self._known:
            self._known.clear()
            roles = {name: self.role_of.get(name, DATE if name in times else AUTO) for name in names}
            self._known[key] = Columns.of(roles, self.hashing, self.crosses)
        columns, n = self._known[key], len(cells.ends)
        dates = int(np.count_nonzero(columns.roles == DATE))
        per_row = columns.roles[cells.columns] if dates or self.text else columns.roles[:0]
        features = len(cells.columns) + 4 * int(np.count_nonzero(per_row == DATE))
        n_times = int(np.count_nonzero(cells.kinds >= TIME)) if times else 0
        texts = int(np.count_nonzero(per_row == TEXT))
        out = Out.empty(n)
        whole, meaning, room, state = self.begin_text(text, 16 * n_times, features, texts)
        verdict, at = map(int, take_cells(whole, cells, columns, _NO_LABELS, meaning, out, room, state))
        if verdict != FINE:
            row, name = first + int(np.searchsorted(cells.ends, at, side="right")), names[cells.columns[at]]
            raise InvalidInputError(
                f"{source}: {self.problem(verdict, name, _given(text, cells, at))} at row {row}, column {name!r}"
            )
        parsed = self.finished(_NO_TEXT, whole, meaning, out, room, state, names, None)
        if parsed.error is not None:
            raise InvalidInputError(f"{source}: {parsed.error.message} at row {first + parsed.error.offset}")
        arrays = parsed.indptr, parsed.indices, parsed.values, parsed.width
        return Batch(*arrays, largest=parsed.largest, first_row=first, names=parsed.names)

    def parsed(
        self,
        text: Text,
        raw: Raw,
        error: tuple[ParseError, int] | None,
        named: NamedFeatures | None = None,
        *more: Any,
    ) -> Parsed:
        """Return the rows, with indices from another hasher if there is one."""
        if self.hasher is None or named is None:
            return super().parsed(text, raw, error, named, *more)
        texts = named.names.texts()
        distinct = dict.fromkeys(texts)
        numbers = dict(zip(distinct, self.hasher([*distinct]).tolist(), strict=True)) if distinct else {}
        hashed = np.array([numbers[name] for name in texts], self.hashing.kind)
        values = np.where(hashed < 0, -raw.values, raw.values)
        raw = raw._replace(indices=np.where(hashed < 0, ~hashed, hashed), values=values)
        return super().parsed(text, raw, error, named, *more)


def _given(text: NDArray[np.uint8], cells: Cells, at: int) -> str:
    """Return a cell for a message."""
    cell_type = int(cells.kinds[at])
    if cell_type in (TIME, DAY):
        return "a time"
    if cell_type == NUMBER:
        return "infinity" if abs(cells.numbers[at]) == np.inf else repr(float(cells.numbers[at]))
    if cell_type in (NULL, TRUE, FALSE):
        return {NULL: "nothing", TRUE: "True", FALSE: "False"}[cell_type]
    return repr(bytes(text[cells.starts[at] : cells.stops[at]][:60]).decode("utf-8", "replace"))


#: Cells of a table that are converted to rows at a time.
CELLS = 1 << 20


class Hasher(Protocol):
    """Maps feature names to indices."""

    @property
    def width(self) -> int:
        """The number of indices."""

    def __call__(self, names: Sequence[str], /) -> NDArray[Any]:
        """Return the index of each name; ``~index`` if the sign of the feature is turned."""

    def as_dict(self) -> dict[str, Any]:
        """Return the settings as JSON values."""


class RowStream:
    """The common parts of table streams. Sizes and positions count rows. `from_memory` explains the parameters."""

    unit = "rows"
    names = skipped = None
    finds_classes = False  # whether the classes were inferred
    options: Options | None = None  # reading options, if it was opened with them

    def __init__(
        self,
        hasher: Hasher | None = None,
        classes: Sequence[Any] | None = None,
        dtype: str = "float32",
        rows_per_batch: int = 1 << 16,
        grow_classes: bool = False,
        cross: Sequence[Cross] = (),
        missing: str = "as-is",
        **columns: Any,
    ) -> None:
        if missing not in MISSING:
            raise InvalidParameterError(f"missing must be {listed(MISSING)}, got {missing!r}")
        if dtype not in ("float32", "float64"):
            raise InvalidParameterError(f"dtype must be {listed(['float32', 'float64'])}, got {dtype!r}")
        if not isinstance(rows_per_batch, int) or rows_per_batch < 1:
            raise InvalidParameterError(f"rows_per_batch must be an integer ≥ 1, got {rows_per_batch!r}")
        fewest = 0 if grow_classes else 2
        if classes is not None and (
            isinstance(classes, str) or len(classes) < fewest or len(set(classes)) < len(classes)
        ):
            raise InvalidParameterError(
                f"classes must be two or more different labels, as in (negative, positive), got {classes!r}"
            )
        text = columns.get("text", ())
        if isinstance(text, str) or not all(isinstance(name, str) for name in text):
            raise InvalidParameterError(f"text must be a list of column names, got {text!r}")
        crosses = as_crosses(cross)
        for role, value in (("text", text), ("cross", crosses)):
            if value and not isinstance(hasher, Numbering):
                raise InvalidParameterError(f"{role} needs named features: pass hasher=Numbering(…), got {hasher!r}")
        self.missing = missing if hasher is not None else None
        self.hasher, self._told = hasher, None if classes is None else tuple(classes)
        self.book = ClassBook(self._told or ()) if grow_classes else None
        self.dtype, self.rows_per_batch = dtype, rows_per_batch
        # another hasher needs names, and computes indices itself
        numbering = hasher.hashing if isinstance(hasher, Numbering) else Hashing()
        wording: dict[str, Any] = {name: columns[name] for name in ("lower", "binary") if name in columns}
        wording |= {name: as_range(name, columns.get(name)) for name in ("ngrams", "chars")}
        wording["stop"] = as_stop_list(columns.get("stop") or ())
        named: dict[str, Any] = {role: columns.get(role, ()) for role in ("text", "numeric", "categorical", "dates")}
        self.table = Table(
            hashing=numbering,
            dtype=dtype,
            cross=crosses,
            label=None,
            missing=missing,
            hasher=hasher if hasher is not None and not isinstance(hasher, Numbering) else None,
            **named,
            **wording,
        )
        options: dict[str, Any] = {role: tuple(names) for role, names in named.items()} | (wording if text else {})
        self._options = Options(cross=crosses, **options)
        self.crosses = self.table.crosses

    @property
    def classes(self) -> tuple[Any, ...] | None:
        """The labels, if they are known."""
        return self._told if self.book is None else tuple(self.book.labels)

    def coded(self, labels: NDArray[Any], source: str, first: int = 0) -> NDArray[Any] | None:
        """Encode labels as in batches, or return None if all are missing."""
        above = None if self.options is None else self.options.positive_above
        if above is not None and labels.dtype.kind in "iuf":
            labels = labels.astype(np.float64) - above
        if self.book is None:
            return coded_labels(labels, self._told, source, first)
        return _found_labels(labels, self.book, source, first)

    @property
    def feature_space(self) -> dict[str, Any]:
        if self.hasher is None:
            return {}
        return feature_space(self._options, hashed=True) | {"hashing": self.hasher.as_dict()}

    @property
    def remarks(self) -> list[str]:
        """Remarks on the data read so far."""
        return self.crosses.remarks()

    def done(self, position: Position) -> int:
        return position.row

    def rows_of(self, columns: Sequence[Column], n: int, source: str, first: int = 0) -> Batch:
        """Return the rows of columns, hashed by name, or without a hasher numbered by the position of the column.

        Messages use ``source`` and ``first``, the number of the first row.
        """
        if self.hasher is not None:
            batch = self.table.rows(*self.table.of_columns(columns, n), source, first)
            return replace(batch, n_features=self.hasher.width)
        values = np.empty((n, len(columns)), self.dtype)
        for j, column in enumerate(columns):
            if column.numbers is None or column.starts is not None:
                raise InvalidInputError(f"{source}: column {column.name!r} has text or categories, which need a hasher")
            values[:, j] = self._finite(column, source, first)
        where, indices = np.nonzero(values)
        indptr = np.concatenate([[0], np.cumsum(np.bincount(where, minlength=n))]).astype(np.int64)
        arrays = indptr, indices.astype(np.int32), values[where, indices]
        return Batch.of(*arrays, len(columns), first_row=first)

    def _finite(self, column: Column, source: str, first: int) -> NDArray[Any]:
        """Return the numbers of a column, with 0 for missing ones."""
        numbers = np.asarray(column.numbers) * (column.kinds > 0)

        def where(k: int) -> str:
            advice = f". {MISSING_CELLS}" if np.isnan(numbers[k]) else ""
            return f"row {first + k}, column {column.name!r}{advice}"

        return finite(numbers, self.dtype, source, where)


def finite(values: NDArray[Any], dtype: str, source: str, where: Callable[[int], str]) -> NDArray[Any]:
    """Return values in the stream's dtype; a value that is not finite is an error at ``where``."""
    with np.errstate(over="ignore"):
        converted = values.astype(dtype, copy=False)
    if np.all(np.isfinite(converted)):
        return converted
    k = int(np.argmin(np.isfinite(converted)))
    problem = f"{'NaN' if np.isnan(values[k]) else 'infinity'} (values must be finite)"
    if np.isfinite(values[k]):
        problem = f"{values[k]}, too large for {dtype},"
    raise InvalidInputError(f"{source} contains {problem} at {where(k)}")


def sparse_values(
    values: NDArray[Any], dtype: str, indptr: NDArray[Any], indices: NDArray[Any], source: str, first: int
) -> NDArray[Any]:
    """Return the values of sparse rows in the stream's dtype."""
    if values.dtype.kind not in "biuf":
        raise InvalidInputError(f"{source} must have numbers, got {values.dtype}")
    if values.dtype == dtype:
        return values  # checked when the batch is created

    def where(k: int) -> str:
        return f"row {first + int(np.searchsorted(indptr, k, side='right')) - 1}, column {indices[k]}"

    return finite(values, dtype, source, where)


def coded_labels(
    labels: NDArray[Any], classes: tuple[Any, ...] | None, source: str, first: int = 0
) -> NDArray[Any] | None:
    """Encode labels as in batches, or return None if all are missing.

    With two ``classes``, the second is +1. Without classes, numbers above 0 are +1. With more, codes are class numbers.
    """
    if labels.dtype.kind in "OTU" or classes is not None:
        return _coded_by_class(labels, classes, source, first)
    if labels.dtype.kind not in "biuf":
        raise InvalidInputError(f"{source}: labels must be numbers, booleans or text, got {labels.dtype}")
    missing = np.isnan(labels) if labels.dtype.kind == "f" else np.zeros(len(labels), dtype=bool)
    if _all_missing(missing, source, first):
        return None
    return np.where(labels > 0, 1, -1).astype(np.int8)


def _found_labels(labels: NDArray[Any], book: ClassBook, source: str, first: int) -> NDArray[Any] | None:
    """Encode labels as class numbers, with new labels as new classes."""
    if labels.dtype.kind not in "biufTUO":
        raise InvalidInputError(f"{source}: labels must be numbers, booleans or text, got {labels.dtype}")
    if labels.dtype.kind in "Of" and _all_missing(_is_missing(labels), source, first):
        return None
    plain = labels.tolist()
    if labels.dtype.kind == "f":
        plain = [label_of(label) for label in plain]
    for row, label in enumerate(plain):
        if not book.labels:
            book.numbers([label])
        elif book.is_foreign(label):
            raise InvalidInputError(f"{source}: {book.foreign_message(label)} at row {first + row}")
    return book.numbers(plain)


def _is_missing(labels: NDArray[Any]) -> NDArray[np.bool_]:
    """Return where labels are None or NaN."""
    return np.asarray((labels != labels) | (labels == np.array(None)), dtype=np.bool_)


def _coded_by_class(
    labels: NDArray[Any], classes: tuple[Any, ...] | None, source: str, first: int
) -> NDArray[Any] | None:
    labels = labels.astype(object)
    if _all_missing(_is_missing(labels), source, first):
        return None
    if classes is None:
        raise InvalidInputError(f"{source}: labels such as {labels[0]!r} need classes=(negative, positive)")
    number = {label: k for k, label in enumerate(classes)}
    # if classes are strings, True is 'True' and 1 is '1'
    numbers = np.array([number.get(label, number.get(str(label), -1)) for label in labels.tolist()], dtype=np.int32)
    if len(numbers) and numbers.min() < 0:
        row = int(np.argmin(numbers))
        raise InvalidInputError(f"{source}: labels must be {listed(classes)}, got {labels[row]!r} at row {first + row}")
    return numbers if len(classes) > 2 else (2 * numbers - 1).astype(np.int8)


def _all_missing(missing: NDArray[Any], source: str, first: int) -> bool:
    """Return whether all labels are missing; if only some are, raise."""
    count = int(np.count_nonzero(missing))
    if 0 < count < len(missing):
        row = first + int(np.argmax(missing))
        raise InvalidInputError(
            f"{source}: row {row} has no label, but other rows have one. Drop rows without a label first."
        )
    return count > 0


def weights_of(weights: NDArray[Any], source: str, first: int = 0) -> NDArray[np.float64]:
    """Return the weights of rows, which must be finite and not negative."""
    array = np.ascontiguousarray(weights, dtype=np.float64)
    bad = np.flatnonzero(~(np.isfinite(array) & (array >= 0)))
    if len(bad):
        row = int(bad[0])
        raise InvalidInputError(f"{source}: weights must be finite and ≥ 0, got {array[row]} at row {first + row}")
    return array
