"""Memory for arrays that compiled code makes for itself, in place of numba's runtime, which is there with numba only.

An array begins with one reference; numba's own code counts them and calls ``NRT_MemInfo_call_dtor`` at zero.
"""

from typing import Any

from llvmlite import ir

_LONG, _MEMORY = ir.IntType(64), ir.IntType(8).as_pointer()
_HEAD = 48  # bytes of numba's MemInfo: references, destructor and its argument, data, size, allocator
_REFERENCES, _DATA = 0, 3


def allocator() -> Any:
    """A module with the two functions compiled code calls."""
    module = ir.Module("allocator")
    malloc = ir.Function(module, ir.FunctionType(_MEMORY, [_LONG]), "malloc")
    free = ir.Function(module, ir.FunctionType(ir.VoidType(), [_MEMORY]), "free")
    alloc = ir.Function(module, ir.FunctionType(_MEMORY, [_LONG, ir.IntType(32)]), "NRT_MemInfo_alloc_aligned")
    _make_alloc(alloc, malloc)
    dtor = ir.Function(module, ir.FunctionType(ir.VoidType(), [_MEMORY]), "NRT_MemInfo_call_dtor")
    builder = ir.IRBuilder(dtor.append_basic_block())
    builder.call(free, dtor.args)
    builder.ret_void()
    return module


def _make_alloc(function: Any, malloc: Any) -> None:
    """Head and data in one piece; no memory is a null pointer, of which numba makes a MemoryError."""
    b = ir.IRBuilder(function.append_basic_block())
    size, alignment = function.args[0], b.zext(function.args[1], _LONG)
    room = b.add(alignment, _LONG(_HEAD))
    memory = b.call(malloc, [b.add(size, room)])
    with b.if_then(b.icmp_unsigned("!=", memory, _MEMORY(None))):
        beyond = b.add(b.ptrtoint(memory, _LONG), room)
        fields = b.bitcast(memory, _LONG.as_pointer())
        b.store(_LONG(1), b.gep(fields, [_LONG(_REFERENCES)]))
        b.store(b.sub(beyond, b.urem(beyond, alignment)), b.gep(fields, [_LONG(_DATA)]))
    b.ret(memory)
