"""Characters in compiled code: decimal numbers, digits, SIMD searches and UTF-8."""

import re
import sys
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thinstream.jit import apart, compiles, lowers, scalar

# Decimal numbers to doubles in compiled code, bit-identical to Python's ``float``.
#
# There are three stages. With few digits and a small power of ten, one multiplication or division is exact. With up to
# 19 digits, their product with 128 bits of the power of five determines the nearest double (Eisel and Lemire), unless
# it is within two units of the middle between two doubles. Other numbers, about one in 2^60 of up to 19 digits and one
# in 64 of longer ones, go to the C library, which uses all digits.

# compiled code converts uint64 with a plain int to float64, so constants have types
_ZERO, _ONE, _TEN, _WORD, _LAST = (np.uint64(k) for k in (0, 1, 10, 32, 63))
_LOW_WORD, _ALL_ONES = np.uint64(2**32 - 1), np.uint64(2**64 - 1)
_ROOM, _EXACT = np.uint64(10**18), np.uint64(2**53)  # a number below _ROOM has room for another digit
_FRACTION, _INFINITE = np.uint64(52), np.uint64(0x7FF << 52)
_FAR = 10**15  # an exponent no text can bring back into range

_LOWEST, _HIGHEST = -342, 308  # powers of ten beyond which 19 digits give 0 or infinity
_TENS = np.array([10.0**k for k in range(23)])  # all exact


