"""The C entry of a compiled function: checks and reads the arguments, runs it without the GIL, makes its result.

    PyObject *entry(PyObject *arguments, PyObject *known[])

``arguments`` is a tuple; ``known`` are True, False and NotImplemented, and the types of all values in the arguments as
`kinds.types_in` has them. Where an argument is of another type, dtype or layout the entry returns NotImplemented; where
the function raises, the bytes of the pickled exception. Values are read where CPython and numpy have them for all
extensions written in C: the head of an object ends with its type, a tuple's items are the last of its fields, and the
fields of arrays are `PyArrayObject_fields`.
"""

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.np.arrayobj import make_array, populate_array

from thinstream.jit.kinds import layout_of

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
_HEAD, _ITEMS, _POINTER = object.__basicsize__, tuple.__basicsize__, 8
# Offsets in PyArrayObject_fields, and in PyArray_Descr.
_DATA, _NDIM, _SHAPE, _STRIDES, _DESCR, _FLAGS = (_HEAD + place for place in (0, 8, 16, 24, 40, 48))
_CHAR, _BYTEORDER = _HEAD + 9, _HEAD + 10
_C, _F, _ALIGNED, _WRITEABLE = 0x1, 0x2, 0x100, 0x400


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
        self._require(self._load(pointer, _HEAD, _LONG), len(values))
        return [
            self._read(self._load(pointer, _ITEMS + _POINTER * i, _OBJECT), value, kind)
            for i, (value, kind) in enumerate(zip(values, kinds, strict=True))
        ]

    def _read(self, pointer: Any, value: Any, kind: Any) -> Any:
        """What compiled code takes for the object at ``pointer``, which must be of the type of ``value``."""
        b = self.builder
        own = self._load(pointer, _HEAD - _POINTER, _OBJECT)
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
        place = b.bitcast(self._at(pointer, _HEAD), self.context.get_data_type(kind).as_pointer())
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
        order = {"C": (_C, _C), "F": (_C | _F, _F), "-": (_C | _F, 0)}[layout[0]]
        others = (_ALIGNED if "A" in layout else 0) | (_WRITEABLE if "W" in layout else 0)
        flags = b.and_(self._load(pointer, _FLAGS, _INT), _INT(order[0] | _ALIGNED | _WRITEABLE))
        self._require(flags, order[1] | others)
        self._require(self._load(pointer, _NDIM, _INT), value.ndim)
        described = self._load(pointer, _DESCR, _OBJECT)
        self._require(self._load(described, _CHAR, _BYTE), ord(value.dtype.char))
        self._require(self._load(described, _BYTEORDER, _BYTE), ord(value.dtype.byteorder))
        shape, strides = (self._load(pointer, place, _OBJECT) for place in (_SHAPE, _STRIDES))
        number = context.get_data_type(kind.dtype)
        array = make_array(kind)(context, b)
        populate_array(
            array,
            data=b.bitcast(self._load(pointer, _DATA, _OBJECT), number.as_pointer()),
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
