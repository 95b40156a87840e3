"""Compiled functions: loaded or compiled for the types of the arguments that they are called with."""

import ctypes
import importlib
import os
import pickle
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from thinstream.errors import ThinstreamWarning
from thinstream.jit.ahead import Request, compile_request, is_upcoming, rehearsal, start_workers
from thinstream.jit.cache import CodeFile, cached_file, mismatches, shipped_file, shipped_files, sources_of

# Compiled code distinguishes arguments by types, dtypes and layouts, never by values.


def kind_of(value: Any) -> str:
    """Return the type of an argument as text: everything that machine code for it depends on.

    >>> kind_of(1), kind_of(np.zeros((2, 3), np.float32))
    ('builtins.int', 'f=2CAW')
    >>> from thinstream.engine.rows import Bounds
    >>> kind_of(Bounds(3, 1e15))
    'thinstream.engine.rows.Bounds(builtins.int, builtins.float)'
    """
    if isinstance(value, np.ndarray):
        dtype = value.dtype
        return f"{dtype.char}{dtype.byteorder}{value.ndim}{layout_of(value)}"
    name = f"{type(value).__module__}.{type(value).__qualname__}"
    if isinstance(value, tuple):
        return f"{name}({', '.join(map(kind_of, value))})"
    if type(value) not in (bool, int, float) and not isinstance(value, np.generic):
        raise TypeError(f"compiled functions take arrays, numbers and tuples of them, got {name}")
    return name


def layout_of(array: Any) -> str:
    """Return the order in memory (C, F, or ``-`` for neither), then A if it is aligned and W if it is writeable."""
    flags = array.flags
    order = "C" if flags.c_contiguous else "F" if flags.f_contiguous else "-"
    return order + ("A" if flags.aligned else "") + ("W" if flags.writeable else "")


def types_in(values: tuple[Any, ...]) -> Iterator[type]:
    """Yield the types of all values. The type of a tuple comes before those of its items."""
    for value in values:
        yield type(value)
        if isinstance(value, tuple):
            yield from types_in(value)


#: (function, types of the arguments) of all code this process has compiled or loaded, and whether it was in a file.
specialisations: list[tuple[str, str, bool]] = []
_watches: list[AbstractContextManager[Any]] = []
#: Whether functions run as plain Python: numba's own switch, read without it.
INTERPRETED = os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0")
_CONSTANTS = True, False, NotImplemented
_one_at_a_time = threading.RLock()

Entry = Callable[[tuple[Any, ...], Any], Any]


@contextmanager
def watch_compiling(watch: AbstractContextManager[Any]) -> Iterator[None]:
    """Enter ``watch`` around each compilation in this process until the block ends.

    >>> from contextlib import nullcontext
    >>> with watch_compiling(nullcontext()):
    ...     pass
    """
    _watches.append(watch)
    try:
        yield
    finally:
        _watches.remove(watch)


