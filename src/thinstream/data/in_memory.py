"""Read in-memory rows (dicts, frames, texts) as a model's data was read."""

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from numbers import Number
from typing import Any, NamedTuple

import numpy as np

from thinstream.batch import Batch
from thinstream.data.formats import find_format
from thinstream.data.options import LAYOUT, OPTIONS, Options, ReadingSpec, as_learned, how_read
from thinstream.data.stream import TextStream
from thinstream.data.tables.columns import Table
from thinstream.data.tables.memory import frame_columns, from_memory, is_frame
from thinstream.data.text.csv import CSV
from thinstream.data.text.hashed_rows import ColumnFormat
from thinstream.data.text.hashing import Numbering
from thinstream.engine.rows import unit_rows
from thinstream.errors import InvalidInputError, near

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
