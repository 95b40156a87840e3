"""Arrow tables, Parquet files and Arrow files as streams. This is the only module that imports pyarrow."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import unquote

import numpy as np
from numpy.typing import NDArray

from thinstream.batch import Batch, Position
from thinstream.data.options import require_columns
from thinstream.data.sources import marks
from thinstream.data.stream import START
from thinstream.data.tables.columns import CELLS, Column, RowStream, sparse_values, weights_of
from thinstream.errors import InvalidInputError, InvalidParameterError, MissingPackageError, install, listed, near

# Import pyarrow, an optional package.


def pyarrow() -> Any:
    """Import and return the package with its parts ipc, compute and parquet."""
    try:
        import pyarrow
        import pyarrow.compute
        import pyarrow.ipc
        import pyarrow.parquet
    except ImportError as error:
        raise MissingPackageError(f"Arrow and Parquet files need pyarrow: {install('arrow')}") from error
    return pyarrow


# Arrow arrays as NumPy arrays, without a loop over rows.


def list_lengths(column: Any, name: str, path: str) -> NDArray[np.int64]:
    """Return the lengths of lists, 0 for null."""
    types = pyarrow().types
    if not any(fits(column.type) for fits in (types.is_list, types.is_large_list, types.is_fixed_size_list)):
        raise InvalidInputError(f"{path}: column {name!r} must have lists, got {column.type}")
    lengths = pyarrow().compute.list_value_length(column).fill_null(0)
    return np.asarray(lengths.to_numpy(zero_copy_only=False), dtype=np.int64)


def present_in(*arrays: Any) -> NDArray[np.bool_] | None:
    """Return where none of the arrays is null; None if nothing is null."""
    if not any(array.null_count for array in arrays):
        return None
    present: NDArray[np.bool_]
    present = np.logical_and.reduce([array.is_valid().to_numpy(zero_copy_only=False) for array in arrays])
    return present


def whole_numbers(array: Any, name: str, path: str) -> NDArray[Any]:
    """Return feature indices, as int32 if they fit."""
    pa = pyarrow()
    if not pa.types.is_integer(array.type):
        raise InvalidInputError(f"{path}: column {name!r} must have lists of integers, got {array.type}")
    try:
        numbers: NDArray[Any] = array.cast(pa.int64()).to_numpy() if array.type != pa.int32() else array.to_numpy()
    except pa.ArrowInvalid as error:
        raise InvalidInputError(f"{path}: column {name!r} has a feature index of 2^63 or more") from error
    small = numbers.dtype == np.int32 or (numbers.max(initial=0) < 2**31 and numbers.min(initial=0) >= -(2**31))
    return numbers.astype(np.int32, copy=False) if small else numbers


def floats(array: Any, name: str, path: str) -> NDArray[Any]:
    """Return numbers of any type; null as NaN."""
    pa = pyarrow()
    if pa.types.is_boolean(array.type) or pa.types.is_decimal(array.type):
        array = array.cast(pa.float64())
    if not (pa.types.is_integer(array.type) or pa.types.is_floating(array.type)):
        raise InvalidInputError(f"{path}: column {name!r} must have numbers, got {array.type}")
    numbers: NDArray[Any] = array.to_numpy(zero_copy_only=False)
    return numbers


@contextmanager
def _text_of(name: str, path: str) -> Iterator[None]:
    """Convert errors about text that is not UTF-8."""
    try:
        yield
    except (UnicodeDecodeError, pyarrow().ArrowException) as error:
        raise InvalidInputError(f"{path}: text of column {name!r} must be UTF-8, got other bytes ({error})") from error


def labels_of(array: Any, name: str, path: str) -> NDArray[Any]:
    """Return labels as a NumPy array; null is None or NaN."""
    pa = pyarrow()
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if pa.types.is_decimal(array.type):
        array = array.cast(pa.float64())
    with _text_of(name, path):
        labels: NDArray[Any] = array.to_numpy(zero_copy_only=False)
    return labels.astype(float) if pa.types.is_null(array.type) else labels


def column_of(name: str, array: Any, path: str) -> Column:
    """Return the cells of a column."""
    pa = pyarrow()
    types, arrow_type = pa.types, array.type
    if types.is_null(arrow_type):
        return Column.of_numbers(name, np.zeros(len(array)), np.zeros(len(array), np.bool_))
    if types.is_date(arrow_type) or types.is_timestamp(arrow_type):
        # NumPy rounds down, but Arrow rounds times before 1970 up
        times = array.to_numpy(zero_copy_only=False).astype("datetime64[s]")
        return Column.of_times(name, times, by_day=types.is_date(arrow_type))
    if types.is_dictionary(arrow_type):
        if array.dictionary.null_count:  # null values in the dictionary
            array = array.cast(arrow_type.value_type).dictionary_encode()
        words = _words(name, array.dictionary, path)
        codes, present = array.indices.cast(pa.int64()).fill_null(0).to_numpy(), present_in(array)
        if not len(array.dictionary):
            return Column.of_numbers(name, np.zeros(len(array)), np.zeros(len(array), np.bool_))
        valid = np.ones(len(array), np.bool_) if present is None else present
        assert words.starts is not None
        assert words.stops is not None
        return Column.of_words(name, words.text, words.starts[codes], words.stops[codes], valid)
    if any(fits(arrow_type) for fits in (types.is_string, types.is_large_string, types.is_string_view)):
        return _words(name, array, path)
    if not any(fits(arrow_type) for fits in (types.is_boolean, types.is_integer, types.is_floating, types.is_decimal)):
        allowed = "numbers, booleans, dates, text or dictionaries of text"
        raise InvalidInputError(
            f"{path}: column {name!r} must have {allowed}, got {arrow_type}. Leave it out with ignore=."
        )
    present = present_in(array)
    if types.is_boolean(arrow_type):
        return Column.of_numbers(name, array.fill_null(False).to_numpy(zero_copy_only=False), present)
    return Column.of_numbers(name, floats(array, name, path), present)


def _words(name: str, array: Any, path: str) -> Column:
    """Return a column of text, using the memory of Arrow."""
    pa = pyarrow()
    if not any(fits(array.type) for fits in (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)):
        raise InvalidInputError(f"{path}: dictionaries of column {name!r} must have text, got {array.type}")
    with _text_of(name, path):
        array = array.cast(pa.large_string())
        array.validate(full=True)
    _, ends, data = array.buffers()
    offsets = np.frombuffer(ends, np.int64)[array.offset : array.offset + len(array) + 1]
    low, high = (int(offsets[0]), int(offsets[-1])) if len(array) else (0, 0)
    text = np.frombuffer(data, np.uint8)[low:high] if high > low else np.empty(0, np.uint8)
    present = array.is_valid().to_numpy(zero_copy_only=False)
    return Column.of_words(name, text, offsets[:-1] - low, offsets[1:] - low, present)


# Files with record batches: Parquet, and the file and stream formats of Arrow IPC.

_PAGES = 1 << 18  # bytes of a Parquet column that are read at a time, instead of a whole row group


def from_row(blocks: Iterable[tuple[int, Iterable[Any]]], start: int, rows: int, source: str) -> Iterator[Any]:
    """Yield record batches of at most N rows, from row ``start`` on, of blocks with known lengths."""
    left = start
    for length, batches in blocks:
        if length <= left:  # not read
            left -= length
            continue
        for batch in batches:
            skipped = min(left, batch.num_rows)
            left -= skipped
            for first in range(skipped, batch.num_rows, rows):
                yield batch.slice(first, rows)
    if left:
        raise InvalidInputError(f"{source} has {start - left:,} rows, so reading cannot resume at row {start:,}")


@dataclass
class File:
    """A file that can be read from any row on."""

    path: Path
    columns: list[str]
    rows: Callable[[], int | None]
    #: Returns the number of rows of each block and its record batches, for these columns and about so many rows per
    #: batch.
    blocks: Callable[[list[str], int], Iterator[tuple[int, Iterable[Any]]]]

    def count(self) -> int | None:
        """Return the number of rows, or None if it needs reading the whole file."""
        with _explained(self.path):
            return self.rows()

    def records(self, columns: list[str], start: int, rows: int) -> Iterator[Any]:
        """Yield record batches of these columns, of at most N rows, from row ``start`` on."""
        with _explained(self.path):
            yield from from_row(self.blocks(columns, rows), start, rows, str(self.path))


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    """Convert errors of pyarrow to errors with the file's name."""
    try:
        yield
    except (FileNotFoundError, InvalidInputError):
        raise
    except (pyarrow().ArrowException, OSError, ValueError) as error:
        raise InvalidInputError(f"{path} cannot be read and may be damaged: {error}") from error


