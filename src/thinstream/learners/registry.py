"""Algorithms by name, and their learners: those that learn online (rules/) and in batches (batch_learners/).

The file of an algorithm is named after it, in lower case, so that one can be found without loading the others.
"""

import importlib
import importlib.util
import pkgutil
from collections.abc import Mapping
from functools import cache
from typing import Any

from thinstream.engine.forgetting import HALF_LIFE, require_forgettable
from thinstream.engine.parameters import Parameter
from thinstream.engine.rule import REGISTRY, Algorithm
from thinstream.errors import InvalidParameterError, UnknownNameError, listed, meant, near

#: Where the algorithms of each kind are.
PACKAGES = {"online": "thinstream.rules", "batch": "thinstream.batch_learners"}
KINDS = ("all", *PACKAGES)
#: Where what is made of several algorithms is: found by its name, and none of those listed.
BLENDS = "thinstream.blend"
#: What others call values of parameters, and what they are called here.
ELSEWHERE = {"log_loss": "logistic", "log": "logistic"}


def algorithms(kind: str = "all") -> tuple[Algorithm, ...]:
    """Algorithms, sorted by name, with paper, parameters and summary: all, those that learn online, or in batches.

    >>> [a.name for a in algorithms()][:3]
    ['AdaFOBOS', 'AdaRDA', 'ARCSOGD']
    >>> [a.name for a in algorithms("batch")]
    ['BCW', 'FGM', 'GraDes', 'SBCW', 'SCD', 'SparDCA']
    """
    if kind not in KINDS:
        raise InvalidParameterError(f"algorithms: kind must be {listed(KINDS)}, got {kind!r}")
    for each in PACKAGES if kind == "all" else (kind,):
        _load_all(PACKAGES[each])
    wanted = tuple(PACKAGES) if kind == "all" else (kind,)
    return tuple(REGISTRY[name] for name in sorted(REGISTRY) if REGISTRY[name].kind in wanted)


def find(name: str) -> Algorithm:
    """The algorithm of that name, in any case.

    >>> find("ssol").paper, find("bcw").kind
    ('P0 Alg. 5, 7', 'batch')
    """
    key = name.lower()
    if key not in REGISTRY:
        _load(key)
    if key not in REGISTRY:
        raise UnknownNameError(
            f"no algorithm is called {name!r}; {meant(name, [algorithm.name for algorithm in algorithms()])}"
        )
    return REGISTRY[key]


def rule_of(algorithm: Algorithm, parameters: dict[str, Any]) -> Any:
    """The rule with these public parameters, each checked; the others at their defaults."""
    algorithm = REGISTRY[algorithm.name.lower()]
    known = {parameter.name: parameter for parameter in algorithm.parameters}
    for name in parameters:
        if name not in known:
            raise InvalidParameterError(unknown_parameter(algorithm.name, name, listed(known) if known else ""))
    given = {name: _encoded(known[name], value, algorithm.name) for name, value in parameters.items()}
    if not given.pop(HALF_LIFE, 0.0):
        return algorithm.rule(**given)
    rule = algorithm.forgetting.rule(**given, half_life=float(parameters[HALF_LIFE]))
    require_forgettable(rule, algorithm.name)
    return rule


def _encoded(parameter: Parameter, value: Any, owner: str) -> Any:
    try:
        return parameter.encode(value, owner)
    except InvalidParameterError as error:
        ours = ELSEWHERE.get(value) if isinstance(value, str) else None
        if ours is None or repr(ours) not in parameter.constraint.allowed():
            raise
        raise InvalidParameterError(f"{error}; scikit-learn's {value!r} is {ours!r} here") from None


def described_by(algorithm: Algorithm, parameters: dict[str, Any]) -> dict[str, Any]:
    """All public parameters, those that are not given at their defaults; a half-life only where there is one.

    Models that forget nothing, and their files, are described as they were before any could.
    """
    found = {parameter.name: parameters.get(parameter.name, parameter.default) for parameter in algorithm.parameters}
    return {name: value for name, value in found.items() if name != HALF_LIFE or value is not None}


def unknown_parameter(algorithm: str, name: str, known: str) -> str:
    """What to say of a parameter that an algorithm does not have.

    >>> unknown_parameter("SOP", "half_life", "a")
    "SOP has no parameter 'half_life': it cannot forget; AdaRDA, AROW, CW, FSOL, NAROW, RDA, SCW and SSOL can"
    """
    if name == HALF_LIFE:
        able = [each.name for each in algorithms("online") if each.forgetting is not None]
        return f"{algorithm} has no parameter {name!r}: it cannot forget; {', '.join(able[:-1])} and {able[-1]} can"
    return f"{algorithm} has no parameter {name!r}; it has {known or 'none'}{near(name, known.split(', '), '; ')}"


def make_learner(algorithm: str, *, n_features: int, parameters: Mapping[str, Any] | None = None, **more: Any) -> Any:
    """A learner of any algorithm; ``more`` is what `Learner` takes, and further parameters of the algorithm.

    >>> type(make_learner("arow", n_features=2)).__name__
    'Learner'
    >>> type(make_learner("arow", n_features=2, covariance="full")).__name__
    'FullLearner'
    >>> type(make_learner("sbcw", n_features=9, parameters={"n_features": 3})).__name__
    'SBCWLearner'
    """
    from thinstream.learners.full import FullLearner  # which needs this module
    from thinstream.learners.learner import Learner

    declared, given = find(algorithm), dict(parameters or {})
    known = [parameter.name for parameter in declared.parameters]
    for name in given:
        if name not in known:
            raise InvalidParameterError(unknown_parameter(declared.name, name, listed(known) if known else ""))
    if declared.learner is not None:
        return declared.learner(width=n_features, **more, **given)
    kind = FullLearner if {**more, **given}.get("covariance") == "full" else Learner
    return kind(algorithm, n_features=n_features, **more, **given)


def make_learner_like(learner: Any, **changes: Any) -> Any:
    """A learner of the same algorithm, parameters and options that has seen nothing, but for the given changes."""
    options = {"n_features": learner.n_features, "costs": learner.costs, "dtype": learner.dtype.name}
    options |= {"fit_intercept": bool(learner.offset), **changes}
    return make_learner(learner.algorithm.name, parameters=learner.parameters, **options)


def _load(key: str) -> None:
    """Imports the file of an algorithm, which declares it, if there is one."""
    for package in (*PACKAGES.values(), BLENDS):
        if key.isidentifier() and importlib.util.find_spec(f"{package}.{key}") is not None:
            importlib.import_module(f"{package}.{key}")
            return


@cache
def _load_all(package: str) -> None:
    for module in pkgutil.iter_modules(importlib.import_module(package).__path__):
        importlib.import_module(f"{package}.{module.name}")
