"""Rows of requests, parsed like the rows that a model has learned from, and checks of their columns."""

import csv
import io
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from contextlib import nullcontext, suppress
from dataclasses import replace
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thinstream.batch import Batch
from thinstream.data.in_memory import RowsLike, cells_like, opened_like, without_label
from thinstream.data.options import KEYS, LAYOUT, OPTIONS, AtMost
from thinstream.data.stream import TextStream
from thinstream.data.text.libsvm import Libsvm
from thinstream.errors import InvalidInputError, ThinstreamError
from thinstream.models.model import Model
from thinstream.serve import Limits
from thinstream.serve.wire import Raw, from_json, json_as

#: Called with missing and with unknown columns.
Report = Callable[[Set[str], Set[str]], object]
#: The most columns that are compared, unless they are required, and the most that a message names.
MOST, _SHOWN = 1000, 20
_cells = json_as(dict[str, Raw])


class Columns:
    """The columns that a model has learned from, to compare with those of rows and headers.

    Rows should have the columns ``features``, and may have ``others``, such as the label. ``layout`` has the columns of
    a line of the model's files, in order, or () if lines are objects. If ``required``, rows with other columns are
    refused. ``report`` is called with the missing and the unknown columns of a row.

    Examples
    --------
    >>> columns = Columns(["age", "city"], ["label"], ["label", "age", "city"], ",", "label", False, print)
    >>> columns.check([{"age": 31, "town": "Oslo"}])
    frozenset({'city'}) {'town'}
    >>> columns.without_header([b"city,age", b"Oslo,31"], is_required=False)
    [b'31,Oslo']

    """

    def __init__(
        self,
        features: Iterable[str],
        others: Iterable[str],
        layout: Sequence[str],
        delimiter: str,
        label: str,
        required: bool,
        report: Report,
    ) -> None:
        self._features, self._label, self._required = frozenset(features), label, required
        self._known = self._features.union(others, layout)
        self._layout, self._delimiter = layout, delimiter
        self._report = report

    @classmethod
    def of(cls, model: Model, required: bool, report: Report) -> "Columns | None":
        """Return the columns of a model; None if its rows may have any columns, or too many to compare."""
        reading, layout = model.reading, model.reading.get(LAYOUT, {})
        features = reading.get("columns") or reading.get(KEYS) or ()
        label, *others = (str(reading.get(name, OPTIONS[name].default)) for name in ("label", "weight", "id"))
        if not features or (len(features) > MOST and not required):
            return None
        delimiter = str(layout.get("delimiter") or ("\t" if layout.get("format") == "tsv" else ","))
        others += [label, *reading.get("ignore", ())]
        return cls(
            {*features}.difference(others), others, layout.get("columns", ()), delimiter, label, required, report
        )

    def check(self, rows: Iterable[Iterable[str]]) -> None:
        """Count missing and unknown columns of rows. If columns are required, raise at the first such row."""
        features, known_columns = self._features, self._known
        for number, row in enumerate(rows):
            keys = row.keys() if isinstance(row, Mapping) else row
            if keys == features:
                continue
            names = {*map(str, keys)}
            missing, unknown = features - names, names - known_columns
            if not missing and not unknown:
                continue
            self._report(missing, unknown)
            if self._required:
                texts = [f"lacks {_shown(missing)}"] if missing else []
                texts += [f"has unknown columns, {_shown(unknown)}"] if unknown else []
                raise InvalidInputError(
                    f"x, row {number}: this server requires the columns of the model (--require-columns), but the row "
                    f"{' and '.join(texts)}"
                )

    def without_header(self, lines: list[bytes], is_required: bool) -> list[bytes]:
        """Return the lines after a header, with their cells in the order of the model's files."""
        if not self._layout or not lines:
            if is_required:
                raise InvalidInputError(
                    "header=present: this model has not learned from files with a header. Send lines without one"
                )
            return lines
        rows = csv.reader((line.decode("utf-8", "surrogatepass") for line in lines), delimiter=self._delimiter)
        names = [name.strip() for name in next(rows)]
        if not is_required and not ({*names} <= {*self._layout} and len({*names}) == len(names)):
            return lines
        self.check([names] * (len(lines) - 1))
        if unknown := {*names} - self._known:
            raise InvalidInputError(f"the header has unknown columns: {_shown(unknown)}")
        wanted = [name for name in self._layout if name != self._label or name in names]
        positions, text = [names.index(name) if name in names else None for name in wanted], io.StringIO()
        writer = csv.writer(text, delimiter=self._delimiter, lineterminator="\n")
        for number, cells in enumerate(rows):
            if len(cells) != len(names):
                raise InvalidInputError(
                    f"x, row {number}: the row must have {len(names)} cells like the header, got {len(cells)}"
                )
            writer.writerow(["" if position is None else cells[position] for position in positions])
        return text.getvalue().encode("utf-8", "surrogatepass").splitlines()


