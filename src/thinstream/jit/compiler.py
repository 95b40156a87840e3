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
from thinstream.jit.declarations import register_declarations

# The C entry of a compiled function: checks and reads the arguments, runs it without the GIL, makes its result.
#
#     PyObject *entry(PyObject *arguments, PyObject *table[])
#
# ``arguments`` is a tuple. ``table`` contains True, False and NotImplemented, and then the types of all values in the
# arguments, in the order of `compiled.types_in`. If an argument has another type, dtype or layout, the entry returns
# NotImplemented. If the function raises, it returns the bytes of the pickled exception. Values are read at
# `cache.OFFSETS`.

_BYTE, _INT, _LONG = ir.IntType(8), ir.IntType(32), ir.IntType(64)
_OBJECT = _BYTE.as_pointer()
#: Functions of Python's C interface that the entry calls.
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
    """Add the entry of a function that numba has lowered, for arguments of these types.

    ``function`` is numba's description of it.
    """
    module = context.create_module("entry")
    signature = ir.FunctionType(_OBJECT, [_OBJECT, _OBJECT.as_pointer()])
    _Entry(context, ir.Function(module, signature, symbol)).build(function, arguments)
    library.add_ir_module(module)


class _Entry:
    def __init__(self, context: Any, entry: Any) -> None:
        self.context, self.entry = context, entry
        self.builder = ir.IRBuilder(entry.append_basic_block("entry"))
        self.other = entry.append_basic_block("other")  # for arguments of other types
        self.next_type = _TYPES

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
        b.ret(self._python("Py_BuildValue", self._text("O"), self._table(_NOT_IMPLEMENTED)))

    # Read the arguments.

    def _items(self, pointer: Any, values: tuple[Any, ...], dtypes: Any) -> list[Any]:
        """Read the items of a tuple."""
        self._require(self._load(pointer, OFFSETS.head, _LONG), len(values))
        return [
            self._read(self._load(pointer, OFFSETS.items + _POINTER * i, _OBJECT), value, dtype)
            for i, (value, dtype) in enumerate(zip(values, dtypes, strict=True))
        ]

    def _read(self, pointer: Any, value: Any, dtype: Any) -> Any:
        """Read the object at ``pointer``, which must have the type of ``value``. ``dtype`` is numba's type of it."""
        b = self.builder
        object_type = self._load(pointer, OFFSETS.head - _POINTER, _OBJECT)
        self._check(b.icmp_unsigned("==", object_type, self._table(self.next_type)))
        self.next_type += 1
        if isinstance(value, tuple):
            return self.context.make_tuple(b, dtype, self._items(pointer, value, dtype.types))
        if isinstance(value, np.ndarray):
            return self._array(pointer, value, dtype)
        if type(value) is bool:
            return b.icmp_unsigned("==", pointer, self._table(_TRUE))
        if type(value) is int:
            return self._int(pointer)
        field = b.bitcast(self._at(pointer, OFFSETS.head), self.context.get_data_type(dtype).as_pointer())
        return self.context.unpack_value(b, dtype, field)  # a float, or a scalar of NumPy

    def _int(self, pointer: Any) -> Any:
        b = self.builder
        number = self._python("PyLong_AsLongLong", pointer)
        with cgutils.if_unlikely(b, b.icmp_signed("==", number, _LONG(-1))):
            error = self._python("PyErr_Occurred")
            with cgutils.if_unlikely(b, cgutils.is_not_null(b, error)):
                b.ret(_OBJECT(None))
        return number

    def _array(self, pointer: Any, value: Any, dtype: Any) -> Any:
        b, context, layout = self.builder, self.context, layout_of(value)
        both = C_CONTIGUOUS | F_CONTIGUOUS
        order = {"C": (C_CONTIGUOUS, C_CONTIGUOUS), "F": (both, F_CONTIGUOUS), "-": (both, 0)}[layout[0]]
        others = (ALIGNED if "A" in layout else 0) | (WRITEABLE if "W" in layout else 0)
        flags = b.and_(self._load(pointer, OFFSETS.flags, _INT), _INT(order[0] | ALIGNED | WRITEABLE))
        self._require(flags, order[1] | others)
        self._require(self._load(pointer, OFFSETS.ndim, _INT), value.ndim)
        description = self._load(pointer, OFFSETS.dtype, _OBJECT)
        self._require(self._load(description, OFFSETS.char, _BYTE), ord(value.dtype.char))
        self._require(self._load(description, OFFSETS.byteorder, _BYTE), ord(value.dtype.byteorder))
        shape, strides = (self._load(pointer, offset, _OBJECT) for offset in (OFFSETS.shape, OFFSETS.strides))
        number = context.get_data_type(dtype.dtype)
        array = make_array(dtype)(context, b)
        populate_array(
            array,
            data=b.bitcast(self._load(pointer, OFFSETS.data, _OBJECT), number.as_pointer()),
            shape=[self._load(shape, 8 * axis, _LONG) for axis in range(value.ndim)],
            strides=[self._load(strides, 8 * axis, _LONG) for axis in range(value.ndim)],
            itemsize=_LONG(value.itemsize),
            meminfo=None,
        )
        return array._getvalue()

    # Make the result.

    def _boxed(self, dtype: Any, value: Any) -> Any:
        """Return a number, None or a tuple of numbers."""
        if dtype == types.none:
            return self._python("Py_BuildValue", self._text(""))
        if not isinstance(dtype, types.BaseTuple):
            letter, number = self._number(dtype, value)
            return self._python("Py_BuildValue", self._text(letter), number)
        items = [self._number(item, self.builder.extract_value(value, i)) for i, item in enumerate(dtype)]
        letters = "".join(letter for letter, _ in items)
        return self._python("Py_BuildValue", self._text(f"({letters})"), *(number for _, number in items))

    def _number(self, dtype: Any, value: Any) -> tuple[str, Any]:
        b = self.builder
        if isinstance(dtype, types.Boolean | types.BooleanLiteral):
            return "O", b.select(value, self._table(_TRUE), self._table(_FALSE))
        if isinstance(dtype, types.Float):
            return "d", value if dtype.bitwidth == 64 else b.fpext(value, ir.DoubleType())
        if not isinstance(dtype, types.Integer):
            raise TypeError(f"compiled functions return None, numbers or tuples of numbers, not {dtype}")
        if dtype.bitwidth < 64:
            value = (b.sext if dtype.signed else b.zext)(value, _LONG)
        return "L" if dtype.signed else "K", value

    # Write single instructions.

    def _require(self, value: Any, expected: int) -> None:
        self._check(self.builder.icmp_unsigned("==", value, value.type(expected)))

    def _check(self, condition: Any) -> None:
        following = self.builder.append_basic_block("")
        self.builder.cbranch(condition, following, self.other)
        self.builder.position_at_end(following)

    def _table(self, number: int) -> Any:
        return self.builder.load(self.builder.gep(self.entry.args[1], [_INT(number)]))

    def _at(self, pointer: Any, offset: int) -> Any:
        return self.builder.gep(pointer, [_INT(offset)])

    def _load(self, pointer: Any, offset: int, dtype: Any) -> Any:
        return self.builder.load(self.builder.bitcast(self._at(pointer, offset), dtype.as_pointer()))

    def _text(self, text: str) -> Any:
        return self.context.insert_const_string(self.builder.module, text)

    def _python(self, name: str, *arguments: Any) -> Any:
        function = cgutils.get_or_insert_function(self.builder.module, PYTHON[name], name)
        return self.builder.call(function, arguments)


