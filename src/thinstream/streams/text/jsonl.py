"""JSON Lines: one object a line, keys are columns, names are hashed.

    {"label": 1, "age": 31, "city": "Oslo", "tags": ["a", "b"], "size": [2, 0.5], "user": {"paid": true}}

A number is a feature under its key, a string is the feature ``key=string`` with value 1, true is 1; false is absent,
null and strings like NA are what ``missing`` says. Lists hold numbers (``key[0]``, ``key[1]``, …) or strings (each
counted as ``key=string``); an object inside is written with points (``user.paid``). Keys named as text are taken apart
into words, each counted. Keys may be declared as columns of CSV are: ``numeric`` ones also take numbers in strings,
``categorical`` ones take numbers for strings, ``dates`` give their parts.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thinstream.batch import plain
from thinstream.errors import meant
from thinstream.spelling import Spelled
from thinstream.streams.crossing.spelling import Members, spelled
from thinstream.streams.text import jsonl_parser as parser
from thinstream.streams.text.csv_cells import CODES
from thinstream.streams.text.dates import PARTS
from thinstream.streams.text.hashed_rows import TEXTS, ColumnFormat, Raw
from thinstream.streams.text.hashing import encode_names
from thinstream.streams.text.jsonl_features import (
    DECODER,
    EXACT_DECODER,
    Features,
    Refused,
    as_written,
    decoded_line,
    shown,
)
from thinstream.streams.text.names import readable
from thinstream.streams.text.protocol import Parsed, ParseError, Text
from thinstream.streams.text.tokens import Feature, Runs, Spliced, run_features
from thinstream.streams.text.vectors import WIDE

_ROLES = {
    "label": parser.LABEL,
    "weight": parser.WEIGHT,
    "text": parser.TEXT,
    "ignore": parser.IGNORED,
    "numeric": parser.NUMERIC,
    "categorical": parser.CATEGORICAL,
    "dates": parser.DATE,
}
#: Of what is one feature or some, unlike texts.
_CELLS = (parser.FEATURE, parser.NUMERIC, parser.FOUND_NUMERIC, parser.CATEGORICAL, parser.DATE)


@dataclass(kw_only=True)
class JSONLines(ColumnFormat):
    r"""JSON Lines; keys are columns, those inside an object are written with points. A label may be true or false.

    Parameters
    ----------
    labels : bool
        Whether every record must have the key of the label; where its value is null there is none.
    numeric, categorical, dates : names
        Keys declared to be numbers, categories or dates.
    columns : names
        Keys that a table had: one that a record does not have is a cell that says nothing.

    Examples
    --------
    >>> from thinstream.streams.text.hashing import Hashing
    >>> form = JSONLines(text=["subject"], classes=("ham", "spam"), hashing=Hashing(bits=10))
    >>> line = b'{"label": "spam", "subject": "free, FREE offer", "size": 2.5, "to": ["joe", "ann"]}\n'
    >>> parsed = form.parse(np.frombuffer(line, np.uint8))
    >>> parsed.labels, parsed.values
    (array([1.]), array([1. , 2. , 1. , 1. , 2.5], dtype=float32))

    """

    ROLES = tuple(_ROLES)
    numeric: Sequence[str] = ()
    categorical: Sequence[str] = ()
    dates: Sequence[str] = ()
    labels: bool = False
    columns: Sequence[str] = ()
    met: set[str] = field(default_factory=set, init=False, repr=False, compare=False)
    without_id: list[str] = field(default_factory=list, init=False, repr=False, compare=False)  # keys of a record
    strange: dict[str, None] = field(default_factory=dict, init=False, repr=False, compare=False)
    strayed: set[str] = field(default_factory=set, init=False, repr=False, compare=False)  # words among numbers

    def __post_init__(self) -> None:
        super().__post_init__()
        self._roles = self._role_of_each()
        self.required = [name for name in self.columns if self._roles[name] in _CELLS]
        self._named, how = [*self._roles], self.hashing
        classes, places = self.classes or (), {n: k for role in (self.text, self.dates) for k, n in enumerate(role)}
        hashes = [how.code(name) for name in self._named]
        self._keys = parser.Keys(
            np.array(hashes, np.uint64),
            *_joined(self._named),
            np.array([*self._roles.values()], np.int64),
            np.array([places.get(name, 0) for name in self._named], np.int64),
            _table(hashes),
            np.array([name in self.required for name in self._named], np.bool_),
            np.array([how.code("?", f"{name}=") for name in self._named], np.uint64),
            np.array([[how.namespace(f"{name}.{part}=") for name in self.dates] for part in PARTS], np.uint64),
            np.array([math.nan if isinstance(kind, str) else float(kind) for kind in classes], np.float64),
            *_joined([str(kind) for kind in classes]),
        )
        # what compiled code does not do: crosses, ids as they are written, labels of any kind, True where 1 is
        nothing = bool(self.cross) or self.id is not None or self.grow_classes
        nothing = nothing or any(isinstance(kind, bool) for kind in classes)
        labelled = self.labels and self.label is not None
        numbers = np.uint64(how.namespace("")), np.uint64(how.root), np.uint64(how.mask)
        self._asked = parser.Asked(labelled, nothing, *numbers, how.signed, CODES[self.missing], bool(self.columns))

    def _role_of_each(self) -> dict[str, int]:
        """Of the keys that have one, and of the columns there must be."""
        found: dict[str, int] = {}
        for role, code in _ROLES.items():
            given = self.roles[role]
            found |= dict.fromkeys([given] if isinstance(given, str) else given or (), code)
        if "numeric" in (self.found or ()):
            found |= dict.fromkeys(self.numeric, parser.FOUND_NUMERIC)
        return dict.fromkeys(self.columns, parser.FEATURE) | found

    def role_of(self, key: str) -> int | None:
        """What a key is; None of one that nobody has named."""
        return self._roles.get(key)

    @property
    def feature_columns(self) -> list[str]:
        """Keys that are features, where all are known, and those met besides."""
        known = [name for name in self.columns if self._roles[name] in (*_CELLS, parser.TEXT)]
        return [*known, *self.strange] if self.columns else []

    @property
    def unmet_columns(self) -> list[str]:
        """Columns there must be, and that no row had so far."""
        return [name for name in self.columns if name not in self.met]

    @property
    def unmet(self) -> list[str]:
        """Keys that were named as text or to be left out, and that no row had so far."""
        return sorted({*self.text, *self.ignore} - self.met)

    def parse(self, text: Text) -> Parsed:
        """The rows of whole lines, up to the first bad one: compiled code takes the plain ones, Python the others."""
        text = plain(text)
        most = len(text) // 2 + 2  # a row has a character and an end of line, a feature or text more than that
        lines_most = int(np.count_nonzero(text == 10)) + 1 if self.required else 0
        most += len(self.required) * lines_most  # features of what is not there
        raw, upto = Raw.empty(most, self.hashing.kind), np.empty(most + 1, np.int64)
        spans = np.empty((most if self.hashing.spells else 0, 4), np.int32)
        bag = np.empty(len(text) + self._names_most(len(text), lines_most) + WIDE, np.uint8)
        room, met = Runs._make(np.empty(most, np.int64) for _ in Runs._fields), np.zeros(len(self._named), np.int64)
        strange = np.zeros((parser.STRANGE + 1, 2), np.int64)
        rows, count, size = parser.parse(text, self._keys, self._asked, met, strange, bag, raw, spans, room, upto)
        runs = Runs._make(part[:count] for part in room)
        features, lines = Features(self), np.flatnonzero(runs.columns < 0)
        ids: list[str] | None = None if self.id is None else []
        rows, error, found = self._lines(text, raw, rows, runs.starts[lines].tolist(), features, ids)
        upto, runs = upto[: rows + 1], Runs._make(part[: upto[rows]] for part in runs)
        by_run = dict(zip(lines.tolist(), found, strict=False))  # found ends where an error is
        raw = raw.first(rows, self.weight is not None)

        @lru_cache(1)
        def features_of(k: int) -> Sequence[Feature]:
            if k in by_run:
                return by_run[k]
            part = bytes(bag[runs.starts[k] : runs.stops[k]]).decode()
            return self.text_features(self.text[runs.columns[k]], part)

        taken = run_features(bag, runs, self.text, self.wording, self.hashing, features_of)
        names = Spelled(bag[:size], spans[: raw.indptr[-1]]) if self.hashing.spells else None
        spliced = Spliced(raw.indices, raw.values, runs, taken, names)
        indptr = spliced.indptr(raw.indptr, upto)
        raw = raw._replace(indptr=indptr, indices=spliced.indices, values=spliced.values)
        self.met.update(features.met, (name for name, there in zip(self._named, met, strict=True) if there))
        if len(self.strange) < parser.STRANGE:
            spans = strange[1 : strange[0, 0] + 1].tolist()
            self.strange.update({bytes(text[low:high]).decode(): None for low, high in spans} | features.strange)
        self.strayed.update(features.strayed)

        begins = indptr.copy()

        @lru_cache(1)
        def features_in(row: int) -> list[Feature]:
            found = Features(self)
            self._row(bytes(text[raw.starts[row] : raw.ends[row]]), found, None)
            return found.found

        def name_at(place: int) -> str:
            row = int(np.searchsorted(begins, place, side="right")) - 1
            return readable(*features_in(row)[place - begins[row]][:2])

        members = self._members([*chain.from_iterable(found)], features.slots, indptr) if self.crosses else None
        known = [label for _, label in features.labels] if self.grow_classes else None
        return self.parsed(text, raw, error, name_at, ids, met=known, members=members, spelled=spliced.names)

    def _names_most(self, size: int, lines: int) -> int:
        """Bytes that names of features of a text may have, those of its words not counted."""
        if not self.hashing.spells:
            return 0
        absent = sum(len(name.encode("utf-8", "surrogatepass")) + 2 for name in self.required)
        # a key again, and a cell, or five times a key with what is behind it
        return (8 if self.dates else 2) * size + absent * lines

    def _lines(
        self, text: Text, raw: Raw, rows: int, lines: list[int], features: Features, ids: list[str] | None
    ) -> tuple[int, tuple[ParseError, int] | None, list[list[Feature]]]:
        """(how many rows are good, the error of the one behind them, features of each line that is left to Python)."""
        found: list[list[Feature]] = []
        for row in lines:
            begin, end = int(raw.starts[row]), int(raw.ends[row])
            line = bytes(text[begin:end]).removesuffix(b"\n")
            features.found, before = [], len(features.slots)
            try:
                raw.labels[row], weight = self._row(line, features, ids)
            except RecursionError:
                del features.slots[before:]
                error = ParseError(begin, "a line must be one JSON object, got one that is nested too deeply")
                return row, (error, end), found
            except Refused as refused:
                del features.slots[before:]
                place = begin + (refused.place or len(line) - len(line.lstrip(b" \t\r")))
                return row, (ParseError(place, refused.message), end), found
            if raw.weights is not None:
                raw.weights[row] = weight
            found.append(features.found)
        return rows, None, found

    def called(self, record: Text) -> str:
        """Of a bad record what its object has under that key, if it is one."""
        try:
            entries = {} if self.id is None else decoded_line(bytes(record).strip(), EXACT_DECODER)
        except (Refused, RecursionError):
            entries = {}
        return as_written(entries[self.id]) if self.id in entries else ""

    def _members(self, features: list[Feature], slots: list[int], indptr: NDArray[np.int64]) -> Members:
        """The features as crosses need them."""
        named = zip(features, slots, strict=True)
        names = [readable(space, name) if slot else "" for (space, name, _), slot in named]
        values = np.array([value for _, _, value in features], np.float64)
        return spelled(names, np.array(slots, np.uint64), values, indptr)

    def _row(self, line: bytes, features: Features, ids: list[str] | None) -> tuple[float, float]:
        """Label and weight of a line; its features are added, and what it is called where that is asked for."""
        entries = decoded_line(line, DECODER if ids is None and not self.categorical else EXACT_DECODER)
        called = "" if self.id is None else as_written(entries.get(self.id, ""))
        if ids is not None and not called and not self.without_id:
            self.without_id.extend([*entries][:20])
        if self.labels and self.label is not None and self.label not in entries:
            raise Refused(
                f"a record must have its label under the key {shown(self.label)}, got none; "
                f"{meant(self.label, [*entries][:20])} (label= or --label names the key)"
            )
        label = math.nan if self.label is None else self._label(entries.pop(self.label, None), features)
        weight = 1.0 if self.weight is None else self._weight(entries.pop(self.weight, None))
        features.here.clear()
        for key, value in entries.items():
            features.take(key, value)
        features.absent()
        if ids is not None:
            ids.append(called)
        return label, weight

    def _label(self, given: Any, features: Features) -> float:
        if given is None:
            return math.nan
        if self.grow_classes and (isinstance(given, str | bool) or (isinstance(given, float) and math.isfinite(given))):
            return features.place(given)
        if self.classes is not None:
            if isinstance(given, bool) and str(given) in self.classes:  # True and False, as other formats write them
                given = str(given)
            if given not in self.classes:
                *others, last = map(shown, self.classes)
                known = f"{', '.join(others)} or {last}{self.how_classes_are_known}"
                raise Refused(f"a label must be {known}, got {shown(given)}")
            number = self.classes.index(given)
            return float(number) if len(self.classes) > 2 else 2.0 * number - 1.0
        if isinstance(given, bool):
            return 1.0 if given else -1.0
        if not isinstance(given, float) or not math.isfinite(given):
            allowed = f"a finite number, true or false ({TEXTS})"
            raise Refused(f"a label must be {allowed}, got {shown(given)}")
        return given

    def _weight(self, given: Any) -> float:
        if given is None:
            return 1.0
        if not isinstance(given, float) or not math.isfinite(given) or given < 0:
            raise Refused(f"a weight must be a finite number ≥ 0, got {shown(given)}")
        return given


def _table(hashes: list[int]) -> NDArray[np.int64]:
    """Places of keys by their hashes, from 1 on, in a table at most half full."""
    slots = np.zeros(1 << (2 * len(hashes)).bit_length() if hashes else 0, np.int64)
    for k, code in enumerate(hashes):
        slot = code % len(slots)
        while slots[slot]:
            slot = (slot + 1) % len(slots)
        slots[slot] = k + 1
    return slots


def _joined(names: Sequence[str]) -> tuple[Text, NDArray[np.int64]]:
    """Names one behind another, and where each ends."""
    text, ends = encode_names([*names])
    return np.frombuffer(bytearray(text), np.uint8), ends
