"""JSON Lines: one object a line, keys are columns, names are hashed.

    {"label": 1, "age": 31, "city": "Oslo", "tags": ["a", "b"], "size": [2, 0.5], "user": {"paid": true}}

A number is a feature under its key, a string is the feature ``key=string`` with value 1, true is 1; false and null are
absent. Lists hold numbers (``key[0]``, ``key[1]``, …) or strings (each counted as ``key=string``); an object inside is
written with points (``user.paid``). Keys named as text are taken apart into words, each counted.
"""

import json
import math
import re
from dataclasses import dataclass, field
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from thinstream.errors import meant
from thinstream.streams.class_book import label_of
from thinstream.streams.crossing.plan import Crosses
from thinstream.streams.crossing.spelling import Members, spelled
from thinstream.streams.text.hashed_rows import TEXTS, ColumnFormat, Raw, words
from thinstream.streams.text.hashing import encode_names, hashed
from thinstream.streams.text.names import readable
from thinstream.streams.text.protocol import Parsed, ParseError, Text, given_at

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


class _Features:
    """Features of all rows of a piece, in order: namespace, name, value."""

    def __init__(self, text: frozenset[str], ignore: frozenset[str], crosses: Crosses) -> None:
        self.text, self.ignore, self.crosses = text, ignore, crosses
        self.met: set[str] = set()  # of the keys that are named
        self.spaces: list[str] = []
        self.names: list[str] = []
        self.values: list[float] = []
        self.slots: list[int] = []  # of the crosses, if there are any
        self.labels: dict[tuple[type, Any], int] = {}  # met, where any is taken: True is not 1

    def place(self, label: Any) -> float:
        """Of a label among those met."""
        found = label_of(label) if isinstance(label, float) else label
        return float(self.labels.setdefault((type(label), found), len(self.labels)))

    def add(self, key: str, space: str, name: str, value: float) -> None:
        self.spaces.append(space)
        self.names.append(name)
        self.values.append(value)
        if self.crosses:
            self.slots.append(self.crosses.slots(key))

    def take(self, key: str, value: Any) -> None:
        """What an entry of an object gives."""
        if key in self.ignore or key in self.text:
            self.met.add(key)
        if key in self.ignore or value is None or value is False:
            return
        if key in self.text:
            for part in value if isinstance(value, list) else [value]:
                if not isinstance(part, str):
                    raise _Refused(f"{_shown(key)} is named as text, so it must be a string, got {_shown(part)}")
                found = words(part)
                self.spaces += [key] * len(found)
                self.names += found
                self.values += [1.0] * len(found)
                if self.crosses:
                    self.slots += [self.crosses.slots(key)] * len(found)
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
            self.add(key, f"{key}=", value, 1.0)
        elif value is not None and value is not False and value != 0:
            if not math.isfinite(value):
                raise _Refused(f"numbers must be finite, got {_shown(value)} in {_shown(key)}")
            self.add(key, "", name, float(value))


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

    @property
    def unmet(self) -> list[str]:
        """Keys that were named as text or to be left out, and that no row had so far."""
        return sorted({*self.text, *self.ignore} - self.met)

    def parse(self, text: Text) -> Parsed:
        """The rows of whole lines, up to the first bad one."""
        features = _Features(frozenset(self.text), frozenset(self.ignore), self.crosses)
        labels, weights, starts, ends, counts = [], [], [], [], [0]
        ids: list[str] | None = None if self.id is None else []
        begin, error = 0, None
        for line in bytes(text).split(b"\n"):
            end = min(begin + len(line) + 1, len(text))
            if line.strip(b" \t\r"):
                try:
                    label, weight = self._row(line, features, ids)
                except RecursionError:
                    error = ParseError(begin, "a line must be one JSON object, got one that is nested too deeply"), end
                    break
                except _Refused as refused:
                    place = begin + (refused.place or len(line) - len(line.lstrip(b" \t\r")))
                    error = ParseError(place, refused.message), end
                    break
                labels.append(label)
                weights.append(weight)
                starts.append(begin)
                ends.append(end)
                counts.append(len(features.names))
            begin = end
        # a bad row may have left features behind the last count, where nobody looks
        hashes = {space: self.hashing.namespace(space) for space in set(features.spaces)}
        seeds = np.array([hashes[space] for space in features.spaces], np.uint64)
        values = np.array(features.values, np.float64)
        self.met.update(features.met)
        indptr = np.array(counts, np.int64)
        members = self._members(features, values.copy(), indptr) if self.crosses else None
        found, stops = encode_names(features.names)
        raw = Raw(
            np.array(labels, np.float64),
            None if self.weight is None else np.array(weights, np.float64),
            indptr,
            hashed(found, stops, seeds, values, self.hashing),
            values,
            np.array(starts, np.int64),
            np.array(ends, np.int64),
        )
        met = [label for _, label in features.labels] if self.grow_classes else None
        return self.parsed(
            text, raw, error, lambda k: readable(features.spaces[k], features.names[k]), ids, met=met, members=members
        )

    def _members(self, features: _Features, values: NDArray[np.float64], indptr: NDArray[np.int64]) -> Members:
        """The features as crosses need them."""
        named = zip(features.spaces, features.names, features.slots, strict=True)
        names = [readable(space, name) if slot else "" for space, name, slot in named]
        return spelled(names, np.array(features.slots, np.uint64), values, indptr)

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
                raise _Refused(f"a label must be {', '.join(others)} or {last}, got {_shown(given)}")
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
