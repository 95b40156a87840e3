"""Tables of Arrow in memory, here or elsewhere, as a stream: what engines hand over instead of files."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from thinstream.errors import InvalidInputError
from thinstream.streams.tables.arrow import ArrowRows, Part


class ArrowTables(ArrowRows):
    """Rows of tables that are fetched one after another.

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
        self.tables, self.columns, self.place = tuple(tables), list(names), place

    @property
    def places(self) -> list[str]:
        """One name for all tables."""
        return [self.place]

    def _part(self, number: int) -> Part:
        return _Tables(self.tables, self.columns, self.place)

    def fingerprint(self) -> dict[str, Any]:
        """How many rows there are, and which columns are read as what."""
        return {"kind": "tables", "rows": self.size, **self._reading()}


class _Tables:
    """Several tables as one part."""

    def __init__(self, tables: Sequence[tuple[Callable[[], Any], int]], names: list[str], place: str) -> None:
        self.tables, self.names, self.place = tables, names, place

    def count(self) -> int:
        return sum(rows for _, rows in self.tables)

    def records(self, columns: list[str], start: int, rows: int) -> Iterator[Any]:
        if not 0 <= start <= self.count():
            raise InvalidInputError(f"{self.place} has {self.count()} rows, cannot go on from row {start}")
        left = start
        for fetch, length in self.tables:
            if length <= left:  # not fetched
                left -= length
                continue
            table = fetch().select(columns).slice(left)
            left = 0
            for batch in table.to_batches(rows) if hasattr(table, "to_batches") else [table]:
                for first in range(0, batch.num_rows, rows):
                    yield batch.slice(first, rows)
