"""Numbers as text that reads back to the same bits."""

from typing import Any

import numpy as np
from numpy.typing import NDArray


def decimals(numbers: NDArray[Any]) -> list[str]:
    """The shortest decimal of each finite number that gives its bits again, also to readers that know doubles only.

    >>> decimals(np.array([0.1, -2.0, 1e-10], dtype=np.float32))
    ['0.1', '-2.0', '1e-10']
    """
    shown = numbers.astype(np.str_)
    # most readers go through a double; rounded twice, a few decimals become the neighbouring float32
    twice = shown.astype(np.float64).astype(numbers.dtype)
    found: list[str] = shown.tolist()
    for k in np.flatnonzero(twice != numbers):
        found[k] = repr(float(numbers[k]))
    return found


def decimal(number: float, dtype: np.dtype[Any]) -> str:
    """That of one number in the precision of a model.

    >>> decimal(float(np.float32(0.1)), np.dtype("float32"))
    '0.1'
    """
    return decimals(np.array([number], dtype=dtype))[0]


def hexadecimals(numbers: NDArray[Any]) -> list[str]:
    """Hexadecimal constants of C99, which keep all bits.

    >>> hexadecimals(np.array([0.1, 1.0, 0.0], dtype=np.float32))
    ['0x1.99999ap-4f', '0x1p+0f', '0x0p+0f']
    """
    suffix = "f" if numbers.dtype == np.float32 else ""
    found = []
    for number in numbers.tolist():
        mantissa, exponent = number.hex().split("p")
        found.append(f"{mantissa.rstrip('0').rstrip('.') if '.' in mantissa else mantissa}p{exponent}{suffix}")
    return found
