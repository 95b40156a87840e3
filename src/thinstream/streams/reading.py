"""Text files as a stream of batches: pieces are parsed on threads and delivered in order."""

import os
from collections import deque
from collections.abc import Collection, Generator, Iterator, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from thinstream.batch import Batch, Position
from thinstream.errors import InvalidInputError
from thinstream.streams.class_book import ClassBook, local_numbers
from thinstream.streams.compression import ending
from thinstream.streams.number_labels import NumberLabels, lowest
from thinstream.streams.options import Options
from thinstream.streams.sources import (
    Piece,
    cut,
    display_name,
    is_mappable,
    lines_before,
    marks,
    pieces,
)
from thinstream.streams.stream import START, Skipped
from thinstream.streams.text.names import NameTable
from thinstream.streams.text.protocol import Parsed, ParseError, Text, TextFormat

_NO_LABEL = "there is no label, others have one"
_NO_TEXT = "text is to be UTF-8 (iconv -f LATIN1 -t UTF-8 makes it so), other bytes are read as they are"
#: Bytes parsed first behind a bad record.
STRETCH = 1 << 12


class Span(NamedTuple):
    """Part of a file, from the beginning of a record to that of another."""

    start: int = 0
    stop: int | None = None  # None: to the end


class Rows(NamedTuple):
    """A piece of text, parsed."""

    parsed: Parsed
    y: NDArray[Any] | None
    unlabelled: int  # the first row without a label where others have one, or −1
    met: list[Any] | None = None  # labels that ``y`` has the places of, where classes are found as they come
    numbers: tuple[float, ...] = ()  # the lowest labels, where those above 0 are positive
    gone: tuple[int, ...] = ()  # where rows without a label began that were left out
    odd: int = -1  # where the first byte is that is no UTF-8, if somebody looked

    def batch(self, first_row: int, position: Position) -> Batch:
        """The rows, all of them good, with the position behind them."""
        found = self.parsed
        arrays = (found.indptr, found.indices, found.values, found.width, self.y, found.weights, found.largest)
        return Batch(*arrays, first_row=first_row, position=position, ids=found.tags, names=found.names)


