"""Create estimators by name, save and load them, and list their types for skops."""

import importlib
import os
import pkgutil
import sys
from collections.abc import Iterator
from functools import cache
from types import ModuleType
from typing import Any

from thinstream import batch, engine, lanes, models
from thinstream.algorithms import auto
from thinstream.algorithms import batch as batch_algorithms
from thinstream.algorithms import online as online_algorithms
from thinstream.algorithms.registry import algorithms as registered
from thinstream.algorithms.registry import find
from thinstream.data.labels import Classes, GrowingClasses
from thinstream.errors import ModelFileError, UnknownNameError
from thinstream.estimators import algorithms
from thinstream.estimators.base import CALIBRATED, KEY, ONLY_FIT, ModelClassifier, learned_parameters, model_of
from thinstream.estimators.classifier import estimators_of
from thinstream.models.file import grade_of, read, write
from thinstream.models.model import Model


def make(name: str, **parameters: Any) -> Any:
    """Return an estimator by the name of its algorithm, in upper or lower case.

    >>> make("ssol", eta=0.5)
    SSOL(eta=0.5)
    """
    return estimator(name)(**parameters)


def estimator(name: str) -> type[ModelClassifier]:
    """Return the estimator class of an algorithm by its name, in upper or lower case."""
    return _class(find(name).name)


def named(name: str) -> type[ModelClassifier] | None:
    """Return the estimator class with exactly this name, or None.

    >>> named("FSOL").__name__, named("fsol")
    ('FSOL', None)
    """
    if name in algorithms.__all__:
        return _class(name)
    try:
        algorithm = find(name)
    except UnknownNameError:
        return None
    return _class(name) if algorithm.name == name else None


def _class(name: str) -> type[ModelClassifier]:
    made: type[ModelClassifier] | None = getattr(algorithms, name, None)
    if made is None:
        raise UnknownNameError(f"{algorithms.__name__} has no class {name}. Run `make docs` to generate it")
    return made


def save(model: ModelClassifier | Model, path: str | os.PathLike[str], *, weights_only: bool | None = None) -> None:
    """Save a fitted estimator (or a `Model`) to a file, which is replaced atomically.

    ``weights_only=True`` saves only what prediction needs: the non-zero weights and the counters. None saves the full
    state if the model has it. Thin models have only weights.

    Examples
    --------
    >>> import os, tempfile
    >>> import thinstream as ts
    >>> path = os.path.join(tempfile.mkdtemp(), "and.model")
    >>> ts.save(ts.FSOL(eta=0.5).fit([[1.0, 0.0], [0.0, 1.0]], ["no", "yes"]), path)
    >>> model = ts.load(path)
    >>> model, model.predict([[0.0, 2.0]])
    (FSOL(eta=0.5), array(['yes'], dtype='<U3'))
    >>> model = model.partial_fit([[1.0, 1.0]], ["no"])        # the same result as without saving and loading

    """
    saved = model if isinstance(model, Model) else model_of(model)
    write(path, saved, grade=grade_of(saved, weights_only))


def load(path: str | os.PathLike[str]) -> Any:
    """Load the fitted estimator of a model file, which an estimator or the command line has saved."""
    model = read(path)
    try:
        return estimator_of(model)
    except (ValueError, TypeError, LookupError, AttributeError) as error:
        raise ModelFileError(f"{os.fspath(path)}: is not a model that this version can load: {error}") from error


def estimator_of(model: Model) -> ModelClassifier:
    """Return the fitted estimator of a model, with the parameters of its training."""
    stored = model.extra.get(KEY, {})
    new = estimator(stored.get(CALIBRATED, model.learner.algorithm.name))()
    parameters = learned_parameters(model) | {name: stored[name] for name in ONLY_FIT if name in stored}
    if parameters.get("portfolio") is not None:
        parameters["portfolio"] = estimators_of(parameters["portfolio"], make)
    allowed = new.get_params(deep=False)
    new.set_params(**{name: value for name, value in parameters.items() if name in allowed})
    return new._adopt(model)


#: Modules and packages that define the types of fitted estimators.
_PARTS: tuple[ModuleType, ...] = (algorithms, models, lanes, auto, online_algorithms, batch_algorithms, engine, batch)


@cache
def trusted_types() -> list[str]:
    """Return the names of the types in fitted estimators, to pass to `skops.io.load`.

    skops never runs code from a file, and creates only objects of trusted types. For fitted estimators, these are
    classes of this package and ``numpy.dtype``.

    Examples
    --------
    >>> types = trusted_types()
    >>> {"thinstream.estimators.algorithms.AROW", "thinstream.models.model.Model", "numpy.dtype"} <= set(types)
    True

    """
    names = {"numpy.dtype", *(f"{label.__module__}.{label.__name__}" for label in (Classes, GrowingClasses))}
    for algorithm in registered():
        if algorithm.forgetting is not None:  # a derived rule, which skops looks for by name in its module
            rule = algorithm.forgetting.rule
            setattr(sys.modules[rule.__module__], rule.__name__, rule)
    for module in _modules():
        own = (member for member in vars(module).values() if isinstance(member, type))
        names |= {f"{module.__name__}.{member.__name__}" for member in own if member.__module__ == module.__name__}
    return sorted(names)


def _modules() -> Iterator[ModuleType]:
    """Yield the modules of fitted estimators, those inside packages included."""
    for part in _PARTS:
        yield part
        for module in pkgutil.walk_packages(getattr(part, "__path__", ()), f"{part.__name__}."):
            yield importlib.import_module(module.name)