def _parquet(path: Path) -> File:
    """Blocks are row groups."""
    # pre_buffer would read whole row groups
    options = {"buffer_size": _PAGES, "pre_buffer": False, "page_checksum_verification": True}
    file = pyarrow().parquet.ParquetFile(path, **options)

    def blocks(columns: list[str], rows: int) -> Iterator[tuple[int, Iterable[Any]]]:
        for group in range(file.num_row_groups):
            batches = file.iter_batches(batch_size=rows, row_groups=[group], columns=columns)
            yield file.metadata.row_group(group).num_rows, batches

    return File(path, list(file.schema_arrow.names), lambda: int(file.metadata.num_rows), blocks)


def _ipc_file(path: Path) -> File:
    """Blocks are record batches. Feather version 2 is the same format."""
    pa = pyarrow()

    def batches(columns: list[str] | None = None) -> Iterator[Any]:
        included = None if columns is None else sorted(schema.get_field_index(name) for name in columns)
        # not mapped, so that used memory is freed
        reader = pa.ipc.open_file(pa.OSFile(str(path)), options=pa.ipc.IpcReadOptions(included_fields=included))
        return (reader.get_batch(k) for k in range(reader.num_record_batches))

    schema = pa.ipc.open_file(pa.OSFile(str(path))).schema
    names = list(schema.names)
    return File(
        path,
        names,
        lambda: sum(batch.num_rows for batch in batches(names[:1])),
        lambda columns, rows: ((batch.num_rows, map(_validated, [batch])) for batch in batches(columns)),
    )


