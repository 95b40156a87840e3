"""What the columns of CSV files are, told by their first cells."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thinstream.streams.looking.heads import are_small, heads
from thinstream.streams.looking.survey import DATE, INFINITE, NOTHING, NUMBER, WHOLE, WORD, survey
from thinstream.streams.options import Options

#: Cells looked at.
_CELLS = 1 << 22
#: Records that tell what a column is where more will come; and such that tell that it is no use.
_ENOUGH, _MANY = 100, 20
#: Words of a cell, in the mean, that make it a text and not a category.
_WORDS = 3
_SHOWN = 5
_ROLES = ("text", "categorical", "numeric", "dates")


class Column(NamedTuple):
    """Cells of a column that were looked at."""

    name: str
    kinds: NDArray[np.uint8]
    hashes: NDArray[np.uint32]

    @property
    def is_what(self) -> str:
        """One of numeric, dates, text, categorical, mixed (of words and numbers), or empty."""
        present = self.kinds[self.kinds != NOTHING]
        if not len(present):
            return "empty"
        if np.all((present == NUMBER) | (present == WHOLE) | (present == INFINITE)):
            return "numeric"
        if np.all(present == DATE):
            return "dates"
        if np.any(present <= WHOLE):
            return "mixed"
        blanks = present[present >= WORD].astype(np.int64) - WORD
        is_text = len(blanks) and blanks.mean() + 1 >= _WORDS and self._distinct > len(present) / 2
        return "text" if is_text else "categorical"

    @property
    def _distinct(self) -> int:
        return len(np.unique(self.hashes[self.kinds != NOTHING]))

    def remark(self) -> str | None:
        """Why the column may be of no use."""
        rows, what = len(self.kinds), self.is_what
        if rows < _MANY or what in ("text", "dates"):
            return None
        if np.all(self.hashes == self.hashes[0]):
            return f"column {self.name!r} is the same in all {rows:,} records looked at"
        whole = np.all(self.kinds == WHOLE) or what == "categorical"
        if whole and self._distinct == rows:
            how = f"an id? --ignore {self.name} leaves it out"
            return f"column {self.name!r} is another in each of {rows:,} records: {how}"
        return None


def columns_of(form: Any, files: list[str], records: int) -> tuple[list[Column], bool]:
    """The columns of files as a `CSV` reads them, and whether enough was seen to tell what they are."""
    found: dict[str, list[tuple[NDArray[np.uint8], NDArray[np.uint32]]]] = {}
    small, rows = are_small(files), 0
    for text, whole in heads(files, records):
        start = form.header(text) if len(text) else 0
        order = form.order
        end = len(text) if whole else start + form.records(text[start:])
        most = (len(text) if small else records - rows) if order else 0
        most = min(most, _CELLS // max(len(order), 1), end - start)
        kinds, hashes = np.empty((most, len(order)), np.uint8), np.empty((most, len(order)), np.uint32)
        met = survey(text[start:end].copy(), ord(form.between), kinds, hashes) if most else 0
        for k, name in enumerate(order):
            found.setdefault(name, []).append((kinds[:met, k], hashes[:met, k]))
        rows += met
    parts = {name: [np.concatenate(each) for each in zip(*cells, strict=True)] for name, cells in found.items()}
    return [Column(name, *cells) for name, cells in parts.items()], small or rows >= _ENOUGH


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