def keys_of(line: bytes) -> Set[str]:
    keys: Set[str] = _cells(line).keys()
    return keys


def _shown(names: Set[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(map(repr, sorted(names)[:_SHOWN])) + more


_texts, _numbers, _lists_of_numbers = json_as(list[Raw]), json_as(dict[str, float]), json_as(list[dict[str, float]])


class RowReader:
    """Parse the rows of requests into batches, for one model.

    Only the model's feature space, classes and reading options are used. ``report`` is called with the missing and the
    unknown columns of a row, if there are any.

    Examples
    --------
    >>> from thinstream.data.labels import Classes
    >>> reader = RowReader(Model.fresh("fsol", Classes(-1, 1)), Limits())
    >>> reader.rows({"3": 0.5, "1": 2}).indices  # feature numbers start at 1, as in libsvm files
    array([0, 2], dtype=int32)
    >>> reader.lines(b"+1 1:2 3:0.5", labelled=True)[1]
    [1]

    """

    def __init__(self, model: Model, limits: Limits, report: Report = lambda missing, unknown: None) -> None:
        self._model, self._limits = model, limits
        self.named = "hashing" in model.feature_space
        self._rows_like = RowsLike(model.reading_spec)
        self._dtype = model.learner.dtype
        self._most = 1 << model.feature_space["hashing"]["bits"] if self.named else limits.width
        self._raw_json = self.named and "columns" not in model.reading
        self._of_table = "columns" in model.reading or LAYOUT in model.reading
        self._first = 0 if model.feature_space.get("zero_based") else 1
        self._streams: dict[tuple[str, bool], TextStream] = {}
        #: Limits the features that n-grams and crosses add, before their memory is allocated.
        self._few = AtMost(limits.request_features)
        self._few_of_lines = self._few if self.named else nullcontext()  # numbered features are not expanded
        self.columns = Columns.of(model, limits.require_columns, report)

    def _stream(self, format_name: str, labelled: bool) -> TextStream:
        """Return the parser for a format, created once."""
        if (format_name, labelled) not in self._streams:
            self._streams[format_name, labelled] = self._opened(format_name, labelled)
        return self._streams[format_name, labelled]

    def _opened(self, format_name: str, labelled: bool) -> TextStream:
        if format_name == "cells":
            return cells_like(self._model.reading_spec)
        if format_name == "libsvm":
            stream = opened_like(
                self._model.reading_spec, format_name, **({"labels": True} if labelled else {"classes": None})
            )
            assert isinstance(stream.form, Libsvm)
            most = self._most - 1 + self._first
            return replace(stream, form=replace(stream.form, most=most if most < 2**31 - 2 else None))
        stream = opened_like(self._model.reading_spec, format_name, **({"labels": True} if labelled else {}))
        return without_label(stream) if format_name == "jsonl" and not labelled else stream

    def warm_up(self) -> None:
        """Load or compile the code that parses lines."""
        texts = (b"|a x", b"1 |a x", b"{}", b'{"a": 1}') if self.named else (b"1:1", b"1 1:1")
        for text in texts:
            for labelled in (False, True):
                with suppress(ThinstreamError):  # the model has no lines of this form
                    self.lines(text, labelled)

    def raw(self, x: Raw) -> tuple[Batch, bool]:
        """Parse the rows of a JSON text; also return whether it is a single row."""
        text = bytes(x).lstrip()
        one = not text.startswith(b"[")
        if self._raw_json and (one or text[1:].lstrip().startswith(b"{")):
            lines = [text] if one else [bytes(line) for line in _texts(text)]
            self._require_rows(len(lines))
            if all(line.startswith(b"{") for line in lines):
                if self.columns is not None:
                    self.columns.check(map(keys_of, lines))
                joined = b"\n".join(line.replace(b"\n", b" ").replace(b"\r", b" ") for line in lines)
                with self._few:
                    batch = self._stream("jsonl", False).rows_of(joined + b"\n")
                return self._checked(batch, len(lines)), one
        if not self.named and (one or text[1:].lstrip().startswith(b"{")):
            with suppress(InvalidInputError):  # matrices and invalid rows are handled below
                return self._plainly_numbered([_numbers(text)] if one else _lists_of_numbers(text)), one
        return self.some(from_json(text))

    def some(self, x: Any) -> tuple[Batch, bool]:
        """Parse the rows of a value; also return whether it is a single row."""
        one = isinstance(x, Mapping | str) or _is_numbers(x)
        return self.rows(x), one and not _is_matrix(x)

    def rows(self, x: Any) -> Batch:
        """Parse one or many rows: dicts, lines, lists of numbers, or the three arrays of a sparse matrix."""
        if _is_matrix(x):
            return self.matrix(x["indptr"], x["indices"], x["values"])
        rows = [x] if isinstance(x, Mapping | str) or _is_numbers(x) else x
        if not isinstance(rows, list) or not rows:
            raise InvalidInputError(
                f"x must be a row or a list of rows (objects of features, lines of text, or lists of "
                f"numbers), got {x!r:.60}"
            )
        self._require_rows(len(rows))
        if all(isinstance(row, Mapping) for row in rows):
            if not self.named:
                return self._numbered(rows)
            if self.columns is not None:
                self.columns.check(rows)
        if all(_is_numbers(row) for row in rows):
            return self._dense(rows)
        if all(isinstance(row, str) for row in rows) and self.named:
            return self._unlabelled([" ".join(row.splitlines()).encode("utf-8", "surrogatepass") for row in rows])
        with self._few:
            batch = self._rows_like.batch(rows)
        if batch is None:
            raise InvalidInputError(
                f"x must have rows of one kind (objects of features, lines of text, or lists of numbers), got {x!r:.60}"
            )
        return self._checked(batch, len(rows))

    def matrix(self, indptr: Any, indices: Any, values: Any) -> Batch:
        """Parse rows in CSR form with columns from 0: lists, or bytes of int32, int32 and float32."""
        starts, columns = _array(indptr, "indptr", np.int32), _array(indices, "indices", np.int32)
        return self.csr(starts, columns, _array(values, "values", np.float32))

    def csr(self, indptr: NDArray[Any], indices: NDArray[Any], values: NDArray[Any]) -> Batch:
        indptr, indices = _signed(indptr, "indptr"), _signed(indices, "indices")
        rows = len(indptr) - 1
        self._require_rows(rows)
        if len(indices) != len(values) or indptr[-1] != len(indices):
            raise InvalidInputError(
                f"the last element of indptr must be the number of indices and of values, got {indptr[-1]}, "
                f"{len(indices)} and {len(values)}"
            )
        lowest, width = int(indices.min(initial=0)), self._width(int(indices.max(initial=-1)) + 1)
        if lowest < 0:
            raise InvalidInputError(f"indices must be from 0 to {self._most - 1:,}, got {lowest}")
        small = np.int32 if width < 2**31 else np.int64
        with np.errstate(over="ignore"):  # infinite values are refused below
            numbers = values.astype(self._dtype, copy=False)
        batch = Batch.of(indptr.astype(np.int64, copy=False), indices.astype(small, copy=False), numbers, width)
        return self._checked(batch, rows)

    def _numbered(self, rows: Sequence[Mapping[Any, Any]]) -> Batch:
        counts, columns, values = [0], list[int](), list[float]()
        for k, row in enumerate(rows):
            for name, value in row.items():
                if isinstance(value, bool) or not isinstance(value, int | float):
                    raise InvalidInputError(f"x, row {k}: values must be numbers, got {value!r:.40} for {name!r:.40}")
                columns.append(self._number(name, k))
                values.append(value)
            counts.append(len(columns))
        width = self._width(max(columns, default=-1) + 1)
        try:
            with np.errstate(over="ignore"):  # infinite values are refused below
                numbers = np.array(values, self._dtype)
        except OverflowError:
            raise InvalidInputError("x: values must be finite numbers, but one is too large") from None
        return self._checked(Batch.of(np.array(counts), np.array(columns, np.int32), numbers, width), len(rows))

    def _plainly_numbered(self, rows: list[dict[str, float]]) -> Batch:
        """Convert valid rows fast; raise `InvalidInputError` without details if any row is not valid."""
        self._require_rows(len(rows))
        names = [name for row in rows for name in row]
        digits = "".join(names)
        if not digits.isascii() or not digits.isdigit() or max(map(len, names)) > 9 or not min(map(len, names)):
            raise InvalidInputError("x: a feature has no number")
        columns = np.array([*map(int, names)], np.int32) - self._first
        if columns.min() < 0:
            raise InvalidInputError("x: a number is too low")
        values = np.array([value for row in rows for value in row.values()])
        counts = np.array([0, *accumulate(map(len, rows))])
        width = self._width(int(columns.max()) + 1)
        with np.errstate(over="ignore"):  # infinite values are refused below
            return self._checked(Batch.of(counts, columns, values.astype(self._dtype), width), len(rows))

    def _number(self, name: Any, row: int) -> int:
        text = str(name)
        if not text.isascii() or not text.isdigit() or len(text) > 18 or int(text) < self._first:
            raise InvalidInputError(
                f"x, row {row}: this model has numbered features, so names must be integers from "
                f"{self._first}, got {name!r:.40}"
            )
        self._width(int(text))
        return int(text) - self._first

    def _dense(self, rows: list[list[float]]) -> Batch:
        width = len(rows[0])
        if any(len(row) != width for row in rows):
            raise InvalidInputError(f"x: all rows must have as many numbers as the first, {width}")
        return self.dense(np.array(rows, np.float64))

    def dense(self, X: NDArray[Any]) -> Batch:
        self._require_rows(len(X))
        if self.named:
            self._rows_like.batch(X)  # explains why a matrix without names is not valid here
        where, columns = np.nonzero(X)
        indptr = np.concatenate([[0], np.cumsum(np.bincount(where, minlength=len(X)))])
        with np.errstate(over="ignore"):  # infinite values are refused below
            values = X[where, columns].astype(self._dtype)
        width = self._width(X.shape[1])
        return self._checked(Batch.of(indptr, columns.astype(np.int32), values, width), len(X))

    def lines(self, text: bytes, labelled: bool, header: bool | None = None) -> tuple[Batch, list[Any] | None]:
        """Parse lines in the format of the model's files, with their labels if ``labelled``.

        ``header``: whether the first line names the columns. None: it does if it has only names of columns.
        """
        lines = [line for line in text.splitlines() if line.strip()]
        if self.columns is not None and header is not False:
            lines = self.columns.without_header(lines, bool(header))
        self._require_rows(len(lines))
        if not labelled and self.named:
            return self._unlabelled(lines), None
        stream, joined = self._stream(self._kind(lines), labelled), bytearray().join(line + b"\n" for line in lines)
        with self._few_of_lines:
            batch, labels = stream.labelled_rows_of(joined) if labelled else (stream.rows_of(joined), None)
        return self._checked(batch, len(lines)), labels

    def _kind(self, lines: list[bytes]) -> str:
        """Return the format of lines, one of those that the model reads."""
        if not self.named:
            return "libsvm"
        if _are_objects(lines):
            return "jsonl"
        if LAYOUT in self._model.reading:
            return "cells"
        for line in lines:
            if b"|" not in line:
                raise InvalidInputError(
                    "lines must be JSON objects or in VW format, like the model's files, got "
                    f"{line.decode('utf-8', 'replace')!r:.60}"
                )
        return "vw"

    def _unlabelled(self, lines: list[bytes]) -> Batch:
        """Parse lines without labels for a model of named features."""
        batch: Batch | None
        if self.columns is not None and _are_objects(lines):
            self.columns.check(map(keys_of, lines))
        with self._few:
            if self._of_table and not _are_objects(lines):  # cells, or texts if the model has one text column
                batch = self._rows_like.batch([line.decode("utf-8", "surrogatepass") for line in lines])
            else:
                batch = self._stream(self._kind(lines), False).rows_of(b"\n".join(lines) + b"\n")
        assert batch is not None
        return self._checked(batch, len(lines))

    def _require_rows(self, n_rows: int) -> None:
        if not 1 <= n_rows <= self._limits.rows:
            raise InvalidInputError(f"a request may have 1 to {self._limits.rows:,} rows, got {n_rows:,}")

    def _width(self, width: int) -> int:
        if width > self._most:
            raise InvalidInputError(
                f"x: feature numbers may be at most {self._most:,}, got {width:,}. A higher number could make the "
                "model too large for this server"
            )
        return width

    def _checked(self, batch: Batch, rows: int) -> Batch:
        if len(batch) != rows:
            raise InvalidInputError(f"x: each line must be one row, but {rows} lines gave {len(batch)} rows")
        if batch.nnz > min(self._limits.features, self._limits.request_features):
            most = int(np.diff(batch.indptr).max(initial=0))
            if most > self._limits.features:
                raise InvalidInputError(f"x: a row may have at most {self._limits.features:,} features, got {most:,}")
            if batch.nnz > self._limits.request_features:
                raise InvalidInputError(
                    f"x: the rows of a request may have at most {self._limits.request_features:,} features together, "
                    f"got {batch.nnz:,}. Send fewer rows at a time"
                )
        if not self.named:
            self._width(batch.n_features)
        return batch


def _are_objects(lines: list[bytes]) -> bool:
    return all(line.lstrip().startswith(b"{") for line in lines)


def _is_matrix(value: Any) -> bool:
    return isinstance(value, Mapping) and {*value} == {"indptr", "indices", "values"}


def _is_numbers(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(type(item) in (int, float) for item in value)


def _signed(numbers: NDArray[Any], name: str) -> NDArray[Any]:
    """Return the numbers as signed integers, which all checks expect."""
    if numbers.dtype.kind != "u":
        return numbers
    if numbers.dtype.itemsize == 8 and numbers.max(initial=0) >= 2**63:
        raise InvalidInputError(f"{name}: numbers must be below 2^63, got {numbers.max()}")
    return numbers.astype(np.int64)


def _array(value: Any, name: str, dtype: Any) -> NDArray[Any]:
    if isinstance(value, bytes):
        if len(value) % 4:
            raise InvalidInputError(f"{name}: bytes must be numbers of 4 bytes each, got {len(value)} bytes")
        return np.frombuffer(value, np.dtype(dtype).newbyteorder("<"))
    if not isinstance(value, list) or not all(type(item) in (int, float) for item in value):
        raise InvalidInputError(f"{name} must be a list of numbers, or bytes, got {value!r:.40}")
    wide_dtype = np.float64 if dtype is np.float32 else np.int64
    if wide_dtype is np.int64 and any(type(item) is float for item in value):
        raise InvalidInputError(f"{name} must be integers")
    try:
        return np.array(value, wide_dtype)
    except OverflowError:
        raise InvalidInputError(f"{name}: a number is too large") from None
