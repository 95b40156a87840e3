"""What columns are, told by their first cells."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thinstream.streams.looking.heads import are_seen_whole, are_small, heads
from thinstream.streams.looking.survey import (
    BLANKS,
    COMMA,
    DATE,
    INFINITE,
    NOTHING,
    NUMBER,
    OTHER_DATE,
    TRUTH,
    WHOLE,
    WORD,
    survey,
)
from thinstream.streams.options import Options

#: Cells that are told from each other.
_CELLS = 1 << 20
#: Records that tell what a column is where more will come; and such that tell that it is no use.
ENOUGH, _MANY = 100, 20
#: Words of a cell, in the mean, that make it a text and not a category.
WORDS = 3
_SHOWN = 5
_ROLES = ("text", "categorical", "numeric", "dates")


class Column(NamedTuple):
    """Cells of a column that were looked at."""

    name: str
    counts: NDArray[np.int64]  # of each kind
    hashes: NDArray[np.uint64]  # of the first cells; even ones say nothing

    @property
    def present(self) -> int:
        """Cells that say something."""
        return int(self.counts[:BLANKS].sum() - self.counts[NOTHING])

    @property
    def is_what(self) -> str:
        """One of numeric, dates, text, categorical, mixed (of words and numbers), or empty."""
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
        there = self.hashes[self.hashes % 2 == 1]
        many_words = counts[BLANKS] + counts[WORD] >= WORDS * max(counts[WORD], 1)
        return "text" if many_words and len(np.unique(there)) > len(there) / 2 else "categorical"

    def remark(self, taken_as: str) -> str | None:
        """Why the column may be of no use, or may be meant otherwise than it is taken."""
        rows, what = len(self.hashes), self.is_what
        if taken_as in ("categorical", "mixed") and 2 * self.counts[COMMA] > self.present:
            return f"column {self.name!r} has numbers with a decimal comma, which are categories: numbers are as 12.50"
        if taken_as in ("categorical", "mixed") and 2 * self.counts[OTHER_DATE] > self.present:
            return f"column {self.name!r} has dates like 17.05.2024, which are categories: dates are as 2024-05-17"
        if rows < _MANY or what in ("text", "dates"):
            return None
        if np.all(self.hashes == self.hashes[0]):
            return f"column {self.name!r} is the same in all {rows:,} records looked at"
        whole = self.counts[WHOLE] == self.counts[:BLANKS].sum() or what == "categorical"
        if whole and len(np.unique(self.hashes)) == rows and np.all(self.hashes % 2 == 1):
            how = f"an id? --ignore {self.name} leaves it out"
            return f"column {self.name!r} is another in each of {rows:,} records: {how}"
        return None


def columns_of(form: Any, files: list[str], records: int) -> tuple[list[Column], bool]:
    """The columns of files as a `CSV` reads them, and whether enough was seen to tell what they are."""
    found: dict[str, tuple[NDArray[np.int64], list[NDArray[np.uint64]]]] = {}
    small, rows = are_small(files), 0
    for text, whole in heads(files, records):
        start = form.header(text) if len(text) else 0
        end = len(text) if whole else start + form.records(text[start:])
        if end <= start or not form.order:
            continue
        width, left = len(form.order), max(records - rows, 0)
        counts, hashes, met = surveyed(
            text[start:end], form.between, width, min(left, _CELLS // width), end if small else left
        )
        for k, name in enumerate(form.order):
            before, parts = found.get(name, (0, []))
            found[name] = before + counts[k], [*parts, hashes[:met, k]]
        rows += met
    columns = [Column(name, counts, np.concatenate(parts)) for name, (counts, parts) in found.items()]
    return columns, rows >= ENOUGH or are_seen_whole(files)


def surveyed(
    text: NDArray[np.uint8], between: str, width: int, hashed: int, most: int
) -> tuple[NDArray[np.int64], NDArray[np.uint64], int]:
    """(kinds of cells of each column, hashes of the first, how many records) of a text of CSV without its header."""
    counts = np.zeros((width, OTHER_DATE + 1), np.int64)
    hashes = np.empty((min(hashed, len(text)), width), np.uint64)
    met = int(survey(text.copy(), ord(between), counts, hashes, most))
    return counts, hashes, met


def declared(options: Options, columns: list[Column]) -> dict[str, Any]:
    """The options that say what columns are found to be that are not declared."""
    free = [column for column in columns if column.name not in taken(options)]
    found = {role: [column.name for column in free if column.is_what == role] for role in ("numeric", "dates", "text")}
    return with_found(options, found)


def taken(options: Options) -> set[str | None]:
    """Columns of which it is said what they are."""
    named = {*options.text, *options.categorical, *options.numeric, *options.dates, *options.ignore}
    return {*named, options.label, options.weight, options.id}


def with_found(options: Options, found: dict[str, list[str]]) -> dict[str, Any]:
    """The options that name columns, with those found; those that did not change are left out."""
    more = {role: tuple(sorted({*getattr(options, role), *names})) for role, names in found.items()}
    return {role: names for role, names in more.items() if len(names) > len(getattr(options, role))}


def in_words(options: Options, columns: list[Column]) -> list[str]:
    """What a user is told of the columns: which there are of each kind, and which may be of no use."""
    others = {*options.ignore, options.label, options.weight}
    kinds: dict[str, list[str]] = {}
    remarks: list[str] = []
    for column in columns:
        if column.name not in others:
            role = next((role for role in _ROLES if column.name in getattr(options, role)), column.is_what)
            kinds.setdefault(role, []).append(column.name)
            remarks += [remark] if (remark := column.remark(role)) else []
    parts = [f"{len(names):,} {kind} ({_named(names)})" for kind, names in sorted(kinds.items())]
    told = [f"columns: {', '.join(parts)}"] if parts else []
    more = len(remarks) - _SHOWN
    return told + remarks[:_SHOWN] + ([f"and {more:,} more such columns"] if more > 0 else [])


def _named(names: list[str]) -> str:
    return ", ".join(names[:_SHOWN]) + (", …" if len(names) > _SHOWN else "")