def _ipc_stream(path: Path) -> File:
    """Blocks are record batches."""

    def reader() -> Any:
        return pyarrow().ipc.open_stream(pyarrow().OSFile(str(path)))

    def blocks(columns: list[str], rows: int) -> Iterator[tuple[int, Iterable[Any]]]:
        return ((batch.num_rows, map(_validated, [batch.select(columns)])) for batch in reader())

    return File(path, list(reader().schema.names), lambda: None, blocks)


def _validated(batch: Any) -> Any:
    """Return the batch if its offsets and codes are valid: a damaged one would be read beyond its end."""
    batch.validate(full=True)
    return batch


def open_table(path: Path) -> File:
    """Open a file in the format of its first bytes."""
    with open(path, "rb") as file:
        magic = file.read(6)
    for start, open_file in ((b"PAR1", _parquet), (b"ARROW1", _ipc_file), (b"\xff\xff\xff\xff", _ipc_stream)):
        if magic.startswith(start):
            with _explained(path):
                return open_file(path)
    more = " (version 1 of Feather is not supported)" if magic.startswith(b"FEA1") else ""
    raise InvalidInputError(f"{path} is neither a Parquet nor an Arrow IPC file{more}")


# Folders such as ``year=2024/country=NO``, as Hive and Spark write them, are columns.

#: The name of a folder of missing values.
_MISSING_FOLDER = "__HIVE_DEFAULT_PARTITION__"


def hive_columns(paths: Sequence[Path]) -> list[dict[str, Any]]:
    """Return the columns of each file from its folders ``key=value``, as numbers if all values of a key are numbers.

    >>> hive_columns([Path("day=1/city=Oslo/a.parquet"), Path("day=2/city=Rome/a.parquet")])
    [{'day': 1, 'city': 'Oslo'}, {'day': 2, 'city': 'Rome'}]
    """
    by_file: list[dict[str, Any]] = []
    for path in paths:
        parts = [part.partition("=") for part in path.parent.parts]
        by_file.append({key: unquote(value) for key, equals, value in parts if key and equals})
    for key in set.intersection(*(set(columns) for columns in by_file)):
        values = [None if columns[key] == _MISSING_FOLDER else columns[key] for columns in by_file]
        are_numbers = all(value is None or re.fullmatch(r"[-+]?\d{1,15}", value) for value in values)
        for columns, value in zip(by_file, values, strict=True):
            columns[key] = value if value is None or not are_numbers else int(value)
    common = set.intersection(*(set(columns) for columns in by_file))
    return [{key: value for key, value in columns.items() if key in common} for columns in by_file]


@dataclass
class Partitioned:
    """A file with additional columns, each with one value."""

    file: File
    values: dict[str, Any]

    @property
    def columns(self) -> list[str]:
        """The columns of the file, then the others."""
        return [*self.file.columns, *self.values]

    def count(self) -> int | None:
        """Return the number of rows, if known."""
        return self.file.count()

    def records(self, columns: list[str], start: int, rows: int) -> Iterator[Any]:
        """Yield record batches of these columns, of at most N rows, from row ``start`` on."""
        pa = pyarrow()
        own = [name for name in columns if name not in self.values] or self.file.columns[:1]
        for batch in self.file.records(own, start, rows):
            arrays = dict(zip(batch.schema.names, batch.columns, strict=True))
            for name, value in self.values.items():
                arrow_type = pa.int64() if isinstance(value, int) else pa.string()
                arrays[name] = pa.array([value], arrow_type).take(pa.array(np.zeros(batch.num_rows, np.int64)))
            yield pa.RecordBatch.from_arrays([arrays[name] for name in columns], names=columns)


