"""OUT.csv: all that the page says. New rows take the place of those of the same set, tool and column."""

import csv
from collections.abc import Iterable
from io import StringIO
from pathlib import Path
from typing import Any

from thinstream.files import replacing

Row = dict[str, Any]
HIDDEN = ("wrong",)  # too long for a table, and only needed to compare
NUMBERS = (int, float)


def merged(old: Iterable[Row], new: Iterable[Row]) -> list[Row]:
    """All rows, those of a set, tool and column from the new ones if they have any.

    >>> merged([{"set": "a", "tool": "b", "column": "c", "error": 1}], [{"set": "a", "tool": "b", "column": "c"}])
    [{'set': 'a', 'tool': 'b', 'column': 'c'}]
    """
    new = list(new)
    fresh = {_place(row) for row in new}
    return [row for row in old if _place(row) not in fresh] + new


def _place(row: Row) -> tuple[str, str, str]:
    return row["set"], row["tool"], row["column"]


def save(path: Path, rows: Iterable[Row]) -> None:
    """Write the table, its rows in order. Columns that the file has stay where they are."""
    rows = sorted(rows, key=_place)
    names = dict.fromkeys(key for row in rows for key in row)
    columns = [name for name in dict.fromkeys([*_header(path), *names]) if name in names and name not in HIDDEN]
    text = StringIO()
    writer = csv.DictWriter(text, columns, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    with replacing(path) as file:
        file.write_text(text.getvalue(), encoding="utf-8")


def _header(path: Path) -> list[str]:
    """Return the names of the columns of a file; none if it does not exist."""
    if not path.exists():
        return []
    with path.open(encoding="utf-8", newline="") as file:
        return next(csv.reader(file), [])


def load(path: Path) -> list[Row]:
    """What was saved; nothing if nothing was."""
    if not path.exists():
        return []
    with path.open(encoding="utf-8", newline="") as file:
        return [{key: _value(text) for key, text in row.items() if text != ""} for row in csv.DictReader(file)]


def _value(text: str) -> Any:
    for kind in NUMBERS:
        try:
            return kind(text)
        except ValueError:
            continue
    return text
