"""Allowed values of parameters: declared in the annotations of a rule, checked, and shown in help texts.

A rule's fields are its parameters. The annotation determines how the public value (a number, a name, None) becomes the
value the compiled rule sees: a float, an integer code, or an empty tuple whose *type* selects code at compile time.
"""

import math
import numbers
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple, Protocol, get_args, get_type_hints

import numpy as np
from numpy.typing import NDArray

from thinstream.errors import InvalidParameterError, listed


class Constraint(Protocol):
    """Converts a public value to the value of the rule, or raises, and back."""

    def encode(self, value: Any) -> Any: ...

    def decode(self, value: Any) -> Any: ...

    def allowed(self) -> str: ...


@dataclass(frozen=True)
class Interval:
    """A finite number above (or at) a lower end. If None is allowed, the rule sees ``none`` for it."""

    low: float = 0.0
    closed: bool = False
    whole: bool = False
    high: float = math.inf
    none: float | None = None

    def encode(self, value: Any) -> float:
        if value is None and self.none is not None:
            return self.none
        if isinstance(value, bool) or not isinstance(value, numbers.Integral if self.whole else numbers.Real):
            raise TypeError
        try:
            number = float(value)
        except OverflowError:  # a whole number of more than a thousand bits
            raise ValueError from None
        above = self.low <= number if self.closed else self.low < number
        if not (above and number <= self.high and math.isfinite(number)):
            raise ValueError
        return int(number) if self.whole else number

    def holds(self, numbers: NDArray[np.float64]) -> bool:
        """Return whether `encode` would accept all of these."""
        above = numbers >= self.low if self.closed else numbers > self.low
        return bool(np.all(above & (numbers <= self.high) & np.isfinite(numbers)))

    def decode(self, value: Any) -> Any:
        return None if self.none is not None and value == self.none else value

    def allowed(self) -> str:
        noun = "a whole number" if self.whole else "a number"
        ends = f"{'≥' if self.closed else '>'} {self.low:g}"
        ends += f" and ≤ {self.high:g}" if self.high < math.inf else ""
        return f"{noun} {ends}" + (", or None" if self.none is not None else "")


class OneOf:
    """One of a few names. The rule sees its code: an integer, or an empty tuple whose type selects code."""

    def __init__(self, **choices: Any) -> None:
        self.choices = choices

    def encode(self, value: Any) -> Any:
        if not isinstance(value, str):
            raise TypeError
        if value not in self.choices:
            raise ValueError
        return self.choices[value]

    def decode(self, value: Any) -> str:
        # all empty tuples are equal, so compare types as well
        return next(n for n, v in self.choices.items() if v == value and type(v) is type(value))

    def allowed(self) -> str:
        return listed(self.choices)


class WholeNumbers:
    """A sequence of whole numbers, or None."""

    def encode(self, value: Any) -> NDArray[np.int64] | None:
        if value is None:
            return None
        array = np.asarray(value)
        if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
            raise ValueError
        return array.astype(np.int64)

    def decode(self, value: Any) -> Any:
        return value

    def allowed(self) -> str:
        return "a sequence of whole numbers, or None"


Positive = Annotated[float, Interval()]
NonNegative = Annotated[float, Interval(closed=True)]
Count = Annotated[int, Interval(low=1, closed=True, whole=True)]
CountOrNone = Annotated[int, Interval(low=1, closed=True, whole=True, none=0)]


class Parameter(NamedTuple):
    """One public parameter of an algorithm."""

    name: str
    default: Any
    constraint: Constraint

    def encode(self, value: Any, owner: str) -> Any:
        """Return the rule's value of a public one, or raise with the allowed values."""
        try:
            return self.constraint.encode(value)
        except (TypeError, ValueError):
            raise InvalidParameterError(
                f"{owner}: {self.name} must be {self.constraint.allowed()}, got {value!r}"
            ) from None


def parameters_of(record: Any) -> tuple[Parameter, ...]:
    """Return the public parameters that a rule's fields declare, in order."""
    parameters = []
    for name, hint in get_type_hints(record, include_extras=True).items():
        constraint = next(extra for extra in get_args(hint)[1:] if hasattr(extra, "encode"))
        parameters.append(Parameter(name, constraint.decode(record._field_defaults[name]), constraint))
    return tuple(parameters)
