"""Files of compiled code: the code that a wheel ships, and the cache in the user's folder."""

import ctypes
import hashlib
import importlib
import importlib.util
import os
import secrets
import stat
import sys
import warnings
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from thinstream.errors import ThinstreamWarning
from thinstream.files import locked

# A file's name and checksum cover everything that its code depends on: function, types, binary interface, processor
# and sources. Shipped code is part of the package, is never written to, and is trusted like the sources next to it.
# Cached code is in the user's folder, or in the folder that ``NUMBA_CACHE_DIR`` names. It runs with the rights of the
# user, so files and folders that another user owns or can write to are ignored. If no folder can be written, functions
# are compiled in each process.

PACKAGE = Path(__file__).parent.parent
#: The code of a wheel, by binary interface and baseline processor.
SHIPPED = PACKAGE / "compiled"
_ENDING = ".code"
#: Letters of a function's name in that of its file: file names have 255 at most, some functions use many modules.
_LONGEST = 100
#: A pipe must not block, a link must not lead elsewhere; Windows has neither flag.
_SAFELY = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOFOLLOW", 0)
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
_warned: set[Path] = set()


def cache_folder() -> Path:
    """Return the folder of cached code."""
    if chosen := os.environ.get("NUMBA_CACHE_DIR"):
        return Path(chosen) / "thinstream"
    user = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    installation = hashlib.sha256(os.fsencode(PACKAGE)).hexdigest()[:16]
    return Path(user) / "thinstream" / installation


def _is_private() -> bool:
    """Return whether only this user may read the cache: unless a folder was chosen, which may serve many users."""
    return not os.environ.get("NUMBA_CACHE_DIR")


def folder_to_write() -> Path | None:
    """Create the folder of cached code and return it, or None if it cannot be written or trusted."""
    folder = cache_folder()
    with suppress(OSError):
        folder.mkdir(mode=0o700 if _is_private() else 0o755, parents=True, exist_ok=True)
        if os.access(folder, os.W_OK) and _is_trusted(folder, folder.stat()):
            return folder
    return None


def _is_trusted(path: Path, status: os.stat_result) -> bool:
    """Return whether only this user, root or the owner of the package can write there; warn once if not."""
    if not hasattr(os, "geteuid"):  # Windows, where modes mean nothing
        return True
    if status.st_uid not in (0, os.geteuid(), PACKAGE.stat().st_uid):
        problem = f"belongs to another user (user id {status.st_uid})"
    elif status.st_mode & _OTHERS_WRITE:
        problem = f"can be written by other users (mode {stat.S_IMODE(status.st_mode):o})"
    else:
        return True
    folder = path if stat.S_ISDIR(status.st_mode) else path.parent
    if folder not in _warned:
        _warned.add(folder)
        warnings.warn(
            f"{path} {problem}: compiled code in that folder is not used, and compiling takes seconds. Remove the "
            f"folder, run chmod -R go-w {folder}, or set NUMBA_CACHE_DIR to a folder that only you can write to.",
            ThinstreamWarning,
            stacklevel=2,
        )
    return False


def _open_safely(path: str, flags: int) -> int:
    return os.open(path, flags | _SAFELY)


def _create(path: str, flags: int) -> int:
    """Create a file that others cannot write to, and cannot read in the user's folder, whatever the umask is."""
    return os.open(path, flags, 0o600 if _is_private() else 0o644)


def _read(path: Path) -> bytes | None:
    """Return the content of a regular file that others cannot write to, in such a folder; None if it is not."""
    if not _is_trusted(path.parent, path.parent.stat()):
        return None
    with open(path, "rb", buffering=0, opener=_open_safely) as file:
        status = os.fstat(file.fileno())
        return file.read() if stat.S_ISREG(status.st_mode) and _is_trusted(path, status) else None