# Parquet and Arrow IPC files as streams, read by row groups or record batches.
#
# Rows are either sparse, in list columns of feature indices (from 0) and values, or tables with a column per feature,
# hashed by name.


class Part(Protocol):
    """A file, or another source of record batches."""

    @property
    def columns(self) -> list[str]:
        """The column names."""

    def count(self) -> int | None:
        """Return the number of rows, if known."""

    def records(self, columns: list[str], start: int, rows: int) -> Iterator[Any]:
        """Yield record batches of these columns, of at most N rows, from row ``start`` on."""


class ArrowRows(RowStream):
    """The meaning of columns from any source; `ArrowFiles` explains the parameters."""

    def __init__(
        self,
        *,
        label: str | None = "label",
        weight: str | None = None,
        indices: str = "indices",
        values: str = "values",
        ignore: Sequence[str] = (),
        required: Sequence[str] = (),
        n_features: int | None = None,
        strict: bool = True,
        row_id: str | None = None,
        **shared: Any,
    ) -> None:
        pyarrow()  # raises early if it is not installed
        super().__init__(**shared)
        self.label, self.weight, self.indices, self.values = label, weight, indices, values
        self.ignore, self.required, self.n_features = tuple(ignore), tuple(required), n_features
        self.strict = strict
        self.row_id = row_id

    sources: list[str]  # names of the parts in messages

    def part(self, number: int) -> Part:
        """Return the part with this number."""
        raise NotImplementedError

    @cached_property
    def size(self) -> int | None:
        """The number of rows, if it is known without reading all parts."""
        counts = [self.part(number).count() for number in range(len(self.sources))]
        return None if None in counts else sum(count for count in counts if count is not None)

    @property
    def feature_space(self) -> dict[str, Any]:
        return {} if {self.indices, self.values} <= set(self.part(0).columns) else super().feature_space

    @property
    def feature_columns(self) -> list[str]:
        """The feature columns, unless features are in lists."""
        reading = _Reading(self, self.sources[0], self.part(0).columns)
        return [] if reading.lists else reading.features

    def _reading(self) -> dict[str, Any]:
        """Return the roles of columns, for fingerprints."""
        columns = [self.label, self.weight, self.indices, self.values, *self.ignore]
        grow = {} if self.book is None else {"grow_classes": True}
        missing = {} if self.missing == "as-is" else {"missing": self.missing}
        space = {name: value for name, value in self.feature_space.items() if name != "hashing"}
        dates = {"dates": [*self.table.dates]} if self.table.dates else {}
        return {"columns": columns, "classes": repr(self._told), **grow, **missing, **space, **dates}

    def batches(self, start: Position = START) -> Iterator[Batch]:
        """Yield the rows from ``start`` on; in positions, ``offset`` counts rows of the part."""
        row, sources = start.row, self.sources
        if not 0 <= start.part < len(sources):
            raise InvalidInputError(
                f"there are {len(sources)} files, so reading cannot resume in file {start.part + 1}"
            )
        for number in range(start.part, len(sources)):
            offset = start.offset if number == start.part else 0
            part = self.part(number)
            reading = _Reading(self, sources[number], part.columns)
            for records in part.records(reading.columns, offset, reading.rows_per_batch):
                batch = reading.batch(records, offset)
                offset, row = offset + len(batch), row + len(batch)
                yield replace(batch, first_row=row - len(batch), position=Position(number, offset, 0, row))


