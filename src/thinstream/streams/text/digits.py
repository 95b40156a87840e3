"""Eight bytes of text at a time: the digits a word begins with, read without a loop.

Lengths of numbers vary, so a loop over digits pays for a wrong guess at the end of almost every one; these functions
have no branches. They need little-endian words (`LITTLE`); a parser must have a plain path anyway, for the last bytes.
"""

import sys
from typing import Any

import numpy as np

from thinstream.jit import lowers, scalar

LITTLE = sys.byteorder == "little"

_ZEROS = np.uint64(0x3030303030303030)
_PAIRS, _FOURS, _LOW = np.uint64(0x00FF00FF00FF00FF), np.uint64(0x0000FFFF0000FFFF), np.uint64(0xFFFFFFFF)
_TEN, _HUNDRED, _TEN_THOUSAND = np.uint64(10), np.uint64(100), np.uint64(10_000)
_U8, _U16, _U32, _U56 = (np.uint64(number) for number in (8, 16, 32, 56))


def load(text: Any, i: Any) -> Any:
    """The eight bytes from ``text[i]`` on as one number, the first lowest. The caller sees to it that they exist."""
    return np.uint64(int.from_bytes(bytes(text[int(i) : int(i) + 8]), "little"))


@lowers(load, "uint64")
def _load(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    from llvmlite import ir

    return _load_as(ir.IntType(64), context, builder, signature, args)


def _load_as(kind: Any, context: Any, builder: Any, signature: Any, args: Any) -> Any:
    """What stands in the text from place i on, wherever that is in memory."""
    from numba.core import cgutils

    text = signature.args[0]
    view = context.make_array(text)(context, builder, args[0])
    pointer = cgutils.get_item_pointer(context, builder, text, view, [args[1]], wraparound=False)
    loaded = builder.load(builder.bitcast(pointer, kind.as_pointer()))
    loaded.align = 1
    return loaded


def load_four(text: Any, i: Any) -> Any:
    """The same of four bytes; on any machine."""
    return np.uint64(int.from_bytes(bytes(text[int(i) : int(i) + 4]), "little"))


@lowers(load_four, "uint64")
def _load_four(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    from llvmlite import ir

    loaded = _load_as(ir.IntType(32), context, builder, signature, args)
    return builder.zext(loaded if LITTLE else builder.bswap(loaded), ir.IntType(64))


def not_digits(text: Any, i: Any) -> Any:
    """A bit for each of the 32 bytes from ``text[i]`` on, the first lowest: 1 where it is not a digit."""
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
    """Zero bits below the lowest one; 64 for 0."""
    return np.uint64((int(word) & -int(word)).bit_length() - 1) if word else np.uint64(64)


@lowers(trailing_zeros, "uint64")
def _trailing_zeros(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    from llvmlite import ir

    return builder.cttz(args[0], ir.IntType(1)(0))


@scalar
def digits_value(word: Any, count: Any) -> Any:
    """The number the first ``count`` bytes (0 to 7) write in digits."""
    return eight_digits(((word ^ _ZEROS) << (_U56 - _U8 * count)) << _U8)


@scalar
def eight_digits(t: Any) -> Any:
    """The number of eight digits, each a byte from 0 to 9, the first lowest."""
    t = (t * _TEN + (t >> _U8)) & _PAIRS
    t = (t * _HUNDRED + (t >> _U16)) & _FOURS
    return (t * _TEN_THOUSAND + (t >> _U32)) & _LOW


@scalar
def all_digits(word: Any) -> Any:
    """The number of a word of eight digits."""
    return eight_digits(word ^ _ZEROS)
