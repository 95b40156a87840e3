"""Rows of requests, prepared as those a model has learned from; what is read the same way is set up once."""

from collections.abc import Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import replace
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thinstream.batch import Batch
from thinstream.errors import InvalidInputError, ThinstreamError
from thinstream.models.model import Model
from thinstream.serve.settings import Limits
from thinstream.serve.wire import Raw, from_json, json_as
from thinstream.streams.at_hand import batch_like, cells_like, opened_like, without_label
from thinstream.streams.expansion import AtMost
from thinstream.streams.options import LAYOUT

_texts, _numbers, _lists_of_numbers = json_as(list[Raw]), json_as(dict[str, float]), json_as(list[dict[str, float]])


class RowReader:
    """Makes batches of what requests have, for one model.

    Parameters
    ----------
    model : Model
        Its feature space, classes and way of reading count, not its weights.
    limits : Limits

    Examples
    --------
    >>> from thinstream.learners import Classes
    >>> reader = RowReader(Model.fresh("fsol", Classes(-1, 1)), Limits())
    >>> reader.rows({"3": 0.5, "1": 2}).indices  # numbers as in libsvm files: they begin at 1
    array([0, 2], dtype=int32)
    >>> reader.lines(b"+1 1:2 3:0.5", labelled=True)[1]
    [1]

    """

    def __init__(self, model: Model, limits: Limits) -> None:
        self._model, self._limits = model, limits
        self.named = "hashing" in model.feature_space
        self._dtype = model.learner.dtype
        self._most = 1 << model.feature_space["hashing"]["bits"] if self.named else limits.width
        self._raw_json = self.named and "columns" not in model.reading
        self._of_table = "columns" in model.reading or LAYOUT in model.reading
        self._first = 0 if model.feature_space.get("zero_based") else 1
        self._streams: dict[tuple[str, bool], Any] = {}
        #: What n-grams and crosses may make of a request, checked before the memory for it is allocated.
        self._few = AtMost(limits.request_features)
        self._few_of_lines = self._few if self.named else nullcontext()  # numbered features are not expanded

    def _stream(self, kind: str, labelled: bool) -> Any:
        """What reads lines, set up once."""
        if (kind, labelled) not in self._streams:
            self._streams[kind, labelled] = self._opened(kind, labelled)
        return self._streams[kind, labelled]

    def _opened(self, kind: str, labelled: bool) -> Any:
        if kind == "cells":
            return cells_like(self._model)
        if kind == "libsvm":
            stream = opened_like(self._model, kind, **({"labels": True} if labelled else {"classes": None}))
            most = self._most - 1 + self._first
            return replace(stream, form=replace(stream.form, most=most if most < 2**31 - 2 else None))
        stream = opened_like(self._model, kind, **({"labels": True} if labelled else {}))
        return without_label(stream) if kind == "jsonl" and not labelled else stream

    def warm_up(self) -> None:
        """Loads compiled code for lines, or compiles it."""
        texts = (b"|a x", b"1 |a x", b"{}", b'{"a": 1}') if self.named else (b"1:1", b"1 1:1")
        for text in texts:
            for labelled in (False, True):
                with suppress(ThinstreamError):  # a label is missing, or such a line is none of its files'
                    self.lines(text, labelled)

    # What JSON and MessagePack have -----------------------------------------------------------------------------------

    def raw(self, x: Raw) -> tuple[Batch, bool]:
        """The rows of a JSON text, and whether it is one row alone."""
        text = bytes(x).lstrip()
        one = not text.startswith(b"[")
        if self._raw_json and (one or text[1:].lstrip().startswith(b"{")):
            lines = [text] if one else [bytes(each) for each in _texts(text)]
            self._require_rows(len(lines))
            if all(line.startswith(b"{") for line in lines):
                joined = b"\n".join(line.replace(b"\n", b" ").replace(b"\r", b" ") for line in lines)
                with self._few:
                    batch = self._stream("jsonl", False).rows_of(joined + b"\n")
                return self._checked(batch, len(lines)), one
        if not self.named and (one or text[1:].lstrip().startswith(b"{")):
            with suppress(InvalidInputError):  # matrices, and what is wrong, are looked at below
                return self._plainly_numbered([_numbers(text)] if one else _lists_of_numbers(text)), one
        return self.some(from_json(text))

    def some(self, x: Any) -> tuple[Batch, bool]:
        """The rows of a value, and whether it is one row alone."""
        one = isinstance(x, Mapping | str) or _is_numbers(x)
        return self.rows(x), one and not _is_matrix(x)

    def rows(self, x: Any) -> Batch:
        """The rows of a value: dicts, lines, lists of numbers, or a matrix by its three arrays; one or many."""
        if _is_matrix(x):
            return self.matrix(x["indptr"], x["indices"], x["values"])
        found = [x] if isinstance(x, Mapping | str) or _is_numbers(x) else x
        if not isinstance(found, list) or not found:
            raise InvalidInputError(
                f"x must be a row or a list of rows: an object of features, a line of text, or numbers; got {x!r:.60}"
            )
        self._require_rows(len(found))
        if all(isinstance(row, Mapping) for row in found) and not self.named:
            return self._numbered(found)
        if all(_is_numbers(row) for row in found):
            return self._dense(found)
        if all(isinstance(row, str) for row in found) and self.named:
            return self._unlabelled([" ".join(row.splitlines()).encode("utf-8", "surrogatepass") for row in found])
        with self._few:
            batch = batch_like(self._model, found)
        if batch is None:
            raise InvalidInputError(
                f"x must be rows of one kind: objects of features, lines of text, or lists of numbers; got {x!r:.60}"
            )
        return self._checked(batch, len(found))

    def matrix(self, indptr: Any, indices: Any, values: Any) -> Batch:
        """Rows in CSR form, columns from 0 on: lists, or bytes of int32, int32 and float32."""
        starts, columns = _array(indptr, "indptr", np.int32), _array(indices, "indices", np.int32)
        return self.csr(starts, columns, _array(values, "values", np.float32))

    def csr(self, indptr: NDArray[Any], indices: NDArray[Any], values: NDArray[Any]) -> Batch:
        """The same of arrays, whole numbers and real ones."""
        indptr, indices = _signed(indptr, "indptr"), _signed(indices, "indices")
        rows = len(indptr) - 1
        self._require_rows(rows)
        if len(indices) != len(values) or indptr[-1] != len(indices):
            raise InvalidInputError(
                f"indptr must end with the number of indices and of values, got {indptr[-1]}, {len(indices)} and "
                f"{len(values)}"
            )
        lowest, width = int(indices.min(initial=0)), self._width(int(indices.max(initial=-1)) + 1)
        if lowest < 0:
            raise InvalidInputError(f"indices must be from 0 to {self._most - 1:,}, got {lowest}")
        small = np.int32 if width < 2**31 else np.int64
        with np.errstate(over="ignore"):  # what becomes infinite is refused below
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
            with np.errstate(over="ignore"):  # what becomes infinite is refused below
                numbers = np.array(values, self._dtype)
        except OverflowError:
            raise InvalidInputError("x: values must be finite numbers, one is too large") from None
        return self._checked(Batch.of(np.array(counts), np.array(columns, np.int32), numbers, width), len(rows))

    def _plainly_numbered(self, rows: list[dict[str, float]]) -> Batch:
        """The same of rows that are as they should be; `InvalidInputError` says only that they are not."""
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
        with np.errstate(over="ignore"):  # what becomes infinite is refused below
            return self._checked(Batch.of(counts, columns, values.astype(self._dtype), width), len(rows))

    def _number(self, name: Any, row: int) -> int:
        text = str(name)
        if not text.isascii() or not text.isdigit() or len(text) > 18 or int(text) < self._first:
            raise InvalidInputError(
                f"x, row {row}: this model has numbered features, whole numbers from {self._first} on, got {name!r:.40}"
            )
        self._width(int(text))
        return int(text) - self._first

    def _dense(self, rows: list[list[float]]) -> Batch:
        width = len(rows[0])
        if any(len(row) != width for row in rows):
            raise InvalidInputError(f"x: rows of numbers must be of one length, the first has {width}")
        return self.dense(np.array(rows, np.float64))

    def dense(self, X: NDArray[Any]) -> Batch:
        """Rows × features."""
        self._require_rows(len(X))
        if self.named:
            batch_like(self._model, X)  # says what is wrong with a matrix that has no names
        where, columns = np.nonzero(X)
        indptr = np.concatenate([[0], np.cumsum(np.bincount(where, minlength=len(X)))])
        with np.errstate(over="ignore"):  # what becomes infinite is refused below
            values = X[where, columns].astype(self._dtype)
        width = self._width(X.shape[1])
        return self._checked(Batch.of(indptr, columns.astype(np.int32), values, width), len(X))

    # What text has ----------------------------------------------------------------------------------------------------

    def lines(self, text: bytes, labelled: bool) -> tuple[Batch, list[Any] | None]:
        """The rows of lines as the model's files have them, with their labels if asked for."""
        lines = [line for line in text.splitlines() if line.strip()]
        self._require_rows(len(lines))
        if not labelled and self.named:
            return self._unlabelled(lines), None
        stream, joined = self._stream(self._kind(lines), labelled), bytearray().join(line + b"\n" for line in lines)
        with self._few_of_lines:
            batch, labels = stream.labelled_rows_of(joined) if labelled else (stream.rows_of(joined), None)
        return self._checked(batch, len(lines)), labels

    def _kind(self, lines: list[bytes]) -> str:
        """Which of the formats that the model takes these are in."""
        if not self.named:
            return "libsvm"
        if _are_objects(lines):
            return "jsonl"
        if LAYOUT in self._model.reading:
            return "cells"
        for line in lines:
            if b"|" not in line:
                raise InvalidInputError(
                    "lines must be objects of JSON, or of VW, as the model's files have them, got "
                    f"{line.decode('utf-8', 'replace')!r:.60}"
                )
        return "vw"

    def _unlabelled(self, lines: list[bytes]) -> Batch:
        """Lines for a model of named features, read as they are with labels."""
        batch: Batch | None
        with self._few:
            if self._of_table and not _are_objects(lines):  # cells, or texts where that is its one column
                batch = batch_like(self._model, [line.decode("utf-8", "surrogatepass") for line in lines])
            else:
                batch = self._stream(self._kind(lines), False).rows_of(b"\n".join(lines) + b"\n")
        assert batch is not None
        return self._checked(batch, len(lines))

    # Limits -----------------------------------------------------------------------------------------------------------

    def _require_rows(self, many: int) -> None:
        if not 1 <= many <= self._limits.rows:
            raise InvalidInputError(f"a request may have 1 to {self._limits.rows:,} rows, got {many:,}")

    def _width(self, width: int) -> int:
        if width > self._most:
            raise InvalidInputError(
                f"x: features may have numbers up to {self._most:,} here, got {width:,}; a higher one could make the "
                "model too large for the server"
            )
        return width

    def _checked(self, batch: Batch, rows: int) -> Batch:
        if len(batch) != rows:
            raise InvalidInputError(f"x: each line must be one row, got {rows} lines and {len(batch)} rows")
        if batch.nnz > min(self._limits.features, self._limits.request_features):
            most = int(np.diff(batch.indptr).max(initial=0))
            if most > self._limits.features:
                raise InvalidInputError(f"x: a row may have {self._limits.features:,} features, got {most:,}")
            if batch.nnz > self._limits.request_features:
                raise InvalidInputError(
                    f"x: the rows of a request may have {self._limits.request_features:,} features in all, got "
                    f"{batch.nnz:,}; send fewer rows at a time"
                )
        if not self.named:
            self._width(batch.n_features)
        return batch


