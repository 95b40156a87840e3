"""The algorithms: online ones, batch ones, and the registry that finds them by name."""

import sys
from types import ModuleType
from typing import Any, Literal


class _CallablePackage(ModuleType):
    """The package of algorithms. Calling it lists them, because ``thinstream.algorithms()`` has its name."""

    def __call__(self, kind: Literal["all", "online", "batch"] = "all") -> tuple[Any, ...]:
        from thinstream.algorithms.registry import algorithms

        return algorithms(kind)


sys.modules[__name__].__class__ = _CallablePackage
