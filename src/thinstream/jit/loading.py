"""From object code to a function: LLVM's loader alone, which takes milliseconds; numba is not imported."""

import ctypes
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from typing import Any

from llvmlite import binding as llvm

#: What an entry is called with and returns: see `entry`.
_PROTOTYPE = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object, ctypes.c_void_p)
#: Functions of Python's C interface that entries call.
_PYTHON = (
    "PyLong_AsLongLong",
    "PyErr_Occurred",
    "PyEval_SaveThread",
    "PyEval_RestoreThread",
    "PyBytes_FromStringAndSize",
    "Py_BuildValue",
)


@cache
def processor() -> str:
    """The processor of this machine, as code is compiled for it."""
    return f"{llvm.get_process_triple()} {llvm.get_host_cpu_name()} {llvm.get_host_cpu_features().flatten()}"


@cache
def _engine() -> Any:
    """What loads; loaded code stays for as long as the process lives."""
    with suppress(RuntimeError, AttributeError):  # older releases need it, newer ones refuse
        llvm.initialize()
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    for name in _PYTHON:
        llvm.add_symbol(name, ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value)
    machine = llvm.Target.from_default_triple().create_target_machine()
    return llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)


def load(code: bytes, symbol: str) -> Callable[[tuple[Any, ...], int], Any]:
    """The entry of that name in the object code."""
    engine = _engine()
    engine.add_object_file(llvm.ObjectFileRef.from_data(code))
    engine.finalize_object()
    return _PROTOTYPE(engine.get_function_address(symbol))
