"""The libsvm format written down a second time, slowly, from its description: what tests and fuzzing compare with."""

import re
from typing import NamedTuple

import numpy as np

_NUMBER = re.compile(rb"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_PAIR = re.compile(rb"([0-9]+):([^:]*)")
_QUERY = re.compile(rb"qid:[0-9]+")


class Row(NamedTuple):
    label: float
    indices: list
    values: list


class Naive(NamedTuple):
    """The rows before the first bad line; its place in the text, or None."""

    rows: list
    lines: int  # taken, the bad one included
    taken: int  # bytes of them
    width: int  # one more than the largest index, those of zeros included
    bad: tuple | None = None  # (first byte, byte after the last)


def parse(text, zero_based=False, dtype=np.float64, limit=np.inf):
    r"""Lines end with \n, \r\n or the text; # starts a comment; a line without tokens is no row.

    A single \r at the end of the text is the \r\n of a file that was cut short.
    """
    rows, start, lines, width = [], 0, 0, 0
    while start < len(text):
        lines += 1
        newline = text.find(b"\n", start)
        end = len(text) if newline < 0 else newline
        line = text[start:end].removesuffix(b"\r")
        after = end if newline < 0 else end + 1
        tokens = [token for token in re.split(rb"[ \t]", line.split(b"#")[0]) if token]
        if tokens:
            pairs = [_pair(token, zero_based, dtype, limit) for token in _features(tokens)]
            label = _number(tokens[0])
            if label is None or None in pairs or len({index for index, _ in pairs}) < len(pairs):
                return Naive(rows, lines, after, width, (start, after))
            kept = sorted(pair for pair in pairs if pair[1] != 0.0)
            rows.append(Row(label, [index for index, _ in kept], [value for _, value in kept]))
            width = max([width, *(index + 1 for index, _ in pairs)])
        start = after
    return Naive(rows, lines, start, width)


def _features(tokens):
    return tokens[2:] if len(tokens) > 1 and _QUERY.fullmatch(tokens[1]) else tokens[1:]


def _pair(token, zero_based, dtype, limit):
    match = _PAIR.fullmatch(token)
    if match is None:
        return None
    digits = match[1].lstrip(b"0")  # int() refuses thousands of them
    index = (2**62 if len(digits) > 19 else int(digits or b"0")) - (not zero_based)
    value = _number(match[2])
    if value is None or abs(value) > limit or not 0 <= index < 2**62 - (not zero_based):
        return None
    with np.errstate(over="ignore", under="ignore"):
        kept = float(dtype(value))
    return (index, kept) if np.isfinite(kept) else None


def _number(token):
    value = float(token) if _NUMBER.fullmatch(token) else np.inf
    return value if np.isfinite(value) else None


def disagreement(parsed, text, form):
    """What a format made of the text against what it says here; None if they agree."""
    naive = parse(text, form.zero_based, parsed.values.dtype.type, getattr(form, "limit", np.inf))
    found = [
        Row(float(label), parsed.indices[a:b].tolist(), parsed.values[a:b].tolist())
        for label, a, b in zip(parsed.labels, parsed.indptr[:-1], parsed.indptr[1:])
    ]
    for i, (row, other) in enumerate(zip(found, naive.rows)):
        if repr(row) != repr(other):  # repr tells -0.0 from 0.0, and every double from every other
            return f"row {i} is {row}, must be {other}"
    if len(found) != len(naive.rows):
        return f"{len(found)} rows, must be {len(naive.rows)}"
    if (parsed.error is None) != (naive.bad is None):
        return f"error is {parsed.error}, the first bad line {naive.bad}"
    if naive.bad is not None and not naive.bad[0] <= parsed.error.offset <= naive.bad[1]:
        return f"error at {parsed.error.offset}, must be within {naive.bad}"
    if (parsed.lines, parsed.taken) != (naive.lines, naive.taken):
        return f"lines and bytes taken are {(parsed.lines, parsed.taken)}, must be {(naive.lines, naive.taken)}"
    if parsed.width > naive.width:
        return f"width is {parsed.width}, but {naive.width} would do"
    return None