@dataclass(frozen=True)
class TextStream:
    """Rows of text files, of one format, in order.

    Iterate over ``batches()``; each batch's ``position`` is where ``batches(position)`` goes on.
    """

    files: list[str]
    form: TextFormat
    options: Options
    feature_space: dict[str, Any]
    reading: dict[str, Any]  # the options that fingerprints tell apart
    spans: tuple[Span, ...] = ()  # what of each file is read; (): all
    skipped: Skipped = field(default_factory=Skipped)
    book: ClassBook | None = None  # of classes found as they come
    numbers: NumberLabels = field(default_factory=NumberLabels)
    odd: list[str] = field(default_factory=list)  # where text is no UTF-8, as a remark

    unit = "bytes"

    def within(self, spans: Sequence[Span]) -> Self:
        """The same stream, of each file only the given span."""
        return replace(self, spans=tuple(spans), skipped=Skipped(), numbers=NumberLabels(), odd=[])

    @property
    def dtype(self) -> str:
        """Of the values."""
        return self.form.dtype

    @property
    def classes(self) -> tuple[Any, ...] | None:
        """The labels, if they were told or found."""
        return self.options.classes if self.book is None else tuple(self.book.labels)

    @property
    def names(self) -> NameTable | None:
        """Names of features, if the format keeps them."""
        return getattr(self.form, "names", None)

    @property
    def feature_columns(self) -> list[str]:
        """Columns of features, where the format has them and one has been read."""
        return getattr(self.form, "feature_columns", [])

    @property
    def layout(self) -> dict[str, Any] | None:
        """What the cells of a line are, where the format has cells and a file has been read."""
        return getattr(self.form, "layout", None)

    @property
    def strayed(self) -> Collection[str]:
        """Columns found to be numeric that held words all the same."""
        return getattr(self.form, "strayed", ())

    @property
    def keys(self) -> tuple[str, ...]:
        """Keys of objects that all have the same ones, as far as somebody has looked."""
        return self.options.keys

    @property
    def missing(self) -> str | None:
        """What cells that say nothing are, where the format has cells."""
        return getattr(self.form, "missing", None)

    @property
    def remarks(self) -> list[str]:
        """What is odd about what was read so far, as far as the format notices."""
        return [*getattr(self.form, "remarks", []), *self.numbers.remarks(), *self.odd]

    @property
    def size(self) -> int | None:
        """Bytes of all files as they lie on disk; None if one is a pipe, or the only one is compressed."""
        if any(not Path(file).is_file() for file in self.files) or (len(self.files) == 1 and ending(self.files[0])):
            return None
        return sum(Path(file).stat().st_size for file in self.files)

    def done(self, position: Position) -> int | None:
        """Bytes on disk before a position; a compressed file counts when it is over."""
        if self.size is None:
            return None
        before = sum(Path(file).stat().st_size for file in self.files[: position.part])
        within = position.offset if position.part < len(self.files) and is_mappable(self.files[position.part]) else 0
        return before + within

    def fingerprint(self) -> dict[str, Any]:
        """What tells this source from another: names, sizes, times, some bytes, and how it is read."""
        known_by = {"files": self.files, **marks(self.files), "space": self.feature_space, **self.reading}
        return known_by | ({"spans": [list(span) for span in self.spans]} if self.spans else {})

    @property
    def _threads(self) -> int:
        return (os.cpu_count() or 1) if self.options.threads is None else self.options.threads

    def warm_up(self) -> None:
        """Loads the compiled parser."""
        self._rows(np.empty(0, dtype=np.uint8))

    def batches(self, start: Position = START) -> Iterator[Batch]:
        """The rows from ``start`` on."""
        threads = self._threads
        with ThreadPoolExecutor(threads, thread_name_prefix="parsing") if threads else _Here() as pool:
            row = start.row
            for part in range(start.part, len(self.files)):
                begin = start if part == start.part else Position(part=part)
                for batch in self._part(pool, begin._replace(row=row)):
                    row += len(batch)
                    yield batch

    def rows_of(self, text: bytes | bytearray) -> Batch:
        """The rows of a text that is at hand, its first bad record an error."""
        return self._good_rows(text).batch(0, START)

    def labelled_rows_of(self, text: bytes | bytearray) -> tuple[Batch, list[Any]]:
        """The same with the label of each row: one of the classes, or whatever it says where any may come."""
        found = self._good_rows(text)
        y = found.batch(0, START).require_labels()
        if found.unlabelled >= 0:
            raise InvalidInputError(f"X, row {found.unlabelled} has no label, others have")
        known = found.met if found.met is not None else self.classes or (-1, 1)
        return found.batch(0, START), [known[k] for k in ((y > 0) if y.dtype == np.int8 else y).tolist()]

    def _good_rows(self, text: bytes | bytearray) -> Rows:
        found = self._rows(np.frombuffer(text, dtype=np.uint8))
        if found.parsed.error is not None:
            offset, message = found.parsed.error
            raise InvalidInputError(f"X, row {text[:offset].count(10)}: {message}")
        return found

    def _part(self, pool: Executor, start: Position) -> Iterator[Batch]:
        """The rows of one file from ``start`` on; those before a bad record come before its error."""
        file, line, row = self.files[start.part], start.line, start.row
        first, stop = self.spans[start.part] if self.spans else Span()
        above = cache(lambda: lines_before(file, first) if first else 0)
        with closing(self._parsed(pool, file, max(start.offset, first), stop)) as found:
            for piece, whole in found:
                offset, line = piece.offset, line + piece.passed
                for text, rows in self._stretches(piece.text, whole):
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
                        self.names.add(parsed.named)
                    self.numbers.add(rows.numbers)
                    if rows.odd >= 0 and not self.odd:
                        bad_line = line + above() + int(np.count_nonzero(text[: rows.odd] == 10)) + 1
                        place = f"{display_name(file)}, line {bad_line}"
                        self.odd.append(f"{place}: {_NO_TEXT}, got byte {text[rows.odd]:#04x}")
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
        """The first row without a label where others have one, or with one of another kind than others, and why."""
        if rows.unlabelled >= 0:
            return rows.unlabelled, " has no label, others have"
        if self.book is not None and rows.met and rows.y is not None:
            known = ClassBook([*self.book.labels[:1], *([] if self.book.labels else rows.met[:1])])
            for k, label in enumerate(rows.met):
                if known.is_foreign(label):
                    return int(np.argmax(rows.y == k)), f": {known.foreign_message(label)}"
        return -1, ""

    def _parsed(self, pool: Executor, file: str, start: int, stop: int | None) -> Generator[tuple[Piece, Rows]]:
        """Pieces with their rows, a few parsed ahead; all that were read come before what ended the reading."""
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
                    except InvalidInputError as found:
                        failure.append(found)
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
        """The rows of a piece; after a bad record, where they end, the rest is parsed in stretches that grow.

        So what is parsed in vain behind a bad record is about as long as what lies before it: work stays linear.
        """
        size = STRETCH
        while True:
            yield text, rows
            text = text[rows.parsed.taken :]
            if not len(text):
                return
            size = STRETCH if rows.parsed.error is not None else 2 * size
            while not (taken := len(text) if size >= len(text) else self.form.records(text[:size])):
                size *= 2  # not one record was whole
            rows = self._rows(text[:taken])

    def _rows(self, text: Any) -> Rows:
        """What is made of a piece, on a thread: labels above 0 are positive, none if none of the rows has one.

        Of more than two classes the format gives the numbers.
        """
        parsed = self.form.parse(text)
        odd = first_odd(text) if getattr(self.form, "takes_any_bytes", False) and not self.odd else -1
        if self.options.normalize == "l2":
            from thinstream.preparing.unit_rows import unit_rows  # on demand: learners come with it

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
            signs = parsed.labels > 0
            y = np.where(missing, 0, parsed.labels).astype(np.int32) if many else np.where(signs, 1, -1).astype(np.int8)
        numbers = lowest(parsed.labels) if some and self.classes is None else ()
        return Rows(parsed, y, unlabelled, None, numbers, gone, odd)

    def _trouble(
        self, file: str, line: int, text: Text, error: ParseError, called: str = ""
    ) -> InvalidInputError | None:
        """What a bad record raises; None if it is passed over."""
        ends = np.flatnonzero(text[: error.offset] == 10)
        column = error.offset - (int(ends[-1]) + 1 if len(ends) else 0) + 1
        reason = f"{display_name(file)}, line {line + len(ends) + 1}, column {column}: {error.message}"
        if self.options.on_error == "raise":
            return InvalidInputError(reason)
        if self.skipped.count >= self.options.max_errors:
            return InvalidInputError(f"more than {self.options.max_errors} bad records, the last: {reason}")
        self.skipped.add(reason, called)
        return None


def numbered(batch: Batch, met: list[Any], book: ClassBook) -> Batch:
    """A batch that has the places of labels, with their numbers in the stream."""
    y = batch.require_labels()
    table = book.numbers(met[: int(y.max(initial=-1)) + 1])  # not those of rows that were left out
    return replace(batch, y=table[y] if len(table) else y)


def first_odd(text: Text) -> int:
    r"""Where the first byte is that is no UTF-8; −1 if all are.

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
    """Parses at once, on the thread that asks."""

    def submit(self, function: Any, /, *arguments: Any, **named: Any) -> Future[Any]:
        found: Future[Any] = Future()
        found.set_result(function(*arguments, **named))
        return found
