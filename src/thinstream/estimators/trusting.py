"""What fitted estimators are made of, for readers that ask whom to trust."""

import importlib
import pkgutil
import sys
from collections.abc import Iterator
from functools import cache
from types import ModuleType

from thinstream.learners.registry import algorithms

#: Where their parts are declared.
_PLACES = (
    "estimators.algorithms",
    "models.model",
    "budget",
    "blend",
    "compact",
    "preparing",
    "growing",
    "one_vs_rest",
    "lanes",
    "batch_learners",
    "learners",
    "rules",
    "engine",
    "spelling",
)


@cache
def trusted_types() -> list[str]:
    """Names of the types that fitted estimators of this package consist of, for `skops.io.load`.

    skops runs no code out of a file, and makes objects only of types that it is told to trust: these are the classes of
    this package that models hold, and numpy's description of a type of numbers.

    Examples
    --------
    >>> types = trusted_types()
    >>> {"thinstream.estimators.algorithms.AROW", "thinstream.models.model.Model", "numpy.dtype"} <= set(types)
    True

    """
    found = {"numpy.dtype"}
    for algorithm in algorithms():
        found.add(f"thinstream.estimators.algorithms.{algorithm.name}")
        if algorithm.forgetting is not None:  # derived, so that no module has it under its name, where skops looks
            rule = algorithm.forgetting.rule
            setattr(sys.modules[rule.__module__], rule.__name__, rule)
    for module in _modules():
        own = (each for each in vars(module).values() if isinstance(each, type))
        found |= {f"{module.__name__}.{each.__name__}" for each in own if each.__module__ == module.__name__}
    return sorted(found | {"thinstream.estimators.algorithms.Auto"})


def _modules() -> Iterator[ModuleType]:
    for place in _PLACES:
        module = importlib.import_module(f"thinstream.{place}")
        yield module
        for each in pkgutil.walk_packages(getattr(module, "__path__", ()), f"{module.__name__}."):
            yield importlib.import_module(each.name)