# Memory for arrays that compiled code creates. It replaces numba's runtime, which exists only where numba is imported.
#
# An array begins with one reference. numba's code counts them and calls ``NRT_MemInfo_call_dtor`` at zero.

_SIZE, _MEMORY = ir.IntType(64), ir.IntType(8).as_pointer()
_MEMINFO_BYTES = 48  # bytes of numba's MemInfo: references, destructor and its argument, data, size, allocator
_REFERENCES, _MEMINFO_DATA = 0, 3


def allocator() -> Any:
    """Return a module with the two functions that compiled code calls."""
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
    """Allocate head and data together. Without memory, return a null pointer, for which numba raises MemoryError."""
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


# From a Python function to object code.

# no fastmath of any kind: with reassociated or fused arithmetic, results would depend on the processor
_OPTIONS = {"nopython": True, "error_model": "numpy"}
#: Prefixes of functions that exist only where numba is imported.
_OF_NUMBA = ("numba", "NRT_", "_ZN", "__svml")


class _EntryCompiler(_FunctionCompiler):  # type: ignore[misc]
    """numba's compiler up to LLVM, without wrappers for callers in Python and C."""

    def _customize_flags(self, flags: Any) -> Any:
        flags.no_cpython_wrapper = flags.no_cfunc_wrapper = flags.no_compile = True
        return flags


