"""From a Python function to object code: all that needs numba, imported only where something has to be compiled."""

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numba
from llvmlite import binding as llvm
from numba import _dynfunc
from numba.core.codegen import AOTCodeLibrary
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


class _Linked(AOTCodeLibrary):  # type: ignore[misc]
    """LLVM of a function that others link into theirs: it is never called by itself, so needs no machine code."""

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._verify_declare_only_symbols()
        self._finalized = True


def _name_only(library: Any, function: Any, environment: Any) -> Any:
    """What numba knows a compiled function by: a Python function, here without code."""
    return _dynfunc.make_function(function.lookup_module(), function.qualname, "", 0, environment, (library,))


@contextmanager
def _only_linked() -> Iterator[None]:
    """Functions numba compiles meanwhile, those the one asked for calls, get no machine code."""
    context = cpu_target.target_context
    generator = context.codegen()
    context.get_executable, generator._library_class = _name_only, _Linked
    try:
        yield
    finally:
        del context.get_executable, generator._library_class


@contextmanager
def _uncollected() -> Iterator[None]:
    """No search for garbage among the millions of small objects of a compiler, which takes a fifth of its time."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


@global_compiler_lock  # type: ignore[untyped-decorator]
def object_code(function: Callable[..., Any], arguments: tuple[Any, ...], symbol: str) -> bytes:
    """Machine code of the function for arguments of these types; its entry (see `entry`) has the name ``symbol``."""
    tell_numba()
    for each in (cpu_target.typing_context, cpu_target.target_context):
        each.refresh()
    kinds = tuple(numba.typeof(each) for each in arguments)
    with _only_linked(), _uncollected():
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