class CodeFile:
    """The file of one function's code for arguments of certain types.

    Parameters
    ----------
    function : str
        Its name.
    dependencies : str
        Everything that the code depends on except for sources: types, binary interface, processor.
    sources : str or None
        The digest of the files it is compiled from. Code from other sources is replaced. None: it is not cached.
    folder : path or None
        A folder of a wheel. None: the cache.

    """

    def __init__(self, function: str, dependencies: str, sources: str | None, folder: Path | None = None) -> None:
        self._shipped, self._is_cached = folder, sources is not None
        key = f"{function}\n{dependencies}\n{secrets.token_hex() if sources is None else sources}"
        self._key = hashlib.sha256(key.encode()).digest()
        digest = hashlib.sha256(f"{function}\n{dependencies}".encode()).hexdigest()[:16]
        self._stem = f"{function[:_LONGEST]}-{digest}"
        self.symbol = f"entry_{self._key.hex()}"
        self.name = f"{self._stem}-{self._key.hex()[:16]}{_ENDING}"

    def find(self) -> bytes | None:
        """Return the code if its file exists and is whole. Delete a damaged file of the cache."""
        if not self._is_cached:
            return None
        file = (self._shipped or cache_folder()) / self.name
        with suppress(OSError):
            content = _read(file) if self._shipped is None else file.read_bytes()
            if content is None:
                return None
            checksum, code = content[:32], content[32:]
            if checksum == self._checksum(code):
                return code
            if self._shipped is None:
                file.unlink()
        return None

    @contextmanager
    def locked(self) -> Iterator[Path | None]:
        """Hold back other processes that would compile the same, and yield the folder to write to, if there is one."""
        folder = folder_to_write() if self._is_cached else None
        with ExitStack() as held:
            if folder is not None:
                try:
                    held.enter_context(locked(folder / f"{self._stem}.lock"))
                except OSError:  # a full disk, a name too long
                    folder = None
            yield folder

    def write(self, folder: Path, code: bytes) -> None:
        """Write the code atomically, and remove code that was compiled from other sources."""
        temporary = folder / f".{self.name}.{secrets.token_hex(4)}"
        try:
            with open(temporary, "xb", opener=_create) as file:
                file.write(self._checksum(code) + code)
            os.replace(temporary, folder / self.name)
        except OSError:  # the disk may be full: the next process compiles it again
            with suppress(OSError):
                temporary.unlink(missing_ok=True)
            return
        for old in folder.glob(f"{self._stem}-*{_ENDING}"):
            if old.name != self.name:
                with suppress(OSError):
                    old.unlink()

    def _checksum(self, code: bytes) -> bytes:
        return hashlib.sha256(self._key + code).digest()


def cached_file(function: str, types: str, sources: str | None) -> CodeFile:
    """Return the file of the cache: code for this very processor."""
    return CodeFile(function, f"{types} {numba_settings()} {abi()} {native()}", sources)


def shipped_file(function: str, types: str, sources: str | None, baseline: str, folder: Path | None = None) -> CodeFile:
    """Return the file of the package (or of another folder) with code for a baseline processor."""
    return CodeFile(function, f"{types} {abi()} {baseline}", sources, folder or SHIPPED / abi() / baseline)


def shipped_files(function: str, types: str, sources: str | None) -> Iterable[CodeFile]:
    """Return the files of the package with code that this processor runs, the fastest first."""
    return [shipped_file(function, types, sources, baseline) for baseline in _usable_baselines()]


@cache
def _usable_baselines() -> tuple[str, ...]:
    """Return the baselines of the shipped code, none if it is for another interpreter or settings change code."""
    if not SHIPPED.is_dir() or numba_settings():
        return ()
    if not (SHIPPED / abi()).is_dir():
        shipped = ", ".join(sorted(folder.name for folder in SHIPPED.iterdir())) or "nothing"
        warnings.warn(
            f"thinstream was installed with compiled code for {shipped}, but this is {abi()}. It compiles functions "
            "when they are first used, which takes seconds. Install the wheel for this Python to avoid that.",
            ThinstreamWarning,
            stacklevel=2,
        )
        return ()
    return baselines()


# Code depends on the types of arguments, and on sources and settings.

#: Modules of this package that decide what code is like.
_COMPILER = ("cache", "compiled", "compiler", "declarations")
#: Settings of numba that do not change the code it makes.
_IMMATERIAL = ("NUMBA_CACHE_DIR", "NUMBA_NUM_THREADS", "NUMBA_DISABLE_JIT")


def numba_settings() -> str:
    """Return the settings of numba that change code, as text."""
    return " ".join(
        f"{name}={value}"
        for name, value in sorted(os.environ.items())
        if name.startswith("NUMBA_") and name not in _IMMATERIAL
    )


def sources_of(modules: tuple[str, ...]) -> str | None:
    """Return a digest of these modules, the engine and the compiler, or None if one has no file (a notebook)."""
    files = [_file_of(module) for module in modules]
    if None in files:
        return None
    shared = {*(PACKAGE / "engine").glob("*.py"), *((PACKAGE / "jit" / f"{name}.py") for name in _COMPILER)}
    digest = hashlib.sha256()
    for file in sorted(shared.union(file for file in files if file)):
        digest.update(_digest(file))
    return digest.hexdigest()


@cache
def _digest(file: Path) -> bytes:
    return hashlib.sha256(file.read_bytes()).digest()


def _file_of(module: str) -> Path | None:
    """Return the file of a module, or None (a notebook, a zip archive)."""
    try:
        spec = importlib.util.find_spec(module)
    except (ImportError, ValueError):
        return None
    file = Path(spec.origin) if spec is not None and spec.origin else None
    return file if file is not None and file.is_file() else None


# Machine code depends on the interpreter, NumPy's objects in memory and the processor.

# Compiled functions read Python and NumPy objects at fixed offsets, as extensions written in C do. The head of an
# object ends with its type. The items of a tuple follow its other fields. An array has the fields of
# `PyArrayObject_fields`, and its dtype those of `PyArray_Descr`.


class Offsets(NamedTuple):
    """Offsets in bytes of the fields that compiled functions read."""

    head: int = object.__basicsize__  # also of a number's value and a tuple's length
    items: int = tuple.__basicsize__
    data: int = object.__basicsize__
    ndim: int = object.__basicsize__ + 8
    shape: int = object.__basicsize__ + 16
    strides: int = object.__basicsize__ + 24
    dtype: int = object.__basicsize__ + 40
    flags: int = object.__basicsize__ + 48
    char: int = object.__basicsize__ + 9
    byteorder: int = object.__basicsize__ + 10


