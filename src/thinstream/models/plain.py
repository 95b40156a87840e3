"""Values as JSON has them, and back the same."""

import math
import numbers
from typing import Any

import numpy as np

from thinstream.errors import InvalidInputError


def plain(value: Any, where: str) -> Any:
    """The value in JSON's own types: numpy's scalars become Python's, tuples lists; anything else raises.

    >>> plain({"rows": np.int64(3), "pair": (1, 2.5)}, "extra")
    {'rows': 3, 'pair': [1, 2.5]}
    """
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | str):
        return str(value) if isinstance(value, str) else value
    if isinstance(value, numbers.Integral):
        return int(value)
    if isinstance(value, numbers.Real):
        number = float(value)
        if math.isfinite(number):
            return number
    elif isinstance(value, list | tuple):
        return [plain(each, f"{where}[{i}]") for i, each in enumerate(value)]
    elif isinstance(value, dict):
        for key in value:
            if not isinstance(key, str):
                raise InvalidInputError(f"{where}: keys must be strings to be stored, got {key!r}")
        return {str(key): plain(each, f"{where}[{key!r}]") for key, each in value.items()}
    raise InvalidInputError(
        f"{where}: only strings, finite numbers, booleans, None, lists and dicts of them can be stored, got {value!r}"
    )


def label(value: Any) -> Any:
    """A class label as it is stored: a string, a finite number or a boolean, its type kept."""
    found = plain(value, "classes") if not isinstance(value, list | tuple | dict) else None
    if found is None:
        raise InvalidInputError(f"classes: labels must be strings, numbers or booleans to be stored, got {value!r}")
    return found
