"""Decimal numbers to doubles in compiled code: always the bits Python's ``float`` gives.

Three stages, each for what the one before leaves open. Few digits and a small power of ten: one exact multiplication or
division. Up to 19 digits: their product with 128 bits of the power of five (after Eisel and Lemire), which tells the
nearest double unless the product comes within two units of its last place of the middle between two. The rest, about
one number in 2^60 of up to 19 digits and one in 64 of longer ones: the C library, which looks at all digits.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from thinstream.jit import apart, compiles, scalar

# uint64 with a plain integer would be float64 in compiled code, so the constants have types
_ZERO, _ONE, _TEN, _WORD, _LAST = (np.uint64(k) for k in (0, 1, 10, 32, 63))
_LOW_WORD, _ALL_ONES = np.uint64(2**32 - 1), np.uint64(2**64 - 1)
_ROOM, _EXACT = np.uint64(10**18), np.uint64(2**53)  # below the first another digit fits
_FRACTION, _INFINITE = np.uint64(52), np.uint64(0x7FF << 52)
_FAR = 10**15  # an exponent no text can bring back into range

_LOWEST, _HIGHEST = -342, 308  # powers of ten beyond which 19 digits give 0 or infinity
_TENS = np.array([10.0**k for k in range(23)])  # all exact


def _fives() -> tuple[NDArray[np.uint64], NDArray[np.uint64], NDArray[np.int64]]:
    """5^q for each q in range: the first 128 bits, rounded down, in two words, and the binary exponent of the last."""
    high, low, scale = [], [], []
    for q in range(_LOWEST, _HIGHEST + 1):
        size = (5 ** abs(q)).bit_length()
        exponent = size - 128 if q >= 0 else -127 - size
        bits = (5**q << 128 >> size if q >= 0 else (1 << -exponent) // 5**-q) if q else 1 << 127
        high.append(bits >> 64)
        low.append(bits & (2**64 - 1))
        scale.append(exponent)
    return np.array(high, np.uint64), np.array(low, np.uint64), np.array(scale, np.int64)


_HIGH, _LOW, _SCALE = _fives()


@scalar
def number(text: Any, i: Any, stop: Any) -> Any:
    """(value, end) of the decimal number at ``text[i]``; end == i if there is none. Reads nothing from ``stop`` on.

    A sign, digits with a point among or around them, an exponent of ten; nothing else (no NaN, hex, spaces). What is
    too large is infinity: that is for the caller to refuse.

    Examples
    --------
    >>> text = np.frombuffer(b"x:-12.5e1,", np.uint8)
    >>> value, end = number(text, 2, len(text))
    >>> float(value), int(end)
    (-125.0, 9)

    """
    at = np.int64(i)
    negative = False
    if at < stop and (text[at] == 45 or text[at] == 43):
        negative = text[at] == 45
        at += 1
    first = at
    digits, power, rest = _ZERO, np.int64(0), False  # (digits + a rest in [0, 1)) · 10^power
    while at < stop and 48 <= text[at] <= 57:
        digit = np.uint64(text[at]) - np.uint64(48)
        if digits < _ROOM:
            digits = digits * _TEN + digit
        else:
            power += 1
            rest = rest or bool(digit > _ZERO)
        at += 1
    seen, fraction, exponent = at - first, np.int64(0), np.int64(0)
    if at < stop and text[at] == 46:
        at += 1
        point = at
        while at < stop and 48 <= text[at] <= 57:
            digit = np.uint64(text[at]) - np.uint64(48)
            if digits < _ROOM:
                digits = digits * _TEN + digit
                power -= 1
            else:
                rest = rest or bool(digit > _ZERO)
            at += 1
        fraction = at - point
    if seen + fraction == 0:
        return 0.0, np.int64(i)
    mantissa = at
    if at < stop and (text[at] == 101 or text[at] == 69):
        exponent, end = _exponent(text, at + 1, stop)
        if end > at + 1:
            at = end
            power += exponent
    if not rest and digits <= _EXACT and -22 <= power <= 22:
        value = np.float64(np.int64(digits))
        value = value / _TENS[-power] if power < 0 else value * _TENS[power]
    else:
        value = _nearest(text, first, mantissa, digits, power, rest, exponent - fraction)
    return (-value if negative else value), at


@scalar
def _exponent(text: Any, i: Any, stop: Any) -> Any:
    """(exponent, end), with end == i if there is no digit."""
    at, negative, value = i, False, np.int64(0)
    if at < stop and (text[at] == 45 or text[at] == 43):
        negative = text[at] == 45
        at += 1
    first = at
    while at < stop and 48 <= text[at] <= 57:
        if value < _FAR:
            value = value * 10 + (np.int64(text[at]) - 48)
        at += 1
    return (-value if negative else value), (at if at > first else i)


@apart
def _nearest(text: Any, first: Any, mantissa: Any, digits: Any, power: Any, rest: Any, exponent: Any) -> Any:
    """The double nearest to the number whose digits lie in ``text[first:mantissa]``, the last at 10^exponent."""
    if digits == _ZERO or power < _LOWEST:
        return 0.0
    if power > _HIGHEST:
        return np.inf
    bits, sure = _rounded(digits, power)
    if rest:
        other, other_sure = _rounded(digits + _ONE, power)
        sure = sure and other_sure and other == bits
    return np.uint64(bits).view(np.float64) if sure else _by_library(text, first, mantissa, exponent)


@apart
def _rounded(digits: Any, power: Any) -> Any:
    """(bits of the double nearest to digits · 10^power, whether that is sure)."""
    shifted, lead = digits, np.int64(0)
    for step in (32, 16, 8, 4, 2, 1):
        if shifted >> np.uint64(64 - step) == _ZERO:
            shifted, lead = shifted << np.uint64(step), lead + step
    high, middle = _product(shifted, _HIGH[power - _LOWEST])
    carried, dropped = _product(shifted, _LOW[power - _LOWEST])
    if carried > _ALL_ONES - middle:
        high, middle = high + _ONE, carried - (_ALL_ONES - middle) - _ONE
    else:
        middle = middle + carried
    # the number is (high, middle) · 2^exponent of the last bit of high, and less than two units of middle above it
    whole = 0 <= power <= 55 and dropped == _ZERO  # 5^55 is the last within 128 bits
    exponent = 128 - lead + _SCALE[power - _LOWEST] + power
    cut = np.int64(10) + np.int64(high >> _LAST)
    biased = exponent + cut + 1075
    if biased < 1:  # subnormal
        cut, biased = cut + 1 - biased, np.int64(1)
    if biased > 2046:
        return _INFINITE, True
    if cut > 64:
        return _ZERO, True
    half = _ONE << np.uint64(cut - 1)
    kept = high >> np.uint64(cut) if cut < 64 else _ZERO
    left = high & ((half - _ONE) | half)
    below = (np.uint64(biased - 1) << _FRACTION) + kept
    if left == half and middle == _ZERO and whole:
        return below + (kept & _ONE), True
    if left >= half:
        return below + _ONE, True
    return below, whole or left != half - _ONE or middle != _ALL_ONES


@scalar
def _product(a: Any, b: Any) -> Any:
    """The product in two words, from four products of half words."""
    a1, a0, b1, b0 = a >> _WORD, a & _LOW_WORD, b >> _WORD, b & _LOW_WORD
    low = a0 * b0
    middle = a1 * b0 + (low >> _WORD)
    other = a0 * b1 + (middle & _LOW_WORD)
    return a1 * b1 + (middle >> _WORD) + (other >> _WORD), (other << _WORD) | (low & _LOW_WORD)


def _by_library(text: Any, first: Any, mantissa: Any, exponent: Any) -> Any:
    """The double nearest to all digits in ``text[first:mantissa]`` times 10^exponent."""
    return float(bytes(text[first:mantissa]).replace(b".", b"") + b"e%d" % exponent)


@compiles(_by_library)
def _by_library_compiled(text: Any, first: Any, mantissa: Any, exponent: Any) -> Any:
    from numba import types
    from numba.core.typing import signature

    strtod = types.ExternalFunction("strtod", signature(types.float64, types.voidptr, types.voidptr))

    def compiled(text: Any, first: Any, mantissa: Any, exponent: Any) -> Any:
        # the C library's rounding is exact, too; no point, which is another letter in some places of the world
        written, size = np.empty(mantissa - first + 24, np.uint8), 0
        for k in range(first, mantissa):
            if text[k] != 46:
                written[size] = text[k]
                size += 1
        written[size], written[size + 1] = 101, 45 if exponent < 0 else 43
        rest, last = abs(exponent), size + 22
        written[last + 1] = 0
        for k in range(last, size + 1, -1):
            written[k] = 48 + rest % 10
            rest //= 10
        return strtod(written.ctypes, np.intp(0))

    return compiled
