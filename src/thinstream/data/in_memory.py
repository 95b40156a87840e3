"""Read in-memory rows (dicts, frames, texts) as a model's data was read."""

import csv
import inspect
import io
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from dataclasses import replace
from functools import cached_property
from itertools import islice
from numbers import Number, Real
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thinstream.batch import Batch, Position
from thinstream.data.column_inference import RECORDS, declared_in
from thinstream.data.formats import find_format
from thinstream.data.inference import classes_in
from thinstream.data.labels import label_of
from thinstream.data.objects import category_of
from thinstream.data.options import (
    LAYOUT,
    LOOK,
    OPTIONS,
    WORDING,
    Options,
    ReadingSpec,
    as_learned,
    how_read,
    require_columns,
)
from thinstream.data.stream import START, TextStream
from thinstream.data.tables.columns import CELLS, Column, Hasher, RowStream, Table, sparse_values, weights_of
from thinstream.data.text.csv import CSV
from thinstream.data.text.hashed_rows import ColumnFormat
from thinstream.data.text.hashing import Hashing, Numbering
from thinstream.engine.rows import unit_rows
from thinstream.errors import InvalidInputError, InvalidParameterError, meant, near

# Matrices, frames and dicts in memory as streams.

# Dicts of features, hashed by name, from a list, an iterator, or a function that returns one.

_Source = Iterable[Any] | Callable[[], Iterable[Any]]


class Records(RowStream):
    """Dicts, or pairs (dict, label), or triples (dict, label, weight), as a stream.

    A number is the value of a feature with its name, and True is 1. A string is the category ``name=text`` with value
    1. A list of numbers gives ``name[0]``, ``name[1]``, …, and a list of strings gives a category for each. Keys of
    nested dicts are joined with dots: ``name.inner``. False and 0 are absent. ``missing`` determines how None, NaN and
    words like NA are treated. An absent key gives no feature.

    Parameters
    ----------
    source : iterable, or function that returns one
        An iterator can be read only once. A list or a function can be read again.
    hasher : Hasher
        Maps feature names to indices.
    classes, dtype, rows_per_batch, missing, text …
        As in `from_memory`.

    """

    def __init__(self, source: _Source, hasher: Hasher | None, *, rows_per_batch: int = 1 << 12, **shared: Any) -> None:
        if hasher is None:
            raise InvalidParameterError(
                "dicts have named features, which need a hasher, got None. Pass hasher=Numbering() from "
                "thinstream.data."
            )
        if not callable(source) and not isinstance(source, Iterable):
            raise InvalidInputError(f"X must be an iterable of dicts, or a function that returns one, got {source!r}")
        super().__init__(hasher, rows_per_batch=rows_per_batch, **shared)
        self._source, self._hash, self._begun = source, hasher, False

    @property
    def size(self) -> int | None:
        """The number of rows, if known."""
        return len(self._source) if isinstance(self._source, Sized) else None

    def fingerprint(self) -> dict[str, Any]:
        """Return the number of rows, if known; reading rows could consume the source."""
        return {"kind": "records", "rows": self.size}

    def batches(self, start: Position = START) -> Iterator[Batch]:
        source = self._source() if callable(self._source) else self._source
        records = iter(source)
        if records is source and not callable(self._source):
            if self._begun:
                raise InvalidInputError(
                    "an iterator can be read only once. Pass a list, or a function that returns an iterator."
                )
            self._begun = True
        return self._batches(islice(records, start.row, None), start.row)

    def _batches(self, records: Iterator[Any], row: int) -> Iterator[Batch]:
        while taken := list(islice(records, self.rows_per_batch)):
            end = row + len(taken)
            yield replace(self._batch(taken, row), position=Position(offset=end, row=end))
            row = end

    def _batch(self, taken: list[Any], first: int) -> Batch:
        triples = [_triple(record, first + k) for k, record in enumerate(taken)]
        rows = self.table.of_records([features for features, _, _ in triples], "X", first)
        labels, weights = [label for _, label, _ in triples], [weight for _, _, weight in triples]
        filled = [1.0 if weight is None else weight for weight in weights]
        return replace(
            rows,
            n_features=self._hash.width,
            y=None if all(label is None for label in labels) else self.coded(self._array(labels), "X", first),
            weights=None if all(weight is None for weight in weights) else weights_of(np.array(filled), "X", first),
        )

    def _array(self, labels: list[Any]) -> Any:
        """Return labels as an array, with dtype object unless all are numbers, to keep their types."""
        numeric = self.book is None and all(isinstance(label, Real | np.bool_) for label in labels)
        return np.array(labels, dtype=np.float64 if numeric else object)


