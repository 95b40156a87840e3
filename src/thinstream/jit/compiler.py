"""From a Python function to object code. The only module that imports numba."""

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numba
import numpy as np
from llvmlite import binding as llvm
from llvmlite import ir
from numba import _dynfunc, types
from numba.core import cgutils
from numba.core.codegen import AOTCodeLibrary
from numba.core.compiler import Compiler
from numba.core.compiler_lock import global_compiler_lock
from numba.core.dispatcher import _FunctionCompiler  # type: ignore[attr-defined, unused-ignore]
from numba.core.registry import cpu_target
from numba.np.arrayobj import make_array, populate_array

from thinstream.jit.cache import ALIGNED, C_CONTIGUOUS, F_CONTIGUOUS, OFFSETS, WRITEABLE
from thinstream.jit.compiled import layout_of
from thinstream.jit.declarations import tell_numba

# The C entry of a compiled function: checks and reads the arguments, runs it without the GIL, makes its result.
#
#     PyObject *entry(PyObject *arguments, PyObject *known[])
#
# ``arguments`` is a tuple; ``known`` are True, False and NotImplemented, and the types of all values in the arguments
# as `compiled.types_in` has them. If an argument has another type, dtype or layout, the entry returns NotImplemented.
# If the function raises, it returns the bytes of the pickled exception. Values are read at `cache.OFFSETS`.

_BYTE, _INT, _LONG = ir.IntType(8), ir.IntType(32), ir.IntType(64)
_OBJECT = _BYTE.as_pointer()
#: Functions of Python's C interface the entry calls.
PYTHON = {
    "PyLong_AsLongLong": ir.FunctionType(_LONG, [_OBJECT]),
    "PyErr_Occurred": ir.FunctionType(_OBJECT, []),
    "PyEval_SaveThread": ir.FunctionType(_OBJECT, []),
    "PyEval_RestoreThread": ir.FunctionType(ir.VoidType(), [_OBJECT]),
    "PyBytes_FromStringAndSize": ir.FunctionType(_OBJECT, [_OBJECT, _LONG]),
    "Py_BuildValue": ir.FunctionType(_OBJECT, [_OBJECT], var_arg=True),
}
_TRUE, _FALSE, _NOT_IMPLEMENTED, _TYPES = range(4)
_POINTER = 8


def add_entry(context: Any, library: Any, function: Any, arguments: tuple[Any, ...], symbol: str) -> None:
    """Adds the entry of a function numba has lowered (its descriptor is given), for arguments like these."""
    module = context.create_module("entry")
    kind = ir.FunctionType(_OBJECT, [_OBJECT, _OBJECT.as_pointer()])
    _Entry(context, ir.Function(module, kind, symbol)).build(function, arguments)
    library.add_ir_module(module)


