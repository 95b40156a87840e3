"""JSON Lines: one object a line, keys are columns, names are hashed.

    {"label": 1, "age": 31, "city": "Oslo", "tags": ["a", "b"], "size": [2, 0.5], "user": {"paid": true}}

A number is a feature under its key, a string is the feature ``key=string`` with value 1, true is 1; false is absent,
null and strings like NA are what ``missing`` says. Lists hold numbers (``key[0]``, ``key[1]``, …) or strings (each
counted as ``key=string``); an object inside is written with points (``user.paid``). Keys named as text are taken apart
into words, each counted.
"""

import json
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import chain
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from thinstream.batch import plain
from thinstream.errors import meant
from thinstream.streams.class_book import label_of
from thinstream.streams.crossing.spelling import Members, spelled
from thinstream.streams.options import NOTHING
from thinstream.streams.text import jsonl_parser as parser
from thinstream.streams.text.csv_cells import CODES
from thinstream.streams.text.hashed_rows import TEXTS, ColumnFormat, Raw
from thinstream.streams.text.hashing import encode_names
from thinstream.streams.text.names import readable
from thinstream.streams.text.protocol import Parsed, ParseError, Text, given_at
from thinstream.streams.text.tokens import Feature, Runs, Spliced, run_features
from thinstream.streams.text.vectors import WIDE

_CONSTANT = re.compile(r'"(?:[^"\\]|\\.)*"|(-?Infinity|NaN)')


class _Refused(Exception):
    """What JSON allows, or Python's reader does, and a row does not; with the place in the line if it is known."""

    def __init__(self, message: str, place: int = 0) -> None:
        super().__init__(message)
        self.message, self.place = message, place


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for k, key in enumerate(keys) if key in keys[:k])
        raise _Refused(f"a key may occur once in an object, got {_shown(twice)} again")
    return found


def _constant(name: str) -> NoReturn:
    raise _Refused(f"numbers must be finite, got {name}", -1)


def _shown(value: Any) -> str:
    shown = json.dumps(value) if not isinstance(value, float) or math.isfinite(value) else "a number beyond 1.8e308"
    return shown if len(shown) <= 40 else shown[:40] + "…"


class _Written(float):
    """A number that knows how it was written: ids have more digits than doubles."""

    def __new__(cls, text: str) -> "_Written":
        made = super().__new__(cls, text)
        made.text = text
        return made

    text: str


# integers as doubles at once: no limit on their digits, no second conversion
_decoder = json.JSONDecoder(object_pairs_hook=_object, parse_int=float, parse_constant=_constant)
_exact_decoder = json.JSONDecoder(
    object_pairs_hook=_object, parse_int=_Written, parse_float=_Written, parse_constant=_constant
)


def _says_nothing(value: Any) -> bool:
    return value is None or (isinstance(value, str) and value.strip(" ") in ("", *NOTHING))


class _Features:
    """What a record of a piece gives, as `take` was told it, and what the records before it have told."""

    def __init__(self, form: "JSONLines") -> None:
        self.form, self.text, self.ignore = form, frozenset(form.text), frozenset(form.ignore)
        self.met: set[str] = set()  # of the keys that are named
        self.found: list[Feature] = []
        self.slots: list[int] = []  # of the crosses, if there are any
        self.labels: dict[tuple[type, Any], int] = {}  # met, where any is taken: True is not 1

    def place(self, label: Any) -> float:
        """Of a label among those met."""
        found = label_of(label) if isinstance(label, float) else label
        return float(self.labels.setdefault((type(label), found), len(self.labels)))

    def add(self, key: str, *features: Feature) -> None:
        self.found += features
        if self.form.crosses:
            self.slots += [self.form.crosses.slots(key)] * len(features)

    def take(self, key: str, value: Any) -> None:
        """What an entry of an object gives."""
        if key in self.ignore or key in self.text:
            self.met.add(key)
        if key in self.ignore or value is False:
            return
        if key not in self.text and self.form.missing != "as-is" and _says_nothing(value):
            if self.form.missing == "error":
                raise _Refused(f"{_shown(key)} must have a value (missing is error), got {_shown(value)}")
            if self.form.missing == "indicator":
                self.add(key, (f"{key}=", "?", 1.0))
            return
        if value is None:
            return
        if key in self.text:
            for part in value if isinstance(value, list) else [value]:
                if not isinstance(part, str):
                    raise _Refused(f"{_shown(key)} is named as text, so it must be a string, got {_shown(part)}")
                self.add(key, *self.form.text_features(key, part))
        elif isinstance(value, dict):
            for inner, part in value.items():
                self.take(f"{key}.{inner}", part)
        elif isinstance(value, list):
            for k, part in enumerate(value):
                if isinstance(part, list | dict):
                    raise _Refused(f"a list must hold numbers or strings, got {_shown(part)} in {_shown(key)}")
                self.scalar(key, part, f"{key}[{k}]")
        else:
            self.scalar(key, value, key)

    def scalar(self, key: str, value: Any, name: str) -> None:
        if isinstance(value, str):
            self.add(key, (f"{key}=", value, 1.0))
        elif value is not None and value is not False and value != 0:
            if not math.isfinite(value):
                raise _Refused(f"numbers must be finite, got {_shown(value)} in {_shown(key)}")
            self.add(key, ("", name, float(value)))


