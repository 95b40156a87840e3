"""The one door to compiled code: a function, loaded or compiled for the types of the arguments it is called with."""

import ctypes
import os
import pickle
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import Any, NoReturn

from thinstream.jit.keeping import Kept
from thinstream.jit.kinds import kind_of, types_in
from thinstream.jit.versions import sources_of, surroundings

#: (function, types of the arguments) of all code this process has compiled or loaded, and whether it had been kept.
specialisations: list[tuple[str, str, bool]] = []
#: Entered while something is compiled, for those who want to know.
watches: list[AbstractContextManager[Any]] = []
#: Whether functions run as plain Python: numba's own switch, read without it.
INTERPRETED = os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0")
_CONSTANTS = True, False, NotImplemented
_one_at_a_time = threading.RLock()

Entry = Callable[[tuple[Any, ...], Any], Any]


class Compiled:
    """A function that runs as machine code.

    Parameters
    ----------
    function : callable
        What numba compiles: of arrays, numbers and (named) tuples of them, returning numbers, a tuple of them or None.
    *modules : str
        Where code it calls is, beside its own and the engine's: an edit there compiles it again.
    constants : tuple
        What the function closes over, if anything.

    """

    def __init__(self, function: Callable[..., Any], *modules: str, constants: tuple[Any, ...] = ()) -> None:
        self._function, self._modules = function, (function.__module__, *modules)
        self._name = "-".join([function.__name__.strip("<>"), *self._modules])
        self._place = function.__qualname__, function.__code__.co_firstlineno, constants
        self._codes: dict[str, Entry] = {}  # by the types of the arguments
        self._bound: dict[tuple[Any, ...], Any] = {}  # by the very types: what entries are told of them
        self._entries: list[tuple[Entry, int]] = []

    @property
    def function(self) -> Callable[..., Any]:
        """The function itself, for other compilers."""
        return self._function

    @property
    def modules(self) -> tuple[str, ...]:
        """Where its code comes from, beside the engine's."""
        return self._modules

    def __call__(self, *arguments: Any) -> Any:
        """Runs the function; the first call with arguments of certain types loads or compiles it."""
        if INTERPRETED:
            return self._function(*arguments)
        for entry, known in self._entries:
            result = entry(arguments, known)
            if result is not NotImplemented:
                break
        else:
            entry, known = self._prepared(arguments)
            result = entry(arguments, known)
            if result is NotImplemented:
                raise TypeError(f"{self._name}: compiled for other arguments than {', '.join(map(kind_of, arguments))}")
        if type(result) is bytes:
            _raise(result)
        return result

    def _prepared(self, arguments: tuple[Any, ...]) -> tuple[Entry, int]:
        """The entry for arguments of these types, and where in memory the types themselves are."""
        kinds, known = ", ".join(map(kind_of, arguments)), (*_CONSTANTS, *types_in(arguments))
        with _one_at_a_time:
            if kinds not in self._codes:
                self._codes[kinds] = self._load(arguments, kinds)
            if (kinds, known) not in self._bound:
                table = self._bound[kinds, known] = (ctypes.c_void_p * len(known))(*map(id, known))
                self._entries.append((self._codes[kinds], ctypes.addressof(table)))
            return self._codes[kinds], ctypes.addressof(self._bound[kinds, known])

    def _load(self, arguments: tuple[Any, ...], kinds: str) -> Entry:
        """Code that is kept, or else compiled now."""
        from thinstream.jit.loading import load  # LLVM is not needed before

        sources = sources_of(self._modules)
        kept = Kept(self._name, f"{self._place} {kinds} {surroundings()}", sources)
        code = kept.find()
        specialisations.append((self._name, kinds, code is not None))
        if code is None:
            with kept.locked() as folder:
                code = kept.find() or self._compile(arguments, kept, folder)  # another process may have been faster
        return load(code, kept.symbol)

    def _compile(self, arguments: tuple[Any, ...], kept: Kept, folder: Path | None) -> bytes:
        with ExitStack() as watched:
            for each in watches:
                watched.enter_context(each)
            from thinstream.jit.compiling import object_code  # which imports numba

            code: bytes = object_code(self._function, arguments, kept.symbol)
        if folder is not None:
            kept.write(folder, code)
        return code


def compiled(*modules: str) -> Callable[[Callable[..., Any]], Compiled]:
    """Makes the decorated function a `Compiled` one."""
    return lambda function: Compiled(function, *modules)


def _raise(pickled: bytes) -> NoReturn:
    """Raises what compiled code has raised; the bytes are a constant of that code."""
    kind, arguments, *_ = pickle.loads(pickled)
    raise kind(*(arguments or ()))
