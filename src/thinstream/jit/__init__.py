"""Compiled functions: a wheel ships object code or numba makes it once, and later runs load it without numba.

Rules, loops and parsers are plain Python functions. `Compiled` calls their machine code. It finds code for the types of
the arguments in memory or in a file (`cache`), or numba compiles it (`compiler`, the only module that imports numba).
A function is called through a C entry that reads its arguments from Python's objects, at fixed offsets.
`compile_ahead` compiles the functions of a block in parallel processes (`ahead`, `worker`).

`scalar`, `compiles` and `lowers` declare the functions that compiled code calls. numba reads the declarations only to
compile.
"""

from thinstream.jit.ahead import compile_ahead, set_program
from thinstream.jit.compiled import INTERPRETED, Compiled, compiled, specialisations, watch_compiling
from thinstream.jit.declarations import (
    apart,
    compiles,
    declarations,
    lowers,
    not_inlined,
    register_declarations,
    scalar,
)

__all__ = [
    "INTERPRETED",
    "Compiled",
    "apart",
    "compile_ahead",
    "compiled",
    "compiles",
    "declarations",
    "lowers",
    "not_inlined",
    "register_declarations",
    "scalar",
    "set_program",
    "specialisations",
    "watch_compiling",
]