def _fives() -> tuple[NDArray[np.uint64], NDArray[np.uint64], NDArray[np.int64]]:
    """Return 5^q for each q: the first 128 bits, rounded down, in two words, and the exponent of the last bit."""
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
    """Return the value and the end of the decimal number at ``text[i]``; end == i if there is none.

    Nothing is read from ``stop`` on. A number has a sign, digits with a point, and an exponent of ten; NaN, hexadecimal
    digits and blanks are not allowed. Numbers that are too large become infinity, which the caller must refuse.

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
    n_digits, fraction, exponent = at - first, np.int64(0), np.int64(0)
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
    if n_digits + fraction == 0:
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
    """Return the exponent and its end, with end == i if there is no digit."""
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
    """Return the double nearest to the number with digits ``text[first:mantissa]``, the last at 10^exponent."""
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
    """Return the bits of the double nearest to digits · 10^power, and whether the result is certain."""
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
    """Return the product in two words, computed from half words."""
    a1, a0, b1, b0 = a >> _WORD, a & _LOW_WORD, b >> _WORD, b & _LOW_WORD
    low = a0 * b0
    middle = a1 * b0 + (low >> _WORD)
    other = a0 * b1 + (middle & _LOW_WORD)
    return a1 * b1 + (middle >> _WORD) + (other >> _WORD), (other << _WORD) | (low & _LOW_WORD)


def _by_library(text: Any, first: Any, mantissa: Any, exponent: Any) -> Any:
    """Return the double nearest to all digits in ``text[first:mantissa]`` times 10^exponent."""
    return float(bytes(text[first:mantissa]).replace(b".", b"") + b"e%d" % exponent)


@compiles(_by_library)
def _by_library_compiled(text: Any, first: Any, mantissa: Any, exponent: Any) -> Any:
    from numba import types
    from numba.core.typing import signature

    strtod = types.ExternalFunction("strtod", signature(types.float64, types.voidptr, types.voidptr))

    def compiled(text: Any, first: Any, mantissa: Any, exponent: Any) -> Any:
        # the C library also rounds exactly; without a decimal point, which depends on the locale
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


# Read digits without a loop, eight bytes at a time.
#
# Lengths of numbers vary, so the branch at the end of a loop over digits is mispredicted for almost every number. These
# functions have no branches. They need little-endian words (`LITTLE`) and text after the number, so parsers also need a
# byte-by-byte path.

LITTLE = sys.byteorder == "little"

_ZEROS = np.uint64(0x3030303030303030)
_PAIRS, _FOURS, _LOW_HALF = np.uint64(0x00FF00FF00FF00FF), np.uint64(0x0000FFFF0000FFFF), np.uint64(0xFFFFFFFF)
_HUNDRED, _TEN_THOUSAND = np.uint64(100), np.uint64(10_000)
_U8, _U16, _U32, _U56 = (np.uint64(number) for number in (8, 16, 32, 56))


def load(text: Any, i: Any) -> Any:
    """Return the eight bytes from ``text[i]`` on as one number, the first lowest. The caller checks that they exist."""
    return np.uint64(int.from_bytes(bytes(text[int(i) : int(i) + 8]), "little"))


@lowers(load, "uint64")
def _load(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    from llvmlite import ir

    return _load_as(ir.IntType(64), context, builder, signature, args)


def _load_as(ir_type: Any, context: Any, builder: Any, signature: Any, args: Any) -> Any:
    """Load a value from the text at position i, at any address."""
    from numba.core import cgutils

    text = signature.args[0]
    view = context.make_array(text)(context, builder, args[0])
    pointer = cgutils.get_item_pointer(context, builder, text, view, [args[1]], wraparound=False)
    loaded = builder.load(builder.bitcast(pointer, ir_type.as_pointer()))
    loaded.align = 1
    return loaded


def load_four(text: Any, i: Any) -> Any:
    """Return four bytes as a number, on any machine."""
    return np.uint64(int.from_bytes(bytes(text[int(i) : int(i) + 4]), "little"))


@lowers(load_four, "uint64")
def _load_four(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    from llvmlite import ir

    loaded = _load_as(ir.IntType(32), context, builder, signature, args)
    return builder.zext(loaded if LITTLE else builder.bswap(loaded), ir.IntType(64))


def not_digits(text: Any, i: Any) -> Any:
    """Return a bit for each of the 32 bytes from ``text[i]`` on, the first lowest: 1 if it is not a digit."""
    piece = text[int(i) : int(i) + 32]
    return np.uint64(sum(1 << n for n, c in enumerate(piece.tolist()) if not 48 <= c <= 57))


@lowers(not_digits, "uint64")
def _not_digits(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    from llvmlite import ir

    vector = ir.VectorType(ir.IntType(8), 32)
    piece = _load_as(vector, context, builder, signature, args)
    above = builder.sub(piece, ir.Constant(vector, [48] * 32))
    flags = builder.icmp_unsigned(">", above, ir.Constant(vector, [9] * 32))
    return builder.zext(builder.bitcast(flags, ir.IntType(32)), ir.IntType(64))


def trailing_zeros(word: Any) -> Any:
    """Return the number of zero bits below the lowest one; 64 for 0."""
    return np.uint64((int(word) & -int(word)).bit_length() - 1) if word else np.uint64(64)


@lowers(trailing_zeros, "uint64")
def _trailing_zeros(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    from llvmlite import ir

    return builder.cttz(args[0], ir.IntType(1)(0))


@scalar
def digits_value(word: Any, count: Any) -> Any:
    """Return the number in the first ``count`` bytes (0 to 7), which are digits."""
    return eight_digits(((word ^ _ZEROS) << (_U56 - _U8 * count)) << _U8)


@scalar
def eight_digits(t: Any) -> Any:
    """Return the number of eight bytes from 0 to 9, the first lowest."""
    t = (t * _TEN + (t >> _U8)) & _PAIRS
    t = (t * _HUNDRED + (t >> _U16)) & _FOURS
    return (t * _TEN_THOUSAND + (t >> _U32)) & _LOW_HALF


@scalar
def all_digits(word: Any) -> Any:
    """Return the number of a word of eight digits."""
    return eight_digits(word ^ _ZEROS)


# Search and copy 32 bytes of text at a time: each byte gives a bit that is set where something begins or ends.
#
# These functions have no branches either. They need little-endian words and 32 bytes of text: if `fits` returns False,
# the caller must read byte by byte.

#: Bytes read at a time. A copy needs as many bytes of free space.
WIDE = 32
_NEWLINE, _NAME_ENDS, _STRING_ENDS = 10, b" \t:|", b'"\\'


@scalar
def fits(text: Any, i: Any) -> Any:
    """Return whether there are `WIDE` bytes from ``text[i]`` on."""
    return LITTLE and i + WIDE <= len(text)


@scalar
def first_of(flags: Any) -> Any:
    """Return the position of the lowest bit that is set; `WIDE` if there is none."""
    return min(np.int64(trailing_zeros(flags)), np.int64(WIDE))


def either(text: Any, i: Any, one: Any, other: Any) -> Any:
    """Return the bits of two bytes."""
    return _flags(text, i, lambda c: c in (one, other))


def name_ends(text: Any, i: Any) -> Any:
    """Return the bits where names of VW end: blanks, colons and bars."""
    return _flags(text, i, lambda c: c in _NAME_ENDS)


def copy_string(text: Any, i: Any, out: Any, to: Any) -> Any:
    """Copy to ``out[to]``; return the bits of bytes that need more work: quotes, escapes, controls, non-ASCII."""
    out[int(to) : int(to) + WIDE] = text[int(i) : int(i) + WIDE]
    return _flags(text, i, lambda c: c in _STRING_ENDS or c < 32 or c >= 128)


def copy_word(text: Any, i: Any, out: Any, to: Any, lower: Any) -> Any:
    """Copy to ``out[to]``, adding ``lower`` (32 or 0) to ASCII capitals; return the bits of bytes not in a word."""
    piece = text[int(i) : int(i) + WIDE]
    out[int(to) : int(to) + WIDE] = np.where((piece >= 65) & (piece <= 90), piece + np.uint8(lower), piece)
    return _flags(text, i, lambda c: not (chr(c).isalnum() or c == 95) or c >= 128)


@scalar
def line_end(text: Any, i: Any) -> Any:
    """Return the end of the line at i: its newline, or the end of the text."""
    return find_either(text, i, _NEWLINE, _NEWLINE)


@scalar
def find_either(text: Any, i: Any, one: Any, other: Any) -> Any:
    """Return the position of the first of two bytes from i on, or the end of the text."""
    while fits(text, i):
        count = first_of(either(text, i, one, other))
        i += count
        if count < WIDE:
            return i
    while i < len(text) and text[i] != one and text[i] != other:
        i += 1
    return i


def _flags(text: Any, i: Any, matches: Callable[[int], bool]) -> Any:
    piece = text[int(i) : int(i) + WIDE].tolist()
    return np.uint64(sum(1 << n for n, c in enumerate(piece) if matches(c)))


# The same functions in LLVM.


@lowers(either, "uint64")
def _either(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    piece = builder.load(_pointer_to(context, builder, signature, args, 0), align=1)
    first, second = (builder.icmp_unsigned("==", piece, _spread(builder, piece, byte)) for byte in args[2:])
    return _as_bits(builder, builder.or_(first, second))


@lowers(name_ends, "uint64")
def _name_ends(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    piece = builder.load(_pointer_to(context, builder, signature, args, 0), align=1)
    return _as_bits(builder, _among(builder, piece, _NAME_ENDS))


@lowers(copy_string, "uint64")
def _copy_string(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    piece = builder.load(_pointer_to(context, builder, signature, args, 0), align=1)
    builder.store(piece, _pointer_to(context, builder, signature, args, 2), align=1)
    odd = builder.not_(_within(builder, piece, 32, 127))
    return _as_bits(builder, builder.or_(odd, _among(builder, piece, _STRING_ENDS)))


@lowers(copy_word, "uint64")
def _copy_word(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    piece = builder.load(_pointer_to(context, builder, signature, args, 0), align=1)
    capital = _within(builder, piece, 65, 90)
    copied = builder.select(capital, builder.add(piece, _spread(builder, piece, args[4])), piece)
    builder.store(copied, _pointer_to(context, builder, signature, args, 2), align=1)
    letter = builder.or_(capital, builder.or_(_within(builder, piece, 97, 122), _among(builder, piece, b"_")))
    return _as_bits(builder, builder.not_(builder.or_(letter, _within(builder, piece, 48, 57))))


def _pointer_to(context: Any, builder: Any, signature: Any, args: Any, k: int) -> Any:
    """Return a pointer to the vector in the array args[k] at args[k + 1], at any address."""
    from llvmlite import ir
    from numba.core import cgutils

    array_type = signature.args[k]
    view = context.make_array(array_type)(context, builder, args[k])
    pointer = cgutils.get_item_pointer(context, builder, array_type, view, [args[k + 1]], wraparound=False)
    return builder.bitcast(pointer, ir.VectorType(ir.IntType(8), WIDE).as_pointer())


def _spread(builder: Any, piece: Any, number: Any) -> Any:
    """Return a vector in which each element is a byte that is only known at run time."""
    from llvmlite import ir

    nothing, byte = ir.Constant(piece.type, ir.Undefined), ir.IntType(8)
    element = number if number.type == byte else builder.trunc(number, byte)
    first = ir.Constant(ir.VectorType(ir.IntType(32), WIDE), [0] * WIDE)
    return builder.shuffle_vector(builder.insert_element(nothing, element, ir.IntType(32)(0)), nothing, first)


def _everywhere(piece: Any, byte: int) -> Any:
    from llvmlite import ir

    return ir.Constant(piece.type, [byte] * WIDE)


def _within(builder: Any, piece: Any, low: int, high: int) -> Any:
    above = builder.sub(piece, _everywhere(piece, low))
    return builder.icmp_unsigned("<=", above, _everywhere(piece, high - low))


def _among(builder: Any, piece: Any, wanted: Sequence[int]) -> Any:
    matches = [builder.icmp_unsigned("==", piece, _everywhere(piece, byte)) for byte in wanted]
    first, *others = matches
    for other in others:
        first = builder.or_(first, other)
    return first


def _as_bits(builder: Any, flags: Any) -> Any:
    from llvmlite import ir

    return builder.zext(builder.bitcast(flags, ir.IntType(WIDE)), ir.IntType(64))


# UTF-8 to code points and back, and the properties of characters (``\w``, `str.lower`).
#
# The table is built with Python's functions, so that compiled code tokenizes text like Python. The lower case of İ has
# two characters, and that of Σ depends on the next character: Python tokenizes text that has one of these (`ODD`).

WORD, SPACE, ODD, BITS = 1, 2, 4, 3
_ALL, _PAGE = 0x110000, 256


@cache
def letter_table(lower: bool) -> NDArray[np.int32]:
    """Return the lower case of each code point (with ``lower``), shifted by `BITS` bits that hold its properties.

    >>> int(letter_table(True)[ord("Ä")]) == ord("ä") << BITS | WORD
    True
    """
    everything = "".join(map(chr, range(_ALL)))
    table = np.arange(_ALL, dtype=np.int32)
    if lower:
        for start in range(0, _ALL, _PAGE):
            page = everything[start : start + _PAGE]
            if page.lower() != page:
                table[start : start + _PAGE] = [ord(c.lower()) if len(c.lower()) == 1 else ord(c) for c in page]
    table <<= BITS
    for flag, pattern in ((WORD, r"\w+"), (SPACE, r"\s+")):
        for match in re.finditer(pattern, everything):
            table[match.start() : match.end()] |= flag
    if lower:
        table[[ord("İ"), ord("Σ")]] |= ODD
    last = int(np.flatnonzero(table != np.arange(_ALL, dtype=np.int32) << BITS)[-1])
    return table[: last + 1].copy()


@scalar
def decoded(text: Any, i: Any, stop: Any) -> Any:
    """Return the code point and the length of the multi-byte character at ``text[i]``; length 0 if it is not UTF-8."""
    c, left = np.int64(text[i]), stop - i
    if 0xC2 <= c < 0xE0 and left > 1:
        b = np.int64(text[i + 1])
        if b & 0xC0 == 0x80:
            return (c & 0x1F) << 6 | b & 0x3F, 2
    elif 0xE0 <= c < 0xF0 and left > 2:
        b, d = np.int64(text[i + 1]), np.int64(text[i + 2])
        point = (c & 0x0F) << 12 | (b & 0x3F) << 6 | d & 0x3F
        if b & 0xC0 == 0x80 and d & 0xC0 == 0x80 and point >= 0x800 and not 0xD800 <= point < 0xE000:
            return point, 3
    elif 0xF0 <= c < 0xF5 and left > 3:
        b, d, e = np.int64(text[i + 1]), np.int64(text[i + 2]), np.int64(text[i + 3])
        point = (c & 0x07) << 18 | (b & 0x3F) << 12 | (d & 0x3F) << 6 | e & 0x3F
        if b & 0xC0 == 0x80 and d & 0xC0 == 0x80 and e & 0xC0 == 0x80 and 0x10000 <= point < 0x110000:
            return point, 4
    return np.int64(0), 0


@scalar
def encoded(c: Any, out: Any, at: Any) -> Any:
    """Write a code point from ``out[at]`` on; return its end."""
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
