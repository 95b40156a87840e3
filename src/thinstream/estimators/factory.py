"""Estimator classes made from the declarations of the rules: a new rule needs nothing here."""

import importlib
import inspect
from functools import cache
from typing import Any

from thinstream import BATCH_METHODS
from thinstream.engine.rule import Algorithm
from thinstream.errors import UnknownNameError
from thinstream.estimators.classifier import COMMON_PARAMETERS, OnlineClassifier
from thinstream.learners import find


def make(name: str, **parameters: Any) -> Any:
    """An estimator by the name of its algorithm or batch method, in any case.

    >>> make("ssol", eta=0.5)
    SSOL(eta=0.5)
    """
    batch = next((known for known in BATCH_METHODS if known.lower() == name.lower()), None)
    if batch is not None:
        return getattr(importlib.import_module(BATCH_METHODS[batch]), batch)(**parameters)
    return estimator(name)(**parameters)


def estimator(name: str) -> type[OnlineClassifier]:
    """The estimator class of an algorithm."""
    return _estimator(find(name))


def named(name: str) -> type[OnlineClassifier] | None:
    """The estimator class spelt exactly so, or None."""
    try:
        algorithm = find(name)
    except UnknownNameError:
        return None
    return _estimator(algorithm) if algorithm.name == name else None


@cache
def _estimator(algorithm: Algorithm) -> type[OnlineClassifier]:
    defaults = {parameter.name: parameter.default for parameter in algorithm.parameters} | COMMON_PARAMETERS
    signature = inspect.Signature(
        [inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)]
        + [inspect.Parameter(n, inspect.Parameter.KEYWORD_ONLY, default=v) for n, v in defaults.items()]
    )

    def __init__(self: OnlineClassifier, *positional: Any, **given: Any) -> None:
        if positional:
            first = next(iter(defaults))
            raise TypeError(f"{algorithm.name} takes keywords only: {algorithm.name}({first}={positional[0]!r}), say")
        for parameter in given:
            if parameter not in defaults:
                raise TypeError(f"{algorithm.name} has no parameter {parameter!r}; it has {', '.join(defaults)}")
        for parameter, default in defaults.items():
            setattr(self, parameter, given.get(parameter, default))

    __init__.__signature__ = signature  # type: ignore[attr-defined]
    return type(
        algorithm.name,
        (OnlineClassifier,),
        {
            "__init__": __init__,
            "__doc__": _documentation(algorithm),
            "__module__": "thinstream",  # where it is found, also by pickle
            "_algorithm": algorithm.name,
            "_own_parameters": tuple(parameter.name for parameter in algorithm.parameters),
        },
    )


def _documentation(algorithm: Algorithm) -> str:
    """The rule's docstring with the common parameters after its own."""
    own = inspect.getdoc(algorithm.rule) or ""
    common = inspect.getdoc(OnlineClassifier) or ""
    shared = common[common.index("Parameters\n") : common.index("Attributes\n")].split("----------\n", 1)[1].strip("\n")
    attributes = common[common.index("Attributes\n") :].strip("\n")
    head, _, examples = own.partition("Examples\n--------")
    if "Parameters\n----------" not in head:
        head = head.rstrip("\n") + "\n\nParameters\n----------\n"
    return f"{head.rstrip()}\n{shared}\n\n{attributes}\n\nExamples\n--------{examples}\n"
