"""CSV text: cells of records, the compiled parser, and the format."""

from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thinstream.batch import plain, texts_at
from thinstream.data.cells import (
    AT_BYTE,
    AUTO,
    BAD_LABEL,
    FILL,
    HEADS,
    IGNORED,
    LABEL,
    NAMED,
    NNZ,
    NULL,
    NUMERIC,
    ROLES,
    ROWS,
    TEXT,
    TEXTS,
    UNTYPED,
    WEIGHT,
    Columns,
    Features,
    Labels,
    Meaning,
    Out,
    put,
    read,
    roll_back,
    take_cell,
    take_target,
)
from thinstream.data.crosses import Crosses
from thinstream.data.labels import label_of
from thinstream.data.options import DELIMITERS, require_columns
from thinstream.data.text.characters import find_either
from thinstream.data.text.hashed_rows import ColumnFormat
from thinstream.data.text.hashing import Hashing
from thinstream.data.text.protocol import Parsed, ParseError, Text, last_line_end
from thinstream.errors import InvalidInputError, listed, near
from thinstream.jit import compiled, scalar

#: Verdicts on the text of a cell. `thinstream.data.cells` has those on its meaning.
FINE, OPEN, AFTER_QUOTE = 0, 100, 101

_QUOTE, _NEWLINE, _RETURN, _MINUS, _POINT = 34, 10, 13, 45, 46
#: Numbers of up to 15 digits are exact in 64 bits.
_EXACT = 15
_POWERS = 10.0 ** np.arange(_EXACT + 1)


@scalar
def cell(text: Any, i: Any, delimiter: Any) -> Any:
    """Parse the cell at i: return the verdict, its start and stop, whether quotes are doubled, and the end after it."""
    size = len(text)
    if i < size and text[i] == _QUOTE:
        at, doubled = find_either(text, i + 1, _QUOTE, _QUOTE), False
        while at + 1 < size and text[at + 1] == _QUOTE:
            at, doubled = find_either(text, at + 2, _QUOTE, _QUOTE), True
        if at >= size:
            return OPEN, i, size, doubled, size
        end = find_either(text, at + 1, delimiter, _NEWLINE)
        clean = end == at + 1 or (end == at + 2 and text[at + 1] == _RETURN and (end == size or text[end] == _NEWLINE))
        return (FINE if clean else AFTER_QUOTE), i + 1, at, doubled, end
    stop = end = find_either(text, i, delimiter, _NEWLINE)
    if stop > i and text[stop - 1] == _RETURN and (end == size or text[end] == _NEWLINE):
        stop -= 1
    return FINE, i, stop, False, end


@scalar
def blank_line(text: Any, i: Any) -> Any:
    """Return the length of an end of line at i, 0 if there is none."""
    if i < len(text) and text[i] == _NEWLINE:
        return 1
    if i < len(text) and text[i] == _RETURN and (i + 1 == len(text) or text[i + 1] == _NEWLINE):
        return min(2, len(text) - i)
    return 0


@scalar
def plain_number(text: Any, i: Any, delimiter: Any) -> Any:
    """Parse an unquoted number of at most 15 digits at i: return its value, its end, and whether there is one.

    The digits and the power of ten are exact in 64 bits, so their quotient is the nearest double.
    """
    size, at, point, digits = len(text), i, np.int64(-1), np.int64(0)
    negative = i < size and text[i] == _MINUS
    if negative:
        at += 1
    first = at
    while at < size:
        digit = np.int64(text[at]) - 48
        if 0 <= digit <= 9 and at - first <= _EXACT + 1:
            digits = digits * 10 + digit
        elif digit == _POINT - 48 and point < 0:
            point = at
        else:
            break
        at += 1
    count = at - first - (1 if point >= 0 else 0)
    end = at
    if end + 1 < size and text[end] == _RETURN and text[end + 1] == _NEWLINE:
        end += 1
    if count < 1 or count > _EXACT or (end < size and text[end] != delimiter and text[end] != _NEWLINE):
        return 0.0, i, False
    value = np.float64(digits) / _POWERS[at - point - 1 if point >= 0 else 0]
    return (-value if negative else value), end, True


