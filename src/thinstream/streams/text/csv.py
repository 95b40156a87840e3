"""CSV (and TSV): a record a line, columns by name, names hashed.

Cells follow RFC 4180: in quotes they may hold delimiters, newlines and doubled quotes. What a cell gives is decided by
the cell: a finite number is a value of the feature named as its column, any other text is the feature ``column=text``
with value 1. Columns can be declared, which also finds errors: ``numeric`` ones take nothing but finite numbers,
``categorical`` ones take numbers for text, ``dates`` give their parts: ``column.month=05``. Declare columns of codes:
17297e88 may be meant as eight letters, but it is a number, too.

A cell that says nothing (empty, NA, N/A, NaN, nan, null, NULL, None, ?) is the feature ``column=?``, which no other
cell can be; see ``missing``. Infinity is an error.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thinstream.batch import plain
from thinstream.errors import InvalidInputError, listed, near
from thinstream.learners.learner import LARGEST
from thinstream.spelling import Spelled
from thinstream.streams.class_book import label_of
from thinstream.streams.crossing.declared import require_columns
from thinstream.streams.crossing.spelling import Members, of_columns, spelled
from thinstream.streams.option_texts import DELIMITERS
from thinstream.streams.text import csv_parser as parser
from thinstream.streams.text.csv_cells import AFTER_QUOTE, AS_IS, CODES, FINE, OPEN, blank_line, cell, read
from thinstream.streams.text.dates import PARTS
from thinstream.streams.text.hashed_rows import TEXTS, Class, ColumnFormat, Raw
from thinstream.streams.text.hashing import encode_names
from thinstream.streams.text.names import readable
from thinstream.streams.text.protocol import Parsed, ParseError, Text
from thinstream.streams.text.tokens import Feature, Runs, Spliced, run_features

#: Labels that no cell has: of three or more the parser gives the places.
_NEVER = (np.inf, np.inf, np.inf)
_HASHES = np.empty(0, np.uint64)
_PARTS = np.empty((len(PARTS), 0), np.uint64)
_NO_COLUMNS = parser.Columns(np.empty(0, np.int64), _HASHES, _HASHES, _HASHES, _PARTS)


class _Texts(NamedTuple):
    """The features of the cells of text: of each cell its column, how they are asked for, and where they are."""

    columns: NDArray[np.int64]
    features: Callable[[int], list[Feature]]
    spliced: Spliced


@dataclass(kw_only=True)
class CSV(ColumnFormat):
    r"""CSV with a header in each file; files of one stream have the same columns, in any order.

    Parameters
    ----------
    numeric, categorical, dates : names
        Columns declared to be numbers, categories or dates.
    missing : {"indicator", "ignore", "error", "as-is"}
        What a cell is that says nothing: ``column=?``, no feature, an error, or (but for an empty one, which is no
        feature) a word like any other.
    numbered : bool
        For files without a header: columns are called c1, c2, …
    delimiter : {",", "\\t", ";", "|"} or None
        What stands between cells. None: what the first line of a file has.
    labels, strict : bool
        Whether the column of the label must be there, and those of the weight and to be left out.
    columns : names
        Columns of features that must be there.

    Examples
    --------
    >>> from thinstream.streams.text.hashing import Hashing
    >>> form = CSV(label="spam", text=["subject"], hashing=Hashing(bits=10))
    >>> text = np.frombuffer(b'spam,size,to,subject\n1,2.5,joe,"free, FREE offer"\n0,,ann,Hello\n', np.uint8)
    >>> parsed = form.parse(text[form.header(text):])
    >>> parsed.labels, parsed.indptr, parsed.values
    (array([1., 0.]), array([0, 4, 6]), array([1. , 2. , 1. , 2.5, 1. , 1. ], dtype=float32))

    """

    ROLES = tuple(parser.KINDS)
    takes_any_bytes = True  # of cells, whatever they encode
    numeric: Sequence[str] = ()
    categorical: Sequence[str] = ()
    dates: Sequence[str] = ()
    numbered: bool = False
    delimiter: str | None = ","
    labels: bool = True
    strict: bool = True
    columns: Sequence[str] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.delimiter not in (None, *DELIMITERS):
            raise self.refused(f"delimiter must be {listed(DELIMITERS)}, got {self.delimiter!r}")
        self.between = self.delimiter or ","  # in the file that was begun last
        self._order: list[str] = []  # columns as the file has them that was begun last
        self._layout: parser.Columns | None = None
        self._classes = _classes(self.classes)
        self._met: list[Any] = []  # labels found so far, by whichever thread came first

    def header(self, text: Text) -> int:
        """Takes in the names of the columns; raises if they are not those of the files before."""
        start = mark = super().header(text)
        if self.delimiter is None:
            self.between = self._found_between(text, mark)
        if self.numbered:
            if self._layout is not None:
                return mark
            while blank := blank_line(text, start):
                start += blank
            found, _ = _first_record(text, start, ord(self.between))
            if found:
                self._lay_out([f"c{k}" for k in range(1, len(found) + 1)])
            return mark
        found, end = _first_record(text, mark, ord(self.between))
        if not found:
            if len(text) == mark:
                return mark  # an empty file
            raise InvalidInputError("the first line of a CSV file must name its columns, got an empty line")
        if self._order and sorted(self._order) != sorted(found):
            extra, missing = sorted({*found} - {*self._order}), sorted({*self._order} - {*found})
            more = f"; more: {', '.join(map(repr, extra))}" if extra else ""
            less = f"; missing: {', '.join(map(repr, missing))}" if missing else ""
            raise InvalidInputError(
                f"the files of a stream must have the same columns, in any order, got others{more}{less}"
            )
        self._lay_out(found)
        return end

    def _found_between(self, text: Text, start: int) -> str:
        """The delimiter that gives columns that are named here, most columns of several such; a comma of equals."""
        while self.numbered and (blank := blank_line(text, start)):
            start += blank
        wanted, found = {name for name in (self.label, *self.columns) if name is not None}, {}
        for delimiter in DELIMITERS:
            with suppress(InvalidInputError):
                cells = _first_record(text, start, ord(delimiter))[0]
                found[delimiter] = len(wanted.intersection(cells)), len(cells)
        return max(found, key=found.__getitem__, default=",")

    def _lay_out(self, order: list[str]) -> None:
        """From names of columns to what is done with each."""
        if len({*order}) < len(order):
            twice = next(name for k, name in enumerate(order) if name in order[:k])
            raise InvalidInputError(f"columns of a CSV file must have different names, got {twice!r} twice")
        kinds = dict.fromkeys(order, parser.AUTO)
        if missing := [name for name in self.columns if name not in kinds]:
            raise InvalidInputError(
                f"the model has learned from columns that are missing: {_some(missing)}, got {_some(order)}"
                + near(missing[0], [name for name in order if name not in self.columns], "; ")
            )
        if self.id is not None and self.id not in kinds:
            raise self._no_column("id", self.id, order)
        for role, given in self.roles.items():
            lenient = not self.strict and role in ("label", "weight", "ignore")
            for name in [given] if role in ("label", "weight") else given:
                if name is None or (name not in kinds and (lenient or (role == "label" and not self.labels))):
                    continue
                if name not in kinds:
                    raise self._no_column(role, name, order)
                kinds[name] = parser.IGNORED if role == "label" and not self.labels else parser.KINDS[role]
        if self.strict:
            no_features = (parser.LABEL, parser.WEIGHT, parser.IGNORED)
            require_columns(self.cross, [name for name, kind in kinds.items() if kind not in no_features])
        self._order = order
        self._layout = parser.Columns(
            np.array(list(kinds.values()), np.int64),
            np.array([self.hashing.code(name) for name in order], np.uint64),
            np.array([self.hashing.namespace(f"{name}=") for name in order], np.uint64),
            np.array([self.hashing.code("?", f"{name}=") for name in order], np.uint64),
            np.array([[self.hashing.namespace(f"{name}.{part}=") for name in order] for part in PARTS], np.uint64),
        )

    @property
    def _named(self) -> list[str]:
        """Columns, and the parts of each as if it were of dates, in the order of the parser's codes."""
        return [*self._order, *(f"{name}.{part}" for part in PARTS for name in self._order)]

    def _no_column(self, role: str, name: str, order: list[str]) -> InvalidInputError:
        hint = near(name, order, "; ") or ("; --label (label=…) names it" if role == "label" else "")
        if not self.numbered and any(map(is_number, order)):
            hint += "; a file whose first line holds no names is read with --no-header, its columns called c1, c2 …"
        return InvalidInputError(f"{role}: there is no column {name!r} among {_some(order)}{hint}")

    @property
    def order(self) -> list[str]:
        """All columns, as the file has them that was begun last."""
        return self._order

    @property
    def feature_columns(self) -> list[str]:
        """Columns that are features, of the file that was begun last."""
        roles = [self.label, self.weight, *self.ignore]
        return [name for name in self._order if name not in roles]

    @property
    def layout(self) -> dict[str, Any] | None:
        """What the cells of a line are, in the file that was begun last: for lines that come without a header."""
        if not self._order:
            return None
        found = {"format": "tsv" if self.between == "\t" else "csv", "columns": self._order}
        return found if self.between in ",\t" else {**found, "delimiter": self.between}

    def records(self, text: Text) -> int:
        """Up to the end of the last record that is whole: newlines in quotes end none."""
        return parser.whole_records(text, ord(self.between))

    def parse(self, text: Text) -> Parsed:
        """The rows of whole records, up to the first bad one."""
        layout, how = self._layout, self.hashing
        if layout is None:
            if bytes(text).strip(b"\r\n"):
                raise InvalidInputError("the columns of a CSV file are known from its header, got rows before a header")
            layout = _NO_COLUMNS
        # a row, or a feature, takes a character and what ends it, unless empty cells are features
        most = len(text) // (1 if self.missing == "indicator" else 2) + 2
        # a row takes what ends its cells; a bad one may come behind the last, with cells of text
        most_rows = (len(text) + 1) // max(len(layout.kinds), 2) + 1
        room, spans = Raw.empty(most, how.kind, most_rows), self.room_for_spans(most)
        cells = np.empty(((most_rows + 1) * np.count_nonzero(layout.kinds == parser.TEXT), 5), np.int64)
        hashing = (np.uint64(how.mask), how.signed, LARGEST[self.dtype], CODES[self.missing])
        met = self.labels_in(text)[1] if self.grow_classes else None
        classes = self._classes if met is None else _classes((*met, *_NEVER))
        verdict, offset, where, end, rows, texts = parser.parse(
            plain(text), ord(self.between), layout, classes, *hashing, room, spans, cells
        )
        raw, found, members = room.first(rows, self.weight is not None), None, None
        whole = np.concatenate([text, parser.BEHIND_TEXT]) if len(spans) else text
        if self.crosses:
            spans = spans[: raw.indptr[-1]]
            values = self.unsigned(raw.values, spans)
            members = of_columns(whole, spans, self._named, self.crosses, values, raw.indptr)
        named = self._spelled(whole, spans[: raw.indptr[-1]]) if how.spells else None
        if texts:
            raw, found = self._with_texts(text, cells[:texts], raw, named)
            named = found.spliced.names
            members = members and self._with_spelled_texts(members, found, raw)
        error = None if verdict == FINE else (ParseError(offset, self._message(verdict, text, offset, where)), end)

        def name_at(place: int) -> str:
            if found is not None:
                k, place = found.spliced.find(place)
                if k >= 0:
                    return readable(*found.features(k)[place][:2])
            column, start, stop, doubled, _ = spans[place].tolist()
            if column >= 0:
                return readable("", self._order[column])
            return readable(f"{self._named[-column - 1]}=", _cell_text(whole, start, stop, doubled))

        return self.parsed(text, raw, error, name_at, self._ids(text, raw), met=met, members=members, spelled=named)

    def labels_in(self, text: Text) -> tuple[NDArray[np.float64], list[Any], int, bool]:
        """(places of the labels of rows up to the first bad one, all labels, bytes taken, whether one was bad).

        The parser halts at each label that it does not know yet. What several pieces have found is shared, so that most
        know all labels from the start.
        """
        layout = self._layout or _NO_COLUMNS
        alone = layout._replace(kinds=np.where(layout.kinds == parser.LABEL, parser.LABEL, parser.IGNORED))
        room, nothing = Raw.empty(len(text) // 2 + 2, self.hashing.kind), np.empty((0, 5), np.int64)
        start, places = 0, []
        while True:
            found = (*self._met, *_NEVER)
            rest, between = plain(text[start:]), ord(self.between)
            verdict, offset, _, end, rows, _ = parser.parse(
                rest, between, alone, _classes(found), np.uint64(0), False, 0.0, AS_IS, room, nothing, nothing
            )
            places.append(room.labels[:rows].copy())
            label, known = None, [*found[: -len(_NEVER)]]
            if verdict == parser.BAD_LABEL:
                _, begin, stop, doubled, _ = cell(rest, offset, between)
                shown = _cell_text(rest, begin, stop, doubled)
                value, is_number = read(rest, begin, stop)
                label = label_of(value) if is_number else shown
                if "\ufffd" in shown or label in found:  # bytes that are no text: the parser tells
                    label = None
            if label is None:
                return np.concatenate(places), known, start + end, verdict != FINE
            if label not in self._met:
                self._met.append(label)
            start += int(room.ends[rows - 1]) if rows else 0

    def _ids(self, text: Text, raw: Raw) -> list[str] | None:
        """What the rows are called."""
        if self.id is None or not self._order:
            return None
        spans = np.empty((len(raw.starts), 3), np.int64)
        parser.find_cells(plain(text), raw.starts, ord(self.between), self._order.index(self.id), spans)
        return [_cell_text(text, *span) for span in spans.tolist()]

    def called(self, record: Text) -> str:
        """Of a bad record the cell of that column, if it has one."""
        if self.id is None or self.id not in self._order:
            return ""
        return _cell_text(record, *parser.cell_of(record, ord(self.between), self._order.index(self.id)))

    def _spelled(self, whole: Text, spans: NDArray[np.int64]) -> Spelled:
        """Names of numbers and categories as they travel with rows: heads of columns are behind the text."""
        heads, ends = encode_names([f"{name}=" for name in self._named])
        ends = np.concatenate([[0], ends]).astype(np.int64) + len(whole)
        category = spans[:, 0] < 0
        column = np.where(category, -1 - spans[:, 0], spans[:, 0])
        places = [ends[column], np.where(category, ends[column + 1], ends[column])]  # of a number, nothing
        places += [np.where(category, spans[:, 1], ends[column]), np.where(category, spans[:, 2], ends[column + 1] - 1)]
        found = Spelled(
            np.concatenate([whole, np.frombuffer(heads, np.uint8)]), np.stack(places, axis=1).astype(np.int32)
        )
        doubled = np.flatnonzero(category & (spans[:, 3] != 0))
        if not len(doubled):
            return found
        cells = [bytes(whole[start:stop]).replace(b'""', b'"') for _, start, stop, *_ in spans[doubled].tolist()]
        behind = len(found.text) + np.cumsum([0, *map(len, cells)])
        found.spans[doubled, 2], found.spans[doubled, 3] = behind[:-1], behind[1:]
        return found._replace(text=np.concatenate([found.text, np.frombuffer(b"".join(cells), np.uint8)]))

    def _with_texts(self, text: Text, cells: NDArray[np.int64], raw: Raw, named: Spelled | None) -> tuple[Raw, _Texts]:
        """The rows with the features of the cells of text among theirs."""
        last = int(raw.ends[-1]) if len(raw.ends) else 0
        cells = cells[cells[:, 3] <= last]  # not those of a bad record
        places, columns, starts, stops, doubled = np.ascontiguousarray(cells.T)
        # quotes are no letters, one or two of them; among characters it matters
        runs = Runs(places, np.where(doubled > 0, -1, columns) if self.chars else columns, starts, stops)

        @lru_cache(1)
        def features(k: int) -> list[Feature]:
            _, column, start, stop, doubled = cells[k].tolist()
            return self.text_features(self._order[column], _cell_text(text, start, stop, doubled))

        found = run_features(plain(text), runs, self._order, self.wording, self.hashing, features)
        spliced = Spliced(raw.indices, raw.values, runs, found, named)
        before = np.concatenate([[0], np.searchsorted(starts, raw.ends)])
        indptr = spliced.indptr(raw.indptr, before)
        raw = raw._replace(indptr=indptr, indices=spliced.indices, values=spliced.values)
        return raw, _Texts(columns, features, spliced)

    def _with_spelled_texts(self, members: Members, found: _Texts, raw: Raw) -> Members:
        """What may be crossed with the features of the cells of text among it."""
        names = [readable(*feature[:2]) for k in range(len(found.columns)) for feature in found.features(k)]
        columns = [self._order[column] for column in np.repeat(found.columns, found.spliced.counts).tolist()]
        more = spelled(names, self.crosses.slots_of(columns), np.ones(len(names)), raw.indptr)
        where, behind = found.spliced.places - np.arange(len(names)), len(members.text)
        return Members(
            raw.indptr,
            np.insert(members.slots, where, more.slots),
            np.concatenate([members.text, more.text]),
            np.insert(members.starts, where, more.starts + behind),
            np.insert(members.stops, where, more.stops + behind),
            np.insert(members.values, where, more.values),
        )

    def _message(self, verdict: int, text: Text, offset: int, where: int) -> str:
        if verdict == OPEN:
            return "a quote that opens a cell must be closed again, got the end of the text"
        if verdict == parser.COUNT:
            return f"a record must have {len(self._order)} cells, as many as there are columns, got {where}"
        _, start, stop, _, _ = cell(text, offset, ord(self.between))
        given = repr(bytes(text[start : min(stop, start + 40)]).decode("utf-8", "backslashreplace"))
        name = repr(self._order[where]) if where < len(self._order) else f"number {where + 1}"
        limit = f"|value| must be at most {LARGEST[self.dtype]:g} ({self.dtype}: sums of squares would overflow)"
        end = "a closing quote must be followed by a delimiter or the end of the line"
        texts = f"a finite number ({TEXTS})"
        allowed = {
            AFTER_QUOTE: f"column {name}: {end}",
            parser.BAD_LABEL: f"a label must be {texts if self.classes is None else listed(self.classes)}"
            f"{self.how_classes_are_known}",
            parser.BAD_WEIGHT: "a weight must be a finite number ≥ 0",
            parser.BAD_NUMBER: f"column {name} is numeric (declared, or found by looking), so a cell must be a "
            "finite number, empty or NA",
            parser.BAD_DATE: f"column {name} holds dates, so a cell must be one as in 2024-05-17 or 2024-05-17T13:05, "
            "or empty (--categorical takes words)",
            parser.NO_VALUE: f"column {name} must have a value in every record (missing is error)",
            parser.INFINITE: f"column {name}: numbers must be finite (--categorical takes words)",
            parser.LIMIT: f"column {name}: {limit}, or the column declared categorical or ignored",
        }[verdict]
        return f"{allowed}, got {given}"


def _some(names: list[str]) -> str:
    """Names in a message, not too many."""
    return ", ".join(map(repr, names[:20])) + (", …" if len(names) > 20 else "")


def is_number(name: str) -> bool:
    """Whether a cell is a finite number."""
    text = np.frombuffer(name.encode("utf-8", "surrogatepass"), np.uint8)
    return bool(read(text, 0, len(text))[1])


def _cell_text(text: Text, start: int, stop: int, doubled: int) -> str:
    """A cell as text; bytes that are no UTF-8 are replaced."""
    found = bytes(text[start:stop]).decode("utf-8", "replace")
    return found.replace('""', '"') if doubled else found


def _first_record(text: Text, start: int, delimiter: int) -> tuple[list[str], int]:
    """The cells of the first record, and its end; no cells if it is an empty line."""
    if start >= len(text) or blank_line(text, start):
        return [], start
    found: list[str] = []
    while True:
        verdict, begin, stop, doubled, end = cell(text, start, delimiter)
        if verdict != FINE:
            raise InvalidInputError("the header of a CSV file must have its quotes closed, each at the end of its cell")
        found.append(_cell_text(text, begin, stop, doubled))
        start = end + 1
        if end >= len(text) or text[end] != delimiter:
            return found, min(start, len(text))


def _classes(classes: tuple[Class, ...] | None) -> parser.Classes:
    if classes is None:
        return parser.Classes(np.empty(0), np.empty(0, np.uint8), np.empty(0, np.int64))
    words = [str(kind).encode() for kind in classes]
    numbers = [np.nan if isinstance(kind, str | bool) else float(kind) for kind in classes]
    text = np.frombuffer(bytearray(b"".join(words)), np.uint8)
    return parser.Classes(np.array(numbers), text, np.cumsum([len(word) for word in words], dtype=np.int64))
