"""Compiled functions: numba is the compiler, object code what it makes, and none of it is needed once that is kept.

Rules, loops and parsers are plain Python functions. `Compiled` is the one door to their machine code: it finds, by the
types of the arguments, what is loaded already (`loading`), what is kept on disk (`keeping`), or has numba compile it
(`compiling`, the only part that imports numba). A function is called through a C entry that reads its arguments from
Python's objects (`entry`).

`scalar`, `compiles` and `lowers` declare what numba has to know of the functions compiled code calls; it is told only
when something has to be compiled.
"""

from thinstream.jit.compiled import INTERPRETED, Compiled, compiled, specialisations, watches
from thinstream.jit.declaring import apart, compiles, declarations, lowers, not_inlined, scalar, tell_numba

__all__ = [
    "INTERPRETED",
    "Compiled",
    "apart",
    "compiled",
    "compiles",
    "declarations",
    "lowers",
    "not_inlined",
    "scalar",
    "specialisations",
    "tell_numba",
    "watches",
]
