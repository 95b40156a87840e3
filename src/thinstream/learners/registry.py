"""Finding algorithms by name."""

import difflib
from functools import cache
from typing import Any

from thinstream import rules
from thinstream.engine.rule import REGISTRY, Algorithm
from thinstream.errors import InvalidParameterError, UnknownNameError, listed


@cache
def _loaded() -> None:
    rules.load_all()


def algorithms() -> tuple[Algorithm, ...]:
    """Every algorithm, sorted by name, with its paper, parameters and summary.

    >>> [a.name for a in algorithms()][:3]
    ['AdaFOBOS', 'AdaRDA', 'ARCSOGD']
    """
    _loaded()
    return tuple(REGISTRY[name] for name in sorted(REGISTRY))


def find(name: str) -> Algorithm:
    """The algorithm of that name, in any case.

    >>> find("ssol").paper
    'P0 Alg. 5, 7'
    """
    key = name.lower()
    if key not in REGISTRY:
        rules.load(key)  # its file is named after it: the others need not be loaded
    if key not in REGISTRY:
        _loaded()
    if key not in REGISTRY:
        near = difflib.get_close_matches(key, REGISTRY, n=1)
        hint = (
            f"did you mean {REGISTRY[near[0]].name!r}?" if near else f"there are {listed(a.name for a in algorithms())}"
        )
        raise UnknownNameError(f"no algorithm is called {name!r}; {hint}")
    return REGISTRY[key]


def rule_of(algorithm: Algorithm, parameters: dict[str, Any]) -> Any:
    """The rule with these public parameters, each checked; the others at their defaults."""
    known = {parameter.name: parameter for parameter in algorithm.parameters}
    for name in parameters:
        if name not in known:
            allowed = f"it has {listed(known)}" if known else "it has none"
            raise InvalidParameterError(f"{algorithm.name} has no parameter {name!r}; {allowed}")
    return algorithm.rule(**{n: known[n].encode(value, algorithm.name) for n, value in parameters.items()})
