"""What code depends on beside the types of arguments: sources, versions, the processor."""

import hashlib
import importlib.util
import os
import sys
from functools import cache
from pathlib import Path

from thinstream.jit.keeping import PACKAGE

#: Modules of this package that decide what code is like.
_COMPILER = ("allocating", "compiling", "declaring", "entry", "kinds")
#: Settings of numba that do not change the code it makes.
_IMMATERIAL = ("NUMBA_CACHE_DIR", "NUMBA_NUM_THREADS", "NUMBA_DISABLE_JIT")


def sources_of(modules: tuple[str, ...]) -> str | None:
    """A digest of these modules, the engine and what compiles them; None where one has no file (a notebook's)."""
    files = [_file_of(module) for module in modules]
    if None in files:
        return None
    shared = {*(PACKAGE / "engine").glob("*.py"), *((PACKAGE / "jit" / f"{name}.py") for name in _COMPILER)}
    found = hashlib.sha256()
    for file in sorted(shared.union(file for file in files if file)):
        found.update(_digest(file))
    return found.hexdigest()


@cache
def _digest(file: Path) -> bytes:
    return hashlib.sha256(file.read_bytes()).digest()


def _file_of(module: str) -> Path | None:
    """The file a module's code is in, or None (a notebook, a zip archive)."""
    try:
        spec = importlib.util.find_spec(module)
    except (ImportError, ValueError):
        return None
    file = Path(spec.origin) if spec is not None and spec.origin else None
    return file if file is not None and file.is_file() else None


@cache
def surroundings() -> str:
    """Versions, settings and the processor, as text."""
    import llvmlite
    import numpy as np

    from thinstream.jit.loading import processor

    layouts = object.__basicsize__, tuple.__basicsize__
    settings = sorted(s for s in os.environ.items() if s[0].startswith("NUMBA_") and s[0] not in _IMMATERIAL)
    versions = sys.implementation.cache_tag, np.__version__, llvmlite.__version__, _numba_version()
    return f"{layouts} {settings} {versions} {processor()}"


def _numba_version() -> str:
    """The version of numba, or rather what stands in the file that says it: importing numba would take long."""
    file = _file_of("numba")
    if file is not None and (file := file.with_name("_version.py")).is_file():
        return _digest(file).hex()
    from importlib.metadata import version

    return version("numba")
