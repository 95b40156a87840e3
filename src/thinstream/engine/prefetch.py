"""A hint to the memory system, ten lines of LLVM: the coordinates of the next example are fetched during this one."""

from typing import Any

from thinstream.jit import lowers


def prefetch(array: Any, index: Any) -> None:
    """Asks for ``array[index]`` ahead of use. Interpreted: does nothing."""


@lowers(prefetch, "void")
def _prefetch(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    from llvmlite import ir
    from numba.core import cgutils

    kind = signature.args[0]
    view = context.make_array(kind)(context, builder, args[0])
    pointer = cgutils.get_item_pointer(context, builder, kind, view, [args[1]], wraparound=False)
    byte, flag = ir.IntType(8).as_pointer(), ir.IntType(32)
    hint = cgutils.get_or_insert_function(
        builder.module, ir.FunctionType(ir.VoidType(), [byte, flag, flag, flag]), "llvm.prefetch.p0"
    )
    # for writing, into every cache level, data
    builder.call(hint, [builder.bitcast(pointer, byte), flag(1), flag(3), flag(1)])
    return context.get_dummy_value()
