"""Which keys of JSON Lines, and columns of Parquet and Arrow, hold texts: told by their first values."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from thinstream.streams.looking.columns import ENOUGH, WORDS
from thinstream.streams.looking.heads import begin

#: Records that are looked at: enough to tell texts from categories.
_RECORDS = 1000


def texts_in(records: Iterable[Mapping[str, Any]]) -> list[str]:
    """Names under which values are texts: of three words in the mean, and more than half of them different.

    >>> rows = [{"from": "ann", "body": f"see you at {hour}", "size": hour} for hour in range(ENOUGH)]
    >>> texts_in(rows)
    ['body']
    """
    cells: dict[str, list[str]] = {}
    others: set[str] = set()
    rows = 0
    for record in records:
        rows += 1
        for name, value in record.items():
            if isinstance(value, str):
                cells.setdefault(name, []).append(value)
            elif value is not None:
                others.add(name)
    if rows < ENOUGH:
        return []
    return sorted(
        name
        for name, found in cells.items()
        if name not in others
        and sum(len(text.split()) for text in found) >= WORDS * len(found)
        and len(set(found)) > len(found) / 2
    )


def objects_of(files: list[str], records: int) -> list[Mapping[str, Any]]:
    """The first lines of JSON, as far as they are objects."""
    found: list[Mapping[str, Any]] = []
    text, whole = begin(files[0], min(records, _RECORDS))
    for line in text.split(b"\n", _RECORDS)[:_RECORDS][: None if whole else -1]:
        try:
            value = json.loads(line) if line.strip() else None
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict):
            found.append(value)
    return found


def rows_of(stream: Any, records: int) -> list[Mapping[str, Any]]:
    """The first rows of a table, of the columns that hold text."""
    part = stream.part(0)
    if {stream.indices, stream.values} <= {*part.columns}:
        return []
    for batch in part.records(part.columns, 0, min(records, _RECORDS)):
        names = [field.name for field in batch.schema if str(field.type) in ("string", "large_string", "string_view")]
        rows: list[Mapping[str, Any]] = batch.select(names).to_pylist()
        return rows
    return []
