"""Schema inference: labels and columns from the first records of a source."""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from thinstream.data.compression import ending, open_read
from thinstream.data.formats import Format
from thinstream.data.labels import kind_of, label_of, local_numbers
from thinstream.data.options import NOTHING, Options
from thinstream.data.sources import STDIN, display_name, is_open, peek
from thinstream.data.text.protocol import Text, TextFormat
from thinstream.errors import CacheError, InvalidInputError

if TYPE_CHECKING:
    from thinstream.data.tables.arrow import ArrowRows
    from thinstream.data.text.csv import CSV


# The first records of text files, pipes and brokers' messages.

#: Files of up to this many bytes (compressed ones: half as many) are read completely; of others, at most this many
#: bytes.
SMALL = 1 << 25
#: The most bytes of text that are read from a compressed file.
_MOST = 1 << 28
_BLOCK = 1 << 18
#: Returns the first records of a source, and whether these are all its records.
ReadHead = Callable[[], tuple[bytes, bool]]


@dataclass(frozen=True)
class Heads:
    """The beginnings of text files.

    Parameters
    ----------
    files : list of str
        Files and pipes, or the name of a source that is neither.
    read_head : function or None
        Reads the first records of a source that is not a file, such as a broker's messages. It may be called again.

    """

    files: list[str]
    read_head: ReadHead | None = None
    _read: dict[int, list[tuple[Text, bool]]] = field(default_factory=dict, init=False, repr=False, compare=False)

    def are_small(self) -> bool:
        """Return whether files are read completely."""
        if self.read_head is not None or any(file == STDIN or not Path(file).is_file() for file in self.files):
            return False
        return sum(Path(file).stat().st_size * (2 if ending(file) else 1) for file in self.files) <= SMALL

    def are_complete(self) -> bool:
        """Return whether the samples contain all files, or the whole source."""
        return self.are_small() or (self.read_head is not None and self.read_head()[1])

    def texts(self, records: int) -> Iterator[tuple[Text, bool]]:
        """Yield the text of small files, or of the first files up to N records, and whether each text is complete.

        Files are read only once.
        """
        if records not in self._read:
            self._read[records] = [*self._texts(records)]
        return iter(self._read[records])

    def _texts(self, records: int) -> Iterator[tuple[Text, bool]]:
        small, left = self.are_small(), records
        for file in self.files:
            if small:
                with open_read(file) as source:
                    data = source.read(_MOST)
                    complete = len(data) < _MOST
            else:
                data, complete = self.begin(file, left)
            yield np.frombuffer(data, np.uint8), complete
            left -= data.count(b"\n")
            if not small and left <= 0:
                return

    def begin(self, file: str, records: int) -> tuple[bytes, bool]:
        """Return about N lines of a file, and whether these are all."""
        if self.read_head is not None:
            return self.read_head()
        if file == STDIN or not Path(file).is_file():
            return peek(file, records + 1, SMALL)
        data, lines = bytearray(), 0
        with open_read(file) as source:
            while lines <= records and len(data) < SMALL:
                block = source.read(_BLOCK)
                if not block:
                    return bytes(data), True
                data += block
                lines += block.count(b"\n")
        return bytes(data), False


# The inferred schema, as options, so that models store it.


class SchemaColumn(NamedTuple):
    """A column, its role, the origin of the role, and a remark if the column may be useless."""

    name: str
    role: str
    origin: str  # "declared", "inferred", or "each cell" if the column has no role
    remark: str | None = None


class Inferred(NamedTuple):
    """Options completed by inference, messages about it, and the columns."""

    options: Options
    messages: tuple[str, ...] = ()
    schema: tuple[SchemaColumn, ...] = ()


