"""Named columns as sparse rows: numbers under the name of their column, categories under ``column=category``."""

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from thinstream.batch import Position
from thinstream.errors import InvalidInputError, InvalidParameterError, listed
from thinstream.spelling import Spelled
from thinstream.streams.class_book import ClassBook, label_of
from thinstream.streams.crossing.declared import Cross, names_of
from thinstream.streams.crossing.plan import Crosses
from thinstream.streams.crossing.rows import cross_rows
from thinstream.streams.crossing.spelling import Members
from thinstream.streams.options import MISSING, Options
from thinstream.streams.tables.columns import MISSING_CELLS, Column, of_features
from thinstream.streams.tables.declared import Kinds
from thinstream.streams.tables.texts import Csr, Texts, Wanted
from thinstream.streams.text.hashing import Numbering, encode_names

#: Cells of a table that are turned into rows at a time.
CELLS = 1 << 22


class Hasher(Protocol):
    """Numbers features by their names."""

    @property
    def width(self) -> int:
        """All numbers are below it."""

    def __call__(self, names: Sequence[str], /) -> NDArray[Any]:
        """The number of each name; ``~number`` where the sign of the feature is turned."""

    def as_dict(self) -> dict[str, Any]:
        """What it is made of, JSON-able."""


class RowStream:
    """What streams of tables share: sizes and positions count rows. `from_memory` explains the parameters."""

    unit = "rows"
    names = skipped = None
    finds_classes = False  # whether nobody has told its classes
    options: Options | None = None  # by which it was opened

    def __init__(
        self,
        hasher: Hasher | None = None,
        classes: Sequence[Any] | None = None,
        dtype: str = "float32",
        rows_per_batch: int = 1 << 16,
        grow_classes: bool = False,
        cross: Sequence[Cross] = (),
        missing: str = "as-is",
        numeric: Sequence[str] = (),
        categorical: Sequence[str] = (),
        dates: Sequence[str] = (),
        **texts: Any,
    ) -> None:
        if missing not in MISSING:
            raise InvalidParameterError(f"missing must be {listed(MISSING)}, got {missing!r}")
        if dtype not in ("float32", "float64"):
            raise InvalidParameterError(f"dtype must be {listed(['float32', 'float64'])}, got {dtype!r}")
        if not isinstance(rows_per_batch, int) or rows_per_batch < 1:
            raise InvalidParameterError(f"rows_per_batch must be a whole number ≥ 1, got {rows_per_batch!r}")
        fewest = 0 if grow_classes else 2
        if classes is not None and (
            isinstance(classes, str) or len(classes) < fewest or len(set(classes)) < len(classes)
        ):
            raise InvalidParameterError(
                f"classes must be two that differ, (negative, positive), or more, got {classes!r}"
            )
        self.missing = missing if hasher is not None else None
        self.texts = Wanted(**texts)
        self.kinds = Kinds.of(numeric=numeric, categorical=categorical, dates=dates)
        if self.texts.names and not isinstance(hasher, Numbering):
            raise InvalidParameterError(
                f"text: only named features have texts, which needs hasher=Numbering(…), got {hasher!r}"
            )
        if crossed := [name for name in names_of(cross) if name in self.texts.names]:
            raise InvalidParameterError(f"cross: texts of tables are not crossed, got {crossed[0]!r}")
        self.hasher, self._told = hasher, None if classes is None else tuple(classes)
        self.book = ClassBook(self._told or ()) if grow_classes else None
        self.dtype, self.rows_per_batch = dtype, rows_per_batch
        self.crosses = Crosses(cross, hasher.hashing if isinstance(hasher, Numbering) else None)
        if self.crosses and not isinstance(hasher, Numbering):
            raise InvalidParameterError(
                f"cross: only named features can be crossed, which needs hasher=Numbering(…), got {hasher!r}"
            )

    @property
    def classes(self) -> tuple[Any, ...] | None:
        """The labels, if they were told or found."""
        return self._told if self.book is None else tuple(self.book.labels)

    def coded(self, labels: NDArray[Any], place: str, first: int = 0) -> NDArray[Any] | None:
        """Labels as a batch has them, or None if all are missing."""
        if self.book is None:
            return coded_labels(labels, self._told, place, first)
        return _found_labels(labels, self.book, place, first)

    @property
    def feature_space(self) -> dict[str, Any]:
        """How names are hashed, and which are crossed; {} where features are numbered."""
        found = {}
        if self.hasher is not None:
            found = {"hashing": self.hasher.as_dict(), **self.texts.space, **self.kinds.space}
        return found | ({"cross": [list(cross) for cross in self.crosses.wanted]} if self.crosses else {})

    @property
    def remarks(self) -> list[str]:
        """What is odd about what was read so far."""
        return self.crosses.remarks()

    def with_texts(self, rows: Csr, texts: Sequence[Texts], place: str, first: int) -> Csr:
        """The rows with the features of their texts."""
        assert isinstance(self.hasher, Numbering)
        return self.texts.added(rows, texts, self.hasher.hashing, self.dtype, place, first)

    def done(self, position: Position) -> int:
        """Rows before a position."""
        return position.row


