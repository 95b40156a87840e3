"""Inference of column types from sample records."""

import csv
import io
import json
from collections.abc import Mapping, Sequence
from datetime import date
from numbers import Number
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thinstream.data.cells import date_at, has_comma, is_infinite, is_missing, is_other_date, read, truth_at
from thinstream.data.inference import Heads, SchemaColumn
from thinstream.data.options import Options
from thinstream.data.text.csv import OPEN, blank_line, cell, plain_number
from thinstream.data.text.hashing import murmur
from thinstream.jit import compiled

if TYPE_CHECKING:
    from thinstream.data.tables.arrow import ArrowRows
    from thinstream.data.text.csv import CSV


# Count the types of cells in each column of CSV text, compiled.

#: Types of cells. The last three count the blanks in words, and the words that may be numbers or dates in another
#: notation.
NOTHING, NUMBER, WHOLE, DATE, INFINITE, TRUTH, WORD, BLANKS, COMMA, OTHER_DATE = range(10)
_NEWLINE, _BLANK = 10, 32
_MODULES = ("cells", "text.csv", "text.hashing", "text.characters")


@compiled(*(f"thinstream.data.{name}" for name in _MODULES))
def survey(text: Any, delimiter: Any, counts: Any, hashes: Any, most: Any) -> Any:
    """Count the types of cells in each column and hash the first cells; return the number of records, at most ``most``.

    Extra cells of a record are ignored.
    """
    i, size, rows, width = 0, len(text), 0, len(counts)
    while i < size and rows < most:
        blank = blank_line(text, i)
        if blank > 0:
            i += blank
            continue
        count = 0
        while True:
            value, end, is_known = plain_number(text, i, delimiter)
            start, stop, verdict = i, end, 0
            if not is_known:
                verdict, start, stop, _, end = cell(text, i, delimiter)
            if verdict == OPEN:
                return rows
            if count < width:
                cell_type = WORD
                if not is_known:
                    value, is_known = read(text, start, stop)
                if is_known:
                    cell_type = WHOLE if value == np.floor(value) else NUMBER
                elif is_missing(text, start, stop):
                    cell_type = NOTHING
                elif is_infinite(text, start, stop, value):
                    cell_type = INFINITE
                elif date_at(text, start, stop)[0] > 0:
                    cell_type = DATE
                elif truth_at(text, start, stop) >= 0:
                    cell_type = TRUTH
                else:
                    counts[count, COMMA] += has_comma(text, start, stop)
                    counts[count, OTHER_DATE] += is_other_date(text, start, stop)
                    for k in range(start, stop):
                        counts[count, BLANKS] += text[k] == _BLANK
                counts[count, cell_type] += 1
                if rows < len(hashes):
                    hashes[rows, count] = murmur(text, start, stop, np.uint64(0)) << np.uint64(1) | np.uint64(
                        cell_type != NOTHING
                    )
            count += 1
            i = min(end + 1, size)
            if end >= size or text[end] == _NEWLINE:
                break
        while count < width:  # a record cut short
            if rows < len(hashes):
                hashes[rows, count] = np.uint64(0)
            count += 1
        rows += 1
    return rows


# Types of columns, inferred from their first cells.

#: The most cells that are compared with each other.
_CELLS = 1 << 20
#: Records that are enough to infer types if more records follow, and to remark that a column may be useless.
ENOUGH, _MANY = 100, 20
#: A column is text, not categorical, if its cells have at least this many words on average.
WORDS = 3
_SHOWN = 5
_ROLES = ("text", "categorical", "numeric", "dates")


