"""Parquet and Arrow IPC files as streams, read by row groups or record batches. Needs pyarrow.

Rows are either sparse already, in list columns of feature numbers (from 0) and values, or tables with a column per
feature, hashed by name.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from thinstream.batch import Batch, Position
from thinstream.errors import InvalidInputError, InvalidParameterError, listed, near
from thinstream.streams.crossing.declared import require_columns
from thinstream.streams.sources import marks
from thinstream.streams.stream import START
from thinstream.streams.tables.arrow_columns import (
    column_of,
    floats,
    labels_of,
    list_lengths,
    present_in,
    texts_of,
    whole_numbers,
)
from thinstream.streams.tables.arrow_formats import from_row, open_table
from thinstream.streams.tables.arrow_package import pyarrow
from thinstream.streams.tables.cells import CELLS, RowStream, rows_of, sparse_values, weights_of
from thinstream.streams.tables.texts import Csr


class Part(Protocol):
    """A file, or what else holds record batches."""

    columns: list[str]

    def count(self) -> int | None:
        """Rows, where that is known."""

    def records(self, columns: list[str], start: int, rows: int) -> Iterator[Any]:
        """Record batches of these columns, of at most so many rows, from row ``start`` on."""


class ArrowRows(RowStream):
    """What columns mean, wherever they come from; `ArrowFiles` explains the parameters."""

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
        pyarrow()  # missing: better now than after hours
        super().__init__(**shared)
        self.label, self.weight, self.indices, self.values = label, weight, indices, values
        self.ignore, self.required, self.n_features = tuple(ignore), tuple(required), n_features
        self.strict = strict
        self.row_id = row_id

    places: list[str]  # what messages call each part

    def part(self, number: int) -> Part:
        """What holds the rows of a place."""
        raise NotImplementedError

    @cached_property
    def size(self) -> int | None:
        """Rows, where the parts tell without reading all of them."""
        counts = [self.part(number).count() for number in range(len(self.places))]
        return None if None in counts else sum(count for count in counts if count is not None)

    @property
    def feature_space(self) -> dict[str, Any]:
        """How names are hashed; {} where features are numbered."""
        return {} if {self.indices, self.values} <= set(self.part(0).columns) else super().feature_space

    @property
    def feature_columns(self) -> list[str]:
        """Columns that are features, where each has its own."""
        reading = _Reading(self, self.places[0], self.part(0).columns)
        return [] if reading.lists else reading.features

    def _reading(self) -> dict[str, Any]:
        """Which columns are read as what, for fingerprints."""
        columns = [self.label, self.weight, self.indices, self.values, *self.ignore]
        grow = {} if self.book is None else {"grow_classes": True}
        crossed = {"cross": self.feature_space["cross"]} if self.crosses else {}
        missing = {} if self.missing == "as-is" else {"missing": self.missing}
        texts = {"texts": self.texts.space} if self.texts.names else {}
        kinds = {kind: [*names] for kind, names in self.kinds._asdict().items() if names and kind != "numeric"}
        return {"columns": columns, "classes": repr(self._told), **grow, **crossed, **missing, **texts, **kinds}

    def batches(self, start: Position = START) -> Iterator[Batch]:
        """The rows from ``start`` on; in a position, ``offset`` counts rows of the part."""
        row, places = start.row, self.places
        if not 0 <= start.part < len(places):
            raise InvalidInputError(f"there are {len(places)} files, cannot go on in number {start.part} (from 0)")
        for number in range(start.part, len(places)):
            offset = start.offset if number == start.part else 0
            part = self.part(number)
            reading = _Reading(self, places[number], part.columns)
            for records in part.records(reading.columns, offset, reading.rows_per_batch):
                batch = reading.batch(records, offset)
                offset, row = offset + len(batch), row + len(batch)
                yield replace(batch, first_row=row - len(batch), position=Position(number, offset, 0, row))


class ArrowFiles(ArrowRows):
    """Parquet (``.parquet``) and Arrow IPC files (``.arrow``, ``.feather``; file or stream format), one after another.

    Parameters
    ----------
    *paths : path
        The files; all need the same columns.
    label : str or None
        Column of the labels: numbers (> 0 is positive), booleans, or whatever ``classes`` names. None: no labels.
    weight : str or None
        Column of the rows' weights. Default: ``weight``, if rows are lists and there is one.
    indices, values : str
        List columns of feature numbers and values. If both are there, other columns are not read.
    hasher : Hasher
        Numbers the features where each has its own column: numbers and booleans under the name of the column, text and
        dictionaries under ``column=text``. Nulls and zeros are absent.
    ignore, required : sequence of str
        Columns that are no features, and such that must be there.
    classes : (negative, positive), or more
        The two labels.
    cross : list of tuples of names
        Columns to be crossed, see `from_memory`. They must be there if ``strict``.
    numeric, categorical, dates : sequence of str
        Columns declared to be numbers, categories or dates, whatever their type: see `Options`.
    text, ngrams, chars, lower, stop, binary
        Columns of text, and how they are taken apart: see `Options`.
    n_features : int
        Width of rows of lists. Default: that of each batch.
    row_id : str or None
        Column that tells what a row is called: text, or anything that has one.
    dtype : {"float32", "float64"}
        Type of the values.
    rows_per_batch : int
        At most so many rows are in memory, as far as the file's own blocks allow.

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
            raise InvalidParameterError("ArrowFiles needs the path of a file at least")
        super().__init__(**columns)
        self.paths = [Path(path) for path in paths]
        self.places = self.files = [str(path) for path in self.paths]

    def part(self, number: int) -> Part:
        """A file."""
        return open_table(self.paths[number])

    def fingerprint(self) -> dict[str, Any]:
        """The files (name, size, time, checksums of some bytes), and which columns are read as what."""
        told = marks(self.files)
        known = zip(self.paths, told.pop("sizes"), told.pop("heads"), strict=True)
        files = [{"name": path.name, "size": size, "head": head} for path, size, head in known]
        return {"kind": "arrow", "files": files, **told, **self._reading()}


