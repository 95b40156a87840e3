"""A small format, and copies of it with a bug each that the fuzzer has to find.

A line is a sign and the digits of one index below a billion, with value 1: ``+12``. Empty lines are no rows.
"""

import ctypes

import numba
import numpy as np

from thinstream.data.text.protocol import Parsed, ParseError

NEWLINE, PLUS, MINUS, ZERO, NINE = 10, 43, 45, 48, 57
LIMIT = 10**9


@numba.njit
def scan(text, labels, indices):
    """(rows, lines, bytes taken, offset of the first bad byte or -1)."""
    rows, lines, i = 0, 0, 0
    while i < len(text):
        lines += 1
        start = i
        while i < len(text) and text[i] != NEWLINE:
            i += 1
        end = i
        i = min(i + 1, len(text))
        if end == start:
            continue
        if text[start] != PLUS and text[start] != MINUS:
            return rows, lines, i, start
        index = 0
        for j in range(start + 1, end):
            if text[j] < ZERO or text[j] > NINE:
                return rows, lines, i, j
            index = index * 10 + int(text[j]) - ZERO
            if index >= LIMIT:
                return rows, lines, i, j
        if end == start + 1:
            return rows, lines, i, start
        labels[rows] = 1.0 if text[start] == PLUS else -1.0
        indices[rows] = index
        rows += 1
    return rows, lines, i, -1


@numba.njit
def scan_late(text, labels, indices):
    """Tests the limit after the last digit, when an integer of 64 bits may have gone round: not so interpreted."""
    rows, lines, i = 0, 0, 0
    while i < len(text):
        lines += 1
        start = i
        index = 0
        i += 1
        while i < len(text) and text[i] != NEWLINE:
            index = index * 10 + int(text[i]) - ZERO
            i += 1
        i = min(i + 1, len(text))
        if index >= LIMIT or index < 0 or text[start] != PLUS:
            return rows, lines, i, start
        labels[rows] = 1.0
        indices[rows] = index
        rows += 1
    return rows, lines, i, -1


@numba.njit
def scan_over(text, labels, indices):
    """Looks for the end of a line without asking where the text ends."""
    rows, i = 0, 0
    while i < len(text):
        labels[rows], indices[rows] = 1.0, 0
        rows += 1
        while text[i] != NEWLINE:
            i += 1
        i += 1
    return rows, rows, len(text), -1


class Toy:
    """Without a bug."""

    scan = staticmethod(scan)

    def parse(self, text):
        labels, indices = np.empty(len(text) + 1), np.empty(len(text) + 1, np.int64)
        rows, lines, taken, bad = self.scan(text, labels, indices)
        error = None if bad < 0 else ParseError(int(bad), "a line is a sign and digits")
        width = int(indices[:rows].max()) + 1 if rows else 0
        return Parsed(
            labels[:rows], np.arange(rows + 1), indices[:rows], np.ones(rows), width, 1.0, lines, taken, error=error
        )

    def records(self, text):
        ends = np.flatnonzero(text == NEWLINE)
        return int(ends[-1]) + 1 if len(ends) else 0

    def header(self, text):
        return 0

    @staticmethod
    def twin(parsed, text, form):
        lines = [line for line in text.split(b"\n") if line][: len(parsed.labels)]
        expected = [int(line[1:]) for line in lines]
        return None if parsed.indices.tolist() == expected else f"{parsed.indices.tolist()}, must be {expected}"


class Crashes(Toy):
    """On two bytes in a row, each of which leads to code of its own."""

    def parse(self, text):
        tilde = False
        for byte in text:
            if tilde and byte == 123:
                raise KeyError("crash")
            tilde = byte == 126
            if tilde:
                continue
        return super().parse(text)


class Hangs(Toy):
    """On a sign before a tilde."""

    def parse(self, text):
        for i in range(len(text) - 1):
            while text[i] == PLUS and text[i + 1] == 126:
                pass
        return super().parse(text)


class Misreads(Toy):
    """Takes every index that ends in 7 for its neighbour."""

    def parse(self, text):
        parsed = super().parse(text)
        parsed.indices[parsed.indices % 10 == 7] += 1
        return parsed._replace(width=int(parsed.indices.max(initial=-1)) + 1)


class Overflows(Toy):
    """Differs compiled and interpreted; no twin."""

    scan = staticmethod(scan_late)
    twin = None


class Overreads(Toy):
    """One byte after the text, through a pointer: neither Python nor checked bounds notice."""

    def parse(self, text):
        ctypes.string_at(text.ctypes.data, len(text) + 1)
        return super().parse(text)


class Exceeds(Toy):
    """One byte after the text, through its array."""

    scan = staticmethod(scan_over)
    twin = None