class Column(NamedTuple):
    """A column of the sampled records."""

    name: str
    counts: NDArray[np.int64]  # cells of each type
    hashes: NDArray[np.uint64]  # hashes of the first cells; those of missing cells are even

    @property
    def present(self) -> int:
        """The number of cells that are not missing."""
        return int(self.counts[:BLANKS].sum() - self.counts[NOTHING])

    @property
    def inferred_role(self) -> str:
        """One of numeric, dates, text, categorical, mixed (words and numbers) and empty."""
        counts, present = self.counts, self.present
        numbers = int(counts[NUMBER] + counts[WHOLE])
        if not present:
            return "empty"
        if present in (numbers + counts[INFINITE], counts[TRUTH]):
            return "numeric"
        if counts[DATE] == present:
            return "dates"
        if numbers:
            return "mixed"
        present_hashes = self.hashes[self.hashes % 2 == 1]
        many_words = counts[BLANKS] + counts[WORD] >= WORDS * max(counts[WORD], 1)
        return "text" if many_words and len(np.unique(present_hashes)) > len(present_hashes) / 2 else "categorical"

    def remark(self, role: str) -> str | None:
        """Return why the column may be useless, or may have been inferred wrongly."""
        rows, inferred = len(self.hashes), self.inferred_role
        if role in ("categorical", "mixed") and 2 * self.counts[COMMA] > self.present:
            return (
                f"column {self.name!r} has numbers with a decimal comma and is read as categorical; write numbers "
                "as 12.50"
            )
        if role in ("categorical", "mixed") and 2 * self.counts[OTHER_DATE] > self.present:
            return (
                f"column {self.name!r} has dates like 17.05.2024 and is read as categorical; write dates as 2024-05-17"
            )
        if rows < _MANY or inferred in ("text", "dates"):
            return None
        if np.all(self.hashes == self.hashes[0]):
            return f"column {self.name!r} has the same value in all of the first {rows:,} records"
        whole = self.counts[WHOLE] == self.counts[:BLANKS].sum() or inferred == "categorical"
        if whole and len(np.unique(self.hashes)) == rows and np.all(self.hashes % 2 == 1):
            return f"column {self.name!r} may be an id, all {rows:,} values differ (--ignore {self.name} leaves it out)"
        has_words = self.counts[BLANKS] >= self.counts[WORD] > 0
        if role == "categorical" and has_words and len(np.unique(self.hashes)) > rows / 2:
            return (
                f"column {self.name!r} has many different categories of several words (--text {self.name} splits them)"
            )
        return None