def infer(file_format: Format, files: list[str], options: Options, read_head: ReadHead | None = None) -> Inferred:
    """Infer everything that was not declared. If the source cannot be read, infer nothing: reading it raises an error.

    Small files are read completely, others only in part. Data from a pipe will be read again. ``read_head`` reads the
    first records of a source that is not a file.
    """
    if options.inferred is not None:
        return Inferred(options)
    inferred = Inferred(replace(options, inferred=()))
    if file_format.name == "cache":
        return _cached(files, inferred)
    heads = Heads(files, read_head)
    for step in (_header, _classes, _columns) if options.look else ():
        inferred = step(file_format, heads, inferred)
    return inferred


def _with(before: Inferred, messages: list[str], **options: Any) -> Inferred:
    names = (*(before.options.inferred or ()), *options)
    return Inferred(replace(before.options, **options, inferred=names), (*before.messages, *messages), before.schema)


def _cached(files: list[str], before: Inferred) -> Inferred:
    """Infer the classes of a cache."""
    from thinstream.data.cache import Cache

    if before.options.classes is not None or len(files) != 1:
        return before
    try:
        cache = Cache(files[0])
    except (CacheError, OSError):
        return before
    classes = cache.classes or cache.source.get("classes")
    return _with(before, [], classes=tuple(classes)) if isinstance(classes, list | tuple) else before


def _csv(file_format: Format, options: Options) -> "CSV":
    """Return the parser of a format with cells, which accepts any columns."""
    from thinstream.data.stream import TextStream
    from thinstream.data.text.csv import CSV

    stream = file_format.open(
        file_format, [], replace(options, names=0, cross=(), strict=False, columns=(), labels=False)
    )
    assert isinstance(stream, TextStream)
    assert isinstance(stream.form, CSV)
    return stream.form


def _table(file_format: Format, files: list[str], options: Options) -> "ArrowRows":
    """Return the rows of files that are read by columns."""
    from thinstream.data.tables.arrow import ArrowRows

    stream = file_format.open(file_format, files, replace(options, normalize=None))
    assert isinstance(stream, ArrowRows)
    return stream


def _header(file_format: Format, heads: Heads, before: Inferred) -> Inferred:
    """Infer whether the first line of CSV has the column names, if the label is called like an unnamed column: c1."""
    options = before.options
    if not (file_format.takes("header") and options.header is None and re.fullmatch(r"c\d+", options.label)):
        return before
    from thinstream.data.text.csv import is_number

    form = _csv(file_format, options)
    try:
        form.header(next(heads.texts(options.look))[0])
    except InvalidInputError:
        return before
    if options.label in form.order or not any(map(is_number, form.order)):
        return before
    message = f"the first line has no column names, so columns are called c1 … c{len(form.order)}"
    return _with(before, [message], header=False)


def _classes(file_format: Format, heads: Heads, before: Inferred) -> Inferred:
    """Infer the classes."""
    options = before.options
    if options.classes is not None or options.grow_classes or not (options.labels and file_format.takes("classes")):
        return before
    if options.positive_above is not None:
        return before
    try:
        counts = count_labels(file_format, heads, options, options.look)
    except InvalidInputError:
        if len(heads.files) > 1:  # the first file may be fine
            raise
        return before
    try:
        classes = classes_in(counts)
    except InvalidInputError as error:
        raise (
            unclosed_quote(_csv(file_format, options), heads, options.look) if file_format.has_cells else None
        ) or error from None
    if classes is None:
        return before
    classes = positive_last(counts, classes)
    return _with(before, describe_classes(counts, classes), classes=classes)


def unclosed_quote(form: "CSV", heads: Heads, records: int) -> InvalidInputError | None:
    """Return an error for the first CSV file with a quote that is never closed: it hides all records after it."""
    for file, (text, whole) in zip(heads.files, heads.texts(records), strict=False):
        if not whole or not len(text):
            continue
        start = form.header(text)
        start += form.records(text[start:])
        if is_open(bytes(text[start:]), form.between.encode()):
            error = form.parse(text[start:]).error
            where = start if error is None else start + error.offset
            line = bytes(text[:where]).count(b"\n") + 1
            return InvalidInputError(
                f"{display_name(file)}, line {line}: a quote that opens a cell must be closed, got the end of the text"
            )
    return None


