"""JSON Lines: the format, and the reading of lines in Python that the compiled parser does not support."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from thinstream.batch import plain, texts_at
from thinstream.data.cells import (
    AT_BYTE,
    AUTO,
    BAD_LABEL,
    FEATURE_ROLES,
    FILL,
    FINE,
    FOUND_NUMERIC,
    HEADS,
    NULL,
    ROLES,
    ROWS,
    TEXT,
    Columns,
    Labels,
    Out,
    take_cells,
)
from thinstream.data.labels import label_of
from thinstream.data.objects import CellBuilder, Unreadable, Written, shown
from thinstream.data.text import jsonl_parser as parser
from thinstream.data.text.hashed_rows import TEXT_LABELS, ColumnFormat
from thinstream.data.text.hashing import encode_names
from thinstream.data.text.protocol import Parsed, ParseError, Text, given_at
from thinstream.errors import meant

_CONSTANT = re.compile(r'"(?:[^"\\]|\\.)*"|(-?Infinity|NaN)')


class Refused(Exception):
    """Raised for a line that is not a valid row, with the offset in the line if it is known."""

    def __init__(self, message: str, offset: int = 0) -> None:
        super().__init__(message)
        self.message, self.offset = message, offset


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    entries = dict(pairs)
    if len(entries) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for k, key in enumerate(keys) if key in keys[:k])
        raise Refused(f"a key may occur only once in an object, got {shown(twice)} twice")
    return entries


def _constant(name: str) -> NoReturn:
    raise Refused(f"numbers must be finite, got {name}", -1)


# integers are parsed as doubles, which have no limit on digits
DECODER = json.JSONDecoder(object_pairs_hook=_object, parse_int=float, parse_constant=_constant)
EXACT_DECODER = json.JSONDecoder(
    object_pairs_hook=_object, parse_int=Written, parse_float=Written, parse_constant=_constant
)


def as_written(value: Any) -> str:
    """Return a value as an id: a string without quotes, anything else as in JSON."""
    if isinstance(value, str):
        return value
    return value.text if isinstance(value, Written) else json.dumps(value)


def decoded_line(line: bytes, decoder: json.JSONDecoder) -> dict[str, Any]:
    """Parse the object of a line."""
    try:
        document = line.decode()
    except UnicodeDecodeError as error:
        raise Refused(f"a line must be UTF-8, got byte {line[error.start]:#04x}", error.start) from None
    try:
        entries = decoder.decode(document)
    except json.JSONDecodeError as error:
        offset = len(document[: error.pos].encode())
        word = given_at(np.frombuffer(line, np.uint8), offset)
        raise Refused(f"a line must be one JSON object: {error.msg}, got {word}", offset) from None
    except Refused as refused:
        if refused.offset < 0:
            start = next(match.start() for match in _CONSTANT.finditer(document) if match[1])
            refused.offset = len(document[:start].encode())
        raise
    if not isinstance(entries, dict):
        raise Refused(f"a line must be one JSON object, got {shown(entries)}")
    return entries


# JSON Lines: one object per line. Keys are columns, and names are hashed.
#
#     {"label": 1, "age": 31, "city": "Oslo", "tags": ["a", "b"], "size": [2, 0.5], "user": {"paid": true}}
#
# `thinstream.data.cells` defines the features of a value. Lists hold numbers (``key[0]``, ``key[1]``, …) or strings
# (each is ``key=string``). Keys of nested objects are joined with dots (``user.paid``). Keys may be declared like CSV
# columns.


@dataclass(kw_only=True)
class JSONLines(ColumnFormat):
    r"""JSON Lines. Keys are columns; those of nested objects are joined with dots. A label may be true or false.

    Parameters
    ----------
    labels : bool
        Whether every record must have the key of the label. The value null means no label.
    numeric, categorical, dates : names
        Keys declared as numbers, categories or dates.
    columns : names
        Columns of a table: a record without one of these keys has a missing cell.

    Examples
    --------
    >>> from thinstream.data.text.hashing import Hashing
    >>> form = JSONLines(text=["subject"], classes=("ham", "spam"), hashing=Hashing(bits=10))
    >>> line = b'{"label": "spam", "subject": "free, FREE offer", "size": 2.5, "to": ["joe", "ann"]}\n'
    >>> parsed = form.parse(np.frombuffer(line, np.uint8))
    >>> parsed.labels, parsed.values
    (array([1.]), array([1. , 2. , 1. , 1. , 2.5], dtype=float32))

    """

    ROLES = tuple(ROLES)
    numeric: Sequence[str] = ()
    categorical: Sequence[str] = ()
    dates: Sequence[str] = ()
    labels: bool = False
    columns: Sequence[str] = ()
    met: set[str] = field(default_factory=set, init=False, repr=False, compare=False)
    without_id: list[str] = field(default_factory=list, init=False, repr=False, compare=False)  # keys of a record
    strange: dict[str, None] = field(default_factory=dict, init=False, repr=False, compare=False)
    strayed: set[str] = field(default_factory=set, init=False, repr=False, compare=False)  # numeric keys that had words

    def __post_init__(self) -> None:
        super().__post_init__()
        self._roles = self._role_of_names()
        self.required = [name for name in self.columns if self._roles[name] in FEATURE_ROLES]
        self.required = [name for name in self.required if self._roles[name] != TEXT]
        # ids are looked up like keys with a role
        self._known = self._roles | ({} if self.id is None or self.id in self._roles else {self.id: AUTO})
        self._columns = Columns.of(self._known, self.hashing, self.crosses)
        self._names, self._name_ends = encode_names([*self._known])
        self._labels = Labels.of(self.classes)
        self._classes_met: list[Any] = []  # classes so far if they grow, added by any thread

    def _role_of_names(self) -> dict[str, int]:
        """Return the roles of declared keys, and of required columns."""
        roles: dict[str, int] = {}
        for role, code in ROLES.items():
            names = self.roles[role]
            roles |= dict.fromkeys([names] if isinstance(names, str) else names or (), code)
        if "numeric" in (self.found or ()):
            roles |= dict.fromkeys(self.numeric, FOUND_NUMERIC)
        return dict.fromkeys(self.columns, AUTO) | roles

    @property
    def feature_columns(self) -> list[str]:
        """Feature keys, if all are known, and unknown keys that occurred."""
        features = [name for name in self.columns if self._roles[name] in FEATURE_ROLES]
        return [*features, *self.strange] if self.columns else []

    @property
    def unmet_columns(self) -> list[str]:
        """Required columns that no row had so far."""
        return [name for name in self.columns if name not in self.met]

    @property
    def unmet(self) -> list[str]:
        """Keys declared as text or ignored that no row had so far."""
        return sorted({*self.text, *self.ignore} - self.met)

    def parse(self, text: Text) -> Parsed:
        text, room, reader = plain(text), 1, None
        while reader is None or not reader.read():
            reader = _Reader(self, text, room, self._columns, self._known)
            room *= 8
        names, first = reader.names(), len(self._known)
        self.met.update(name for name, stamp in zip(self._roles, reader.keys.stamps, strict=False) if stamp)
        if self.columns and len(self.strange) < STRANGE:
            used = zip(names[first:], reader.keys.used[first:], strict=False)
            self.strange.update(dict.fromkeys([name for name, there in used if there][:STRANGE]))
        self.strayed.update(name for name, there in zip(names, reader.columns.strayed, strict=False) if there)
        return self.finished(
            text,
            reader.whole,
            reader.meaning,
            reader.out,
            reader.features,
            reader.state,
            names,
            reader.error,
            reader.row_ids(),
            reader.met,
        )

    def labels_in(self, text: Text) -> tuple[NDArray[np.float64], list[Any], int, bool]:
        """Return positions of labels up to the first bad row, all labels, bytes used, and whether a row was bad."""
        parsed = self.parse(text)
        return parsed.labels, parsed.met or [], parsed.taken, parsed.error is not None

    def id_of(self, record: Text) -> str:
        """Return the id of a bad record, if it is an object."""
        try:
            entries = {} if self.id is None else decoded_line(bytes(record).strip(), EXACT_DECODER)
        except (Refused, RecursionError):
            entries = {}
        return as_written(entries[self.id]) if self.id in entries else ""

    def require_label(self, entries: dict[str, Any]) -> None:
        """Raise if an object must have a label and has none."""
        if self.labels and self.label is not None and self.label not in entries:
            raise Refused(
                f"a record must have its label under the key {shown(self.label)}, which is missing; "
                f"{meant(self.label, [*entries][:20])} (choose the key with label= or --label)"
            )

    def problem(self, verdict: int, name: str, value: str) -> str:
        """Describe a problem with a value."""
        if verdict != BAD_LABEL:
            return super().problem(verdict, name, value)
        if self.classes is None:
            return f"a label must be a finite number, true or false ({TEXT_LABELS}), got {value}"
        *others, last = map(shown, self.classes)
        return f"a label must be {', '.join(others)} or {last}{self.how_classes_are_known}, got {value}"


#: The most unknown keys that are collected.
STRANGE = 8
#: Initial room for keys of a small piece of text, and for bytes of names.
_KEYS, _NAMES = 64, 1 << 12


class _Reader:
    """Parses a piece of text."""

    def __init__(self, form: JSONLines, text: Text, room: int, columns: Columns, roles: dict[str, int]) -> None:
        self.form, self.text, size = form, text, len(text)
        lines = int(np.count_nonzero(text == 10)) + 1
        most = size // 2 + 2 + len(form.required) * lines  # a feature or text needs at least two characters
        rows = min(lines, size // 2 + 1) + 1
        self.out = Out.empty(rows, form.id is not None)
        more = size + len(form._names) + room * _NAMES
        room_for_text = form.begin_text(text, more, most, most if form.text else 0)
        self.whole, self.meaning, self.features, self.state = room_for_text
        first, begin = len(roles), int(self.state[FILL])
        self.whole[begin : begin + len(form._names)] = np.frombuffer(form._names, np.uint8)
        self.state[FILL] += len(form._names)
        cap = first + room * max(min(size // 8, 16 * _KEYS), _KEYS)
        order = [*roles]
        self.columns = Columns(
            _wider(columns.roles, cap),
            _wider(columns.codes, cap),
            _wider(columns.crossed, cap * HEADS),
            np.zeros(cap, np.bool_),
        )
        begins = np.concatenate([[0], form._name_ends[:-1]]) + begin if first else form._name_ends
        self.keys = parser.Keys(
            _wider(begins, cap),
            _wider(form._name_ends + begin, cap),
            _hash_table(columns.codes[:, 0].tolist(), 2 << cap.bit_length()),
            np.zeros(cap, np.int64),
            np.full(min(cap, 1 << 12), -1, np.int64),
            np.zeros(cap, np.bool_),
            np.array([first, 0], np.int64),
            np.array([order.index(name) for name in form.required], np.int64),
            order.index(form.label) if form.labels and form.label is not None else -1,
            -1 if form.id is None else order.index(form.id),
            form.crosses.patterns(),
        )
        self.met: list[Any] | None = list(form._classes_met) if form.grow_classes else None
        self.labels = form._labels if self.met is None else Labels.of(self.met, exact=True)
        self.error: tuple[ParseError, int] | None = None

    def read(self) -> bool:
        """Parse rows up to the first bad line; return False if there was not enough room for names."""
        how = self.columns, self.labels, self.meaning, self.out, self.features, self.state
        while True:
            verdict, _offset, end = map(int, parser.parse(self.whole, len(self.text), self.keys, *how))
            if verdict in (FINE, parser.ROOM):
                return verdict == FINE
            begin = int(self.state[AT_BYTE])
            try:
                if not self._read_line(begin, end):
                    return False
            except RecursionError:
                self._stop(begin, end, "a line must be one JSON object, got one that is nested too deeply")
                return True
            except Refused as refused:
                line = bytes(self.text[begin:end])
                offset = refused.offset or len(line) - len(line.lstrip(b" \t\r"))
                self._stop(begin + offset, end, refused.message)
                return True
            how = self.columns, self.labels, self.meaning, self.out, self.features, self.state

    def _stop(self, offset: int, end: int, message: str) -> None:
        self.error = ParseError(offset, message), end

    def _read_line(self, begin: int, end: int) -> bool:
        """Parse a line in Python; return False if there was not enough room."""
        form, keys = self.form, self.keys
        line = bytes(self.text[begin:end]).removesuffix(b"\n")
        entries = decoded_line(line, EXACT_DECODER if form.id is not None or form.categorical else DECODER)
        form.require_label(entries)
        if self.met is not None and form.label in entries:
            self._meet(entries[form.label])
        builder = CellBuilder(form._roles)
        try:
            builder.take_row(entries)
        except Unreadable as error:
            raise Refused(str(error)) from None
        for name in form.required:
            if name not in builder.met:
                builder.put(name, NULL)
        builder.ends = [len(builder.columns)]
        row_id = as_written(entries.get(form.id, "")) if form.id is not None else ""
        others = [name for name in builder.met if name not in builder.numbers]
        names, name_ends = encode_names([*builder.names, *others])
        words, cells = builder.built()
        fill, row = int(self.state[FILL]), int(self.state[ROWS])
        identity = np.frombuffer(row_id.encode("utf-8", "surrogatepass"), np.uint8)
        after = fill + len(names) + len(words) + len(identity)
        if after + len(self.text) - begin > len(self.whole):
            return False
        self.whole[fill:after] = np.concatenate([np.frombuffer(names, np.uint8), words, identity])
        numbers = np.empty(len(name_ends), np.int64)
        if not parser.find_keys(self.whole, name_ends + fill, fill, keys, self.columns, self.meaning, numbers):
            return False
        keys.counts[1] += 1
        is_met = np.array([name in builder.met for name in (*builder.names, *others)], np.bool_)
        keys.stamps[numbers[is_met]], keys.used[numbers] = keys.counts[1], True
        behind = fill + len(names)
        words_of = np.array(builder.with_words, np.int64)
        cells.starts[words_of] += behind
        cells.stops[words_of] += behind
        cells = cells._replace(columns=numbers[cells.columns])
        self.state[FILL] = after
        verdict, at = map(
            int,
            take_cells(self.whole, cells, self.columns, self.labels, self.meaning, self.out, self.features, self.state),
        )
        if verdict != FINE:
            name = builder.names[builder.columns[at]]
            raise Refused(form.problem(verdict, name, _given(entries, name)))
        self.out.starts[row], self.out.ends[row] = begin, end
        if len(self.out.ids):
            self.out.ids[row] = after - len(identity), after, 0
        self.state[AT_BYTE] = end
        return True

    def _meet(self, label: Any) -> None:
        """Add a label to the classes."""
        assert self.met is not None
        if not isinstance(label, str | bool | float) or label in (np.inf, -np.inf):
            return
        value = label_of(label) if isinstance(label, float) else label
        for labels in (self.met, self.form._classes_met):
            if not any(type(other) is type(value) and other == value for other in labels):
                labels.append(value)
        self.labels = Labels.of(self.met, exact=True)

    def names(self) -> list[str]:
        """Return the names of all columns."""
        keys, count = self.keys, int(self.keys.counts[0])
        first = len(self.form._known)
        if first == count:
            return [*self.form._known]
        spans = np.stack([keys.starts[first:count], keys.stops[first:count]], axis=1)
        return [*self.form._known, *texts_at(self.whole, spans, "surrogatepass")]

    def row_ids(self) -> list[str] | None:
        """Return the ids of rows."""
        if self.form.id is None:
            return None
        spans = np.ascontiguousarray(self.out.ids[: int(self.state[ROWS]), :2])
        ids = texts_at(self.whole, spans, "surrogatepass")
        if "" in ids and not self.form.without_id:
            row = ids.index("")
            line = bytes(self.text[self.out.starts[row] : self.out.ends[row]])
            self.form.without_id.extend([*decoded_line(line.strip(), DECODER)][:20])
        return ids


def _given(entries: dict[str, Any], name: str) -> str:
    """Return the value of a name for a message; null if the object does not have it."""
    value: Any = entries
    for part in [name] if name in entries else name.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return shown(value)


def _wider(array: NDArray[Any], size: int) -> NDArray[Any]:
    """Return the array padded with zeros."""
    wide = np.zeros((size, *array.shape[1:]), array.dtype)
    wide[: len(array)] = array
    return wide


def _hash_table(hashes: list[int], size: int) -> NDArray[np.int64]:
    """Return a table from hashes to positions of keys, which start at 1."""
    slots = np.zeros(size, np.int64)
    for k, code in enumerate(hashes):
        slot = code % size
        while slots[slot]:
            slot = (slot + 1) % size
        slots[slot] = k + 1
    return slots