def columns_of(form: "CSV", heads: Heads, records: int) -> tuple[list[Column], bool]:
    """Return the columns of files as a `CSV` reads them, and whether there are enough records to infer types."""
    statistics: dict[str, tuple[NDArray[np.int64], list[NDArray[np.uint64]]]] = {}
    small, rows = heads.are_small(), 0
    for text, is_complete in heads.texts(records):
        start = form.header(text) if len(text) else 0
        end = len(text) if is_complete else start + form.records(text[start:])
        if end <= start or not form.order:
            continue
        width, left = len(form.order), max(records - rows, 0)
        counts, hashes, n_sampled = surveyed(
            text[start:end], form.between, width, min(left, _CELLS // width), end if small else left
        )
        for k, name in enumerate(form.order):
            before, parts = statistics.get(name, (0, []))
            statistics[name] = before + counts[k], [*parts, hashes[:n_sampled, k]]
        rows += n_sampled
    columns = [Column(name, counts, np.concatenate(parts)) for name, (counts, parts) in statistics.items()]
    return columns, rows >= ENOUGH or heads.are_complete()


def surveyed(
    text: NDArray[np.uint8], between: str, width: int, hashed: int, most: int
) -> tuple[NDArray[np.int64], NDArray[np.uint64], int]:
    """Return counts of cell types by column, hashes of the first cells, and the number of records of CSV text."""
    counts = np.zeros((width, OTHER_DATE + 1), np.int64)
    hashes = np.empty((min(hashed, len(text)), width), np.uint64)
    n_records = int(survey(text.copy(), ord(between), counts, hashes, most))
    return counts, hashes, n_records


def declared(options: Options, columns: list[Column]) -> dict[str, Any]:
    """Return the options that are inferred for columns without a declared role."""
    free = [column for column in columns if column.name not in taken(options)]
    names_by_role = {
        role: [column.name for column in free if column.inferred_role == role] for role in ("numeric", "dates", "text")
    }
    return with_inferred(options, names_by_role)


def taken(options: Options) -> set[str | None]:
    """Return the columns whose role is declared."""
    named = {*options.text, *options.categorical, *options.numeric, *options.dates, *options.ignore}
    return {*named, options.label, options.weight, options.id}


def with_inferred(options: Options, inferred: dict[str, list[str]]) -> dict[str, Any]:
    """Return the options that inferred columns change."""
    more = {role: tuple(sorted({*getattr(options, role), *names})) for role, names in inferred.items()}
    return {role: names for role, names in more.items() if len(names) > len(getattr(options, role))}


def describe_columns(options: Options, columns: list[Column]) -> list[str]:
    """Return messages on the columns: the names by role, and those that may be useless."""
    others = {*options.ignore, options.label, options.weight}
    names_by_role: dict[str, list[str]] = {}
    remarks: list[str] = []
    for column in columns:
        if column.name not in others:
            role = next((role for role in _ROLES if column.name in getattr(options, role)), column.inferred_role)
            names_by_role.setdefault(role, []).append(column.name)
            remarks += [remark] if (remark := column.remark(role)) else []
    parts = [f"{len(names):,} {role} ({_named(names)})" for role, names in sorted(names_by_role.items())]
    messages = [f"columns: {', '.join(parts)}"] if parts else []
    n_hidden = len(remarks) - _SHOWN
    return messages + remarks[:_SHOWN] + ([f"and {n_hidden:,} more remarks on columns"] if n_hidden > 0 else [])


def schema_of(declared_options: Options, options: Options, columns: list[Column]) -> tuple[SchemaColumn, ...]:
    """Return the columns with their roles; ``options`` have the inferred roles, ``declared_options`` do not."""
    single = {options.label: "label", options.weight: "weight", options.id: "id"}
    schema = []
    for column in columns:
        role = single.get(column.name) or ("ignored" if column.name in options.ignore else None)
        origin = "declared"
        if role is None:
            role = next((role for role in _ROLES if column.name in getattr(options, role)), None)
            if role is None or column.name not in getattr(declared_options, role):
                origin = "inferred" if role else "each cell"
            role = role or {"mixed": "numbers and words"}.get(column.inferred_role, column.inferred_role)
        schema.append(SchemaColumn(column.name, role, origin, None if column.name in single else column.remark(role)))
    return tuple(schema)


def schema_lines(schema: Sequence[SchemaColumn]) -> list[str]:
    r"""Return a table of columns and roles.

    >>> columns = SchemaColumn("age", "numeric", "inferred"), SchemaColumn("y", "label", "declared")
    >>> print("\n".join(schema_lines(columns)))
    column  role     from
    age     numeric  inferred
    y       label    declared
    """
    rows = [("column", "role", "from", "remark"), *((c.name, c.role, c.origin, c.remark or "") for c in schema)]
    widths = [max(len(row[k]) for row in rows) for k in range(3)]
    remarks = any(column.remark for column in schema)
    shown = [[cell.ljust(width) for cell, width in zip(row, widths, strict=False)] for row in rows]
    return ["  ".join([*cells, row[3]] if remarks else cells).rstrip() for cells, row in zip(shown, rows, strict=True)]


def _named(names: list[str]) -> str:
    return ", ".join(names[:_SHOWN]) + (", …" if len(names) > _SHOWN else "")


# Roles of JSON keys and of columns of Parquet, Arrow and frames, inferred from their types and first values.

#: Records that are sampled: enough to distinguish text from categories.
RECORDS = 1000
Record = Mapping[str, Any]


def objects_in(heads: Heads, records: int) -> tuple[list[Record], bool]:
    """Return the objects of the first lines of JSON, and whether these are all lines of the only file."""
    objects: list[Record] = []
    text, is_complete = heads.begin(heads.files[0], min(records, RECORDS))
    lines = text.split(b"\n", RECORDS)
    for line in lines[:RECORDS][: None if is_complete else -1]:
        try:
            value = json.loads(line) if line.strip() else None
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict):
            objects.append(value)
    return objects, is_complete and len(lines) <= RECORDS and len(heads.files) == 1


