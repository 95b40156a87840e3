"""Estimator classes made from the declarations of the rules: a new rule needs nothing here."""

import inspect
import re
from functools import cache
from typing import Any

from thinstream.batch_learners.base import BatchLearner
from thinstream.batch_learners.buffered import BufferedLearner
from thinstream.batch_learners.repeating import RepeatingLearner
from thinstream.engine.rule import Algorithm
from thinstream.errors import UnknownNameError
from thinstream.estimators.batch_base import BatchClassifier, Selecting
from thinstream.estimators.buffered import BufferedClassifier
from thinstream.estimators.classifier import COMMON_PARAMETERS, OnlineClassifier
from thinstream.estimators.repeating import RepeatingClassifier, found_attribute
from thinstream.learners.registry import find

#: Which estimator a batch learner gets, by the first kind that it is.
_FACES: tuple[tuple[type[BatchLearner], type[BatchClassifier]], ...] = (
    (BufferedLearner, BufferedClassifier),
    (RepeatingLearner, RepeatingClassifier),
    (BatchLearner, BatchClassifier),
)


def make(name: str, **parameters: Any) -> Any:
    """An estimator by the name of its algorithm, online or batch, in any case.

    >>> make("ssol", eta=0.5)
    SSOL(eta=0.5)
    """
    return named(find(name).name)(**parameters)


def estimator(name: str) -> type[OnlineClassifier]:
    """The estimator class of an algorithm that learns online."""
    return _estimator(find(name))


def batch_estimator(name: str) -> type[BatchClassifier]:
    """The estimator class of an algorithm that learns in batches."""
    return _batch_estimator(find(name))


def named(name: str) -> Any:
    """The estimator class spelt exactly so, or None."""
    try:
        algorithm = find(name)
    except UnknownNameError:
        return None
    if algorithm.name != name:
        return None
    return _batch_estimator(algorithm) if algorithm.kind == "batch" else _estimator(algorithm)


@cache
def _estimator(algorithm: Algorithm) -> type[OnlineClassifier]:
    own = {"_algorithm": algorithm.name, "_own_parameters": tuple(p.name for p in algorithm.parameters)}
    made: type[OnlineClassifier] = _made(algorithm, (OnlineClassifier,), COMMON_PARAMETERS, own)
    return made


@cache
def _batch_estimator(algorithm: Algorithm) -> type[BatchClassifier]:
    learner = algorithm.learner
    base = next(face for kind, face in _FACES if issubclass(learner, kind))
    bases = (Selecting, base) if learner.selects else (base,)
    names = (*base._common, "random_state") if getattr(learner, "draws", False) else base._common
    own = {f"{name}_": found_attribute(name) for name in getattr(learner, "attributes", {})}
    common = {name: COMMON_PARAMETERS[name] for name in names}
    made: type[BatchClassifier] = _made(algorithm, bases, common, {"_declared": algorithm, "_common": names, **own})
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
            "__doc__": _documentation(algorithm, bases[-1], common),
            "__module__": "thinstream",  # where it is found, also by pickle
            **own,
        },
    )


def _documentation(algorithm: Any, base: type, names: dict[str, Any]) -> str:
    """The rule's docstring with the common parameters after its own, and its own attributes after the common ones."""
    own = inspect.getdoc(algorithm.rule) or ""
    common = inspect.getdoc(base) or ""
    section = common[common.index("Parameters\n") : common.index("Attributes\n")].split("----------\n", 1)[1]
    entries = re.split(r"^(?=\w+ : )", section.strip("\n"), flags=re.MULTILINE)
    shared = "".join(entry for entry in entries if entry.split(" : ")[0] in names).rstrip("\n")
    attributes = common[common.index("Attributes\n") :].strip("\n")
    head, _, examples = own.partition("Examples\n--------")
    head, _, found = head.partition("Attributes\n----------\n")
    attributes += f"\n{found.strip()}" if found else ""
    if "Parameters\n----------" not in head:
        head = head.rstrip("\n") + "\n\nParameters\n----------\n"
    return f"{head.rstrip()}\n{shared}\n\n{attributes}\n\nExamples\n--------{examples}\n"