def _triple(record: Any, row: int) -> tuple[Mapping[str, Any], Any, Any]:
    """Return (features, label, weight), with None for absent parts."""
    parts = record if isinstance(record, tuple) else (record,)
    features, label, weight = (*parts, None, None)[:3] if 1 <= len(parts) <= 3 else (None, None, None)
    if not isinstance(features, Mapping):
        allowed = "a dict, (dict, label) or (dict, label, weight)"
        raise InvalidInputError(f"X: each record must be {allowed}, got {record!r} at row {row}")
    return features, label, weight


# Matrices, frames and dicts in memory, as streams.

_Rows = Callable[[int, int], Batch]
_SAMPLE = 1000  # rows in the checksum of a fingerprint
#: Options of `from_memory` for columns of frames and keys of dicts.
_OF_COLUMNS = ("text", *WORDING, "numeric", "categorical", "dates")


def from_memory(
    X: Any,
    y: Any = None,
    weights: Any = None,
    *,
    hasher: Hasher | Hashing | None = None,
    classes: Sequence[Any] | None = None,
    grow_classes: bool = False,
    dtype: str = "float32",
    rows_per_batch: int = 1 << 16,
    cross: Sequence[Sequence[str]] = (),
    missing: str = "indicator",
    look: int = LOOK,
    **texts: Any,
) -> "Memory | Records":
    """Return a stream of data in memory.

    Parameters
    ----------
    X : sparse matrix, array, frame of pandas or polars, or dicts
        Features are numbered by the position of their column. In a frame with a ``hasher``, they are hashed by name
        instead, and text, categories (``column=text``) and times are allowed. Dicts (`Records`) need a hasher.
    y : sequence
        Labels: numbers, booleans, strings, or the values in ``classes``. Dicts are passed with their labels, as pairs.
    weights : sequence of float
        Weights of the rows.
    hasher : Hasher
        Maps feature names to indices.
    classes : (negative, positive), or more
        The labels. None: infer them, as in files, from ``y`` or from the first dicts of a list. Otherwise labels are
        numbers, and those above 0 are positive.
    grow_classes : bool
        Whether new labels become new classes, after those of ``classes``.
    dtype : {"float32", "float64"}
        Data type of the values. Sparse matrices of this type are not copied.
    rows_per_batch : int
        The most rows of a batch.
    cross : list of tuples of names
        Columns of a frame, or keys of dicts, to cross, as ``[("user", "item")]``: products of their features become
        features (docs/recipes/crosses.md). This needs a `Numbering` as hasher.
    missing : {"indicator", "ignore", "error", "as-is"}
        How to treat nulls, NaN and words like NA if features have names: as the feature ``column=?``, as no feature, as
        an error, or unchanged (nulls give no feature, NaN is an error, words are categories).
    look : int
        The number of labels from which classes are inferred, and of rows from which text and dates are inferred in a
        frame with a `Numbering`. 0: infer nothing.
    **texts
        Columns (or keys of dicts) with ``text``, and how it is tokenized (``ngrams``, ``chars``, ``lower``, ``stop``,
        ``binary``). For frames also ``numeric``, ``categorical`` and ``dates``. See `Options`. This needs a
        `Numbering`.

    Examples
    --------
    >>> import numpy as np
    >>> stream = from_memory(np.array([[0, 2], [3, 0]]), ["no", "yes"], classes=("no", "yes"))
    >>> [(batch.indices.tolist(), batch.values.tolist(), batch.y.tolist()) for batch in stream.batches()]
    [([1, 0], [2.0, 3.0], [-1, 1])]

    """
    _require_known(texts)
    inferred = classes
    if classes is None and look and not grow_classes:
        inferred = _classes_in(X if y is None else y, look, pairs=y is None)
    shared: dict[str, Any] = {
        "classes": inferred,
        "grow_classes": grow_classes,
        "dtype": dtype,
        "rows_per_batch": rows_per_batch,
        "cross": cross,
        "missing": missing,
        **texts,
    }
    if isinstance(hasher, Hashing):
        hasher = Numbering(hasher)
    if look and is_frame(X) and isinstance(hasher, Numbering):
        shared |= _roles_in(X, look, texts)
    if not hasattr(X, "shape") and not _is_nested(X):
        if y is not None or weights is not None:
            raise InvalidInputError("dicts come with their labels and weights: (dict, label) or (dict, label, weight)")
        stream: Memory | Records = Records(X, hasher, **shared)
    else:
        stream = Memory(X, y, weights, hasher=hasher, **shared)
    stream.finds_classes = inferred is not classes
    return stream