def _columns(file_format: Format, heads: Heads, before: Inferred) -> Inferred:
    """Infer the types of columns without a declared role."""
    if not file_format.takes("numeric"):
        return before
    from thinstream.data.column_inference import (
        columns_of,
        declared,
        declared_in,
        describe_columns,
        objects_in,
        rows_in,
        schema_of,
        shared_keys,
        taken,
    )

    options, inferred = before.options, dict[str, Any]()
    try:
        if file_format.has_cells:
            columns, enough = columns_of(_csv(file_format, options), heads, options.look)
            if options.labels and options.label not in [column.name for column in columns]:
                return before  # reading raises an error
            inferred = declared(options, columns) if enough else {}
        elif file_format.is_table:
            inferred, columns = declared_in(options, *rows_in(_table(file_format, heads.files, options), options.look))
        else:
            records, whole = objects_in(heads, options.look)
            inferred, columns = declared_in(options, records, whole)
            inferred |= {"keys": keys} if (keys := shared_keys(records, options)) else {}
    except InvalidInputError:
        return before
    before = before._replace(schema=schema_of(options, replace(options, **inferred), columns))
    declared_columns = taken(options)
    if all(column.name in declared_columns for column in columns):  # there is nothing to report
        return _with(before, [], **inferred)
    return _with(before, describe_columns(replace(options, **inferred), columns), **inferred)


# Labels in the sample, and how often each occurs.

#: The most different labels that may be classes.
MOST = 1000
#: Bytes that are parsed first, and twice as many each time, so that a column of ids is noticed early.
_PIECE = 1 << 14
_BAD = 100  # bad records after which counting stops
_ROWS = 1 << 16  # rows of a table that are read at a time
_SMALL_TABLE = 1 << 20  # rows of a table whose label column is read completely


def count_labels(file_format: Format, heads: Heads, options: Options, records: int) -> "Counter[Any]":
    """Count how often each label occurs, until there are too many for classes."""
    no_features = [name for name in (options.weight, options.id) if name is not None]
    probe = replace(
        options, inferred=(), grow_classes=True, names=0, cross=(), text=(), numeric=(), categorical=(), columns=(),
        weight=None, id=None, strict=False, ignore=(*options.ignore, *no_features), zero_based=True, missing="as-is",
        normalize=None,
    )  # fmt: skip
    counters = (
        _in_tables(file_format, heads.files, probe, records)
        if file_format.is_table
        else _in_texts(file_format, heads, probe, records)
    )
    counts: Counter[Any] = Counter()
    for labels in counters:
        counts.update(labels)
        if len(counts) > MOST:
            break
    return counts


def _in_texts(file_format: Format, heads: Heads, options: Options, records: int) -> Iterator[dict[Any, int]]:
    from thinstream.data.stream import TextStream

    stream = file_format.open(file_format, [], options)
    assert isinstance(stream, TextStream)
    left = None if heads.are_small() else records
    for file, (text, whole) in zip(heads.files, heads.texts(records), strict=False):
        if file_format.name == "jsonl" and (quick := _in_objects(options.label, text, whole, left)) is not None:
            yield quick
            left = None if left is None else left - sum(quick.values())
            continue
        try:
            for labels, rows in _in_text(stream.form, text, whole, left):
                yield labels
                left = None if left is None else left - rows
        except InvalidInputError as error:
            raise InvalidInputError(f"{display_name(file)}, line 1: {error}") from None