class _Entry:
    def __init__(self, context: Any, entry: Any) -> None:
        self.context, self.entry = context, entry
        self.builder = ir.IRBuilder(entry.append_basic_block("entry"))
        self.other = entry.append_basic_block("other")  # where an argument is not what it was compiled for
        self.types = _TYPES

    def build(self, function: Any, arguments: tuple[Any, ...]) -> None:
        b, context = self.builder, self.context
        values = self._items(self.entry.args[0], arguments, function.argtypes)
        callee = ir.Function(
            b.module,
            context.call_conv.get_function_type(function.restype, function.argtypes),
            function.llvm_func_name,
        )
        thread = self._python("PyEval_SaveThread")
        status, result = context.call_conv.call_function(
            b, callee, function.restype, function.argtypes, values, attrs=("noinline",)
        )
        self._python("PyEval_RestoreThread", thread)
        with cgutils.if_unlikely(b, status.is_error):
            pickled, size = (b.load(cgutils.gep_inbounds(b, status.excinfoptr, 0, field)) for field in (0, 1))
            b.ret(self._python("PyBytes_FromStringAndSize", pickled, b.sext(size, _LONG)))
        b.ret(self._boxed(function.restype, result))
        b.position_at_end(self.other)
        b.ret(self._python("Py_BuildValue", self._text("O"), self._known(_NOT_IMPLEMENTED)))

    # reading arguments

    def _items(self, pointer: Any, values: tuple[Any, ...], kinds: Any) -> list[Any]:
        """Those of a tuple."""
        self._require(self._load(pointer, OFFSETS.head, _LONG), len(values))
        return [
            self._read(self._load(pointer, OFFSETS.items + _POINTER * i, _OBJECT), value, kind)
            for i, (value, kind) in enumerate(zip(values, kinds, strict=True))
        ]

    def _read(self, pointer: Any, value: Any, kind: Any) -> Any:
        """What compiled code takes for the object at ``pointer``, which must be of the type of ``value``."""
        b = self.builder
        own = self._load(pointer, OFFSETS.head - _POINTER, _OBJECT)
        self._check(b.icmp_unsigned("==", own, self._known(self.types)))
        self.types += 1
        if isinstance(value, tuple):
            return self.context.make_tuple(b, kind, self._items(pointer, value, kind.types))
        if isinstance(value, np.ndarray):
            return self._array(pointer, value, kind)
        if type(value) is bool:
            return b.icmp_unsigned("==", pointer, self._known(_TRUE))
        if type(value) is int:
            return self._int(pointer)
        place = b.bitcast(self._at(pointer, OFFSETS.head), self.context.get_data_type(kind).as_pointer())
        return self.context.unpack_value(b, kind, place)  # a float, or a scalar of numpy

    def _int(self, pointer: Any) -> Any:
        b = self.builder
        number = self._python("PyLong_AsLongLong", pointer)
        with cgutils.if_unlikely(b, b.icmp_signed("==", number, _LONG(-1))):
            error = self._python("PyErr_Occurred")
            with cgutils.if_unlikely(b, cgutils.is_not_null(b, error)):
                b.ret(_OBJECT(None))
        return number

    def _array(self, pointer: Any, value: Any, kind: Any) -> Any:
        b, context, layout = self.builder, self.context, layout_of(value)
        both = C_CONTIGUOUS | F_CONTIGUOUS
        order = {"C": (C_CONTIGUOUS, C_CONTIGUOUS), "F": (both, F_CONTIGUOUS), "-": (both, 0)}[layout[0]]
        others = (ALIGNED if "A" in layout else 0) | (WRITEABLE if "W" in layout else 0)
        flags = b.and_(self._load(pointer, OFFSETS.flags, _INT), _INT(order[0] | ALIGNED | WRITEABLE))
        self._require(flags, order[1] | others)
        self._require(self._load(pointer, OFFSETS.ndim, _INT), value.ndim)
        described = self._load(pointer, OFFSETS.dtype, _OBJECT)
        self._require(self._load(described, OFFSETS.char, _BYTE), ord(value.dtype.char))
        self._require(self._load(described, OFFSETS.byteorder, _BYTE), ord(value.dtype.byteorder))
        shape, strides = (self._load(pointer, place, _OBJECT) for place in (OFFSETS.shape, OFFSETS.strides))
        number = context.get_data_type(kind.dtype)
        array = make_array(kind)(context, b)
        populate_array(
            array,
            data=b.bitcast(self._load(pointer, OFFSETS.data, _OBJECT), number.as_pointer()),
            shape=[self._load(shape, 8 * axis, _LONG) for axis in range(value.ndim)],
            strides=[self._load(strides, 8 * axis, _LONG) for axis in range(value.ndim)],
            itemsize=_LONG(value.itemsize),
            meminfo=None,
        )
        return array._getvalue()

    # making the result

    def _boxed(self, kind: Any, value: Any) -> Any:
        """A number, None, or a tuple of numbers."""
        if kind == types.none:
            return self._python("Py_BuildValue", self._text(""))
        if not isinstance(kind, types.BaseTuple):
            letter, made = self._number(kind, value)
            return self._python("Py_BuildValue", self._text(letter), made)
        parts = [self._number(each, self.builder.extract_value(value, i)) for i, each in enumerate(kind)]
        letters = "".join(letter for letter, _ in parts)
        return self._python("Py_BuildValue", self._text(f"({letters})"), *(made for _, made in parts))

    def _number(self, kind: Any, value: Any) -> tuple[str, Any]:
        b = self.builder
        if isinstance(kind, types.Boolean | types.BooleanLiteral):
            return "O", b.select(value, self._known(_TRUE), self._known(_FALSE))
        if isinstance(kind, types.Float):
            return "d", value if kind.bitwidth == 64 else b.fpext(value, ir.DoubleType())
        if not isinstance(kind, types.Integer):
            raise TypeError(f"compiled functions return None, numbers or tuples of numbers, not {kind}")
        if kind.bitwidth < 64:
            value = (b.sext if kind.signed else b.zext)(value, _LONG)
        return "L" if kind.signed else "K", value

    # small things

    def _require(self, value: Any, wanted: int) -> None:
        self._check(self.builder.icmp_unsigned("==", value, value.type(wanted)))

    def _check(self, fine: Any) -> None:
        following = self.builder.append_basic_block("")
        self.builder.cbranch(fine, following, self.other)
        self.builder.position_at_end(following)

    def _known(self, number: int) -> Any:
        return self.builder.load(self.builder.gep(self.entry.args[1], [_INT(number)]))

    def _at(self, pointer: Any, offset: int) -> Any:
        return self.builder.gep(pointer, [_INT(offset)])

    def _load(self, pointer: Any, offset: int, kind: Any) -> Any:
        return self.builder.load(self.builder.bitcast(self._at(pointer, offset), kind.as_pointer()))

    def _text(self, text: str) -> Any:
        return self.context.insert_const_string(self.builder.module, text)

    def _python(self, name: str, *arguments: Any) -> Any:
        function = cgutils.get_or_insert_function(self.builder.module, PYTHON[name], name)
        return self.builder.call(function, arguments)