def _require_known(names: Mapping[str, Any]) -> None:
    """Raise if a name is not an option of `from_memory`."""
    for name in names:
        if name not in _OF_COLUMNS:
            parameters = inspect.getfullargspec(from_memory).kwonlyargs
            raise InvalidParameterError(
                f"from_memory has no option {name!r}; {meant(name, [*parameters, *_OF_COLUMNS])}. Labels and weights "
                "are arguments: from_memory(X, y, weights)."
            )


def _classes_in(labels: Any, look: int, *, pairs: bool) -> tuple[Any, ...] | None:
    """Infer classes from labels, or from pairs of dicts and labels; None if the source can be read only once."""
    if pairs:
        records = labels[:look] if isinstance(labels, list | tuple) else ()
        labels = [record[1] for record in records if isinstance(record, tuple) and len(record) > 1]
    else:
        array = np.asarray(labels, dtype=object) if isinstance(labels, list | tuple) else np.asarray(labels)
        labels = (array if array.dtype.kind == "O" else np.unique(array)).reshape(-1).tolist()
    plain = [label.item() if isinstance(label, np.generic) else label for label in labels]
    present = [label for label in plain if label is not None and label == label]
    if not all(isinstance(label, str | int | float) for label in present):
        return None
    return classes_in(Counter(label_of(label) if isinstance(label, float) else label for label in present))


def is_frame(X: Any) -> bool:
    """Return whether X is a frame of pandas or polars, which are not imported."""
    return hasattr(X, "columns") and (hasattr(X, "iloc") or hasattr(X, "get_columns"))


def _roles_in(X: Any, look: int, options: dict[str, Any]) -> dict[str, Any]:
    """Infer the roles of a frame's columns that have no declared role."""
    few = X[: min(look, RECORDS)]
    rows = (
        few.to_dicts() if hasattr(few, "to_dicts") else few.astype(object).where(few.notna(), None).to_dict("records")
    )
    records = [{str(name): value for name, value in row.items()} for row in rows]
    declared: dict[str, Any] = {
        name: tuple(options.get(name, ())) for name in ("text", "numeric", "categorical", "dates")
    }
    return declared_in(Options(label="", **declared), records, len(rows) == len(X))[0]


def _is_nested(X: Any) -> bool:
    """Return whether X is a list of lists of numbers."""
    return isinstance(X, list | tuple) and len(X) > 0 and (isinstance(X[0], list) or hasattr(X[0], "shape"))