@scalar
def copy_undoubled(text: Any, start: Any, stop: Any, to: Any) -> Any:
    """Copy a cell to another position, with one quote for two; return the end of the copy."""
    while start < stop:
        text[to] = text[start]
        to += 1
        start += 2 if text[start] == _QUOTE else 1
    return to


# CSV text to cells (RFC 4180) in one pass, compiled.
#
# A quote is special only at the beginning of a cell. So the end of a record depends only on the record, and `records`
# and `parse` always agree on it.

#: The verdict on a record with too few or too many cells.
COUNT = 102
#: The longest record with a newline in quotes. A quote that is open for longer is an error.
LONGEST = 1 << 24
#: Minimum distance in bytes of the cells to which `whole_records` goes back.
_BACK = 1 << 12
_MODULES = ("cells", "text.hashing", "text.characters")


@compiled(*(f"thinstream.data.{name}" for name in _MODULES))
def parse(
    whole: Any,
    size: Any,
    delimiter: Any,
    id_column: Any,
    columns: Any,
    labels: Any,
    meaning: Any,
    out: Any,
    features: Any,
    state: Any,
) -> Any:
    """Parse ``whole[:size]`` from the position in the state.

    Return the verdict, the offset of the bad cell, its column or the number of cells, and the end of its record. Cells
    with doubled quotes are copied to the end of the used text, with one quote for two.
    """
    text, i, width = whole[:size], state[AT_BYTE], len(columns.roles)
    while i < size:
        begin, blank = i, blank_line(text, i)
        if blank > 0:
            i += blank
            continue
        verdict, offset, where, count = FINE, 0, 0, 0
        row, nnz, texts = state[ROWS], state[NNZ], state[TEXTS]
        names, fill = state[NAMED], state[FILL]
        out.labels[row], out.weights[row] = np.nan, 1.0
        while True:
            role = columns.roles[count] if count < width and verdict == FINE else IGNORED
            quick = role <= NUMERIC or (role == LABEL and len(labels.kinds) == 0 and not labels.exact)
            value, end, is_number = plain_number(text, i, delimiter) if quick else (0.0, i, False)
            if is_number and abs(value) <= meaning.limit:  # most cells of most tables
                if role == LABEL:
                    out.labels[row] = value
                elif value != 0:
                    crossed = columns.flags[count, 0]
                    put(features, state, columns.codes[count, 0], crossed, meaning, value, HEADS * count, i, i)
                if count == id_column:
                    stop = end - 1 if end < size and text[end - 1] == _RETURN else end
                    out.ids[row, 0], out.ids[row, 1], out.ids[row, 2] = i, stop, 0
            else:
                cell_verdict, start, stop, doubled, end = cell(text, i, delimiter)
                if cell_verdict == OPEN:
                    roll_back(features, state, nnz, texts, names)
                    state[FILL] = fill
                    return OPEN, i, count, size
                if count == id_column:
                    out.ids[row, 0], out.ids[row, 1], out.ids[row, 2] = start, stop, doubled
                if cell_verdict == AFTER_QUOTE and verdict == FINE:
                    verdict, offset, where = AFTER_QUOTE, stop + 1, count
                if count == width and verdict != AFTER_QUOTE:
                    offset = i
                if role != IGNORED and verdict == FINE:
                    if doubled:
                        low = state[FILL]
                        stop = copy_undoubled(whole, start, stop, low)
                        start, state[FILL] = low, stop
                    cell_type = np.int64(UNTYPED if stop > start else NULL)
                    if role in (LABEL, WEIGHT):
                        value_verdict = take_target(whole, cell_type, 0.0, start, stop, role, labels, out, state)
                    else:
                        value_verdict = take_cell(
                            whole, cell_type, 0.0, start, stop, count, columns, meaning, features, state
                        )
                    if value_verdict != FINE:
                        verdict, offset, where = value_verdict, i, count
            count += 1
            i = min(end + 1, size)
            if end >= size or text[end] == _NEWLINE:
                if count < width and verdict != AFTER_QUOTE:
                    offset = end
                break
        if count != width and verdict != AFTER_QUOTE:
            verdict, where = COUNT, count
        if verdict != FINE:
            roll_back(features, state, nnz, texts, names)
            state[FILL] = fill
            return verdict, offset, where, i
        out.starts[row], out.ends[row] = begin, i
        state[ROWS] = row + 1
        out.indptr[row + 1], out.upto[row + 1] = state[NNZ], state[TEXTS]
        state[AT_BYTE] = i
    state[AT_BYTE] = i
    return FINE, size, 0, size