def rows_of(columns: Sequence[Column], n: int, stream: RowStream, place: str, first: int = 0) -> Csr:
    """The cells as rows: hashed by name, or without a hasher numbered by the place of their column.

    Zeros and absent cells are left out. ``place`` and ``first`` are what errors call the source and its first row.
    """
    hasher, dtype = stream.hasher, stream.dtype
    width, texts = len(columns), [column.texts for column in columns if column.texts is not None]
    others = [stream.kinds.applied(column, place, first) for column in columns if column.texts is None]
    columns = of_features(others, stream.missing or "as-is", place, first)
    hashed = None if hasher is None else hasher([column.name for column in columns])
    indices = np.empty((n, len(columns)), dtype=np.int32 if hashed is None else hashed.dtype)
    values = np.empty((n, len(columns)), dtype=dtype)
    for j, column in enumerate(columns):
        if column.codes is None:
            number = j if hashed is None else int(hashed[j])
            indices[:, j] = number if number >= 0 else ~number
            values[:, j] = _numbers(column, stream, place, first)
            if number < 0:
                values[:, j] *= -1
        elif hasher is None:
            raise InvalidInputError(f"{place}: column {column.name!r} holds text or categories, which need a hasher")
        else:
            _categories(column, hasher, indices[:, j], values[:, j])
    if stream.crosses:
        more = _cross_columns(columns, n, stream.crosses)
        crossed = finite(more.values, dtype, place, lambda k: f"row {first + k // more.width}, in a cross")
        indices = np.hstack([indices, more.indices.reshape(n, -1)])
        values = np.hstack([values, crossed.reshape(n, -1)])
    names = _spelled(columns, n, hasher) if isinstance(hasher, Numbering) and not stream.crosses else None
    if names is None and n and np.any(indices[:, 1:] < indices[:, :-1]):
        order = np.argsort(indices, axis=1, kind="stable")
        indices, values = np.take_along_axis(indices, order, 1), np.take_along_axis(values, order, 1)
    kept = values != 0
    indptr = np.concatenate([[0], np.cumsum(np.count_nonzero(kept, axis=1))]).astype(np.int64)
    there = names and names.at(kept.ravel())
    found = Csr(indptr, indices[kept], values[kept], width if hasher is None else hasher.width, there)
    return stream.with_texts(found, texts, place, first) if texts else found


def _spelled(columns: Sequence[Column], n: int, hasher: Numbering) -> Spelled | None:
    """Names of all cells, row by row, where they travel with rows."""
    if not hasher.spells:
        return None
    names, places = list[str](), np.zeros((n, len(columns)), np.int64)
    for j, column in enumerate(columns):
        if column.codes is None:
            places[:, j] = len(names)
            names.append(column.name)
        else:
            places[:, j] = len(names) + np.maximum(np.asarray(column.codes), 0)
            names += [f"{column.name}={category}" for category in column.categories] or [column.name]
    return hasher.spelled(names).at(places.ravel())