class _Linked(AOTCodeLibrary):  # type: ignore[misc]
    """LLVM code of a function that others link into theirs. It is never called directly: it needs no machine code."""

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._verify_declare_only_symbols()
        self._finalized = True


def _name_only(library: Any, function: Any, environment: Any) -> Any:
    """Return the Python function that stands for a compiled one in numba's tables, here without code."""
    return _dynfunc.make_function(function.lookup_module(), function.qualname, "", 0, environment, (library,))


@contextmanager
def _only_linked() -> Iterator[None]:
    """Make no machine code for the functions that numba compiles in the block because others call them."""
    context = cpu_target.target_context
    generator = context.codegen()
    context.get_executable, generator._library_class = _name_only, _Linked
    try:
        yield
    finally:
        del context.get_executable, generator._library_class


@contextmanager
def _uncollected() -> Iterator[None]:
    """Turn garbage collection off: a compiler makes millions of small objects, and searching them takes 20% longer."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


@global_compiler_lock  # type: ignore[untyped-decorator]
def object_code(function: Callable[..., Any], arguments: tuple[Any, ...], symbol: str) -> bytes:
    """Return machine code of the function for arguments of these types. Its C entry has the name ``symbol``."""
    register_declarations()
    for context in (cpu_target.typing_context, cpu_target.target_context):
        context.refresh()
    signature = tuple(map(numba.typeof, arguments))
    with _only_linked(), _uncollected():
        compiled = _EntryCompiler(function, cpu_target, _OPTIONS, {}, Compiler).compile(signature, None)
    library = compiled.library
    add_entry(compiled.target_context, library, compiled.fndesc, arguments, symbol)
    library.finalize()
    module = library._final_module.clone()
    module.link_in(llvm.parse_assembly(str(allocator())))
    for value in (*module.functions, *module.global_variables):
        if not value.is_declaration and value.name != symbol:
            value.linkage = "private"  # only the entry is visible: other objects may use the same names
    foreign = [value.name for value in module.functions if value.is_declaration and value.name.startswith(_OF_NUMBA)]
    if foreign:
        raise NotImplementedError(f"{function.__qualname__}: compiled, it would call {', '.join(foreign)} of numba")
    code: bytes = library.codegen._tm.emit_object(module)
    return code


def compile_for(baseline: str) -> None:
    """Make numba compile for a baseline processor, with its features and no others. Call it before compiling."""
    numba.config.CPU_NAME, numba.config.CPU_FEATURES = baseline, ""


def run_by_numba(function: Callable[..., Any]) -> Callable[[tuple[Any, ...], int], Any]:
    """Return an entry that calls the function through numba, which does not read Python's objects at `OFFSETS`."""
    register_declarations()
    dispatcher = numba.njit(nogil=True, error_model="numpy")(function)
    return lambda arguments, table: dispatcher(*arguments)
