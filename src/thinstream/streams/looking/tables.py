"""What keys of JSON Lines, and columns of Parquet, Arrow and frames, are: told by their types and first values."""

import csv
import io
import json
from collections.abc import Mapping, Sequence
from datetime import date
from numbers import Number
from typing import Any

import numpy as np

from thinstream.streams.looking.columns import ENOUGH, Column, surveyed, taken, with_found
from thinstream.streams.looking.heads import begin
from thinstream.streams.options import Options

#: Records that are looked at: enough to tell texts from categories.
RECORDS = 1000
Record = Mapping[str, Any]


def objects_in(files: list[str], records: int) -> tuple[list[Record], bool]:
    """The first lines of JSON, as far as they are objects; and whether that is all of the first file."""
    found: list[Record] = []
    text, whole = begin(files[0], min(records, RECORDS))
    lines = text.split(b"\n", RECORDS)
    for line in lines[:RECORDS][: None if whole else -1]:
        try:
            value = json.loads(line) if line.strip() else None
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict):
            found.append(value)
    return found, whole and len(lines) <= RECORDS and len(files) == 1


def rows_in(stream: Any, records: int) -> tuple[list[Record], bool]:
    """Return the first rows of a table with named columns, without columns of lists, and whether these are all rows.

    Row groups and record batches make no difference: rows are gathered from as many as necessary.
    """
    part = stream.part(0)
    if {stream.indices, stream.values} <= {*part.columns}:
        return [], True
    rows: list[Record] = []
    limit = min(records, RECORDS)
    for batch in part.records(part.columns, 0, limit):
        kinds = [(field.name, str(field.type)) for field in batch.schema]
        names = [name for name, kind in kinds if not kind.startswith(("list", "large_list", "struct", "map"))]
        rows += batch.select(names).slice(0, limit - len(rows)).to_pylist()
        if len(rows) == limit:
            break
    return rows, len(stream.places) == 1 and (len(rows) < limit or len(rows) == part.count())


def kinds_in(records: Sequence[Record]) -> list[tuple[Column, str | None]]:
    """Columns as CSV would have them, and what each is declared to be: where types and cells of CSV would differ.

    Numbers are numeric, and texts that look like numbers categories, whatever a column of CSV would be with them.

    >>> rows = [{"from": "ann", "zip": f"0{hour}", "body": f"see you at {hour}", "size": hour} for hour in range(20)]
    >>> {column.name: kind for column, kind in kinds_in(rows)}
    {'from': None, 'zip': 'categorical', 'body': 'text', 'size': 'numeric'}
    """
    types: dict[str, set[type]] = {}
    for record in records:
        for name, value in record.items():
            if value is not None:
                types.setdefault(name, set()).add(_kind(value))
    names = [name for name, kinds in types.items() if object not in kinds]
    return [(column, _declared(types[column.name], column.is_what)) for column in _columns(records, names)]


def _declared(kinds: set[type], what: str) -> str | None:
    if kinds == {float}:
        return "numeric"
    if kinds == {date}:
        return "dates"
    if kinds == {str}:
        return {"numeric": "categorical", "mixed": "categorical", "dates": "dates", "text": "text"}.get(what)
    return None


def _kind(value: Any) -> type:
    """Of numbers and truth, of times, of text, or of all else."""
    if isinstance(value, Number | np.bool_):
        return float
    return next((kind for kind in (date, str) if isinstance(value, kind)), object)


def _columns(records: Sequence[Record], names: list[str]) -> list[Column]:
    """The cells, by way of CSV."""
    if not names:
        return []
    out = io.StringIO()
    lines = csv.writer(out, lineterminator="\n", quoting=csv.QUOTE_ALL)
    lines.writerows([["" if (cell := record.get(name)) is None else cell for name in names] for record in records])
    text = np.frombuffer(out.getvalue().encode("utf-8", "surrogatepass"), np.uint8)
    counts, hashes, met = surveyed(text, ",", len(names), len(records), len(records))
    return [Column(name, counts[k], hashes[:met, k]) for k, name in enumerate(names)]


def declared_in(options: Options, records: Sequence[Record], whole: bool) -> tuple[dict[str, Any], list[Column]]:
    """The options that say what columns are found to be that are not declared, and the columns."""
    kinds = kinds_in(records)
    free = taken(options)
    found: dict[str, list[str]] = {role: [] for role in ("numeric", "categorical", "dates", "text")}
    for column, kind in kinds if whole or len(records) >= ENOUGH else ():
        if kind is not None and column.name not in free:
            found[kind].append(column.name)
    return with_found(options, found), [column for column, _ in kinds]


def shared_keys(records: Sequence[Record], options: Options) -> tuple[str, ...]:
    """Keys of features, where all objects have the same ones."""
    keys = {frozenset(record) for record in records}
    if len(keys) != 1 or len(records) < 2:
        return ()
    others = {options.label, options.weight, options.id, *options.ignore}
    return tuple(sorted(next(iter(keys)) - others))
