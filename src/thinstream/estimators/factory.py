"""Estimator classes made from the declarations of the rules: a new rule needs nothing here."""

import importlib
import inspect
from functools import cache
from typing import Any

from thinstream import BATCH_METHODS
from thinstream.batch_learners import BatchAlgorithm, find, find_batch
from thinstream.batch_learners.base import BufferedLearner
from thinstream.engine.rule import Algorithm
from thinstream.errors import UnknownNameError
from thinstream.estimators.batch_base import BatchClassifier, Selecting
from thinstream.estimators.buffered import BufferedClassifier
from thinstream.estimators.classifier import COMMON_PARAMETERS, OnlineClassifier


def make(name: str, **parameters: Any) -> Any:
    """An estimator by the name of its algorithm or batch method, in any case.

    >>> make("ssol", eta=0.5)
    SSOL(eta=0.5)
    """
    solved = next((known for known in BATCH_METHODS if known.lower() == name.lower()), None)
    if solved is not None:
        return getattr(importlib.import_module(BATCH_METHODS[solved]), solved)(**parameters)
    return named(find(name).name)(**parameters)


def estimator(name: str) -> type[OnlineClassifier]:
    """The estimator class of an algorithm that learns online."""
    from thinstream import learners

    return _estimator(learners.find(name))


def batch_estimator(name: str) -> type[BatchClassifier]:
    """The estimator class of an algorithm that learns in batches."""
    found = find_batch(name)
    if found is None:
        raise UnknownNameError(f"no batch algorithm is called {name!r}")
    return _batch_estimator(found)


def named(name: str) -> Any:
    """The estimator class spelt exactly so, or None."""
    try:
        algorithm = find(name)
    except UnknownNameError:
        return None
    if algorithm.name != name:
        return None
    return _batch_estimator(algorithm) if isinstance(algorithm, BatchAlgorithm) else _estimator(algorithm)


@cache
def _estimator(algorithm: Algorithm) -> type[OnlineClassifier]:
    own = {"_algorithm": algorithm.name, "_own_parameters": tuple(p.name for p in algorithm.parameters)}
    made: type[OnlineClassifier] = _made(algorithm, (OnlineClassifier,), COMMON_PARAMETERS, own)
    return made


@cache
def _batch_estimator(algorithm: BatchAlgorithm) -> type[BatchClassifier]:
    base = BufferedClassifier if issubclass(algorithm.learner, BufferedLearner) else BatchClassifier
    bases = (Selecting, base) if algorithm.learner.selects else (base,)
    common = {name: COMMON_PARAMETERS[name] for name in base._common}
    made: type[BatchClassifier] = _made(algorithm, bases, common, {"_declared": algorithm})
    return made


def _made(algorithm: Any, bases: tuple[type, ...], common: dict[str, Any], own: dict[str, Any]) -> Any:
    defaults = {parameter.name: parameter.default for parameter in algorithm.parameters} | common
    signature = inspect.Signature(
        [inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)]
        + [inspect.Parameter(n, inspect.Parameter.KEYWORD_ONLY, default=v) for n, v in defaults.items()]
    )

    def __init__(self: Any, *positional: Any, **given: Any) -> None:
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
        bases,
        {
            "__init__": __init__,
            "__doc__": _documentation(algorithm, bases[-1]),
            "__module__": "thinstream",  # where it is found, also by pickle
            **own,
        },
    )


def _documentation(algorithm: Any, base: type) -> str:
    """The rule's docstring with the common parameters after its own."""
    own = inspect.getdoc(algorithm.rule) or ""
    common = inspect.getdoc(base) or ""
    shared = common[common.index("Parameters\n") : common.index("Attributes\n")].split("----------\n", 1)[1].strip("\n")
    attributes = common[common.index("Attributes\n") :].strip("\n")
    head, _, examples = own.partition("Examples\n--------")
    if "Parameters\n----------" not in head:
        head = head.rstrip("\n") + "\n\nParameters\n----------\n"
    return f"{head.rstrip()}\n{shared}\n\n{attributes}\n\nExamples\n--------{examples}\n"
