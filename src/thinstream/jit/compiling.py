"""From a Python function to object code: all that needs numba, imported only where something has to be compiled."""

from collections.abc import Callable
from typing import Any

import numba
from llvmlite import binding as llvm
from numba.core.compiler import Compiler
from numba.core.compiler_lock import global_compiler_lock
from numba.core.dispatcher import _FunctionCompiler  # type: ignore[attr-defined, unused-ignore]
from numba.core.registry import cpu_target

from thinstream.jit.allocating import allocator
from thinstream.jit.declaring import tell_numba
from thinstream.jit.entry import add_entry

# no fastmath of any kind: reassociated or fused arithmetic would not give the same bits everywhere
_OPTIONS = {"nopython": True, "error_model": "numpy"}
#: What begins the names of functions that are there with numba only.
_OF_NUMBA = ("numba", "NRT_", "_ZN")


class _EntryCompiler(_FunctionCompiler):  # type: ignore[misc]
    """Numba's compiler up to LLVM, without the wrappers for its own callers."""

    def _customize_flags(self, flags: Any) -> Any:
        flags.no_cpython_wrapper = flags.no_cfunc_wrapper = flags.no_compile = True
        return flags


@global_compiler_lock  # type: ignore[untyped-decorator]
def object_code(function: Callable[..., Any], arguments: tuple[Any, ...], symbol: str) -> bytes:
    """Machine code of the function for arguments of these types; its entry (see `entry`) has the name ``symbol``."""
    tell_numba()
    for each in (cpu_target.typing_context, cpu_target.target_context):
        each.refresh()
    kinds = tuple(numba.typeof(each) for each in arguments)
    compiled = _EntryCompiler(function, cpu_target, _OPTIONS, {}, Compiler).compile(kinds, None)
    library = compiled.library
    add_entry(compiled.target_context, library, compiled.fndesc, arguments, symbol)
    library.finalize()
    module = library._final_module.clone()
    module.link_in(llvm.parse_assembly(str(allocator())))
    for each in (*module.functions, *module.global_variables):
        if not each.is_declaration and each.name != symbol:
            each.linkage = "private"  # nothing but the entry is seen: names may come again in other objects
    foreign = [each.name for each in module.functions if each.is_declaration and each.name.startswith(_OF_NUMBA)]
    if foreign:
        raise NotImplementedError(f"{function.__qualname__}: compiled, it would call {', '.join(foreign)} of numba")
    code: bytes = library.codegen._tm.emit_object(module)
    return code
