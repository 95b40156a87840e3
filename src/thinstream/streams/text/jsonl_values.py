"""Values of JSON as they are written, for compiled code: where each ends, strings without their escapes."""

from typing import Any

import numpy as np

from thinstream.jit import scalar
from thinstream.streams.text.letters import decoded, encoded
from thinstream.streams.text.vectors import WIDE, copy_string, first_of, fits

# Kinds of values; below 0 none that is known here.
STRING, NUMBER, TRUE, FALSE, NULL = range(5)
_SPACE, _TAB, _RETURN, _QUOTE, _BACKSLASH = 32, 9, 13, 34, 92
_MINUS, _PLUS, _POINT, _ZERO, _SMALL_E, _LARGE_E = 45, 43, 46, 48, 101, 69
#: What the letters behind a backslash stand for; u is not among them.
_ESCAPES = np.zeros(256, np.uint8)
for _letter, _meant in zip(b'"\\/bfnrt', b'"\\/\b\f\n\r\t', strict=True):
    _ESCAPES[_letter] = _meant


@scalar
def blanks(text: Any, i: Any) -> Any:
    """Where the white space that begins at i ends; a newline is none."""
    while i < len(text) and (text[i] == _SPACE or text[i] == _TAB or text[i] == _RETURN):
        i += 1
    return i


@scalar
def _digits(text: Any, i: Any) -> Any:
    while i < len(text) and 48 <= text[i] <= 57:
        i += 1
    return i


@scalar
def number_end(text: Any, i: Any) -> Any:
    """Where the number ends that begins at i, as JSON writes it; i if there is none."""
    at = i + 1 if i < len(text) and text[i] == _MINUS else i
    end = _digits(text, at)
    if end == at or (text[at] == _ZERO and end > at + 1):
        return i
    if end < len(text) and text[end] == _POINT:
        at, end = end + 1, _digits(text, end + 1)
        if end == at:
            return i
    if end < len(text) and (text[end] == _SMALL_E or text[end] == _LARGE_E):
        at = end + 1
        if at < len(text) and (text[at] == _MINUS or text[at] == _PLUS):
            at += 1
        end = _digits(text, at)
        if end == at:
            return i
    return end


@scalar
def _four_digits(text: Any, i: Any) -> Any:
    """The number four hexadecimal digits write, or −1."""
    found = np.int64(0)
    for k in range(i, i + 4):
        c = np.int64(text[k]) if k < len(text) else np.int64(0)
        if 48 <= c <= 57:
            c -= 48
        elif 97 <= c | 32 <= 102:
            c = (c | 32) - 87
        else:
            return np.int64(-1)
        found = found << 4 | c
    return found


@scalar
def string(text: Any, i: Any, bag: Any, fill: Any) -> Any:
    """(end, end in the bag) of the string that begins behind the quote before i; the end is 0 of one for Python."""
    while i < len(text):
        while fits(text, i):
            count = first_of(copy_string(text, i, bag, fill))
            i, fill = i + count, fill + count
            if count < WIDE:
                break
        c = text[i] if i < len(text) else np.uint8(0)
        if c == _QUOTE:
            return i + 1, fill
        if c < 32:
            break
        if c == _BACKSLASH:
            meant = _ESCAPES[text[i + 1]] if i + 1 < len(text) else np.uint8(0)
            if meant > 0:
                bag[fill] = meant
                fill, i = fill + 1, i + 2
                continue
            if i + 1 >= len(text) or text[i + 1] != 117:
                break
            point = _four_digits(text, i + 2)
            i += 6
            if 0xD800 <= point < 0xDC00 and i + 1 < len(text) and text[i] == _BACKSLASH and text[i + 1] == 117:
                low = _four_digits(text, i + 2)
                if not 0xDC00 <= low < 0xE000:
                    break
                point = 0x10000 + ((point - 0xD800) << 10 | (low - 0xDC00))
                i += 6
            if point < 0 or 0xD800 <= point < 0xE000:
                break
            fill = encoded(point, bag, fill)
        elif c < 128:
            bag[fill] = c
            fill, i = fill + 1, i + 1
        else:
            _, size = decoded(text, i, len(text))
            if size == 0:
                break
            for k in range(size):
                bag[fill + k] = text[i + k]
            fill, i = fill + size, i + size
    return 0, fill


@scalar
def key_end(text: Any, i: Any) -> Any:
    """Where the key ends that begins at i; −1 of one for Python."""
    while i < len(text) and text[i] != _QUOTE:
        size = 1
        if text[i] < 32 or text[i] == _BACKSLASH:
            return -1
        if text[i] >= 128:
            _, size = decoded(text, i, len(text))
            if size == 0:
                return -1
        i += size
    return i if i < len(text) else -1


@scalar
def same_text(text: Any, start: Any, stop: Any, other: Any, low: Any, high: Any) -> Any:
    """Whether two parts of texts are equal."""
    same = high - low == stop - start
    for j in range(stop - start if same else 0):
        same = same and text[start + j] == other[low + j]
    return same


@scalar
def spelled(text: Any, i: Any) -> Any:
    """(kind, end) of true, false or null at i."""
    left = len(text) - i
    if left >= 4 and text[i] == 116 and text[i + 1] == 114 and text[i + 2] == 117 and text[i + 3] == 101:
        return TRUE, i + 4
    if left >= 4 and text[i] == 110 and text[i + 1] == 117 and text[i + 2] == 108 and text[i + 3] == 108:
        return NULL, i + 4
    if left >= 5 and text[i] == 102 and text[i + 1] == 97 and text[i + 2] == 108 and text[i + 3] == 115:
        return (FALSE if text[i + 4] == 101 else -1), i + 5
    return -1, i