def _cross_columns(columns: Sequence[Column], n: int, crosses: Crosses) -> Csr:
    """The crosses of each row, as many for all: 0 where a row has fewer."""
    taken = [(column, slot) for column in columns if (slot := crosses.slots(column.name))]
    present = np.zeros((n, len(taken)), bool)
    values, names = np.ones((n, len(taken))), np.zeros((n, len(taken)), np.int64)
    spelled: list[str] = []
    for j, (column, _) in enumerate(taken):
        if column.codes is None:
            given = np.asarray(column.numbers).astype(np.float64)
            present[:, j] = (given != 0) & (True if column.present is None else column.present)
            values[:, j], names[:, j] = given, len(spelled)
            spelled.append(column.name)
        else:
            codes = np.asarray(column.codes)
            present[:, j], names[:, j] = codes >= 0, codes + len(spelled)
            spelled += [f"{column.name}={category}" for category in column.categories]
    text, ends = encode_names(spelled)
    starts = np.concatenate([[0], ends]).astype(np.int64)
    chosen = names[present]
    slots = np.tile(np.array([slot for _, slot in taken], np.uint64), (n, 1))[present]
    indptr = np.concatenate([[0], np.cumsum(np.count_nonzero(present, axis=1))]).astype(np.int64)
    buffer = np.frombuffer(bytearray(text), np.uint8)
    members = Members(indptr, slots, buffer, starts[chosen], starts[1:][chosen], values[present])
    nothing = np.zeros(n + 1, np.int64), np.empty(0, np.int32), np.empty(0)
    found = cross_rows(crosses, nothing, members)
    sizes = np.diff(found.indptr)
    width = int(sizes.max(initial=0))
    filled = np.arange(width) < sizes[:, None]
    numbers, products = np.zeros((n, width), np.int32), np.zeros((n, width))
    numbers[filled], products[filled] = found.indices, found.values
    return Csr(found.indptr, numbers.ravel(), products.ravel(), width)


def _numbers(column: Column, stream: RowStream, place: str, first: int) -> NDArray[Any]:
    """The numbers of a column, 0 where there is none."""
    given = np.asarray(column.numbers)
    if column.present is not None:
        given = np.where(column.present, given, given.dtype.type(0))

    def where(k: int) -> str:
        advice = f". {MISSING_CELLS}" if stream.hasher is None and np.isnan(given[k]) else ""
        return f"row {first + k}, column {column.name!r}{advice}"

    return finite(given, stream.dtype, place, where)


def _categories(column: Column, hasher: Hasher, indices: NDArray[Any], values: NDArray[Any]) -> None:
    codes = np.asarray(column.codes)
    # one more, at the end, where code −1 points to
    if isinstance(hasher, Numbering):
        found = hasher.of_categories(column.name, column.categories)
    else:
        found = hasher([f"{column.name}={category}" for category in column.categories])
    numbers = np.append(found, found.dtype.type(0))
    signs = np.where(numbers < 0, -1, 1)
    signs[-1] = 0
    indices[:] = np.where(numbers < 0, ~numbers, numbers)[codes]
    values[:] = signs[codes]


def finite(given: NDArray[Any], dtype: str, place: str, where: Callable[[int], str]) -> NDArray[Any]:
    """Values in the stream's type; one that is not finite in it is an error, with ``where`` it is."""
    with np.errstate(over="ignore"):
        found = given.astype(dtype, copy=False)
    if np.all(np.isfinite(found)):
        return found
    k = int(np.argmin(np.isfinite(found)))
    what = f"{'NaN' if np.isnan(given[k]) else 'infinity'} (values must be finite)"
    if np.isfinite(given[k]):
        what = f"{given[k]}, too large for {dtype},"
    raise InvalidInputError(f"{place} contains {what} at {where(k)}")