def rows_in(stream: "ArrowRows", records: int) -> tuple[list[Record], bool]:
    """Return the first rows of a table, without columns of lists, and whether these are all rows.

    Rows come from as many row groups or record batches as necessary.
    """
    part = stream.part(0)
    if {stream.indices, stream.values} <= {*part.columns}:
        return [], True
    rows: list[Record] = []
    limit = min(records, RECORDS)
    for batch in part.records(part.columns, 0, limit):
        nested = ("list", "large_list", "struct", "map")
        names = [field.name for field in batch.schema if not str(field.type).startswith(nested)]
        rows += batch.select(names).slice(0, limit - len(rows)).to_pylist()
        if len(rows) == limit:
            break
    return rows, len(stream.sources) == 1 and (len(rows) < limit or len(rows) == part.count())


def typed_columns(records: Sequence[Record]) -> list[tuple[Column, str | None]]:
    """Return columns as if they were CSV, and the role that the type of the values declares.

    Unlike in CSV, numbers are always numeric, and text that looks like numbers is categorical.

    >>> rows = [{"from": "ann", "zip": f"0{hour}", "body": f"see you at {hour}", "size": hour} for hour in range(20)]
    >>> {column.name: role for column, role in typed_columns(rows)}
    {'from': None, 'zip': 'categorical', 'body': 'text', 'size': 'numeric'}
    """
    types: dict[str, set[type]] = {}
    for record in records:
        for name, value in record.items():
            if value is not None:
                types.setdefault(name, set()).add(_base_type(value))
    names = [name for name, value_types in types.items() if object not in value_types]
    return [(column, _declared(types[column.name], column.inferred_role)) for column in _columns(records, names)]


def _declared(types: set[type], inferred: str) -> str | None:
    if types == {float}:
        return "numeric"
    if types == {date}:
        return "dates"
    if types == {str}:
        return {"numeric": "categorical", "mixed": "categorical", "dates": "dates", "text": "text"}.get(inferred)
    return None


def _base_type(value: Any) -> type:
    """Return float for numbers and booleans, date, str, or object for anything else."""
    if isinstance(value, Number | np.bool_):
        return float
    return next((base for base in (date, str) if isinstance(value, base)), object)


def _columns(records: Sequence[Record], names: list[str]) -> list[Column]:
    """Survey the values as if they were CSV."""
    if not names:
        return []
    out = io.StringIO()
    lines = csv.writer(out, lineterminator="\n", quoting=csv.QUOTE_ALL)
    lines.writerows([["" if (cell := record.get(name)) is None else cell for name in names] for record in records])
    text = np.frombuffer(out.getvalue().encode("utf-8", "surrogatepass"), np.uint8)
    counts, hashes, n_records = surveyed(text, ",", len(names), len(records), len(records))
    return [Column(name, counts[k], hashes[:n_records, k]) for k, name in enumerate(names)]


def declared_in(options: Options, records: Sequence[Record], is_complete: bool) -> tuple[dict[str, Any], list[Column]]:
    """Return the options that are inferred for columns without a declared role, and the columns."""
    columns = typed_columns(records)
    declared_columns = taken(options)
    inferred: dict[str, list[str]] = {role: [] for role in ("numeric", "categorical", "dates", "text")}
    for column, value_role in columns if is_complete or len(records) >= ENOUGH else ():
        if value_role is not None and column.name not in declared_columns:
            inferred[value_role].append(column.name)
    return with_inferred(options, inferred), [column for column, _ in columns]


def shared_keys(records: Sequence[Record], options: Options) -> tuple[str, ...]:
    """Return the feature keys, if all objects have the same keys."""
    keys = {frozenset(record) for record in records}
    if len(keys) != 1 or len(records) < 2:
        return ()
    others = {options.label, options.weight, options.id, *options.ignore}
    return tuple(sorted(next(iter(keys)) - others))