class Compiled:
    """A function that runs as machine code.

    Parameters
    ----------
    function : callable
        The function that numba compiles. Its arguments are arrays, numbers and (named) tuples of them. It returns a
        number, a tuple of numbers or None.
    *modules : str
        The modules of code it calls, in addition to its own module and the engine. An edit there compiles it again.
    constants : tuple
        The variables of enclosing functions that it uses.
    made_by : tuple
        The function that returns this object and its arguments, if it is not found in its module by name. Another
        process needs it to compile the function.

    """

    def __init__(
        self,
        function: Callable[..., Any],
        *modules: str,
        constants: tuple[Any, ...] = (),
        made_by: tuple[Any, ...] = (),
    ) -> None:
        self._function, self._modules = function, (function.__module__, *modules)
        self._name = "-".join([function.__name__.strip("<>"), *self._modules])
        self._definition = function.__qualname__, function.__code__.co_firstlineno, constants
        self._made_by = made_by or (_by_name, function.__module__, function.__qualname__)
        self._codes: dict[str, Entry] = {}  # by the types of the arguments
        self._bound: dict[tuple[Any, ...], Any] = {}  # by the types as objects: the tables that entries compare with
        self._entries: list[tuple[Entry, int]] = []

    @property
    def function(self) -> Callable[..., Any]:
        """The function itself, for other compilers."""
        return self._function

    @property
    def modules(self) -> tuple[str, ...]:
        """The modules of its code, in addition to the engine's."""
        return self._modules

    @property
    def title(self) -> str:
        """A short name for messages.

        >>> from thinstream.algorithms.online.arow import AROW
        >>> from thinstream.engine.loop import loop_for
        >>> loop_for(AROW).title
        'arow.loop'
        """
        module = self._modules[min(1, len(self._modules) - 1)] if self._made_by[0] is not _by_name else self._modules[0]
        return f"{module.rpartition('.')[2]}.{self._function.__name__.strip('<>_')}"

    def __reduce__(self) -> tuple[Any, ...]:
        """Another process makes the object again: code is not pickled."""
        return self._made_by[0], self._made_by[1:]

    def __call__(self, *arguments: Any) -> Any:
        """Run the function. The first call with arguments of certain types loads or compiles it."""
        if INTERPRETED:
            return self._function(*arguments)
        for entry, table in self._entries:
            result = entry(arguments, table)
            if result is not NotImplemented:
                break
        else:
            if self._is_rehearsed(arguments):
                return _plain(self._function(*arguments))
            entry, table = self._prepared(arguments)
            result = entry(arguments, table)
            if result is NotImplemented:
                raise TypeError(f"{self._name}: compiled for other arguments than {', '.join(map(kind_of, arguments))}")
        if type(result) is bytes:
            _raise(result)
        return result

    def _is_rehearsed(self, arguments: tuple[Any, ...]) -> bool:
        """Return whether a rehearsal is on and there is no code yet; the rehearsal then remembers the call."""
        current = rehearsal()
        if current is None:
            return False
        kinds = ", ".join(map(kind_of, arguments))
        if not current.ignores_files and (kinds in self._codes or self._find(kinds) is not None):
            return False
        current.add(Request(self, kinds, arguments))
        return True

    def _prepared(self, arguments: tuple[Any, ...]) -> tuple[Entry, int]:
        """Return the entry for arguments of these types, and the address of its table of types."""
        kinds, objects = ", ".join(map(kind_of, arguments)), (*_CONSTANTS, *types_in(arguments))
        if is_upcoming() and kinds not in self._codes and self._find(kinds) is None:
            start_workers()  # without the lock: other threads may have to load code in a rehearsal
        with _one_at_a_time:
            if kinds not in self._codes:
                self._codes[kinds] = self._load(arguments, kinds)
            if (kinds, objects) not in self._bound:
                table = self._bound[kinds, objects] = (ctypes.c_void_p * len(objects))(*map(id, objects))
                self._entries.append((self._codes[kinds], ctypes.addressof(table)))
            return self._codes[kinds], ctypes.addressof(self._bound[kinds, objects])

    def _load(self, arguments: tuple[Any, ...], kinds: str) -> Entry:
        """Load code from a file, or else compile the function now."""
        if not layout_is_known():
            from thinstream.jit.compiler import run_by_numba

            return run_by_numba(self._function)
        code_and_symbol = self._find(kinds)
        specialisations.append((self._name, kinds, code_and_symbol is not None))
        if code_and_symbol is not None:
            return load(*code_and_symbol)
        with ExitStack() as watched:
            for watch in _watches:
                watched.enter_context(watch)
            code = compile_request(Request(self, kinds, arguments))
        return load(code, self.cached_file(kinds).symbol)

    def _find(self, kinds: str) -> tuple[bytes, str] | None:
        """Return code from a file and its symbol: from the cache, made for this processor, or else from the wheel."""
        key = self._name, self._types(kinds), sources_of(self._modules)
        for file in (cached_file(*key), *shipped_files(*key)):
            code = file.find()
            if code is not None:
                return code, file.symbol
        return None

    def _types(self, kinds: str) -> str:
        return f"{self._definition} {kinds}"

    def cached_file(self, kinds: str) -> CodeFile:
        """Return the file of the cache for arguments of these types."""
        return cached_file(self._name, self._types(kinds), sources_of(self._modules))

    def shipped_file(self, kinds: str, baseline: str, folder: Path | None = None) -> CodeFile:
        """Return the file of a wheel for arguments of these types."""
        return shipped_file(self._name, self._types(kinds), sources_of(self._modules), baseline, folder)

    def object_code(self, arguments: tuple[Any, ...], symbol: str) -> bytes:
        """Compile the function for arguments like these."""
        from thinstream.jit.compiler import object_code  # which imports numba

        code: bytes = object_code(self._function, arguments, symbol)
        return code


def compiled(*modules: str) -> Callable[[Callable[..., Any]], Compiled]:
    """Return a decorator that makes a function a `Compiled` one."""
    return lambda function: Compiled(function, *modules)


def _by_name(module: str, name: str) -> Any:
    """Return the object of a module."""
    value: Any = importlib.import_module(module)
    for part in name.split("."):
        value = getattr(value, part)
    return value


@cache
def layout_is_known() -> bool:
    """Return whether Python's and NumPy's objects are laid out as entries read them; warn if not."""
    unexpected = mismatches()
    if unexpected:
        warnings.warn(
            f"Python or NumPy stores {', '.join(unexpected)} in an unexpected place. thinstream does not use compiled "
            "code from files: numba compiles functions in each process, which takes seconds. Report this with the "
            "versions of Python and NumPy.",
            ThinstreamWarning,
            stacklevel=2,
        )
    return not unexpected


def _plain(result: Any) -> Any:
    """Return the result of a function that ran as Python, in the types that an entry returns."""
    if isinstance(result, tuple):
        return tuple(map(_plain, result))
    return result.item() if isinstance(result, np.generic) else result


def _raise(pickled: bytes) -> NoReturn:
    """Raise the exception of compiled code; the bytes are a constant of that code."""
    exception, arguments, *_ = pickle.loads(pickled)
    raise exception(*(arguments or ()))


# From object code to a function. LLVM's loader does this in milliseconds, without numba.

#: The arguments and the result of an entry: see `compiler`.
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
def _engine() -> Any:
    """Return LLVM's loader. Loaded code stays for as long as the process lives."""
    from llvmlite import binding as llvm

    with suppress(RuntimeError, AttributeError):  # older releases need it, newer ones refuse
        llvm.initialize()
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    for name in _PYTHON:
        llvm.add_symbol(name, ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value)
    machine = llvm.Target.from_default_triple().create_target_machine()
    return llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)


def load(code: bytes, symbol: str) -> Callable[[tuple[Any, ...], int], Any]:
    """Return the entry of that name in the object code."""
    from llvmlite import binding as llvm

    engine = _engine()
    engine.add_object_file(llvm.ObjectFileRef.from_data(code))
    engine.finalize_object()
    return _PROTOTYPE(engine.get_function_address(symbol))