class ArrowFiles(ArrowRows):
    """Parquet (``.parquet``) and Arrow IPC files (``.arrow``, ``.feather``; file or stream format) as a stream.

    Parameters
    ----------
    *paths : path
        The files, which must have the same columns.
    label : str or None
        Column of the labels: numbers (> 0 is positive), booleans, or the values in ``classes``. None: no labels.
    weight : str or None
        Column of the weights. Default: ``weight``, if rows are lists and this column exists.
    indices, values : str
        List columns of feature indices and values. If both exist, other columns are ignored.
    hasher : Hasher
        Maps feature names to indices if each feature has its own column. Numbers and booleans have the name of the
        column, text and dictionaries ``column=text``. Nulls and zeros are absent.
    ignore, required : sequence of str
        Columns that are not features, and columns that must exist.
    classes : (negative, positive), or more
        The two labels.
    cross : list of tuples of names
        Columns to cross, see `from_memory`. They must exist if ``strict``.
    numeric, categorical, dates : sequence of str
        Columns declared as numbers, categories or dates, see `Options`.
    text, ngrams, chars, lower, stop, binary
        Text columns, and how they are tokenized, see `Options`.
    n_features : int
        The number of features of rows in lists. Default: that of each batch.
    row_id : str or None
        Column of the row ids, of any type.
    dtype : {"float32", "float64"}
        Data type of the values.
    rows_per_batch : int
        The most rows in memory, unless a block of the file has more.

    Examples
    --------
    >>> import pyarrow as pa, pyarrow.parquet, tempfile, pathlib
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = pathlib.Path(folder.name) / "rows.parquet"
    >>> table = pa.table({"label": [True, False], "indices": [[0, 7], [2]], "values": [[1.0, 2.0], [0.5]]})
    >>> pa.parquet.write_table(table, path)
    >>> [batch] = ArrowFiles(path).batches()
    >>> batch.y, batch.indices, batch.values
    (array([ 1, -1], dtype=int8), array([0, 7, 2], dtype=int32), array([1. , 2. , 0.5], dtype=float32))
    >>> folder.cleanup()

    """

    def __init__(self, *paths: str | PathLike[str], **columns: Any) -> None:
        if not paths:
            raise InvalidParameterError("ArrowFiles needs at least one path")
        super().__init__(**columns)
        self.paths = [Path(path) for path in paths]
        self.sources = self.files = [str(path) for path in self.paths]
        self._partitions = hive_columns(self.paths)

    def part(self, number: int) -> Part:
        """Return a file, with the columns that its folders have."""
        file = open_table(self.paths[number])
        values = {name: value for name, value in self._partitions[number].items() if name not in file.columns}
        return Partitioned(file, values) if values else file

    def fingerprint(self) -> dict[str, Any]:
        """Return the properties of the files and the roles of columns."""
        properties = marks(self.files)
        heads = zip(self.paths, properties.pop("sizes"), properties.pop("heads"), strict=True)
        files = [{"name": path.name, "size": size, "head": head} for path, size, head in heads]
        return {"kind": "arrow", "files": files, **properties, **self._reading()}


class ArrowTables(ArrowRows):
    """Rows of Arrow tables that are fetched one after another, for engines that pass tables instead of files.

    A position counts rows of all tables together, so it does not depend on the sizes of the tables.

    Parameters
    ----------
    tables : sequence of (function, int)
        Functions that each return a table (or record batch), with the number of its rows.
    names : sequence of str
        Names of the columns.
    source : str
        Name of the source in messages.
    **columns
        The meaning of the columns, see `ArrowFiles`.

    Examples
    --------
    >>> import pyarrow as pa
    >>> one = pa.table({"label": [True, False], "indices": [[0, 7], [2]], "values": [[1.0, 2.0], [0.5]]})
    >>> stream = ArrowTables([(lambda: one, 2), (lambda: one.slice(1), 1)], one.column_names)
    >>> [batch.position.row for batch in stream.batches()]
    [2, 3]

    """

    def __init__(
        self,
        tables: Sequence[tuple[Callable[[], Any], int]],
        names: Sequence[str],
        source: str = "table",
        **columns: Any,
    ) -> None:
        super().__init__(**columns)
        self.tables, self.columns, self.sources = tuple(tables), list(names), [source]

    def part(self, number: int) -> Part:
        """Return all tables together."""
        return self

    def fingerprint(self) -> dict[str, Any]:
        """Return the number of rows and the roles of columns."""
        return {"kind": "tables", "rows": self.size, **self._reading()}

    def count(self) -> int:
        return sum(rows for _, rows in self.tables)

    def records(self, columns: list[str], start: int, rows: int) -> Iterator[Any]:
        """Yield record batches of these columns, of at most N rows, from row ``start`` on."""

        def cut(fetch: Callable[[], Any]) -> Iterator[Any]:
            table = fetch().select(columns)
            yield from table.to_batches(rows) if hasattr(table, "to_batches") else [table]

        return from_row(((length, cut(fetch)) for fetch, length in self.tables), start, rows, self.sources[0])


