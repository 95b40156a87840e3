"""What the papers search: learning rates from 2^-1 to 2^9, other parameters from 2^-5 to 2^5 (P0, section 5.1)."""

from thinstream.errors import InvalidParameterError
from thinstream.learners import find

FOLDS = 5
RATES, OTHERS = ("eta",), ("r", "C", "gamma", "delta", "b")
#: Of algorithms that have none of these.
INSTEAD = ("phi", "a")


def paper_grid(algorithm: str) -> dict[str, list[float]]:
    """The papers' values of what an algorithm has to tune besides l1.

    >>> paper_grid("pa")
    {'C': [0.03125, 0.0625, 0.125, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0]}
    """
    found = find(algorithm)
    names = [parameter.name for parameter in found.parameters]
    space = {name: _powers(-1, 9) if name in RATES else _powers(-5, 5) for name in names if name in RATES + OTHERS}
    if not space:
        space = {name: _powers(-5, 5) for name in INSTEAD if name in names}
    if not space:
        raise InvalidParameterError(f"{found.name} has nothing to tune; name a grid, of class_weight, say")
    return space


def _powers(first: int, last: int) -> list[float]:
    return [2.0**e for e in range(first, last + 1)]