def sparse_values(
    given: NDArray[Any], dtype: str, indptr: NDArray[Any], indices: NDArray[Any], place: str, first: int
) -> NDArray[Any]:
    """Values of sparse rows in the stream's type."""
    if given.dtype.kind not in "biuf":
        raise InvalidInputError(f"{place} must hold numbers, got {given.dtype}")
    if given.dtype == dtype:
        return given  # checked where a batch is made

    def where(k: int) -> str:
        return f"row {first + int(np.searchsorted(indptr, k, side='right')) - 1}, column {indices[k]}"

    return finite(given, dtype, place, where)


def coded_labels(
    labels: NDArray[Any], classes: tuple[Any, ...] | None, place: str, first: int = 0
) -> NDArray[Any] | None:
    """Labels as a batch has them, or None if all are missing.

    ±1 by ``classes = (negative, positive)``, or numbers > 0 as positive; numbers of the classes where there are more.
    """
    if labels.dtype.kind in "OTU" or classes is not None:
        return _coded_by_class(labels, classes, place, first)
    if labels.dtype.kind not in "biuf":
        raise InvalidInputError(f"{place}: labels must be numbers, booleans or text, got {labels.dtype}")
    missing = np.isnan(labels) if labels.dtype.kind == "f" else np.zeros(len(labels), dtype=bool)
    if _all_missing(missing, place, first):
        return None
    return np.where(labels > 0, 1, -1).astype(np.int8)


def _found_labels(labels: NDArray[Any], book: ClassBook, place: str, first: int) -> NDArray[Any] | None:
    """Numbers of classes that are found as they come."""
    if labels.dtype.kind not in "biufTUO":
        raise InvalidInputError(f"{place}: labels must be numbers, booleans or text, got {labels.dtype}")
    if labels.dtype.kind in "Of" and _all_missing(_is_missing(labels), place, first):
        return None
    plain = labels.tolist()
    if labels.dtype.kind == "f":
        plain = [label_of(label) for label in plain]
    for row, label in enumerate(plain):
        if not book.labels:
            book.numbers([label])
        elif book.is_foreign(label):
            raise InvalidInputError(f"{place}: {book.foreign_message(label)} at row {first + row}")
    return book.numbers(plain)


def _is_missing(labels: NDArray[Any]) -> NDArray[np.bool_]:
    """None, and NaN, which differs from itself."""
    return np.asarray((labels != labels) | (labels == np.array(None)), dtype=np.bool_)


def _coded_by_class(
    labels: NDArray[Any], classes: tuple[Any, ...] | None, place: str, first: int
) -> NDArray[Any] | None:
    labels = labels.astype(object)
    if _all_missing(_is_missing(labels), place, first):
        return None
    if classes is None:
        raise InvalidInputError(f"{place}: labels like {labels[0]!r} need classes=(negative, positive)")
    number = {label: k for k, label in enumerate(classes)}
    # True is 'True', and 1 is '1', where classes are texts
    numbers = np.array([number.get(label, number.get(str(label), -1)) for label in labels.tolist()], dtype=np.int32)
    if len(numbers) and numbers.min() < 0:
        row = int(np.argmin(numbers))
        raise InvalidInputError(f"{place}: labels must be {listed(classes)}, got {labels[row]!r} at row {first + row}")
    return numbers if len(classes) > 2 else (2 * numbers - 1).astype(np.int8)


def _all_missing(missing: NDArray[Any], place: str, first: int) -> bool:
    """Whether all labels are missing; some are an error."""
    count = int(np.count_nonzero(missing))
    if 0 < count < len(missing):
        row = first + int(np.argmax(missing))
        raise InvalidInputError(f"{place}: row {row} has no label, but others have; all rows must have one, or none")
    return count > 0


def weights_of(weights: NDArray[Any], place: str, first: int = 0) -> NDArray[np.float64]:
    """Weights of rows, finite and not negative."""
    found = np.ascontiguousarray(weights, dtype=np.float64)
    bad = np.flatnonzero(~(np.isfinite(found) & (found >= 0)))
    if len(bad):
        row = int(bad[0])
        raise InvalidInputError(f"{place}: weights must be finite and ≥ 0, got {found[row]} at row {first + row}")
    return found