class ArrowTables(ArrowRows):
    """Rows of tables of Arrow that are fetched one after another: what engines hand over instead of files.

    A position counts rows of all tables together: it is the same wherever the rows are cut into tables.

    Parameters
    ----------
    tables : sequence of (function, int)
        Functions that answer a table (or record batch) each, with the number of its rows.
    names : sequence of str
        Names of the columns.
    place : str
        What messages call it.
    **columns
        What the columns mean, see `ArrowFiles`.

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
        place: str = "table",
        **columns: Any,
    ) -> None:
        super().__init__(**columns)
        self.tables, self.columns, self.places = tuple(tables), list(names), [place]

    def part(self, number: int) -> Part:
        """All tables together."""
        return self

    def fingerprint(self) -> dict[str, Any]:
        """How many rows there are, and which columns are read as what."""
        return {"kind": "tables", "rows": self.size, **self._reading()}

    def count(self) -> int:
        """Rows."""
        return sum(rows for _, rows in self.tables)

    def records(self, columns: list[str], start: int, rows: int) -> Iterator[Any]:
        """Record batches of these columns, of at most so many rows, from row ``start`` on."""

        def cut(fetch: Callable[[], Any]) -> Iterator[Any]:
            table = fetch().select(columns)
            yield from table.to_batches(rows) if hasattr(table, "to_batches") else [table]

        return from_row(((length, cut(fetch)) for fetch, length in self.tables), start, rows, self.places[0])


class _Reading:
    """What the columns of one file mean."""

    def __init__(self, stream: ArrowRows, path: str, names: list[str]) -> None:
        self.stream, self.path = stream, path
        if len(set(names)) < len(names):
            raise InvalidInputError(f"{path} has several columns of one name, got {listed(names)}")
        self.lists = stream.indices in names and stream.values in names
        self.weight = stream.weight or ("weight" if self.lists and "weight" in names else None)
        for name in (stream.label, self.weight, stream.row_id):
            if name is not None and name not in names:
                more = near(name, names, "; ") or ("; --label (label=…) names it" if name == stream.label else "")
                raise InvalidInputError(f"{path} has no column {name!r}, only {listed(names or [''])}{more}")
        for role, wanted in {"text": stream.texts.names, **stream.kinds._asdict()}.items():
            for name in wanted if stream.strict and not self.lists else ():
                if name not in names:
                    raise InvalidInputError(f"{path}: {role}: there is no column {name!r}{near(name, names, '; ')}")
        if missing := [name for name in stream.required if name not in names]:
            more = near(missing[0], [name for name in names if name not in stream.required], "; ")
            raise InvalidInputError(
                f"{path}: the model has learned from columns that are missing: {listed(missing)}{more}"
            )
        other = {stream.label, self.weight, *stream.ignore}
        self.features = [stream.indices, stream.values] if self.lists else [n for n in names if n not in other]
        if not self.lists and stream.hasher is None:
            lists = f"{stream.indices!r} and {stream.values!r}"
            raise InvalidInputError(f"{path}: no list columns {lists}; columns by name need a hasher, got none")
        if self.lists and stream.crosses:
            raise InvalidInputError(f"{path}: cross: rows of feature numbers have no names to be crossed")
        if stream.strict:
            require_columns(stream.crosses.wanted, self.features, path)
        others = (stream.label, self.weight, stream.row_id)
        self.columns = list(dict.fromkeys([*self.features, *(name for name in others if name is not None)]))
        cells = stream.rows_per_batch if self.lists else max(CELLS // max(len(self.features), 1), 1)
        self.rows_per_batch = min(stream.rows_per_batch, cells)

    def batch(self, records: Any, first: int) -> Batch:
        """A record batch as rows; ``first`` is its first row's number in the file."""
        rows = self._from_lists(records, first) if self.lists else self._from_columns(records, first)
        label, weight = self.stream.label, self.weight
        y = (
            None
            if label is None
            else self.stream.coded(labels_of(records.column(label), label, self.path), self.path, first)
        )
        weights = None if weight is None else weights_of(self._numbers(records, weight), self.path, first)
        try:
            batch = rows.batch(y, weights, first)
        except InvalidInputError as error:
            raise InvalidInputError(f"{self.path}: {error}") from None
        if self.stream.row_id is None:
            return batch
        cells = records.column(self.stream.row_id).to_pylist()
        return replace(batch, ids=["" if cell is None else str(cell) for cell in cells])

    def _numbers(self, records: Any, name: str) -> NDArray[Any]:
        return floats(records.column(name), name, self.path)

    def _from_columns(self, records: Any, first: int) -> Csr:
        texts = self.stream.texts.names
        columns = [
            (texts_of if name in texts else column_of)(name, records.column(name), self.path) for name in self.features
        ]
        return rows_of(columns, records.num_rows, self.stream, self.path, first)

    def _from_lists(self, records: Any, first: int) -> Csr:
        pair = [records.column(name) for name in self.features]
        lengths, others = (list_lengths(*named, self.path) for named in zip(pair, self.features, strict=True))
        if not np.array_equal(lengths, others):
            row = int(np.argmax(lengths != others))
            what = f"{lengths[row]} feature numbers, but {others[row]} values"
            raise InvalidInputError(f"{self.path}: row {first + row} has {what}")
        indptr = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        numbers, values = (column.flatten() for column in pair)
        present = present_in(numbers, values)
        if present is not None:  # nulls are absent
            indptr = np.concatenate([[0], np.cumsum(present)])[indptr].astype(np.int64)
            numbers, values = (array.filter(pyarrow().array(present)) for array in (numbers, values))
        indices = whole_numbers(numbers, self.features[0], self.path)
        given = floats(values, self.features[1], self.path)
        found = sparse_values(given, self.stream.dtype, indptr, indices, self.path, first)
        seen = max(int(indices.max(initial=-1)) + 1, 0)
        return Csr(indptr, indices, found, seen if self.stream.n_features is None else self.stream.n_features)