@dataclass(kw_only=True)
class JSONLines(ColumnFormat):
    r"""JSON Lines; keys are columns, those inside an object are written with points. A label may be true or false.

    Parameters
    ----------
    labels : bool
        Whether every record must have the key of the label; where its value is null there is none.

    Examples
    --------
    >>> from thinstream.streams.text.hashing import Hashing
    >>> form = JSONLines(text=["subject"], classes=("ham", "spam"), hashing=Hashing(bits=10))
    >>> line = b'{"label": "spam", "subject": "free, FREE offer", "size": 2.5, "to": ["joe", "ann"]}\n'
    >>> parsed = form.parse(np.frombuffer(line, np.uint8))
    >>> parsed.labels, parsed.values
    (array([1.]), array([1. , 2. , 1. , 1. , 2.5], dtype=float32))

    """

    labels: bool = False
    met: set[str] = field(default_factory=set, init=False, repr=False, compare=False)
    without_id: list[str] = field(default_factory=list, init=False, repr=False, compare=False)  # keys of a record

    def __post_init__(self) -> None:
        super().__post_init__()
        roles = [(name, parser.TEXT, k) for k, name in enumerate(self.text)]
        roles += [(name, parser.IGNORED, 0) for name in self.ignore]
        others = (self.label, parser.LABEL), (self.weight, parser.WEIGHT)
        roles += [(name, role, 0) for name, role in others if name is not None]
        classes, how = self.classes or (), self.hashing
        self._named = [name for name, _, _ in roles]
        self._keys = parser.Keys(
            np.array([how.code(name) for name in self._named], np.uint64),
            *_joined(self._named),
            np.array([role for _, role, _ in roles], np.int64),
            np.array([k for _, _, k in roles], np.int64),
            np.array([math.nan if isinstance(kind, str) else float(kind) for kind in classes], np.float64),
            *_joined([str(kind) for kind in classes]),
        )
        # what compiled code does not do: crosses, ids as they are written, labels of any kind, True where 1 is
        nothing = bool(self.cross) or self.id is not None or self.grow_classes
        nothing = nothing or any(isinstance(kind, bool) for kind in classes)
        labelled = self.labels and self.label is not None
        numbers = np.uint64(how.namespace("")), np.uint64(how.seed), np.uint64(how.mask)
        self._asked = parser.Asked(labelled, nothing, *numbers, how.signed, CODES[self.missing])

    @property
    def unmet(self) -> list[str]:
        """Keys that were named as text or to be left out, and that no row had so far."""
        return sorted({*self.text, *self.ignore} - self.met)

    def parse(self, text: Text) -> Parsed:
        """The rows of whole lines, up to the first bad one: compiled code takes the plain ones, Python the others."""
        text = plain(text)
        most = len(text) // 2 + 2  # a row has a character and an end of line, a feature or text more than that
        raw, upto, bag = Raw.empty(most), np.empty(most + 1, np.int64), np.empty(len(text) + WIDE, np.uint8)
        room, met = Runs._make(np.empty(most, np.int64) for _ in Runs._fields), np.zeros(len(self._named), np.bool_)
        rows, count = parser.parse(text, self._keys, self._asked, met, bag, raw, room, upto)
        runs = Runs._make(part[:count] for part in room)
        features, lines = _Features(self), np.flatnonzero(runs.columns < 0)
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
        spliced = Spliced(raw.indices, raw.values, runs, taken)
        indptr = spliced.indptr(raw.indptr, upto)
        raw = raw._replace(indptr=indptr, indices=spliced.indices, values=spliced.values)
        self.met.update(features.met, (name for name, there in zip(self._named, met, strict=True) if there))

        begins = indptr.copy()

        @lru_cache(1)
        def features_in(row: int) -> list[Feature]:
            found = _Features(self)
            self._row(bytes(text[raw.starts[row] : raw.ends[row]]), found, None)
            return found.found

        def name_at(place: int) -> str:
            row = int(np.searchsorted(begins, place, side="right")) - 1
            return readable(*features_in(row)[place - begins[row]][:2])

        members = self._members([*chain.from_iterable(found)], features.slots, indptr) if self.crosses else None
        known = [label for _, label in features.labels] if self.grow_classes else None
        return self.parsed(text, raw, error, name_at, ids, met=known, members=members)

    def _lines(
        self, text: Text, raw: Raw, rows: int, lines: list[int], features: _Features, ids: list[str] | None
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
            except _Refused as refused:
                del features.slots[before:]
                place = begin + (refused.place or len(line) - len(line.lstrip(b" \t\r")))
                return row, (ParseError(place, refused.message), end), found
            if raw.weights is not None:
                raw.weights[row] = weight
            found.append(features.found)
        return rows, None, found

    def _members(self, features: list[Feature], slots: list[int], indptr: NDArray[np.int64]) -> Members:
        """The features as crosses need them."""
        named = zip(features, slots, strict=True)
        names = [readable(space, name) if slot else "" for (space, name, _), slot in named]
        values = np.array([value for _, _, value in features], np.float64)
        return spelled(names, np.array(slots, np.uint64), values, indptr)

    def _row(self, line: bytes, features: _Features, ids: list[str] | None) -> tuple[float, float]:
        """Label and weight of a line; its features are added, and what it is called where that is asked for."""
        entries = _decoded(line, _decoder if ids is None else _exact_decoder)
        called = "" if self.id is None else _as_written(entries.get(self.id, ""))
        if ids is not None and not called and not self.without_id:
            self.without_id.extend([*entries][:20])
        if self.labels and self.label is not None and self.label not in entries:
            raise _Refused(
                f"a record must have its label under the key {_shown(self.label)}, got none; "
                f"{meant(self.label, [*entries][:20])} (label= or --label names the key)"
            )
        label = math.nan if self.label is None else self._label(entries.pop(self.label, None), features)
        weight = 1.0 if self.weight is None else self._weight(entries.pop(self.weight, None))
        for key, value in entries.items():
            features.take(key, value)
        if ids is not None:
            ids.append(called)
        return label, weight

    def _label(self, given: Any, features: _Features) -> float:
        if given is None:
            return math.nan
        if self.grow_classes and (isinstance(given, str | bool) or (isinstance(given, float) and math.isfinite(given))):
            return features.place(given)
        if self.classes is not None:
            if isinstance(given, bool) and str(given) in self.classes:  # True and False, as other formats write them
                given = str(given)
            if given not in self.classes:
                *others, last = map(_shown, self.classes)
                known = f"{', '.join(others)} or {last}{self.how_classes_are_known}"
                raise _Refused(f"a label must be {known}, got {_shown(given)}")
            number = self.classes.index(given)
            return float(number) if len(self.classes) > 2 else 2.0 * number - 1.0
        if isinstance(given, bool):
            return 1.0 if given else -1.0
        if not isinstance(given, float) or not math.isfinite(given):
            allowed = f"a finite number, true or false ({TEXTS})"
            raise _Refused(f"a label must be {allowed}, got {_shown(given)}")
        return given

    def _weight(self, given: Any) -> float:
        if given is None:
            return 1.0
        if not isinstance(given, float) or not math.isfinite(given) or given < 0:
            raise _Refused(f"a weight must be a finite number ≥ 0, got {_shown(given)}")
        return given


def _joined(names: Sequence[str]) -> tuple[Text, NDArray[np.int64]]:
    """Names one behind another, and where each ends."""
    text, ends = encode_names([*names])
    return np.frombuffer(bytearray(text), np.uint8), ends


def _as_written(value: Any) -> str:
    """A value as an id: text without its quotes, anything else as it stands in JSON."""
    if isinstance(value, str):
        return value
    return value.text if isinstance(value, _Written) else json.dumps(value)


def _decoded(line: bytes, decoder: json.JSONDecoder) -> dict[str, Any]:
    """The object of a line."""
    try:
        document = line.decode()
    except UnicodeDecodeError as error:
        raise _Refused(f"a line must be UTF-8, got byte {line[error.start]:#04x}", error.start) from None
    try:
        found = decoder.decode(document)
    except json.JSONDecodeError as error:
        place = len(document[: error.pos].encode())
        given = given_at(np.frombuffer(line, np.uint8), place)
        raise _Refused(f"a line must be one JSON object: {error.msg}, got {given}", place) from None
    except _Refused as refused:
        if refused.place < 0:
            place = next(match.start() for match in _CONSTANT.finditer(document) if match[1])
            refused.place = len(document[:place].encode())
        raise
    if not isinstance(found, dict):
        raise _Refused(f"a line must be one JSON object, got {_shown(found)}")
    return found
