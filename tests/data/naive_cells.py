"""The meaning of a cell written down a second time, in plain Python, and naive readers of CSV and JSON objects."""

import datetime
import math
import re

from tests.data.naive_texts import text_features

NOTHING = ("", "NA", "N/A", "NaN", "nan", "null", "NULL", "None", "?")
LIMIT = 1e15
_NUMBER = re.compile(r" *[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)? *", re.ASCII)
_INFINITE = re.compile(r"[ +-]*(inf|infinity) *", re.IGNORECASE)
_DATE = re.compile(r"(\d{4})-(\d\d)-(\d\d)([T ](\d\d):(\d\d)(:\d\d([.,]\d+)?)?(Z|[+-]\d\d(:?\d\d)?)?)?", re.ASCII)
_WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")


class Refused(Exception):
    """The cell is an error."""


class Untyped(str):
    """Text that may be a number, as in CSV."""


class Item(str):
    """A word in a list."""


def number_in(text):
    """The number that a text is; None if it is not a finite number."""
    value = float(text) if _NUMBER.fullmatch(text) else math.inf
    return value if math.isfinite(value) else None


def date_features(name, text):
    """The parts of a date."""
    match = _DATE.fullmatch(text)
    if match is None or (match[7] and int(match[7][1:3]) > 60) or int(match[5] or 0) > 23 or int(match[6] or 0) > 59:
        raise Refused(text)
    try:
        day = datetime.date(*map(int, match.group(1, 2, 3)))
    except ValueError:
        raise Refused(text) from None
    parts = {"year": match[1], "month": match[2], "day": match[3]} | ({"hour": match[5]} if match[5] else {})
    return [(f"{name}.{part}=", value, 1.0) for part, value in (parts | {"weekday": _WEEKDAYS[day.weekday()]}).items()]


def features(name, role, value, missing, written=str):
    """(namespace, name, value) of a cell: None, a bool, a number, a str, `Untyped` or `Item`."""
    is_text = isinstance(value, str) and not isinstance(value, Item)
    says_nothing = is_text and value.strip(" ") in NOTHING
    if role == "ignore":
        return []
    if role == "text":
        if value is None or value is False or (says_nothing and missing != "as-is") or value == "":
            return []
        if not isinstance(value, str):
            raise Refused(value)
        return list(text_features(name, value))
    number = None if isinstance(value, str) else value
    if is_text and (role == "numeric" or (isinstance(value, Untyped) and role == "auto")):
        number = number_in(value)
    if isinstance(value, float) and value != value:
        if missing == "as-is":
            raise Refused(value)
        value = None
    may_be_missing = missing != "as-is" or role in ("numeric", "dates")
    if value is None or (isinstance(value, Untyped) and not value) or (says_nothing and may_be_missing):
        if missing == "error":
            raise Refused(value)
        return [(f"{name}=", "?", 1.0)] if missing == "indicator" else []
    if value is False and role != "categorical":
        return []
    if role == "dates":
        if not is_text:
            raise Refused(value)
        return date_features(name, value)
    if role == "categorical":
        return [(f"{name}=", value if isinstance(value, str) else written(value), 1.0)]
    if number is not None:
        if not abs(number) <= LIMIT:
            raise Refused(value)
        return [("", name, float(number))] if number else []
    if role == "numeric" and is_text:
        truth = {"True": 1.0, "true": 1.0, "TRUE": 1.0, "False": 0.0, "false": 0.0, "FALSE": 0.0}.get(value)
        if truth is None:
            raise Refused(value)
        return [("", name, truth)] if truth else []
    if isinstance(value, Untyped) and missing != "as-is" and (_INFINITE.fullmatch(value) or _NUMBER.fullmatch(value)):
        raise Refused(value)
    return [(f"{name}=", value, 1.0)]


def object_features(record, roles, missing, written=str, path=""):
    """The features of a JSON object or dict."""
    return [
        feature
        for key, value in record.items()
        for feature in _value_features(path + key, roles, value, missing, written)
    ]


def _value_features(name, roles, value, missing, written):
    role = roles.get(name, "auto")
    if role == "ignore":
        return []
    if isinstance(value, dict | list) and role == "dates":
        raise Refused(value)
    if isinstance(value, dict):
        if role == "text":
            raise Refused(value)
        return object_features(value, roles, missing, written, f"{name}.")
    if not isinstance(value, list):
        return features(name, role, value, missing, written)
    parts = []
    for k, item in enumerate(value):
        if isinstance(item, dict | list) or (role == "text" and not isinstance(item, str)):
            raise Refused(item)
        if isinstance(item, str):
            parts += features(name, role, Item(item), missing)
        elif item is not None and item is not False:
            place = f"{name}[{k}]"
            parts += features(place, roles.get(place, "auto"), item, missing, written)
    return parts


def csv_records(text, delimiter=","):
    """Records as lists of cells; None for a record with a quote that is not closed at the end of its cell, the last."""
    end = rf"(?={re.escape(delimiter)}|\n|\Z|\r\n|\r\Z)"
    quoted, plain = re.compile(rf'"((?:[^"]|"")*)"{end}'), re.compile(rf"[^{re.escape(delimiter)}\n]*?{end}")
    i, record = 0, []
    while i < len(text):
        if not record and (blank := re.compile(r"\n|\r\n|\r\Z").match(text, i)):
            i = blank.end()
            continue
        while True:
            is_quoted = text[i : i + 1] == '"'
            match = (quoted if is_quoted else plain).match(text, i)
            if match is None:
                yield None
                return
            record.append(Untyped(match[1].replace('""', '"') if is_quoted else match[0]))
            i = match.end()
            if text[i : i + 1] != delimiter:
                break
            i += 1
        yield record
        record, i = [], i + len(re.compile(r"\r?\n?").match(text, i)[0])
