r"""Characters in compiled code: UTF-8 to code points and back, and what Python knows of each (``\w``, `str.lower`).

The table is made of Python's own answers, so that texts are taken apart as Python would. Two capitals have no one
character in lower case that could be looked up, İ and Σ (which depends on what is behind it): a text with one of them
is left to Python (`ODD`).
"""

import re
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thinstream.jit import scalar

WORD, SPACE, ODD, BITS = 1, 2, 4, 3
_ALL, _PAGE = 0x110000, 256


@cache
def letter_table(lower: bool) -> NDArray[np.int32]:
    """Of each code point the one to write in its place, and behind that in `BITS` bits what it is.

    >>> int(letter_table(True)[ord("Ä")]) == ord("ä") << BITS | WORD
    True
    """
    everything = "".join(map(chr, range(_ALL)))
    found = np.arange(_ALL, dtype=np.int32)
    if lower:
        for start in range(0, _ALL, _PAGE):
            page = everything[start : start + _PAGE]
            if page.lower() != page:
                found[start : start + _PAGE] = [ord(c.lower()) if len(c.lower()) == 1 else ord(c) for c in page]
    found <<= BITS
    for flag, pattern in ((WORD, r"\w+"), (SPACE, r"\s+")):
        for match in re.finditer(pattern, everything):
            found[match.start() : match.end()] |= flag
    if lower:
        found[[ord("İ"), ord("Σ")]] |= ODD
    last = int(np.flatnonzero(found != np.arange(_ALL, dtype=np.int32) << BITS)[-1])
    return found[: last + 1].copy()


@scalar
def decoded(text: Any, i: Any, stop: Any) -> Any:
    """(code point, bytes) of the character of several bytes at ``text[i]``; no bytes if it is no UTF-8."""
    c, left = np.int64(text[i]), stop - i
    if 0xC2 <= c < 0xE0 and left > 1:
        b = np.int64(text[i + 1])
        if b & 0xC0 == 0x80:
            return (c & 0x1F) << 6 | b & 0x3F, 2
    elif 0xE0 <= c < 0xF0 and left > 2:
        b, d = np.int64(text[i + 1]), np.int64(text[i + 2])
        found = (c & 0x0F) << 12 | (b & 0x3F) << 6 | d & 0x3F
        if b & 0xC0 == 0x80 and d & 0xC0 == 0x80 and found >= 0x800 and not 0xD800 <= found < 0xE000:
            return found, 3
    elif 0xF0 <= c < 0xF5 and left > 3:
        b, d, e = np.int64(text[i + 1]), np.int64(text[i + 2]), np.int64(text[i + 3])
        found = (c & 0x07) << 18 | (b & 0x3F) << 12 | (d & 0x3F) << 6 | e & 0x3F
        if b & 0xC0 == 0x80 and d & 0xC0 == 0x80 and e & 0xC0 == 0x80 and 0x10000 <= found < 0x110000:
            return found, 4
    return np.int64(0), 0


@scalar
def encoded(c: Any, out: Any, at: Any) -> Any:
    """Writes a code point from ``out[at]`` on; returns where it ends."""
    if c < 0x80:
        out[at] = np.uint8(c)
        return at + 1
    if c < 0x800:
        out[at] = np.uint8(0xC0 | c >> 6)
        out[at + 1] = np.uint8(0x80 | c & 0x3F)
        return at + 2
    if c < 0x10000:
        out[at] = np.uint8(0xE0 | c >> 12)
        out[at + 1] = np.uint8(0x80 | c >> 6 & 0x3F)
        out[at + 2] = np.uint8(0x80 | c & 0x3F)
        return at + 3
    out[at] = np.uint8(0xF0 | c >> 18)
    out[at + 1] = np.uint8(0x80 | c >> 12 & 0x3F)
    out[at + 2] = np.uint8(0x80 | c >> 6 & 0x3F)
    out[at + 3] = np.uint8(0x80 | c & 0x3F)
    return at + 4
