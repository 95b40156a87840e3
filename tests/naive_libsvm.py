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
    bad: tuple | None = None  # (first byte, byte after the last)


def parse(text, zero_based=False, dtype=np.float64):
    r"""Lines end with \n, \r\n or the text; # starts a comment; a line without tokens is no row."""
    rows, start, lines = [], 0, 0
    while start < len(text):
        lines += 1
        newline = text.find(b"\n", start)
        end = len(text) if newline < 0 else newline
        line = text[start:end]
        if newline >= 0 and line.endswith(b"\r"):
            line = line[:-1]
        after = end if newline < 0 else end + 1
        tokens = [token for token in re.split(rb"[ \t]", line.split(b"#")[0]) if token]
        if tokens:
            row = _row(tokens, zero_based, dtype)
            if row is None:
                return Naive(rows, lines, after, (start, after))
            rows.append(row)
        start = after
    return Naive(rows, lines, start)


def _row(tokens, zero_based, dtype):
    label = _number(tokens[0], np.float64)
    rest = tokens[2:] if len(tokens) > 1 and _QUERY.fullmatch(tokens[1]) else tokens[1:]
    pairs = [_pair(token, zero_based, dtype) for token in rest]
    if label is None or None in pairs or len({index for index, _ in pairs}) < len(pairs):
        return None
    kept = sorted(pair for pair in pairs if pair[1] != 0.0)
    return Row(label, [index for index, _ in kept], [value for _, value in kept])


def _pair(token, zero_based, dtype):
    match = _PAIR.fullmatch(token)
    if match is None:
        return None
    digits = match[1].lstrip(b"0")  # int() refuses thousands of them
    index = 2**62 if len(digits) > 19 else int(digits or b"0")
    value = _number(match[2], dtype)
    if value is None or index >= 2**62 or (index == 0 and not zero_based):
        return None
    return index - (not zero_based), value


def _number(token, dtype):
    if not _NUMBER.fullmatch(token):
        return None
    with np.errstate(over="ignore", under="ignore"):
        value = float(dtype(float(token)))
    return value if np.isfinite(value) else None


def disagreement(parsed, text, zero_based=False):
    """What a format made of the text against what it says here; None if they agree."""
    naive = parse(text, zero_based, parsed.values.dtype.type)
    found = [
        Row(float(label), parsed.indices[a:b].tolist(), parsed.values[a:b].tolist())
        for label, a, b in zip(parsed.labels, parsed.indptr[:-1], parsed.indptr[1:])
    ]
    for i, (row, other) in enumerate(zip(found, naive.rows)):
        if repr(row) != repr(other):  # repr tells -0.0 from 0.0, and every double from every other
            return f"row {i} is {row}, must be {other}"
    if len(found) != len(naive.rows):
        return f"{len(found)} rows, must be {len(naive.rows)}"
    if (parsed.trouble is None) != (naive.bad is None):
        return f"trouble is {parsed.trouble}, the first bad line {naive.bad}"
    if naive.bad is not None and not naive.bad[0] <= parsed.trouble.offset <= naive.bad[1]:
        return f"trouble at {parsed.trouble.offset}, must be within {naive.bad}"
    if (parsed.lines, parsed.taken) != (naive.lines, naive.taken):
        return f"lines and bytes taken are {(parsed.lines, parsed.taken)}, must be {(naive.lines, naive.taken)}"
    return None