# Memory for arrays that compiled code makes for itself, in place of numba's runtime, which is there with numba only.
#
# An array begins with one reference; numba's own code counts them and calls ``NRT_MemInfo_call_dtor`` at zero.

_SIZE, _MEMORY = ir.IntType(64), ir.IntType(8).as_pointer()
_MEMINFO_BYTES = 48  # bytes of numba's MemInfo: references, destructor and its argument, data, size, allocator
_REFERENCES, _MEMINFO_DATA = 0, 3


def allocator() -> Any:
    """A module with the two functions compiled code calls."""
    module = ir.Module("allocator")
    malloc = ir.Function(module, ir.FunctionType(_MEMORY, [_SIZE]), "malloc")
    free = ir.Function(module, ir.FunctionType(ir.VoidType(), [_MEMORY]), "free")
    alloc = ir.Function(module, ir.FunctionType(_MEMORY, [_SIZE, ir.IntType(32)]), "NRT_MemInfo_alloc_aligned")
    _make_alloc(alloc, malloc)
    dtor = ir.Function(module, ir.FunctionType(ir.VoidType(), [_MEMORY]), "NRT_MemInfo_call_dtor")
    builder = ir.IRBuilder(dtor.append_basic_block())
    builder.call(free, dtor.args)
    builder.ret_void()
    return module


def _make_alloc(function: Any, malloc: Any) -> None:
    """Head and data in one piece; no memory is a null pointer, of which numba makes a MemoryError."""
    b = ir.IRBuilder(function.append_basic_block())
    size, alignment = function.args[0], b.zext(function.args[1], _SIZE)
    room = b.add(alignment, _SIZE(_MEMINFO_BYTES))
    memory = b.call(malloc, [b.add(size, room)])
    with b.if_then(b.icmp_unsigned("!=", memory, _MEMORY(None))):
        beyond = b.add(b.ptrtoint(memory, _SIZE), room)
        fields = b.bitcast(memory, _SIZE.as_pointer())
        b.store(_SIZE(1), b.gep(fields, [_SIZE(_REFERENCES)]))
        b.store(b.sub(beyond, b.urem(beyond, alignment)), b.gep(fields, [_SIZE(_MEMINFO_DATA)]))
    b.ret(memory)


# From a Python function to object code: all that needs numba, imported only where something has to be compiled.

# no fastmath of any kind: reassociated or fused arithmetic would not give the same bits everywhere
_OPTIONS = {"nopython": True, "error_model": "numpy"}
#: What begins the names of functions that are there with numba only.
_OF_NUMBA = ("numba", "NRT_", "_ZN", "__svml")


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
    """Machine code of the function for arguments of these types; its C entry has the name ``symbol``."""
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


def compile_for(baseline: str) -> None:
    """Make numba compile for a baseline processor, before it compiles anything: with its features and no others."""
    numba.config.CPU_NAME, numba.config.CPU_FEATURES = baseline, ""


def run_by_numba(function: Callable[..., Any]) -> Callable[[tuple[Any, ...], int], Any]:
    """Return an entry that calls the function through numba, which reads Python's objects with code of its own."""
    tell_numba()
    dispatcher = numba.njit(nogil=True, error_model="numpy")(function)
    return lambda arguments, known: dispatcher(*arguments)