def _in_text(form: TextFormat, text: Text, whole: bool, left: int | None) -> Iterator[tuple[dict[Any, int], int]]:
    """Yield the labels of a text with their counts, and the number of rows, for at most ``left`` rows."""
    at, size, bad = form.header(text) if len(text) else 0, _PIECE, 0
    end = len(text) if whole else at + form.records(text[at:])
    while at < end and bad < _BAD and left != 0:
        stop = min(at + size, end)
        stop = end if stop == end else at + form.records(text[at:stop])
        size = min(2 * size, end)  # a bad record ends a piece early, so there may be many pieces
        if stop == at:
            continue
        labels, distinct, taken, is_bad = _labels_of(form, text[at:stop])
        at, bad, labels = at + taken, bad + is_bad, labels[:left]
        rows = len(labels)
        left = None if left is None else left - rows
        names, positions = local_numbers(labels[~np.isnan(labels)], distinct)
        yield dict(zip(names, np.bincount(positions, minlength=len(names)).tolist(), strict=True)), rows


def _labels_of(form: TextFormat, text: Text) -> tuple[Any, list[Any] | None, int, bool]:
    """Return labels (or positions of labels), the distinct labels or None, bytes used, and whether a record was bad."""
    if hasattr(form, "labels_in"):
        labels: tuple[Any, list[Any], int, bool] = form.labels_in(text)
        return labels
    parsed = form.parse(text)
    return parsed.labels, parsed.met, parsed.taken, parsed.error is not None


def _in_objects(key: str, text: Text, whole: bool, left: int | None) -> "Counter[Any] | None":
    """Count labels in lines of JSON without parsing them; None if the key does not occur exactly once in each line.

    The key cannot be found inside of a string, because quotes in strings are preceded by a backslash.
    """
    data = text.tobytes()
    lines = data.splitlines()[: None if whole else -1]
    lines = [line for line in lines if line.strip()][:left]
    mark = re.escape(json.dumps(key).encode()) + rb"\s*:\s*"
    values = re.findall(mark + rb'("(?:[^"\\]|\\.)*"|[^\s,}\]]+)', b"\n".join(lines))
    if len(values) != len(lines):
        return None
    counts: Counter[Any] = Counter()
    for written, count in Counter(values).items():
        try:
            label = json.loads(written)
        except ValueError:
            return None
        if label is not None:
            counts[label_of(label) if isinstance(label, float) else label] += count
    return counts


def _in_tables(file_format: Format, files: list[str], options: Options, records: int) -> Iterator[dict[Any, int]]:
    """Count labels in the label column of a table."""
    from thinstream.data.tables.arrow import ArrowRows, labels_of

    stream = file_format.open(file_format, files, options)
    assert isinstance(stream, ArrowRows)
    size = stream.size
    left = records if size is None or size > _SMALL_TABLE else size
    for number, source in enumerate(stream.sources):
        part = stream.part(number)
        if stream.label not in part.columns:
            return
        for batch in part.records([stream.label], 0, _ROWS):
            labels = labels_of(batch.column(0), stream.label, source)[:left].tolist()
            left -= len(labels)
            yield Counter(label_of(x) if isinstance(x, float) else x for x in labels if x is not None and x == x)
            if left <= 0:
                return


# Classes, inferred from the labels in the sample.

#: The most classes in a message.
_SHOWN = 6
#: More different numbers than this are not classes if they are more than half as many as the rows.
MANY = 100
#: Labels that are missing. The word None is a class.
_NO_LABEL = tuple(word for word in NOTHING if word != "None")
#: Pairs of words of which the second is positive, whichever is rarer.
_PAIRS = {
    ("false", "true"), ("no", "yes"), ("n", "y"), ("f", "t"), ("ham", "spam"), ("neg", "pos"), ("negative", "positive"),
    ("off", "on"), ("bad", "good"),
}  # fmt: skip