class Memory(RowStream):
    """A matrix or frame as a stream; see `from_memory`."""

    def __init__(self, X: Any, y: Any = None, weights: Any = None, **shared: Any) -> None:
        super().__init__(**shared)
        hasher = self.hasher
        self._rows, self.size, width = _source(X, self)
        self.n_features = width if hasher is None else hasher.width
        if not hasattr(X, "tocsr"):
            self.rows_per_batch = min(self.rows_per_batch, max(CELLS // max(width, 1), 1))
        self.feature_columns = [str(name) for name in X.columns] if hasher is not None else []
        self._y = None if y is None else self.coded(_labels(y, self.size), "y")
        self._weights = None if weights is None else weights_of(_vector(weights, self.size, "weights"), "weights")

    @property
    def remembered(self) -> dict[str, Any]:
        """The reading options that a model file stores."""
        named = {role: [*getattr(self.table, role)] for role in ("numeric", "dates")} if self.hasher is not None else {}
        return {role: names for role, names in named.items() if names}

    def fingerprint(self) -> dict[str, Any]:
        """Return the shape, and a checksum of the first rows."""
        head = self._batch(0, min(_SAMPLE, self.size))
        checksum = 0
        for array in (head.indptr, head.indices, head.values, head.y, head.weights):
            if array is not None:
                checksum = zlib.crc32(np.ascontiguousarray(array).data, checksum)
        return {"kind": "memory", "rows": self.size, "width": self.n_features, "head": checksum}

    def batches(self, start: Position = START) -> Iterator[Batch]:
        if not 0 <= start.row <= self.size:
            raise InvalidInputError(f"X has {self.size:,} rows, so reading cannot resume at row {start.row:,}")
        return (
            self._batch(first, min(first + self.rows_per_batch, self.size))
            for first in range(start.row, self.size, self.rows_per_batch)
        )

    def _batch(self, first: int, end: int) -> Batch:
        rows, chosen = self._rows(first, end), slice(first, end)
        y = None if self._y is None else self._y[chosen]
        weights = None if self._weights is None else self._weights[chosen]
        return replace(rows, y=y, weights=weights, position=Position(offset=end, row=end))


def _labels(labels: Any, n: int) -> NDArray[Any]:
    """Return labels as an array; labels of several types must not all become strings."""
    mixed = isinstance(labels, list | tuple) and len({isinstance(label, str) for label in labels}) > 1
    return _vector(np.array(labels, dtype=object) if mixed else labels, n, "labels")


def _vector(values: Any, n: int, name: str) -> NDArray[Any]:
    array = np.asarray(values)
    if array.shape != (n,):
        raise InvalidInputError(f"X has {n} rows, so {name} must have shape ({n},), got {array.shape}")
    return array


def _source(X: Any, stream: RowStream) -> tuple[_Rows, int, int]:
    """Return a function that returns rows first to end, the number of rows, and the number of columns."""
    hasher, dtype = stream.hasher, stream.dtype
    if is_frame(X):
        n, width = X.shape
        require_columns(stream.crosses.wanted, [str(name) for name in X.columns], "X")
        if unknown := [name for name in stream.table.text if name not in [*map(str, X.columns)]]:
            raise InvalidInputError(f"X: text: there is no column {unknown[0]!r}{near(unknown[0], X.columns, '; ')}")

        def from_frame(first: int, end: int) -> Batch:
            return stream.rows_of(frame_columns(X, first, end), end - first, "X", first)

        return from_frame, n, width
    if hasher is not None:
        raise InvalidInputError("a hasher needs feature names, so X must be a frame or dicts, got a matrix")
    if hasattr(X, "tocsr"):
        matrix = X.tocsr()
        width = int(matrix.shape[1])

        def from_csr(first: int, end: int) -> Batch:
            span = slice(matrix.indptr[first], matrix.indptr[end])
            pointers = np.asarray(matrix.indptr[first : end + 1] - span.start, dtype=np.int64)
            values = sparse_values(matrix.data[span], dtype, pointers, matrix.indices[span], "X", first)
            return Batch.of(pointers, matrix.indices[span], values, width, first_row=first)

        return from_csr, len(matrix.indptr) - 1, width
    array = np.asarray(X)
    if array.ndim != 2 or array.dtype.kind not in "biuf":
        allowed = "a matrix of numbers, a sparse matrix, a frame or dicts"
        raise InvalidInputError(f"X must be {allowed}, got {array.ndim} dimensions of {array.dtype}")

    def from_dense(first: int, end: int) -> Batch:
        part = array[first:end]
        rows, columns = np.nonzero(part)  # NaN counts as non-zero
        indptr = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=end - first))]).astype(np.int64)
        values = sparse_values(part[rows, columns], dtype, indptr, columns, "X", first)
        return Batch.of(indptr, columns.astype(np.int32), values, array.shape[1], first_row=first)

    return from_dense, array.shape[0], array.shape[1]


def frame_columns(X: Any, first: int, end: int) -> list[Column]:
    """Return the columns of a frame, from row ``first`` to ``end``."""
    if hasattr(X, "iloc"):
        return [_pandas(str(X.columns[j]), X.iloc[first:end, j], first) for j in range(X.shape[1])]
    return [_polars(series, first) for series in X[first:end].get_columns()]


