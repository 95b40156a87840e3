"""Arguments as compiled code tells them apart: by types, dtypes and layouts, never by values."""

from collections.abc import Iterator
from typing import Any

import numpy as np


def kind_of(value: Any) -> str:
    """All that machine code for this argument depends on, as text.

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
    """In memory C, F or neither (``-``); A: aligned; W: writeable."""
    flags = array.flags
    order = "C" if flags.c_contiguous else "F" if flags.f_contiguous else "-"
    return order + ("A" if flags.aligned else "") + ("W" if flags.writeable else "")


def types_in(values: tuple[Any, ...]) -> Iterator[type]:
    """The types of all values, each tuple's before those of what is in it."""
    for value in values:
        yield type(value)
        if isinstance(value, tuple):
            yield from types_in(value)
