"""Streams of batches: their interface, and text files, whose pieces are parsed in threads and delivered in order."""

import os
from collections import deque
from collections.abc import Collection, Generator, Iterator, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from thinstream.batch import Batch, Position
from thinstream.data.compression import ending
from thinstream.data.labels import ClassBook, NumberLabels, local_numbers, lowest
from thinstream.data.options import Options
from thinstream.data.sources import Piece, cut, display_name, is_mappable, lines_before, marks, pieces
from thinstream.data.text.protocol import NameTable, Parsed, ParseError, Text, TextFormat
from thinstream.engine.rows import unit_rows
from thinstream.errors import InvalidInputError

# The interface of a stream, and resuming in the middle of a batch.

START = Position()


@dataclass
class Skipped:
    """Bad records that were skipped: their number, the first few reasons, and the ids of all."""

    count: int = 0
    reasons: list[str] = field(default_factory=list)
    ids: list[str] = field(default_factory=list)

    def add(self, reason: str, name: str = "") -> None:
        self.ids[self.count :] = [name]
        self.count += 1
        if len(self.reasons) < 10:
            self.reasons.append(reason)


class Stream(Protocol):
    """Examples in order, readable from any position on."""

    @property
    def dtype(self) -> str:
        """The dtype of the values: "float32" or "float64"."""

    @property
    def classes(self) -> tuple[Any, ...] | None:
        """The labels of the classes, if they are known.

        With two classes, batches have labels of ±1. With more, or if classes grow (the stream then has a ``book``),
        they have the numbers of the classes in int32.
        """

    @property
    def names(self) -> NameTable | None:
        """Names of hashed features that have occurred, if they are stored."""

    @property
    def skipped(self) -> Skipped | None:
        """Bad records that were skipped, if that is allowed."""

    @property
    def feature_space(self) -> dict[str, Any]:
        """The meaning of feature indices, as JSON values; {}: they are column numbers."""

    @property
    def size(self) -> int | None:
        """The total number of bytes or rows; None if unknown."""

    @property
    def unit(self) -> str:
        """The unit of ``size``: "bytes" or "rows"."""

    def done(self, position: Position) -> int | None:
        """Return the part of the size before a position, or None if unknown."""

    def fingerprint(self) -> dict[str, Any]:
        """Return what distinguishes this source from others, as JSON values."""

    def batches(self, start: Position = START) -> Iterator[Batch]:
        """Yield batches from ``start`` on (ignoring its ``skip``), each with the position after it."""


def batches_from(stream: Stream, start: Position) -> Iterator[tuple[Position, Batch]]:
    """Yield batches from exactly ``start`` on, each with the position before it."""
    before, skip = start._replace(skip=0), start.skip
    for batch in stream.batches(before):
        if skip < len(batch) or not skip:
            yield before._replace(skip=skip), batch.after(skip) if skip else batch
        skip = max(skip - len(batch), 0)
        if batch.position is not None:
            before = batch.position


# Streams of rows scaled to unit length.