def _pandas(name: str, series: Any, first: int) -> Column:
    dtype_kind = series.dtype.kind
    if hasattr(series, "cat"):
        return _categories(name, series.cat.codes.to_numpy(), series.cat.categories.tolist())
    if dtype_kind in "biuf":
        if isinstance(series.dtype, np.dtype):
            return Column.of_numbers(name, series.to_numpy())
        present = ~series.isna().to_numpy()
        numbers = series.to_numpy(dtype=np.float64, na_value=0.0)
        return Column.of_numbers(name, numbers.astype(np.bool_) if dtype_kind == "b" else numbers, present)
    if dtype_kind == "M":
        return Column.of_times(name, series.to_numpy(dtype="M8[s]"))
    if dtype_kind not in "OU":
        raise _unknown(name, series.dtype)
    values, missing = series.to_numpy(dtype=object), series.isna().to_numpy()
    if missing.any():
        values = values.copy()
        values[missing] = None
    return Column.of_objects(name, values.tolist(), "X", first)


def _polars(series: Any, first: int) -> Column:
    name, dtype, word = series.name, series.dtype, str(series.dtype).split("(")[0]
    if dtype.is_numeric() or word == "Boolean":
        present = series.is_not_null().to_numpy()
        filled = series.fill_null(False if word == "Boolean" else 0).to_numpy()
        return Column.of_numbers(name, filled if word == "Boolean" else filled.astype(float, copy=False), present)
    if word in ("Date", "Datetime"):
        return Column.of_times(name, series.to_numpy().astype("M8[s]"), by_day=word == "Date")
    if word not in ("String", "Categorical", "Enum", "Null"):
        raise _unknown(name, dtype)
    return Column.of_objects(name, series.cast(str).to_list() if word != "Null" else [None] * len(series), "X", first)


def _categories(name: str, codes: Any, categories: list[Any]) -> Column:
    for category in categories:
        if not isinstance(category, str | Real):
            raise InvalidInputError(f"X: column {name!r} must have numbers or strings, got {category!r}")
    return Column.of_codes(name, codes, [word if isinstance(word, str) else category_of(word) for word in categories])


def _unknown(name: str, dtype: Any) -> InvalidInputError:
    return InvalidInputError(
        f"X: column {name!r} must have numbers, booleans, times, strings or categories, got {dtype}"
    )


#: Rows of a LazyFrame that are collected at a time.
LAZY_ROWS = 1 << 16


