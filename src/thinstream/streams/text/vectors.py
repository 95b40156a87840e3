"""32 bytes of text at a time: a bit for each tells where something begins or ends, what is before it is copied.

Lengths of words vary, so a loop over letters pays for a wrong guess at the end of almost every one; these functions
have no branches. As in `digits`, they need little-endian words and bytes that exist: where `fits` says no, the caller
goes byte by byte.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from thinstream.jit import lowers, scalar
from thinstream.streams.text.digits import LITTLE, trailing_zeros

#: Bytes taken at a time, and so the room that must be behind a copy.
WIDE = 32
_NEWLINE, _NAME_ENDS, _STRING_ENDS = 10, b" \t:|", b'"\\'


@scalar
def fits(text: Any, i: Any) -> Any:
    """Whether there are so many bytes from ``text[i]`` on."""
    return LITTLE and i + WIDE <= len(text)


@scalar
def first_of(flags: Any) -> Any:
    """The place of the first bit that is set; `WIDE` of none."""
    return min(np.int64(trailing_zeros(flags)), np.int64(WIDE))


def either(text: Any, i: Any, one: Any, other: Any) -> Any:
    """Where two bytes are."""
    return _flags(text, i, lambda c: c in (one, other))


def name_ends(text: Any, i: Any) -> Any:
    """Where names of VW end: blanks, colons and bars."""
    return _flags(text, i, lambda c: c in _NAME_ENDS)


def copy_string(text: Any, i: Any, out: Any, to: Any) -> Any:
    """Copies to ``out[to]``; where what a string of JSON cannot just be copied of is: its end, escapes, no ASCII."""
    out[int(to) : int(to) + WIDE] = text[int(i) : int(i) + WIDE]
    return _flags(text, i, lambda c: c in _STRING_ENDS or c < 32 or c >= 128)


def copy_word(text: Any, i: Any, out: Any, to: Any, lower: Any) -> Any:
    """Copies to ``out[to]``, capitals of ASCII plus ``lower`` (32 or 0); where no letters of ASCII, digits or _ are."""
    piece = text[int(i) : int(i) + WIDE]
    out[int(to) : int(to) + WIDE] = np.where((piece >= 65) & (piece <= 90), piece + np.uint8(lower), piece)
    return _flags(text, i, lambda c: not (chr(c).isalnum() or c == 95) or c >= 128)


@scalar
def line_end(text: Any, i: Any) -> Any:
    """Where the line ends that goes on at i: at its newline, or behind the text."""
    return find_either(text, i, _NEWLINE, _NEWLINE)


@scalar
def find_either(text: Any, i: Any, one: Any, other: Any) -> Any:
    """Where the first of two bytes is from i on; behind the text if it has none."""
    while fits(text, i):
        count = first_of(either(text, i, one, other))
        i += count
        if count < WIDE:
            return i
    while i < len(text) and text[i] != one and text[i] != other:
        i += 1
    return i


def _flags(text: Any, i: Any, told: Callable[[int], bool]) -> Any:
    piece = text[int(i) : int(i) + WIDE].tolist()
    return np.uint64(sum(1 << n for n, c in enumerate(piece) if told(c)))


# The same in LLVM -----------------------------------------------------------------------------------------------------


@lowers(either, "uint64")
def _either(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    piece = builder.load(_place(context, builder, signature, args, 0), align=1)
    first, second = (builder.icmp_unsigned("==", piece, _spread(builder, piece, each)) for each in args[2:])
    return _as_bits(builder, builder.or_(first, second))


@lowers(name_ends, "uint64")
def _name_ends(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    piece = builder.load(_place(context, builder, signature, args, 0), align=1)
    return _as_bits(builder, _among(builder, piece, _NAME_ENDS))


@lowers(copy_string, "uint64")
def _copy_string(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    piece = builder.load(_place(context, builder, signature, args, 0), align=1)
    builder.store(piece, _place(context, builder, signature, args, 2), align=1)
    odd = builder.not_(_within(builder, piece, 32, 127))
    return _as_bits(builder, builder.or_(odd, _among(builder, piece, _STRING_ENDS)))


@lowers(copy_word, "uint64")
def _copy_word(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    piece = builder.load(_place(context, builder, signature, args, 0), align=1)
    capital = _within(builder, piece, 65, 90)
    copied = builder.select(capital, builder.add(piece, _spread(builder, piece, args[4])), piece)
    builder.store(copied, _place(context, builder, signature, args, 2), align=1)
    letter = builder.or_(capital, builder.or_(_within(builder, piece, 97, 122), _among(builder, piece, b"_")))
    return _as_bits(builder, builder.not_(builder.or_(letter, _within(builder, piece, 48, 57))))


def _place(context: Any, builder: Any, signature: Any, args: Any, k: int) -> Any:
    """A pointer to the vector in the array args[k] at args[k + 1], wherever that is in memory."""
    from llvmlite import ir
    from numba.core import cgutils

    kind = signature.args[k]
    view = context.make_array(kind)(context, builder, args[k])
    pointer = cgutils.get_item_pointer(context, builder, kind, view, [args[k + 1]], wraparound=False)
    return builder.bitcast(pointer, ir.VectorType(ir.IntType(8), WIDE).as_pointer())


def _spread(builder: Any, piece: Any, number: Any) -> Any:
    """A byte known only when it runs, everywhere in a vector."""
    from llvmlite import ir

    nothing, byte = ir.Constant(piece.type, ir.Undefined), ir.IntType(8)
    given = number if number.type == byte else builder.trunc(number, byte)
    first = ir.Constant(ir.VectorType(ir.IntType(32), WIDE), [0] * WIDE)
    return builder.shuffle_vector(builder.insert_element(nothing, given, ir.IntType(32)(0)), nothing, first)


def _everywhere(piece: Any, byte: int) -> Any:
    from llvmlite import ir

    return ir.Constant(piece.type, [byte] * WIDE)


def _within(builder: Any, piece: Any, low: int, high: int) -> Any:
    above = builder.sub(piece, _everywhere(piece, low))
    return builder.icmp_unsigned("<=", above, _everywhere(piece, high - low))


def _among(builder: Any, piece: Any, wanted: Sequence[int]) -> Any:
    found = [builder.icmp_unsigned("==", piece, _everywhere(piece, byte)) for byte in wanted]
    first, *others = found
    for other in others:
        first = builder.or_(first, other)
    return first


def _as_bits(builder: Any, flags: Any) -> Any:
    from llvmlite import ir

    return builder.zext(builder.bitcast(flags, ir.IntType(WIDE)), ir.IntType(64))
