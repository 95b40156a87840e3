"""What the columns of CSV files are, told by their first cells."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thinstream.streams.looking.heads import are_small, heads
from thinstream.streams.looking.survey import BLANKS, DATE, INFINITE, NOTHING, NUMBER, WHOLE, WORD, survey
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
    def is_what(self) -> str:
        """One of numeric, dates, text, categorical, mixed (of words and numbers), or empty."""
        counts = self.counts
        numbers, present = int(counts[NUMBER] + counts[WHOLE]), int(counts[:BLANKS].sum() - counts[NOTHING])
        if not present:
            return "empty"
        if numbers + counts[INFINITE] == present:
            return "numeric"
        if counts[DATE] == present:
            return "dates"
        if numbers:
            return "mixed"
        there = self.hashes[self.hashes % 2 == 1]
        many_words = counts[BLANKS] + counts[WORD] >= WORDS * max(counts[WORD], 1)
        return "text" if many_words and len(np.unique(there)) > len(there) / 2 else "categorical"

    def remark(self) -> str | None:
        """Why the column may be of no use."""
        rows, what = len(self.hashes), self.is_what
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
        counts = np.zeros((width, BLANKS + 1), np.int64)
        hashes = np.empty((min(left, _CELLS // width, end - start), width), np.uint64)
        met = survey(text[start:end].copy(), ord(form.between), counts, hashes, end if small else left)
        for k, name in enumerate(form.order):
            before, parts = found.get(name, (0, []))
            found[name] = before + counts[k], [*parts, hashes[:met, k]]
        rows += met
    columns = [Column(name, counts, np.concatenate(parts)) for name, (counts, parts) in found.items()]
    return columns, small or rows >= ENOUGH


def declared(options: Options, columns: list[Column]) -> dict[str, Any]:
    """The options that say what columns are found to be that are not declared."""
    named = {*options.text, *options.categorical, *options.numeric, *options.dates, *options.ignore}
    free = [column for column in columns if column.name not in {*named, options.label, options.weight, options.id}]
    found: dict[str, Any] = {
        role: tuple(sorted({*getattr(options, role), *(column.name for column in free if column.is_what == role)}))
        for role in ("numeric", "dates", "text")
    }
    return {role: names for role, names in found.items() if len(names) > len(getattr(options, role))}


def in_words(options: Options, columns: list[Column]) -> list[str]:
    """What a user is told of the columns: how many there are of each kind, and which may be of no use."""
    others = {*options.ignore, options.label, options.weight}
    kinds: dict[str, list[str]] = {}
    for column in columns:
        if column.name not in others:
            role = next((role for role in _ROLES if column.name in getattr(options, role)), column.is_what)
            kinds.setdefault(role, []).append(column.name)
    parts = [f"{len(names):,} {kind}{_named(kind, names)}" for kind, names in sorted(kinds.items())]
    told = [f"columns: {', '.join(parts)}"] if parts else []
    remarks = [remark for column in columns if column.name not in others and (remark := column.remark())]
    more = len(remarks) - _SHOWN
    return told + remarks[:_SHOWN] + ([f"and {more:,} more such columns"] if more > 0 else [])


def _named(kind: str, names: list[str]) -> str:
    """Which these are, where it is no matter of course."""
    few = len(names) <= _SHOWN and kind not in ("numeric", "categorical")
    return f" ({', '.join(names)})" if few else ""