class RowsLike:
    """Reads in-memory rows as a model's data was read. Readers are created once.

    Parameters
    ----------
    spec : ReadingSpec
        How the model's data was read.

    """

    def __init__(self, spec: ReadingSpec) -> None:
        self.spec = spec
        self._streams: dict[str, TextStream] = {}

    @cached_property
    def _table(self) -> Table:
        """The reader of rows with named columns."""
        spec = self.spec
        options = as_learned(Options("jsonl", labels=False, strict=False, dtype=spec.dtype), "jsonl", spec, "X")
        unlearned = [name for name in (options.label,) if name not in spec.reading.get("columns", ())]
        options = replace(options, ignore=(*options.ignore, *unlearned), id=None, names=0, grow_classes=False)
        return Table.of(options, label=None, weight=options.weight, classes=None)

    def batch(self, X: Any) -> Batch | None:
        """Return the rows; None if X is a matrix of numbers, or not rows."""
        spec, named = self.spec, self.spec.is_hashed
        if is_lazy(X):
            return Batch.concatenate([self._frame(frame) for frame in frames_of(X)]) if named else None
        if _is_row(X):
            raise InvalidInputError(f"X must be a list of rows, got one {_called(X)}. Pass [X].")
        if is_frame(X):
            return self._frame(X) if named else None
        rows = _sequence(X)
        if isinstance(X, list | tuple) and not len(X):
            if not named:
                raise InvalidInputError("X must have at least one row, got an empty list")
            return self._records([])
        if rows is None:
            if named:
                _require_hashed(spec, X)
            return None
        if all(isinstance(row, Mapping) for row in rows):
            if not named:
                raise InvalidInputError(
                    "X must be a matrix, as this model has learned from numbered features. Dicts have named features."
                )
            self._require_known(rows)
            return self._records(rows)
        if not all(isinstance(row, str) for row in rows):
            return None
        if not named:
            return self._numbered(list(rows))
        text, columns = spec.feature_space.get("text", ()), spec.reading.get("columns", ())
        if len(text) == 1 and {*columns} <= {*text}:
            return self._records([{text[0]: row} for row in rows])
        if all(row.lstrip().startswith("{") for row in rows):
            return self._parsed("jsonl", list(rows))
        if LAYOUT in spec.reading:
            return _parsed_cells(spec, list(rows))
        if all("|" in row for row in rows):
            return self._parsed("vw", list(rows))
        raise InvalidInputError(
            "X must be dicts or a frame for this model. Strings are only accepted as rows of a model of one text "
            f"column, or as lines in the model's format (JSON, CSV or VW), got {rows[0]!r:.60}"
        )

    def _frame(self, X: Any) -> Batch:
        names = [str(name) for name in X.columns]
        if missing := [name for name in self.spec.reading.get("columns", ()) if name not in names]:
            raise InvalidInputError(
                f"X lacks columns that the model has learned from: {', '.join(map(repr, missing[:20]))}"
                + near(missing[0], [name for name in names if name not in self.spec.reading["columns"]], "; ")
            )
        return self._scaled(self._table.rows(*self._table.of_columns(frame_columns(X, 0, len(X)), len(X))))

    def _records(self, rows: Sequence[Mapping[Any, Any]]) -> Batch:
        return self._scaled(self._table.of_records(rows))

    def _scaled(self, batch: Batch) -> Batch:
        """Scale the rows to unit length if the model learned from such rows."""
        if self.spec.feature_space.get("normalize") == "l2":
            unit_rows(batch.indptr, batch.values)
        return batch

    def _require_known(self, rows: Sequence[Mapping[Any, Any]]) -> None:
        """Raise if a key is not a column of the model's files, if these had columns; any may be absent."""
        reading = self.spec.reading
        if "columns" not in reading:
            return
        columns = self._columns
        for row, record in enumerate(rows):
            if not record.keys() <= columns:
                for name in map(str, record):
                    if name not in columns:
                        raise InvalidInputError(
                            f"X, row {row}: the model has no column {name!r}"
                            + (near(name, reading["columns"], "; ") or _shown(reading["columns"], "; its columns are "))
                        )

    @cached_property
    def _columns(self) -> frozenset[str]:
        """The columns of the model's files."""
        reading = self.spec.reading
        others = (reading.get(name, OPTIONS[name].default) for name in ("label", "weight", "id"))
        layout = reading.get(LAYOUT, {}).get("columns", ())
        return frozenset({*reading["columns"], *layout, *reading.get("ignore", ()), *others} - {None})

    def _parsed(self, name: str, lines: list[str]) -> Batch:
        """Parse lines in this format, which have no label."""
        if name not in self._streams:
            more = {"classes": None} if name == "libsvm" else {}  # classes may be strings
            stream = opened_like(self.spec, name, **more)
            self._streams[name] = without_label(stream) if name == "jsonl" else stream
        return _rows_of(self._streams[name], lines)

    def _numbered(self, lines: list[str]) -> Batch:
        """Parse lines of libsvm, for a model of a matrix or of such files."""
        try:
            return self._parsed("libsvm", lines)
        except InvalidInputError as error:
            raise InvalidInputError(
                "X must be a matrix or a frame of numbers, or lines of libsvm such as '0 3:0.5 7:1', because this "
                f"model has learned from {self.spec.n_features:,} numbered columns; {error}"
            ) from None


def batch_like(spec: ReadingSpec, X: Any) -> Batch | None:
    r"""Return in-memory rows, read as a model's data was read; None if X is a matrix of numbers, or not rows.

    - Dicts, or a frame of pandas or polars, for a model of named features.
    - Strings, for a model of one text column.
    - Lines of JSON or VW for other models of named features, and lines of CSV for a model of CSV files: the same cells
      in the same order, with or without the label. Lines of libsvm for models of numbered features.

    >>> from thinstream.data.text.hashing import Hashing
    >>> spec = ReadingSpec(feature_space={"hashing": Hashing(bits=10).as_dict()})
    >>> batch_like(spec, [{"age": 31, "city": "Oslo"}, {"age": 5.5}]).values
    array([31. ,  1. ,  5.5], dtype=float32)
    """
    return RowsLike(spec).batch(X)


def is_lazy(X: Any) -> bool:
    """Return whether X is a polars LazyFrame, without importing polars."""
    return type(X).__name__ == "LazyFrame" and hasattr(type(X), "collect")


def collected(X: Any) -> Any:
    """Return X, with a LazyFrame collected."""
    return X.collect() if is_lazy(X) else X


