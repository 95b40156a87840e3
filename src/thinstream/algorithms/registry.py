"""Algorithms by name: online algorithms (online/), batch algorithms (batch/), and Auto.

The file of an algorithm is named after it, in lower case, so that one can be found without loading the others.
"""

import importlib
import importlib.util
import pkgutil
from functools import cache
from types import ModuleType
from typing import Any, Literal

import thinstream.algorithms.batch
import thinstream.algorithms.online
from thinstream.engine.forgetting import HALF_LIFE, require_forgettable
from thinstream.engine.parameters import Parameter
from thinstream.engine.rule import REGISTRY, Algorithm
from thinstream.errors import InvalidParameterError, UnknownNameError, listed, meant, near

#: Packages with one module per algorithm, by kind. `algorithms` does not list blends (Auto).
PACKAGES = {"online": thinstream.algorithms.online, "batch": thinstream.algorithms.batch}
KINDS = ("all", *PACKAGES)
#: Names of parameter values in other libraries, and their names here.
ELSEWHERE = {"log_loss": "logistic", "log": "logistic"}


def algorithms(kind: Literal["all", "online", "batch"] = "all") -> tuple[Algorithm, ...]:
    """Return the algorithms, sorted by name, with paper, parameters and summary: all, only online, or only batch.

    >>> [a.name for a in algorithms()][:3]
    ['AdaFOBOS', 'AdaRDA', 'ARCSOGD']
    >>> [a.name for a in algorithms("batch")]
    ['BCW', 'FGM', 'GraDes', 'SBCW', 'SCD', 'SparDCA']
    """
    if kind not in KINDS:
        raise InvalidParameterError(f"algorithms: kind must be {listed(KINDS)}, got {kind!r}")
    wanted = tuple(PACKAGES) if kind == "all" else (kind,)
    for name in wanted:
        _load_all(PACKAGES[name])
    return tuple(REGISTRY[name] for name in sorted(REGISTRY) if REGISTRY[name].kind in wanted)


def find(name: str) -> Algorithm:
    """Return the algorithm of a name, in upper or lower case.

    >>> find("ssol").paper, find("bcw").kind
    ('P0 Alg. 5, 7', 'batch')
    """
    key = name.lower()
    if key not in REGISTRY:
        _load(key)
    if key not in REGISTRY:
        raise UnknownNameError(
            f"unknown algorithm {name!r}; {meant(name, [algorithm.name for algorithm in algorithms()])}"
        )
    return REGISTRY[key]


def rule_of(algorithm: Algorithm, parameters: dict[str, Any]) -> Any:
    """Return the rule with these public parameters, which are checked. The others have their defaults."""
    algorithm = REGISTRY[algorithm.name.lower()]
    declared = {parameter.name: parameter for parameter in algorithm.parameters}
    for name in parameters:
        if name not in declared:
            raise InvalidParameterError(unknown_parameter(algorithm.name, name, listed(declared) if declared else ""))
    encoded = {name: _encoded(declared[name], value, algorithm.name) for name, value in parameters.items()}
    if not encoded.pop(HALF_LIFE, 0.0):
        return algorithm.rule(**encoded)
    rule = algorithm.forgetting.rule(**encoded, half_life=float(parameters[HALF_LIFE]))
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
    """Return all public parameters, with defaults for those that are missing.

    A half-life is only included if it is set.
    """
    values = {parameter.name: parameters.get(parameter.name, parameter.default) for parameter in algorithm.parameters}
    return {name: value for name, value in values.items() if name != HALF_LIFE or value is not None}


def unknown_parameter(algorithm: str, name: str, allowed: str) -> str:
    """Return the error message for a parameter that an algorithm does not have.

    >>> unknown_parameter("SOP", "half_life", "a")
    "SOP has no parameter 'half_life'; AdaRDA, AROW, CW, FSOL, NAROW, RDA, SCW and SSOL have it"
    """
    if name == HALF_LIFE:
        able = [one.name for one in algorithms("online") if one.forgetting is not None]
        return f"{algorithm} has no parameter {name!r}; {', '.join(able[:-1])} and {able[-1]} have it"
    return f"{algorithm} has no parameter {name!r}; it has {allowed or 'none'}{near(name, allowed.split(', '), '; ')}"


def _load(key: str) -> None:
    """Import the module that declares an algorithm, if there is one."""
    if key == "auto":
        from thinstream.algorithms import auto  # noqa: F401 (it imports this module)

        return
    for package in PACKAGES.values():
        name = f"{package.__name__}.{key}"
        if key.isidentifier() and importlib.util.find_spec(name) is not None:
            importlib.import_module(name)
            return


@cache
def _load_all(package: ModuleType) -> None:
    for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
        importlib.import_module(module.name)