@compiled("thinstream.data.text.characters")
def _records(text: Any, delimiter: Any, start: Any) -> Any:
    """Return the end of the last complete record, reading cell by cell from ``start``; 0 if there is none."""
    i, size, whole = start, len(text), 0
    while i < size:
        verdict, _, _, _, end = cell(text, i, delimiter)
        if verdict == OPEN and whole == 0 and start == 0 and size > LONGEST:
            return size
        if end >= size:
            break
        if text[end] == _NEWLINE:
            whole = end + 1
        i = end + 1
    return whole


@compiled("thinstream.data.text.characters")
def _quoted(text: Any, delimiter: Any) -> Any:
    """Return the start and stop of the text after the last quoted cell, and the start of an earlier cell.

    If a quote is open, the text ends before it. This searches from quote to quote. Callers that need to read cell by
    cell start at the earlier cell.
    """
    i, size, tail, back, next_back = 0, len(text), 0, 0, 0
    while True:
        at = find_either(text, i, _QUOTE, _QUOTE)
        if at >= size:
            return tail, size, back
        if at > 0 and text[at - 1] != delimiter and text[at - 1] != _NEWLINE:
            i = at + 1  # within a cell
            continue
        verdict, _, _, _, end = cell(text, at, delimiter)
        if verdict == OPEN:
            return tail, at, back
        tail, i = end, end + 1
        if end - next_back > _BACK:
            back, next_back = next_back, min(end + 1, size)


def cell_of(text: NDArray[np.uint8], delimiter: int, column: int) -> tuple[int, int, int]:
    """Find a column's cell in the first record, which may be a bad one; zeros if there is no such cell."""
    i = 0
    while blank := blank_line(text, i):
        i += blank
    while i < len(text):
        verdict, start, stop, doubled, end = cell(text, i, delimiter)
        if column == 0 and verdict != OPEN:
            return int(start), int(stop), int(doubled)
        if end >= len(text) or text[end] == _NEWLINE:
            break
        i, column = end + 1, column - 1
    return 0, 0, 0


def whole_records(text: NDArray[np.uint8], delimiter: int) -> int:
    """Return the bytes of complete records at the head of the text; all if a quote is open for `LONGEST` bytes."""
    text = plain(text)
    start, stop, back = map(int, _quoted(text, delimiter))
    if end := last_line_end(text[start:stop]):
        return start + end
    return int(_records(text, delimiter, back)) or int(_records(text, delimiter, 0))


# The CSV and TSV format.
#
# Quoted cells may have delimiters, newlines and doubled quotes. Without a declaration, each cell is read separately: a
# finite number is a value of the feature named like its column, and any other text is the feature ``column=text`` with
# value 1. Columns of codes should be declared ``categorical``: 17297e88 may be meant as text, but is also a number.

_NO_COLUMNS = Columns.of({}, Hashing(), Crosses())