def frames_of(X: Any) -> Iterator[Any]:
    """Yield the frame, or a LazyFrame in batches."""
    if not is_lazy(X):
        yield X
        return
    n = 0
    for frame in X.collect_batches(chunk_size=LAZY_ROWS) if hasattr(X, "collect_batches") else [X.collect()]:
        n += len(frame)
        yield frame
    if not n:
        yield X.collect()


def is_table(X: Any) -> bool:
    """Return whether X is a frame with text, categories, times or missing cells, so that features need names."""
    if is_lazy(X):
        if any(not dtype.is_numeric() and str(dtype) != "Boolean" for dtype in X.collect_schema().values()):
            return True
        X = X.collect()
    return is_frame(X) and bool(_columns_of_others(X) or _has_missing(X))


class TableRows(NamedTuple):
    """A frame as rows of named features."""

    batch: Batch
    feature_space: dict[str, Any]
    reading: dict[str, Any]


def table_rows(X: Any, dtype: str) -> TableRows:
    """Return the rows of a frame, with column types inferred as for the same table in a file."""
    frames = frames_of(X)
    first = next(frames, None)
    if first is None or not len(first):
        raise InvalidInputError("X must have at least one row, got an empty frame")
    dtypes = zip(first.columns, first.dtypes, strict=True)
    categorical = [str(name) for name, column_type in dtypes if str(column_type) == "category"]
    stream = from_memory(first, hasher=Numbering(), dtype=dtype, categorical=categorical)
    batches = [*stream.batches()]
    space, reading = stream.feature_space, how_read(stream)
    like = RowsLike(ReadingSpec(space, reading, dtype=dtype, n_features=batches[0].n_features))
    batches += [batch for frame in frames if (batch := like.batch(frame)) is not None]
    batch = batches[0] if len(batches) == 1 else Batch.concatenate(batches)
    return TableRows(batch, space, reading)


def require_numbers(X: Any) -> None:
    """Raise, with advice, if X is dicts, strings or a frame with other columns than numbers: these need names."""
    if is_frame(X):
        if others := _columns_of_others(X):
            raise InvalidInputError(
                f"X must be a matrix or a frame of numbers, got text, categories or times{_shown(others, ' in ')}; "
                "use an estimator of an online algorithm, or fit_stream(from_memory(X, y, hasher=Numbering())) (both "
                "names are in thinstream.data)"
            )
        return
    rows = [X] if _is_row(X) else _sequence(X)
    if rows is None or not isinstance(rows[0], Mapping | str):
        return
    if isinstance(rows[0], Mapping):
        how = "fit_stream(from_memory(list(zip(X, y)), hasher=Numbering())) (both from thinstream.data)"
    else:
        how = (
            "fit_stream(open_stream('texts.csv', text=('text',))) with a file that has a column 'text', or convert "
            "them to a matrix with scikit-learn's HashingVectorizer"
        )
    raise InvalidInputError(f"X must be a matrix or a frame of numbers, got {_called(rows[0])}s. Use {how}.")


def _has_missing(X: Any) -> bool:
    """Return whether a frame of numbers has missing cells."""
    if hasattr(X, "get_columns"):
        columns = X.get_columns()
        return any(column.null_count() or (column.dtype.is_float() and column.is_nan().any()) for column in columns)
    return bool(X.isna().to_numpy().any())


def _columns_of_others(X: Any) -> list[str]:
    """Return the columns of a frame that are not numbers."""
    if hasattr(X, "get_columns"):
        return [
            column.name
            for column in X.get_columns()
            if not column.dtype.is_numeric() and str(column.dtype) != "Boolean"
        ]
    others = []
    for j, dtype in enumerate(X.dtypes):
        words = dtype.kind == "O" and any(cell is not None and not isinstance(cell, Number) for cell in X.iloc[:, j])
        if words or str(dtype) == "category" or dtype.kind not in "biufcO":
            others.append(str(X.columns[j]))
    return others


def _is_row(X: Any) -> bool:
    """Return whether X is a single dict or string; scipy's dictionary of keys is a dict and a matrix."""
    return isinstance(X, Mapping | str) and not hasattr(X, "shape")


def _called(row: Any) -> str:
    return "dict" if isinstance(row, Mapping) else "string"