def positive_last(counts: "Counter[Any]", classes: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return two words with the rarer one last, as the positive class. Pairs like no and yes keep their order.

    >>> positive_last(Counter({"damaged": 3, "ontime": 9}), ("damaged", "ontime"))
    ('ontime', 'damaged')
    >>> positive_last(Counter({"No": 3, "Yes": 9}), ("No", "Yes"))
    ('No', 'Yes')
    """
    if not _are_words(classes) or counts[classes[0]] >= counts[classes[1]]:
        return classes
    return classes[1], classes[0]


def _are_words(classes: tuple[Any, ...]) -> bool:
    """Return whether there are two classes whose words do not determine which is positive."""
    if len(classes) != 2 or not all(isinstance(label, str) for label in classes):
        return False
    return tuple(sorted(label.casefold() for label in classes)) not in _PAIRS


def classes_in(counts: "Counter[Any]") -> tuple[Any, ...] | None:
    """Return the classes, with the positive one second of two; None if labels are numbers that are positive above 0.

    Numbers are classes if there are two of them other than -1 and 1, or more that are all integers. Strings are always
    classes, and if one label is a string, all are read as strings.

    >>> classes_in(Counter({"yes": 3, "no": 9})), classes_in(Counter({2: 1, 0: 5, 1: 4}))
    (('no', 'yes'), (0, 1, 2))
    >>> classes_in(Counter({1: 8, -1: 8})), classes_in(Counter({0: 5})), classes_in(Counter({0.5: 1, 2: 1, 0: 9}))
    (None, (0, 1), None)
    """
    labels = [label for label in counts if label not in _NO_LABEL]
    kinds = {kind_of(label) for label in labels}
    if not labels or kinds == {"numbers"}:
        return _numbers(sorted(labels), counts.total())
    if len(labels) > MOST:
        raise InvalidInputError(
            f"there are more than {MOST:,} different labels like {labels[0]!r}. Choose another label column with "
            "--label, or pass --grow-classes to allow any number of classes."
        )
    if len(kinds) > 1:
        labels = [str(label) for label in labels]
    if kinds == {"booleans"}:
        return (False, True)
    if len(labels) < 2:
        raise InvalidInputError(
            f"there must be at least two classes, but all labels in the first records are {labels[0]!r}. Pass the "
            "classes with --classes, or read more records with --look."
        )
    return tuple(sorted(labels))


def _numbers(labels: list[Any], rows: int) -> tuple[Any, ...] | None:
    if labels == [0]:
        return (0, 1)
    if len(labels) > MOST or (len(labels) > MANY and 2 * len(labels) > rows):
        raise InvalidInputError(
            f"labels have {f'more than {MOST:,}' if len(labels) > MOST else len(labels)} different numbers like "
            f"{labels[0]}, {labels[1]}, {labels[2]}. This looks like regression, but thinstream is for classification. "
            "Pass "
            "--positive-above NUMBER to make rows with larger labels positive, --classes to name the classes, or "
            "--label to choose another column."
        )
    if len(labels) < 2 or labels == [-1, 1] or len(labels) > MOST:
        return None
    return tuple(labels) if len(labels) == 2 or all(isinstance(label, int) for label in labels) else None


def describe_classes(label_counts: "Counter[Any]", classes: tuple[Any, ...]) -> list[str]:
    """Return a message on the classes, except for 0 and 1.

    >>> describe_classes(Counter({"yes": 3, "no": 9}), ("no", "yes"))
    ["labels are 'no' (9) and 'yes' (3); 'yes' is positive"]
    """
    if classes == (0, 1):
        return []
    counts = {str(label): count for label, count in label_counts.items()}
    shown = [f"{label!r} ({counts.get(str(label), 0):,})" for label in classes[:_SHOWN]]
    if len(classes) == 2:
        is_rarer = counts.get(str(classes[1]), 0) < counts.get(str(classes[0]), 0)
        reason = "it is rarer" if is_rarer else "it comes later in the alphabet"
        why = f", because {reason} (change this with --classes NEG,POS)" if _are_words(classes) else ""
        return [f"labels are {shown[0]} and {shown[1]}; {classes[1]!r} is positive{why}"]
    more = ", …" if len(classes) > _SHOWN else ""
    return [f"labels are {len(classes)} classes: {', '.join(shown)}{more}"]
