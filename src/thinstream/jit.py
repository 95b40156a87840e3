"""Compiled functions whose disk cache is never stale, never torn by two processes, and never required.

Numba's cache notices edits only in the file of the function itself, so each function here is made by a factory that
closes over a digest of all sources it is built from: numba keys its cache on closure cells. Its cache files are written
without a lock, so first compilations hold one. What is cached of a function stands in one file of pickled types, which
cannot be read where a type is gone (a rule of one's own, an older version): so each rule has a file (and a lock) of its
own, and one that cannot be read is thrown away. Where no folder can be written, functions are compiled uncached.
"""

import hashlib
import importlib.util
import inspect
import pickle
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import FunctionType
from typing import Any, TypeVar, cast

import numba
from numba.extending import overload, register_jitable

from thinstream.locks import locked

Function = TypeVar("Function", bound=Callable[..., Any])
Factory = Callable[[str], Callable[..., Any]]


def scalar(function: Function) -> Function:
    """A small pure function, usable interpreted and inlined into compiled code."""
    return cast("Function", register_jitable(forceinline=True, error_model="numpy")(function))


@scalar
def keyed_by(version: str) -> None:
    """Does nothing; mentioned in a function it makes the version one of its closure cells, the key of numba's cache."""


def compiles(function: Callable[..., Any], inline: str = "never") -> Callable[[Function], Function]:
    """The decorated function picks, from argument types, what compiled code runs in place of ``function``.

    Code is inlined by LLVM; ``inline="always"`` inlines it in numba's own stage already, which spares the counting of
    references where arrays are passed, but costs compile time and takes straight code only (no branches).
    """

    def register(pick: Function) -> Function:
        def picked(*types: Any) -> Any:
            found = pick(*types)
            return found if found is None else without_annotations(found)

        names = ", ".join(inspect.signature(pick).parameters)
        scope = {"picked": picked}
        exec(f"def choose({names}):\n return picked({names})", scope)
        overload(function, inline=inline, jit_options={"error_model": "numpy", "forceinline": inline == "never"})(
            scope["choose"]
        )
        return pick

    return register


def without_annotations(function: Any) -> Any:
    """A copy numba accepts beside any other signature of the same names (it compares annotations, too)."""
    return FunctionType(
        function.__code__, function.__globals__, function.__name__, function.__defaults__, function.__closure__
    )


_PACKAGE = Path(__file__).parent

#: (function, signature) of every specialisation this process has compiled or loaded from the cache.
specialisations: list[tuple[str, str]] = []


@cache
def digest(*files: Path) -> str:
    """A hash over the sources: of this file, the engine and the given files."""
    found = hashlib.sha256()
    for file in sorted({Path(__file__), *(_PACKAGE / "engine").glob("*.py"), *files}):
        found.update(file.read_bytes())
    return found.hexdigest()


def source_of(module: str) -> Path | None:
    """The file a module's code is in, or None (a notebook, a zip archive)."""
    try:
        spec = importlib.util.find_spec(module)
    except (ImportError, ValueError):
        return None
    file = Path(spec.origin) if spec is not None and spec.origin else None
    return file if file is not None and file.is_file() else None


class Compiled:
    """A numba function from a factory: ``ensure`` a specialisation once, then call ``function``."""

    def __init__(self, factory: Factory, *modules: str) -> None:
        files = [source_of(module) for module in modules]
        known = [file for file in files if file is not None]
        version = digest(*known) if len(known) == len(files) else ""
        self._plain = factory(version)
        self._name = "-".join(modules).replace(".", "_")
        self._plain.__qualname__ += f".{self._name}"  # numba names its files after it
        self.cached = bool(version)
        self.function = self._dispatcher()

    def _dispatcher(self) -> Any:
        # no fastmath of any kind: reassociated or fused arithmetic would not give the same bits everywhere
        options = {"nogil": True, "error_model": "numpy"}
        if self.cached:
            try:
                return numba.njit(cache=True, **options)(self._plain)
            except RuntimeError:  # numba: "cannot cache function: no locator available"
                self.cached = False
        return numba.njit(**options)(self._plain)

    def ensure(self, *args: Any) -> None:
        """Compiles (or loads) the specialisation for arguments of these types; safe among processes."""
        if numba.config.DISABLE_JIT:
            return
        signature = tuple(numba.typeof(arg) for arg in args)
        if signature in self.function.overloads:
            return
        if self.cached:
            try:
                folder = Path(self.function.stats.cache_path)
                folder.mkdir(parents=True, exist_ok=True)
                with locked(folder / f"{self._name}.lock"):
                    self._compile_cached(signature, folder)
            except OSError:  # the folder was lost or filled up since: go on without it
                self.cached = False
                self.function = self._dispatcher()
        if not self.cached:
            self.function.compile(signature)
        specialisations.append((self._plain.__qualname__, str(signature)))

    def _compile_cached(self, signature: tuple[Any, ...], folder: Path) -> None:
        try:
            self.function.compile(signature)
        except (ImportError, AttributeError, EOFError, pickle.UnpicklingError):  # of the list, or it comes again
            for file in folder.glob(f"*.{self._name}-*.nbi"):
                file.unlink(missing_ok=True)
            self.function.compile(signature)

    def __call__(self, *args: Any) -> Any:
        """Ensures and calls, for calls that are few."""
        self.ensure(*args)
        return self.function(*args)