def _require_hashed(spec: ReadingSpec, X: Any) -> None:
    """Raise unless a matrix for a model of named features has a column for each hashed index."""
    shape = X.shape if hasattr(X, "shape") else _nested_shape(X)
    width = 1 << spec.feature_space["hashing"]["bits"]
    if len(shape) != 2 or shape[1] in (width, spec.n_features):
        return
    columns = spec.reading.get("columns", ())
    raise InvalidInputError(
        "X must be a list of dicts, a frame, or lines like those of the model's files, because this model has learned "
        f"from named features{_shown(columns, ' of the columns ')}, hashed into {width:,} indices; got a matrix of "
        f"{shape[1]} columns without names"
    )


def _nested_shape(X: Any) -> tuple[int, ...]:
    """Return the shape of a list of lists."""
    return (len(X), len(X[0])) if isinstance(X, list | tuple) and X and hasattr(X[0], "__len__") else ()


def _shown(names: Sequence[str], before: str) -> str:
    """Return the first names with some text before them; "" if there are none."""
    more = ", …" if len(names) > 20 else ""
    return f"{before}{', '.join(map(repr, names[:20]))}{more}" if names else ""


def _sequence(X: Any) -> Sequence[Any] | None:
    """Return X as a list of rows if it may be a sequence of dicts or strings."""
    if isinstance(X, list | tuple):
        return X if X and isinstance(X[0], Mapping | str) else None
    dtype = getattr(X, "dtype", None)
    if getattr(X, "ndim", 0) != 1 or getattr(dtype, "kind", "O") not in "OUT" or not len(X):
        return None
    return list(X)


def _parsed_cells(spec: ReadingSpec, lines: list[str]) -> Batch:
    """Parse lines with the cells of the model's files, with or without the label."""
    columns, stream = spec.reading[LAYOUT]["columns"], opened_like(spec, spec.reading[LAYOUT]["format"], header=True)
    label, delimiter = stream.options.label, _delimiter(spec, stream)
    cells = len(next(csv.reader(lines[:1], delimiter=delimiter), []))
    unlabelled = [name for name in columns if name != label]
    if cells not in (len(columns), len(unlabelled)):
        raise InvalidInputError(
            f"X: lines must have the cells {delimiter.join(columns)!r}, with or without {label!r}, got {cells} cells "
            f"in {lines[0]!r:.60}"
        )
    stream = without_label(stream, columns=())
    _begin_cells(stream, columns if cells == len(columns) else unlabelled, delimiter)
    return _rows_of(stream, lines)


def cells_like(spec: ReadingSpec) -> TextStream:
    """Return a stream without a file for lines with the same cells as the model's files, label included."""
    stream = opened_like(spec, spec.reading[LAYOUT]["format"], header=True, labels=True)
    _begin_cells(stream, spec.reading[LAYOUT]["columns"], _delimiter(spec, stream))
    return stream


def _delimiter(spec: ReadingSpec, stream: TextStream) -> str:
    assert isinstance(stream.form, CSV)
    return str(spec.reading[LAYOUT].get("delimiter") or stream.form.between)


def _begin_cells(stream: TextStream, columns: Sequence[str], delimiter: str) -> None:
    """Let the stream read a header with these columns."""
    header = io.StringIO()
    csv.writer(header, delimiter=delimiter).writerow(columns)
    stream.form.header(np.frombuffer(header.getvalue().encode("utf-8", "surrogatepass"), np.uint8))


def opened_like(spec: ReadingSpec, name: str, **more: Any) -> TextStream:
    """Return a stream of a text format without a file, which reads rows as the model's data was read."""
    file_format = find_format(name)
    options = as_learned(Options(name, labels=False, strict=False, dtype=spec.dtype), name, spec, "X")
    stream = file_format.open(file_format, [], replace(options, **more))
    assert isinstance(stream, TextStream)
    return stream


def without_label(stream: TextStream, **more: Any) -> TextStream:
    """Return the same stream, ignoring the label column."""
    assert isinstance(stream.form, ColumnFormat)
    form = replace(stream.form, label=None, ignore=(*stream.form.ignore, stream.options.label), **more)
    return replace(stream, form=form)


def _rows_of(stream: TextStream, lines: list[str]) -> Batch:
    text = "\n".join(" ".join(line.splitlines()) for line in lines) + "\n"
    batch = stream.rows_of(text.encode("utf-8", "surrogatepass"))
    if len(batch) != len(lines):
        raise InvalidInputError(f"X: each string must be one row, got {len(lines)} strings with {len(batch)} rows")
    return batch