class _Reading:
    """The meaning of the columns of one file."""

    def __init__(self, stream: ArrowRows, path: str, names: list[str]) -> None:
        self.stream, self.path = stream, path
        if len(set(names)) < len(names):
            raise InvalidInputError(f"{path} has several columns with the same name, got {listed(names)}")
        self.lists = stream.indices in names and stream.values in names
        self.weight = stream.weight or ("weight" if self.lists and "weight" in names else None)
        for name in (stream.label, self.weight, stream.row_id):
            if name is not None and name not in names:
                more = near(name, names, "; ") or ("; name it with --label (label=…)" if name == stream.label else "")
                raise InvalidInputError(f"{path} has no column {name!r}, only {listed(names or [''])}{more}")
        for role in ("text", "numeric", "categorical", "dates"):
            for name in getattr(stream.table, role) if stream.strict and not self.lists else ():
                if name not in names:
                    raise InvalidInputError(f"{path}: {role}: there is no column {name!r}{near(name, names, '; ')}")
        if missing := [name for name in stream.required if name not in names]:
            more = near(missing[0], [name for name in names if name not in stream.required], "; ")
            raise InvalidInputError(f"{path} lacks columns that the model has learned from: {listed(missing)}{more}")
        other = {stream.label, self.weight, *stream.ignore}
        self.features = [stream.indices, stream.values] if self.lists else [n for n in names if n not in other]
        if not self.lists and stream.hasher is None:
            lists = f"{stream.indices!r} and {stream.values!r}"
            raise InvalidInputError(f"{path}: named columns need a hasher, unless there are list columns {lists}")
        if self.lists and stream.crosses:
            raise InvalidInputError(f"{path}: cross needs named columns, but the rows are lists of feature indices")
        if stream.strict:
            require_columns(stream.crosses.wanted, self.features, path)
        others = (stream.label, self.weight, stream.row_id)
        self.columns = list(dict.fromkeys([*self.features, *(name for name in others if name is not None)]))
        cells = stream.rows_per_batch if self.lists else max(CELLS // max(len(self.features), 1), 1)
        self.rows_per_batch = min(stream.rows_per_batch, cells)

    def batch(self, records: Any, first: int) -> Batch:
        """Return the rows of a record batch; ``first`` is the number of its first row in the file."""
        rows = self._from_lists(records, first) if self.lists else self._from_columns(records, first)
        label, weight = self.stream.label, self.weight
        y = (
            None
            if label is None
            else self.stream.coded(labels_of(records.column(label), label, self.path), self.path, first)
        )
        weights = None if weight is None else weights_of(self._numbers(records, weight), self.path, first)
        batch = replace(rows, y=y, weights=weights)
        if self.stream.row_id is None:
            return batch
        cells = records.column(self.stream.row_id).to_pylist()
        return replace(batch, ids=["" if cell is None else str(cell) for cell in cells])

    def _numbers(self, records: Any, name: str) -> NDArray[Any]:
        return floats(records.column(name), name, self.path)

    def _from_columns(self, records: Any, first: int) -> Batch:
        columns = [column_of(name, records.column(name), self.path) for name in self.features]
        return self.stream.rows_of(columns, records.num_rows, self.path, first)

    def _from_lists(self, records: Any, first: int) -> Batch:
        pair = [records.column(name) for name in self.features]
        lengths, others = (list_lengths(*named, self.path) for named in zip(pair, self.features, strict=True))
        if not np.array_equal(lengths, others):
            row = int(np.argmax(lengths != others))
            lists = f"{lengths[row]} feature indices, but {others[row]} values"
            raise InvalidInputError(f"{self.path}: row {first + row} has {lists}")
        indptr = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        numbers, values = (column.flatten() for column in pair)
        present = present_in(numbers, values)
        if present is not None:  # nulls are absent
            indptr = np.concatenate([[0], np.cumsum(present)])[indptr].astype(np.int64)
            numbers, values = (array.filter(pyarrow().array(present)) for array in (numbers, values))
        indices = whole_numbers(numbers, self.features[0], self.path)
        numbers_of_rows = floats(values, self.features[1], self.path)
        checked = sparse_values(numbers_of_rows, self.stream.dtype, indptr, indices, self.path, first)
        needed = max(int(indices.max(initial=-1)) + 1, 0)
        width = needed if self.stream.n_features is None else self.stream.n_features
        try:
            return Batch.of(indptr, indices, checked, width, first_row=first)
        except InvalidInputError as error:
            raise InvalidInputError(f"{self.path}: {error}") from None