def _are_objects(lines: list[bytes]) -> bool:
    return all(line.lstrip().startswith(b"{") for line in lines)


def _is_matrix(value: Any) -> bool:
    return isinstance(value, Mapping) and {*value} == {"indptr", "indices", "values"}


def _is_numbers(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(type(each) in (int, float) for each in value)


def _signed(numbers: NDArray[Any], name: str) -> NDArray[Any]:
    """Return the numbers as signed integers, which all checks expect."""
    if numbers.dtype.kind != "u":
        return numbers
    if numbers.dtype.itemsize == 8 and numbers.max(initial=0) >= 2**63:
        raise InvalidInputError(f"{name}: numbers must be below 2^63, got {numbers.max()}")
    return numbers.astype(np.int64)


def _array(given: Any, name: str, dtype: Any) -> NDArray[Any]:
    """A list, or bytes, as an array."""
    if isinstance(given, bytes):
        if len(given) % 4:
            raise InvalidInputError(f"{name}: bytes must be numbers of 4 bytes each, got {len(given)} bytes")
        return np.frombuffer(given, np.dtype(dtype).newbyteorder("<"))
    if not isinstance(given, list) or not all(type(each) in (int, float) for each in given):
        raise InvalidInputError(f"{name} must be a list of numbers, or bytes, got {given!r:.40}")
    kind = np.float64 if dtype is np.float32 else np.int64
    if kind is np.int64 and any(type(each) is float for each in given):
        raise InvalidInputError(f"{name} must be whole numbers")
    try:
        return np.array(given, kind)
    except OverflowError:
        raise InvalidInputError(f"{name}: a number is too large") from None
