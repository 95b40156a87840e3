"""Scratch arrays on the stack of compiled code.

LLVM knows that memory on the stack is none of the arguments' memory. Loops that read numbers from it and write to the
state need no check, at every non-zero, that the two do not overlap.
"""

from functools import cache
from typing import Any

import numpy as np

from thinstream.jit import compiles

#: Bytes of a cache line, where each array begins.
LINE = 64


def stack(like: Any, rows: int, columns: int) -> Any:
    """An array of rows × columns with the dtype of ``like``, its content arbitrary; gone when the caller returns."""
    return np.empty((max(rows, 1), columns), like.dtype)


@compiles(stack, inline="always")  # the memory must be the caller's
def _stack_compiled(like: Any, rows: Any, columns: Any) -> Any:
    stacked = _lowered_stack()

    def made(like: Any, rows: Any, columns: Any) -> Any:
        return stacked(like, rows, columns)

    return made


@cache
def _lowered_stack() -> Any:
    """The same in LLVM."""
    from llvmlite import ir
    from numba import types
    from numba.core import cgutils
    from numba.core.errors import TypingError
    from numba.extending import intrinsic
    from numba.np.arrayobj import make_array, populate_array

    @intrinsic(prefer_literal=True)  # type: ignore[untyped-decorator]
    def stacked(typing_context: Any, like: Any, rows: Any, columns: Any) -> Any:
        if not isinstance(rows, types.IntegerLiteral) or not isinstance(columns, types.IntegerLiteral):
            raise TypingError(f"the size of an array on the stack must be known at compile time, got {rows}, {columns}")
        shape = max(rows.literal_value, 1), columns.literal_value
        kind = types.Array(like.dtype, 2, "C")

        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            number = context.get_data_type(like.dtype)
            size = context.get_abi_sizeof(number)
            block = ir.ArrayType(number, shape[0] * shape[1])
            memory = cgutils.alloca_once(builder, block)  # in the entry block: once per call, also inside a loop
            memory.align = LINE
            array = make_array(kind)(context, builder)
            populate_array(
                array,
                data=builder.bitcast(memory, number.as_pointer()),
                shape=[context.get_constant(types.intp, length) for length in shape],
                strides=[context.get_constant(types.intp, length * size) for length in (shape[1], 1)],
                itemsize=context.get_constant(types.intp, size),
                meminfo=None,
            )
            return array._getvalue()

        return kind(like, rows, columns), codegen

    return stacked
