"""Lines of JSON as Python reads them: the features of an object, and what is wrong with one."""

import json
import math
import re
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from thinstream.streams.class_book import label_of
from thinstream.streams.expansion import require_few
from thinstream.streams.options import NOTHING
from thinstream.streams.text import jsonl_parser as parser
from thinstream.streams.text.csv_cells import read, truth_at
from thinstream.streams.text.dates import date_parts
from thinstream.streams.text.protocol import given_at
from thinstream.streams.text.tokens import Feature

if TYPE_CHECKING:
    from thinstream.streams.text.jsonl import JSONLines

_CONSTANT = re.compile(r'"(?:[^"\\]|\\.)*"|(-?Infinity|NaN)')


class Refused(Exception):
    """What JSON allows, or Python's reader does, and a row does not; with the place in the line if it is known."""

    def __init__(self, message: str, place: int = 0) -> None:
        super().__init__(message)
        self.message, self.place = message, place


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for k, key in enumerate(keys) if key in keys[:k])
        raise Refused(f"a key may occur once in an object, got {shown(twice)} again")
    return found


def _constant(name: str) -> NoReturn:
    raise Refused(f"numbers must be finite, got {name}", -1)


def shown(value: Any) -> str:
    """A value in a message."""
    text = json.dumps(value) if not isinstance(value, float) or math.isfinite(value) else "a number beyond 1.8e308"
    return text if len(text) <= 40 else text[:40] + "…"


class _Written(float):
    """A number that knows how it was written: ids have more digits than doubles."""

    def __new__(cls, text: str) -> "_Written":
        made = super().__new__(cls, text)
        made.text = text
        return made

    text: str


# integers as doubles at once: no limit on their digits, no second conversion
DECODER = json.JSONDecoder(object_pairs_hook=_object, parse_int=float, parse_constant=_constant)
EXACT_DECODER = json.JSONDecoder(
    object_pairs_hook=_object, parse_int=_Written, parse_float=_Written, parse_constant=_constant
)


def _says_nothing(value: Any) -> bool:
    return value is None or (isinstance(value, str) and value.strip(" ") in ("", *NOTHING))