class UnitRows:
    """A stream whose rows are scaled to unit length."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    @property
    def feature_space(self) -> dict[str, Any]:
        return {**self._stream.feature_space, "normalize": "l2"}

    def fingerprint(self) -> dict[str, Any]:
        """Return the fingerprint of the stream, with the scaling."""
        return {**self._stream.fingerprint(), "normalize": "l2"}

    def batches(self, start: Position = START) -> Iterator[Batch]:
        for batch in self._stream.batches(start):
            values = np.empty_like(batch.values)
            unit_rows(np.asarray(batch.indptr, dtype=np.int64), batch.values, values)
            yield replace(batch, values=values)


_NO_LABEL = "the label is missing, and other rows have one"
_NO_TEXT = "the text is not valid UTF-8 (iconv -f LATIN1 -t UTF-8 converts it); its bytes are read unchanged"
#: Bytes that are parsed first after a bad record.
STRETCH = 1 << 12


class Span(NamedTuple):
    """Part of a file, from the beginning of a record to that of another."""

    start: int = 0
    stop: int | None = None  # None: to the end


class Rows(NamedTuple):
    """The parsed rows of a piece of text."""

    parsed: Parsed
    y: NDArray[Any] | None
    unlabelled: int  # the first row without a label if others have one, else −1
    met: list[Any] | None = None  # labels to whose positions ``y`` refers, if classes grow
    numbers: tuple[float, ...] = ()  # the lowest labels, if labels are numbers
    gone: tuple[int, ...] = ()  # offsets of rows without a label that were dropped
    odd: int = -1  # offset of the first byte that is not UTF-8, or −1

    def batch(self, first_row: int, position: Position) -> Batch:
        """Return the rows, all of them good, with the position after them."""
        parsed = self.parsed
        arrays = (parsed.indptr, parsed.indices, parsed.values, parsed.width, self.y, parsed.weights, parsed.largest)
        return Batch(*arrays, first_row=first_row, position=position, ids=parsed.tags, names=parsed.names)


@dataclass(frozen=True)
class TextStream:
    """Rows of text files in one format, in order.

    Pass the ``position`` of a batch to ``batches`` to continue after that batch.
    """

    files: list[str]
    form: TextFormat
    options: Options
    feature_space: dict[str, Any]
    reading: dict[str, Any]  # the options that are part of the fingerprint
    spans: tuple[Span, ...] = ()  # the part of each file to read; (): all
    skipped: Skipped = field(default_factory=Skipped)
    book: ClassBook | None = None  # the classes so far, if classes grow
    numbers: NumberLabels = field(default_factory=NumberLabels)
    odd: list[str] = field(default_factory=list)  # a remark on text that is not UTF-8

    unit = "bytes"

    def within(self, spans: Sequence[Span]) -> Self:
        """Return a stream of only the given span of each file."""
        return replace(self, spans=tuple(spans), skipped=Skipped(), numbers=NumberLabels(), odd=[])

    @property
    def dtype(self) -> str:
        return self.form.dtype

    @property
    def classes(self) -> tuple[Any, ...] | None:
        """The labels, if they are known."""
        return self.options.classes if self.book is None else tuple(self.book.labels)

    @property
    def names(self) -> NameTable | None:
        """Names of features, if the format stores them."""
        return getattr(self.form, "names", None)

    @property
    def feature_columns(self) -> list[str]:
        """Feature columns, if the format has columns and a file has been read."""
        return getattr(self.form, "feature_columns", [])

    @property
    def layout(self) -> dict[str, Any] | None:
        """The columns of a line, if the format has cells and a file has been read."""
        return getattr(self.form, "layout", None)

    @property
    def strayed(self) -> Collection[str]:
        """Columns that were inferred to be numeric and contained words."""
        return getattr(self.form, "strayed", ())

    @property
    def keys(self) -> tuple[str, ...]:
        """Keys that all JSON objects share, as far as known."""
        return self.options.keys

    @property
    def missing(self) -> str | None:
        """How missing cells are treated, if the format has cells."""
        return getattr(self.form, "missing", None)

    @property
    def remarks(self) -> list[str]:
        """Remarks on unusual things in the data read so far."""
        return [*getattr(self.form, "remarks", []), *self.numbers.remarks(), *self.odd]

    @property
    def size(self) -> int | None:
        """Bytes of all files on disk; None if one is a pipe, or the only file is compressed."""
        if any(not Path(file).is_file() for file in self.files) or (len(self.files) == 1 and ending(self.files[0])):
            return None
        return sum(Path(file).stat().st_size for file in self.files)

    def done(self, position: Position) -> int | None:
        """Return the bytes on disk before a position; a compressed file counts when it has been read."""
        if self.size is None:
            return None
        before = sum(Path(file).stat().st_size for file in self.files[: position.part])
        within = position.offset if position.part < len(self.files) and is_mappable(self.files[position.part]) else 0
        return before + within

    def fingerprint(self) -> dict[str, Any]:
        """Return what distinguishes this source: names, sizes, times and checksums of files, and how they are read."""
        properties = {"files": self.files, **marks(self.files), "space": self.feature_space, **self.reading}
        return properties | ({"spans": [list(span) for span in self.spans]} if self.spans else {})

    @property
    def _threads(self) -> int:
        return (os.cpu_count() or 1) if self.options.threads is None else self.options.threads

    def warm_up(self) -> None:
        """Load the compiled parser."""
        self._rows(np.empty(0, dtype=np.uint8))

    def batches(self, start: Position = START) -> Iterator[Batch]:
        threads = self._threads
        with ThreadPoolExecutor(threads, thread_name_prefix="parsing") if threads else _Here() as pool:
            row = start.row
            for part in range(start.part, len(self.files)):
                begin = start if part == start.part else Position(part=part)
                for batch in self._part(pool, begin._replace(row=row)):
                    row += len(batch)
                    yield batch

    def rows_of(self, text: bytes | bytearray) -> Batch:
        """Parse a text in memory; the first bad record is an error."""
        return self._good_rows(text).batch(0, START)

    def labelled_rows_of(self, text: bytes | bytearray) -> tuple[Batch, list[Any]]:
        """Parse a text in memory, and return the label of each row: a class, or any label if classes grow."""
        rows = self._good_rows(text)
        y = rows.batch(0, START).require_labels()
        if rows.unlabelled >= 0:
            raise InvalidInputError(f"X, row {rows.unlabelled} has no label, and other rows have one")
        labels = rows.met if rows.met is not None else self.classes or (-1, 1)
        return rows.batch(0, START), [labels[k] for k in ((y > 0) if y.dtype == np.int8 else y).tolist()]

    def _good_rows(self, text: bytes | bytearray) -> Rows:
        rows = self._rows(np.frombuffer(text, dtype=np.uint8))
        if rows.parsed.error is not None:
            offset, message = rows.parsed.error
            raise InvalidInputError(f"X, row {text[:offset].count(10)}: {message}")
        return rows

    def _part(self, pool: Executor, start: Position) -> Iterator[Batch]:
        """Yield the rows of one file from ``start`` on; rows before a bad record come before its error."""
        file, line, row = self.files[start.part], start.line, start.row
        first, stop = self.spans[start.part] if self.spans else Span()
        above = cache(lambda: lines_before(file, first) if first else 0)
        with closing(self._parsed(pool, file, max(start.offset, first), stop)) as parsed_pieces:
            for piece, piece_rows in parsed_pieces:
                offset, line = piece.offset, line + piece.passed
                for text, rows in self._stretches(piece.text, piece_rows):
                    parsed, before, error = rows.parsed, Position(start.part, offset, line, row), None
                    bad, why = self._bad_label(rows)
                    for start_of_row in rows.gone:
                        error = error or self._trouble(file, line + above(), text, ParseError(start_of_row, _NO_LABEL))
                    if bad >= 0:
                        before_it = (
                            0 if parsed.starts is None else int(np.count_nonzero(text[: parsed.starts[bad]] == 10))
                        )
                        at = "" if parsed.starts is None else f", line {line + above() + before_it + 1}"
                        error = InvalidInputError(f"{display_name(file)}{at}: example {row + bad + 1}{why}")
                    elif parsed.error is not None:
                        error = error or self._trouble(file, line + above(), text, parsed.error, parsed.bad_id)
                    if self.names is not None:
                        self.names.add(parsed.named, row)
                    self.numbers.add(rows.numbers)
                    if rows.odd >= 0 and not self.odd:
                        bad_line = line + above() + int(np.count_nonzero(text[: rows.odd] == 10)) + 1
                        where = f"{display_name(file)}, line {bad_line}"
                        self.odd.append(f"{where}: {_NO_TEXT}, got byte {text[rows.odd]:#04x}")
                    offset, line, row = offset + parsed.taken, line + parsed.lines, row + len(parsed.labels)
                    batch = rows.batch(before.row, Position(start.part, offset, line, row))
                    good = len(batch) if bad < 0 else bad
                    if error is not None and not good:
                        raise error
                    kept = batch if error is None else replace(batch.until(good), position=before._replace(skip=good))
                    yield kept if self.book is None or rows.met is None else numbered(kept, rows.met, self.book)
                    if error is not None:
                        raise error

    def _bad_label(self, rows: Rows) -> tuple[int, str]:
        """Return the first row whose label is missing or of a different type, and why; −1 if all are fine."""
        if rows.unlabelled >= 0:
            return (
                rows.unlabelled,
                " has no label, and other rows have one. Pass --on-error skip to leave such rows out.",
            )
        if self.book is not None and rows.met and rows.y is not None:
            book = ClassBook([*self.book.labels[:1], *([] if self.book.labels else rows.met[:1])])
            for k, label in enumerate(rows.met):
                if book.is_foreign(label):
                    return int(np.argmax(rows.y == k)), f": {book.foreign_message(label)}"
        return -1, ""

    def _parsed(self, pool: Executor, file: str, start: int, stop: int | None) -> Generator[tuple[Piece, Rows]]:
        """Yield pieces with their rows, parsed a few ahead; an error of the source comes after all pieces before it."""
        waiting: deque[tuple[Piece, Future[Rows]]] = deque()
        most, failure = self._threads + 2 if self._threads else 1, list[InvalidInputError]()
        source = pieces(file, self.form, start, lambda: not waiting, stop, self.options.max_line)
        if most_bytes := getattr(self.form, "piece", None):
            source = cut(source, self.form, most_bytes)
        with closing(source):
            try:
                while True:
                    try:
                        while not failure and len(waiting) < most and (piece := next(source, None)) is not None:
                            waiting.append((piece, pool.submit(self._rows, piece.text)))
                    except InvalidInputError as error:
                        failure.append(error)
                    if not waiting:
                        break
                    piece, future = waiting.popleft()
                    yield piece, future.result()
            finally:
                for _, future in waiting:
                    future.cancel()
        if failure:
            raise failure[0]

    def _stretches(self, text: Text, rows: Rows) -> Iterator[tuple[Text, Rows]]:
        """Yield the rows of a piece; after a bad record, parse the rest in stretches of growing length.

        So the text that is parsed in vain after a bad record is about as long as the text before it: work stays linear.
        """
        size = STRETCH
        while True:
            yield text, rows
            text = text[rows.parsed.taken :]
            if not len(text):
                return
            size = STRETCH if rows.parsed.error is not None else 2 * size
            while not (taken := len(text) if size >= len(text) else self.form.records(text[:size])):
                size *= 2  # no record is complete
            rows = self._rows(text[:taken])

    def _rows(self, text: Any) -> Rows:
        """Parse a piece, in a thread; labels above 0 are positive, and None if no row has a label.

        With more than two classes, the format returns their numbers.
        """
        parsed = self.form.parse(text)
        odd = first_odd(text) if getattr(self.form, "takes_any_bytes", False) and not self.odd else -1
        if self.options.normalize == "l2":
            from thinstream.engine.rows import unit_rows  # imported on demand, because it loads the learners

            unit_rows(parsed.indptr, parsed.values)
        missing, gone = np.isnan(parsed.labels), ()
        if self.options.labels and self.options.on_error == "skip" and parsed.starts is not None and missing.any():
            gone = tuple(parsed.starts[missing].tolist())
            parsed, missing = parsed.only(~missing), np.zeros(len(missing) - len(gone), np.bool_)
        some = self.options.labels and not missing.all()
        unlabelled = int(np.argmax(missing)) if some and missing.any() else -1
        y = None
        if self.book is not None and (some or not len(missing)):
            met, y = local_numbers(parsed.labels if unlabelled < 0 else parsed.labels[:unlabelled], parsed.met)
            y = y if unlabelled < 0 else np.pad(y, (0, len(missing) - unlabelled))
            return Rows(parsed, y, unlabelled, met, gone=gone, odd=odd)
        if some or not len(missing):
            many = self.classes is not None and len(self.classes) > 2
            signs = parsed.labels > (self.options.positive_above or 0.0)
            y = np.where(missing, 0, parsed.labels).astype(np.int32) if many else np.where(signs, 1, -1).astype(np.int8)
        are_numbers = some and self.classes is None and self.options.positive_above is None
        numbers = lowest(parsed.labels) if are_numbers else ()
        return Rows(parsed, y, unlabelled, None, numbers, gone, odd)

    def _trouble(self, file: str, line: int, text: Text, error: ParseError, name: str = "") -> InvalidInputError | None:
        """Return the error of a bad record; None if it is skipped."""
        ends = np.flatnonzero(text[: error.offset] == 10)
        column = error.offset - (int(ends[-1]) + 1 if len(ends) else 0) + 1
        reason = f"{display_name(file)}, line {line + len(ends) + 1}, column {column}: {error.message}"
        if self.options.on_error == "raise":
            return InvalidInputError(reason)
        if self.skipped.count >= self.options.max_errors:
            return InvalidInputError(f"more than {self.options.max_errors} bad records; the last one: {reason}")
        self.skipped.add(reason, name)
        return None


def numbered(batch: Batch, met: list[Any], book: ClassBook) -> Batch:
    """Replace the positions of labels in ``met`` by their class numbers in the stream."""
    y = batch.require_labels()
    table = book.numbers(met[: int(y.max(initial=-1)) + 1])  # without labels of rows that were dropped
    return replace(batch, y=table[y] if len(table) else y)


def first_odd(text: Text) -> int:
    r"""Return the offset of the first byte that is not UTF-8; −1 if all are.

    >>> first_odd(np.frombuffer("größe".encode(), np.uint8)), first_odd(np.frombuffer(b"gr\xf6\xdfe", np.uint8))
    (-1, 2)
    """
    if text.max(initial=0) >= 128:
        try:
            text.tobytes().decode()
        except UnicodeDecodeError as error:
            return error.start
    return -1


class _Here(Executor):
    """Runs each call at once in the calling thread."""

    def submit(self, function: Any, /, *arguments: Any, **named: Any) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_result(function(*arguments, **named))
        return future