@dataclass(kw_only=True)
class CSV(ColumnFormat):
    r"""CSV with a header in each file. All files of a stream have the same columns, in any order.

    Parameters
    ----------
    numbered : bool
        Whether files have no header, so that columns are called c1, c2, …
    delimiter : {",", "\\t", ";", "|"} or None
        The delimiter. None: detect it from the first line of each file.
    labels, strict : bool
        Whether the label column must exist, and whether the weight column and ignored columns must exist.

    Examples
    --------
    >>> from thinstream.data.text.hashing import Hashing
    >>> form = CSV(label="spam", text=["subject"], hashing=Hashing(bits=10))
    >>> text = np.frombuffer(b'spam,size,to,subject\n1,2.5,joe,"free, FREE offer"\n0,,ann,Hello\n', np.uint8)
    >>> parsed = form.parse(text[form.header(text):])
    >>> parsed.labels, parsed.indptr, parsed.values
    (array([1., 0.]), array([0, 4, 6]), array([1. , 2. , 1. , 2.5, 1. , 1. ], dtype=float32))

    """

    takes_any_bytes = True  # cells may have bytes that are not UTF-8
    numbered: bool = False
    delimiter: str | None = ","
    labels: bool = True
    strict: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.delimiter not in (None, *DELIMITERS):
            raise self.refused(f"delimiter must be {listed(DELIMITERS)}, got {self.delimiter!r}")
        self.between = self.delimiter or ","  # of the current file
        self._order: list[str] = []  # columns of the current file
        self._layout: Columns | None = None
        self._labels = Labels.of(self.classes)
        self._met: list[Any] = []  # labels so far, added by any thread

    def header(self, text: Text) -> int:
        """Read the column names; raise if they differ from those of earlier files."""
        start = mark = super().header(text)
        if self.delimiter is None:
            self.between = self._detect_delimiter(text, mark)
        if self.numbered:
            if self._layout is not None:
                return mark
            while blank := blank_line(text, start):
                start += blank
            names, _ = _first_record(text, start, ord(self.between))
            if names:
                self._lay_out([f"c{k}" for k in range(1, len(names) + 1)])
            return mark
        names, end = _first_record(text, mark, ord(self.between))
        if not names:
            if len(text) == mark:
                return mark  # an empty file
            raise InvalidInputError("the first line of a CSV file must have the column names, got an empty line")
        if self._order and sorted(self._order) != sorted(names):
            extra, missing = sorted({*names} - {*self._order}), sorted({*self._order} - {*names})
            more = f"; additional: {', '.join(map(repr, extra))}" if extra else ""
            less = f"; missing: {', '.join(map(repr, missing))}" if missing else ""
            raise InvalidInputError(
                f"all files of a stream must have the same columns, in any order, got different ones{more}{less}"
            )
        self._lay_out(names)
        return end

    def _detect_delimiter(self, text: Text, start: int) -> str:
        """Return the delimiter that gives the columns named here, or else the most columns; a comma for a tie."""
        while self.numbered and (blank := blank_line(text, start)):
            start += blank
        wanted, scores = {name for name in (self.label, *self.columns) if name is not None}, {}
        for delimiter in DELIMITERS:
            with suppress(InvalidInputError):
                cells = _first_record(text, start, ord(delimiter))[0]
                scores[delimiter] = len(wanted.intersection(cells)), len(cells)
        return max(scores, key=scores.__getitem__, default=",")

    def _lay_out(self, order: list[str]) -> None:
        """Assign roles to the columns."""
        if len({*order}) < len(order):
            twice = next(name for k, name in enumerate(order) if name in order[:k])
            raise InvalidInputError(f"the columns of a CSV file must have different names, got {twice!r} twice")
        role_of = dict.fromkeys(order, AUTO)
        if missing := [name for name in self.columns if name not in role_of]:
            raise InvalidInputError(
                f"the file lacks columns that the model has learned from: {_some(missing)}; it has {_some(order)}"
                + near(missing[0], [name for name in order if name not in self.columns], "; ")
            )
        if self.id is not None and self.id not in role_of:
            raise self._no_column("id", self.id, order)
        for role, names in self.roles.items():
            lenient = not self.strict and role in ("label", "weight", "ignore")
            for name in [names] if role in ("label", "weight") else names:
                if name is None or (name not in role_of and (lenient or (role == "label" and not self.labels))):
                    continue
                if name not in role_of:
                    raise self._no_column(role, name, order)
                role_of[name] = IGNORED if role == "label" and not self.labels else ROLES[role]
        if self.strict:
            no_features = (LABEL, WEIGHT, IGNORED)
            require_columns(self.cross, [name for name, code in role_of.items() if code not in no_features])
        self._order = order
        self._layout = Columns.of(role_of, self.hashing, self.crosses)

    def _no_column(self, role: str, name: str, order: list[str]) -> InvalidInputError:
        hint = near(name, order, "; ") or ("; name it with --label (label=…)" if role == "label" else "")
        if not self.numbered and any(map(is_number, order)):
            hint += "; pass --no-header if the first line has no column names, and columns will be called c1, c2 …"
        return InvalidInputError(f"{role}: there is no column {name!r}, only {_some(order)}{hint}")

    @property
    def order(self) -> list[str]:
        """All columns of the current file."""
        return self._order

    @property
    def feature_columns(self) -> list[str]:
        """Feature columns of the current file."""
        roles = [self.label, self.weight, *self.ignore]
        return [name for name in self._order if name not in roles]

    @property
    def layout(self) -> dict[str, Any] | None:
        """The cells of a line in the current file, to read lines without a header."""
        if not self._order:
            return None
        layout = {"format": "tsv" if self.between == "\t" else "csv", "columns": self._order}
        return layout if self.between in ",\t" else {**layout, "delimiter": self.between}

    def records(self, text: Text) -> int:
        """Return the end of the last complete record; newlines in quotes do not end a record."""
        return whole_records(text, ord(self.between))

    def parse(self, text: Text) -> Parsed:
        layout = self._layout
        if layout is None:
            if bytes(text).strip(b"\r\n"):
                raise InvalidInputError("a CSV file must begin with a header, got rows before it")
            layout = _NO_COLUMNS
        whole, meaning, out, features, state, (verdict, offset, where, end), met = self._read(text, layout)
        error = None if verdict == FINE else (ParseError(offset, self._message(verdict, text, offset, where)), end)
        ids = self._ids(text, out.ids[: state[ROWS]])
        return self.finished(text, whole, meaning, out, features, state, self._order, error, ids, met)

    def _read(
        self, text: Text, layout: Columns
    ) -> tuple[
        NDArray[np.uint8], Meaning, Out, Features, NDArray[np.int64], tuple[int, int, int, int], list[Any] | None
    ]:
        """Run the parser; return the extended text, constants, rows, features, state, verdict and labels.

        If classes grow, the parser stops at each new label. All pieces share the labels, so that most know all of them
        from the start.
        """
        # a feature needs at least a character and a delimiter, unless empty cells are features
        most = len(text) // (1 if self.missing == "indicator" else 2) + 2
        # a row needs a delimiter per cell; a bad row may follow the last one
        rows = (len(text) + 1) // max(len(layout.roles), 2) + 1
        texts = (rows + 1) * int(np.count_nonzero(layout.roles == TEXT))
        id_column = -1 if self.id is None or not self._order else self._order.index(self.id)
        out = Out.empty(rows, id_column >= 0)
        whole, meaning, features, state = self.begin_text(text, len(text), most, texts)
        seen = list(self._met) if self.grow_classes else None
        labels = self._labels if seen is None else Labels.of(seen, exact=True)
        while True:
            how = ord(self.between), id_column, layout, labels, meaning
            result = parse(whole, len(text), *how, out, features, state)
            verdict, offset, where, end = map(int, result)
            label = self._label_at(text, offset) if seen is not None and verdict == BAD_LABEL else None
            if seen is None or label is None or label in seen:
                return whole, meaning, out, features, state, (verdict, offset, where, end), seen
            seen.append(label)
            if label not in self._met:
                self._met.append(label)
            labels = Labels.of(seen, exact=True)

    def _label_at(self, text: Text, offset: int) -> Any:
        """Return the label in the cell at an offset; None for bytes that are not UTF-8."""
        _, start, stop, doubled, _ = cell(plain(text), offset, ord(self.between))
        shown = _cell_text(text, start, stop, doubled)
        value, is_number = read(text, start, stop)
        return None if "\ufffd" in shown else label_of(value) if is_number else shown

    def labels_in(self, text: Text) -> tuple[NDArray[np.float64], list[Any], int, bool]:
        """Return positions of labels up to the first bad row, all labels, bytes used, and whether a row was bad."""
        layout = self._layout or _NO_COLUMNS
        alone = layout._replace(roles=np.where(layout.roles == LABEL, LABEL, IGNORED))
        _, _, out, _, state, (verdict, _, _, end), labels = self._read(text, alone)
        return out.labels[: state[ROWS]], labels or [], end, verdict != FINE

    def _ids(self, text: Text, cells: NDArray[np.int64]) -> list[str] | None:
        """Return the ids of rows from their cells."""
        if self.id is None or not self._order:
            return None
        ids = texts_at(plain(text), np.ascontiguousarray(cells[:, :2]))
        for k in np.flatnonzero(cells[:, 2]).tolist():
            ids[k] = ids[k].replace('""', '"')
        return ids

    def id_of(self, record: Text) -> str:
        """Return the id of a bad record, if it has one."""
        if self.id is None or self.id not in self._order:
            return ""
        return _cell_text(record, *cell_of(record, ord(self.between), self._order.index(self.id)))

    def _message(self, verdict: int, text: Text, offset: int, where: int) -> str:
        if verdict == OPEN:
            return "a quote that opens a cell must be closed, got the end of the text"
        if verdict == COUNT:
            return f"a record must have {len(self._order)} cells, one per column, got {where}"
        _, start, stop, _, _ = cell(text, offset, ord(self.between))
        value = repr(bytes(text[start : min(stop, start + 40)]).decode("utf-8", "backslashreplace"))
        if verdict == AFTER_QUOTE:
            name = repr(self._order[where]) if where < len(self._order) else f"number {where + 1}"
            end = "a closing quote must be followed by a delimiter or the end of the line"
            return f"column {name}: {end}, got {value}"
        return self.problem(verdict, self._order[where], value)