OFFSETS = Offsets()
#: The flags of an array that compiled functions test.
C_CONTIGUOUS, F_CONTIGUOUS, ALIGNED, WRITEABLE = 0x1, 0x2, 0x100, 0x400


def mismatches(offsets: Offsets = OFFSETS) -> list[str]:
    """Compare what lies at the offsets with the values that Python and NumPy report, and return what differs."""
    array = np.arange(6.0, dtype=np.float32).reshape(2, 3).T[1:]
    fixed = np.zeros(2, np.int16)
    fixed.setflags(write=False)
    pair, number, single, integer = (array, fixed), 0.1, np.float32(0.3), np.int64(-7)
    checks: dict[str, tuple[Any, Any]] = {
        "a tuple's type": (_word(pair, offsets.head - 8), id(tuple)),
        "a tuple's length": (_word(pair, offsets.head), 2),
        "a tuple's items": ([_word(pair, offsets.items + 8 * k) for k in range(2)], [id(array), id(fixed)]),
        "a float": (ctypes.c_double.from_address(id(number) + offsets.head).value, number),
        "a float32": (ctypes.c_float.from_address(id(single) + offsets.head).value, float(single)),
        "an int64": (ctypes.c_int64.from_address(id(integer) + offsets.head).value, int(integer)),
    }
    for x in (array, fixed):
        dtype, flags = _word(x, offsets.dtype), ctypes.c_int.from_address(id(x) + offsets.flags).value
        shape, strides = _word(x, offsets.shape), _word(x, offsets.strides)
        checks |= {
            f"the data of {x.dtype}": (_word(x, offsets.data), x.__array_interface__["data"][0]),
            f"the dimensions of {x.dtype}": (ctypes.c_int.from_address(id(x) + offsets.ndim).value, x.ndim),
            f"the dtype {x.dtype}": (dtype, id(x.dtype)),
            f"the flags of {x.dtype}": (flags & 0x503, x.flags.num & 0x503),
        }
        if dtype == id(x.dtype):
            checks[f"the letter of {x.dtype}"] = (_letter(dtype + offsets.char), x.dtype.char)
            checks[f"the byte order of {x.dtype}"] = (_letter(dtype + offsets.byteorder), x.dtype.byteorder)
        is_block = strides == shape + 8 * x.ndim  # NumPy allocates both together: only then is it safe to follow them
        checks |= {
            f"the shape of {x.dtype}": (is_block and _longs(shape, x.ndim), list(x.shape)),
            f"the strides of {x.dtype}": (is_block and _longs(strides, x.ndim), list(x.strides)),
        }
    return [name for name, (read, expected) in checks.items() if read != expected]


def _word(value: Any, offset: int) -> int:
    return ctypes.c_ssize_t.from_address(id(value) + offset).value


def _letter(address: int) -> str:
    return chr(ctypes.c_uint8.from_address(address).value)


def _longs(address: int, count: int) -> list[int]:
    return list((ctypes.c_int64 * count).from_address(address))


@cache
def abi() -> str:
    """Return the binary interface of this interpreter, its platform and NumPy, as the name of a folder."""
    from llvmlite import binding as llvm

    core = importlib.import_module("numpy._core" if hasattr(np, "_core") else "numpy.core")  # NumPy 2 or 1
    python = EXTENSION_SUFFIXES[0].split(".")[1]  # differs for debug and free-threaded builds
    machine = llvm.get_process_triple().split("-")[0]
    platform = python if machine in python else f"{python}-{machine}"
    return f"{platform}-numpy{core._multiarray_umath._get_ndarray_c_version():x}"


class Baseline(NamedTuple):
    """A processor that shipped code is compiled for, and the features that it needs."""

    name: str  # as LLVM calls it
    features: frozenset[str]


_V2 = frozenset(["cx16", "popcnt", "sse3", "sse4.1", "sse4.2", "ssse3"])
_V3 = _V2 | {"avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe"}
#: By machine, the best first.
_BASELINES = {
    "x86_64": (Baseline("x86-64-v3", _V3), Baseline("x86-64-v2", _V2)),
    "aarch64": (Baseline("generic", frozenset()),),
    "arm64": (Baseline("apple-m1" if sys.platform == "darwin" else "generic", frozenset()),),
}


@cache
def baselines(all_of_them: bool = False) -> tuple[str, ...]:
    """Return the baselines of this kind of machine that this processor supports (or all of them), best first."""
    from llvmlite import binding as llvm

    features = llvm.get_host_cpu_features()
    supported = _BASELINES.get(llvm.get_process_triple().split("-")[0], ())
    return tuple(b.name for b in supported if all_of_them or all(features.get(name) for name in b.features))


@cache
def native() -> str:
    """Return the processor of this machine with all its features."""
    from llvmlite import binding as llvm

    return f"{llvm.get_process_triple()} {llvm.get_host_cpu_name()} {llvm.get_host_cpu_features().flatten()}"