class Features:
    """What a record of a piece gives, as `take` was told it, and what the records before it have told."""

    def __init__(self, form: "JSONLines") -> None:
        self.form, self.text, self.ignore = form, frozenset(form.text), frozenset(form.ignore)
        self.met: set[str] = set()  # of the keys that are named
        self.strange: dict[str, None] = {}  # keys that are not, where all are known
        self.strayed: set[str] = set()  # of the keys found to be numeric, those that held a word
        self.here: set[str] = set()  # keys of this record
        self.found: list[Feature] = []
        self.slots: list[int] = []  # of the crosses, if there are any
        self.labels: dict[tuple[type, Any], int] = {}  # met, where any is taken: True is not 1

    def place(self, label: Any) -> float:
        """Of a label among those met."""
        found = label_of(label) if isinstance(label, float) else label
        return float(self.labels.setdefault((type(label), found), len(self.labels)))

    def add(self, key: str, *features: Feature) -> None:
        """Features of a key."""
        self.found += features
        if self.form.crosses:
            self.slots += [self.form.crosses.slots(key)] * len(features)
            require_few(len(self.slots), "crosses")

    def take(self, key: str, value: Any) -> None:
        """What an entry of an object gives."""
        role = self.form.role_of(key)
        if role is not None:
            self.met.add(key)
            self.here.add(key)
        elif self.form.columns and not isinstance(value, dict):
            self.strange[key] = None
        if key in self.ignore or (value is False and role != parser.CATEGORICAL):
            return
        always = self.form.missing != "as-is" or role in (parser.NUMERIC, parser.DATE)
        if key not in self.text and (value is None or (always and _says_nothing(value))):
            self.nothing(key, value)
            return
        if value is None:
            return
        if role == parser.DATE:
            self.date(key, value)
        elif role == parser.CATEGORICAL and isinstance(value, bool | float):
            self.add(key, (f"{key}=", str(value) if isinstance(value, bool) else as_written(value), 1.0))
        elif role in (parser.NUMERIC, parser.FOUND_NUMERIC) and isinstance(value, str):
            self.number(key, value, role)
        elif key in self.text:
            for part in value if isinstance(value, list) else [value]:
                if not isinstance(part, str):
                    raise Refused(f"{shown(key)} is named as text, so it must be a string, got {shown(part)}")
                self.add(key, *self.form.text_features(key, part))
        elif isinstance(value, dict):
            for inner, part in value.items():
                self.take(f"{key}.{inner}", part)
        elif isinstance(value, list):
            for k, part in enumerate(value):
                if isinstance(part, list | dict):
                    raise Refused(f"a list must hold numbers or strings, got {shown(part)} in {shown(key)}")
                self.scalar(key, part, f"{key}[{k}]")
        else:
            self.scalar(key, value, key)

    def nothing(self, key: str, value: Any = None) -> None:
        """What a value gives that says nothing."""
        if self.form.missing == "error":
            raise Refused(f"{shown(key)} must have a value (missing is error), got {shown(value)}")
        if self.form.missing == "indicator":
            self.add(key, (f"{key}=", "?", 1.0))

    def absent(self) -> None:
        """What the columns give that the record does not have and a table would."""
        for key in self.form.required:
            if key not in self.here:
                self.nothing(key)
        self.here.clear()

    def number(self, key: str, text: str, role: int) -> None:
        """What a string gives where numbers are."""
        bare = np.frombuffer(text.encode("utf-8", "surrogatepass"), np.uint8)
        value, known = read(bare, 0, len(bare))
        if not known and (truth := truth_at(bare, 0, len(bare))) >= 0:
            value, known = float(truth), True
        if role == parser.FOUND_NUMERIC:
            self.strayed.add(key)
            self.add(key, (f"{key}=", text, 1.0))
        elif not known:
            raise Refused(f"column {key!r} is numeric, got {text!r:.60} in place of a finite number, null or NA")
        else:
            self.scalar(key, value, key)

    def date(self, key: str, value: Any) -> None:
        """The parts of a date."""
        parts = date_parts(value) if isinstance(value, str) else None
        if parts is None:
            given = f"got {shown(value)} (--categorical takes words)"
            raise Refused(f"column {key!r} holds dates as in 2024-05-17 or 2024-05-17T13:05, {given}")
        self.add(key, *((f"{key}.{part}=", name, 1.0) for part, name in parts.items()))

    def scalar(self, key: str, value: Any, name: str) -> None:
        """What a string gives, or a number under its name."""
        if isinstance(value, str):
            self.add(key, (f"{key}=", value, 1.0))
        elif value is not None and value is not False and value != 0:
            if not math.isfinite(value):
                raise Refused(f"numbers must be finite, got {shown(value)} in {shown(key)}")
            self.add(key, ("", name, float(value)))


def as_written(value: Any) -> str:
    """A value as an id: text without its quotes, anything else as it stands in JSON."""
    if isinstance(value, str):
        return value
    return value.text if isinstance(value, _Written) else json.dumps(value)


def decoded_line(line: bytes, decoder: json.JSONDecoder) -> dict[str, Any]:
    """The object of a line."""
    try:
        document = line.decode()
    except UnicodeDecodeError as error:
        raise Refused(f"a line must be UTF-8, got byte {line[error.start]:#04x}", error.start) from None
    try:
        found = decoder.decode(document)
    except json.JSONDecodeError as error:
        place = len(document[: error.pos].encode())
        given = given_at(np.frombuffer(line, np.uint8), place)
        raise Refused(f"a line must be one JSON object: {error.msg}, got {given}", place) from None
    except Refused as refused:
        if refused.place < 0:
            place = next(match.start() for match in _CONSTANT.finditer(document) if match[1])
            refused.place = len(document[:place].encode())
        raise
    if not isinstance(found, dict):
        raise Refused(f"a line must be one JSON object, got {shown(found)}")
    return found