def _some(names: list[str]) -> str:
    """Return names for a message, up to 20."""
    return ", ".join(map(repr, names[:20])) + (", …" if len(names) > 20 else "")


def is_number(name: str) -> bool:
    """Return whether a cell is a finite number."""
    text = np.frombuffer(name.encode("utf-8", "surrogatepass"), np.uint8)
    return bool(read(text, 0, len(text))[1])


def _cell_text(text: Text, start: int, stop: int, doubled: int) -> str:
    """Return a cell as a string; bytes that are not UTF-8 are replaced."""
    value = bytes(text[start:stop]).decode("utf-8", "replace")
    return value.replace('""', '"') if doubled else value


def _first_record(text: Text, start: int, delimiter: int) -> tuple[list[str], int]:
    """Return the cells of the first record and its end; no cells for an empty line."""
    if start >= len(text) or blank_line(text, start):
        return [], start
    cells: list[str] = []
    while True:
        verdict, begin, stop, doubled, end = cell(text, start, delimiter)
        if verdict != FINE:
            raise InvalidInputError("quotes in the header of a CSV file must be closed, each at the end of its cell")
        cells.append(_cell_text(text, begin, stop, doubled))
        start = end + 1
        if end >= len(text) or text[end] != delimiter:
            return cells, min(start, len(text))
