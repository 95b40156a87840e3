"""Estimators made from the declarations of the algorithms (a new one needs nothing here), and from model files."""

import inspect
import linecache
import os
import re
import textwrap
import threading
from functools import cache
from typing import Any

from thinstream.batch_learners.base import BatchLearner
from thinstream.batch_learners.buffered import BufferedLearner
from thinstream.batch_learners.repeating import RepeatingLearner
from thinstream.engine.rule import Algorithm
from thinstream.errors import ModelFileError, UnknownNameError
from thinstream.estimators import algorithms as place
from thinstream.estimators.base import ModelClassifier, model_of
from thinstream.estimators.batch import (
    BatchClassifier,
    BufferedClassifier,
    RepeatingClassifier,
    Selecting,
    found_attribute,
)
from thinstream.estimators.blend import BlendClassifier, estimators_of
from thinstream.estimators.classifier import COMMON_PARAMETERS, OnlineClassifier
from thinstream.estimators.remembered import CALIBRATED, KEY, ONLY_FIT, learned_parameters
from thinstream.learners import find
from thinstream.models import Model, read, write
from thinstream.models.file import grade_of

#: Which estimator a batch learner gets, by the first kind that it is.
_FACES: tuple[tuple[type[BatchLearner], type[BatchClassifier]], ...] = (
    (BufferedLearner, BufferedClassifier),
    (RepeatingLearner, RepeatingClassifier),
    (BatchLearner, BatchClassifier),
)
_FILE: str = place.__file__
_OF_BLENDS = (*(name for name in COMMON_PARAMETERS if name != "calibrate"), "n_jobs")
_lines: list[str] = []
_writing = threading.Lock()


def make(name: str, **parameters: Any) -> Any:
    """An estimator by the name of its algorithm, online or batch, in any case.

    >>> make("ssol", eta=0.5)
    SSOL(eta=0.5)
    """
    return estimator(name)(**parameters)


def estimator(name: str) -> type[ModelClassifier]:
    """The estimator class of an algorithm, by its name in any case."""
    return _estimator(find(name))


def named(name: str) -> Any:
    """The estimator class spelt exactly so, or None."""
    try:
        algorithm = find(name)
    except UnknownNameError:
        return None
    return _estimator(algorithm) if algorithm.name == name else None


def save(model: ModelClassifier | Model, path: str | os.PathLike[str], *, weights_only: bool | None = None) -> None:
    """Writes a fitted estimator (or a `Model`) to a file, replacing it in one step.

    ``weights_only`` stores no more than predicting needs: the non-zero weights and the counters.
    None: only if there is no more, as in a thin model.

    Examples
    --------
    >>> import os, tempfile
    >>> import thinstream as ts
    >>> path = os.path.join(tempfile.mkdtemp(), "and.model")
    >>> ts.save(ts.FSOL(eta=0.5).fit([[1.0, 0.0], [0.0, 1.0]], ["no", "yes"]), path)
    >>> model = ts.load(path)
    >>> model, model.predict([[0.0, 2.0]])
    (FSOL(eta=0.5), array(['yes'], dtype='<U3'))
    >>> model = model.partial_fit([[1.0, 1.0]], ["no"])        # goes on as if it had never been stopped

    """
    saved = model if isinstance(model, Model) else model_of(model)
    write(path, saved, grade=grade_of(saved, weights_only))


def load(path: str | os.PathLike[str]) -> Any:
    """The fitted estimator of a model file, whoever wrote it: an estimator, or a run without one."""
    model = read(path)
    try:
        return estimator_of(model)
    except (ValueError, TypeError, LookupError, AttributeError) as error:
        raise ModelFileError(f"{os.fspath(path)}: is not a model this library can load: {error}") from error


def estimator_of(model: Model) -> ModelClassifier:
    """The fitted estimator of a model: the face of its algorithm, with the parameters it has learned with."""
    known = model.extra.get(KEY, {})
    face = named(known.get(CALIBRATED, model.learner.algorithm.name))
    parameters = learned_parameters(model) | {name: known[name] for name in ONLY_FIT if name in known}
    if parameters.get("portfolio") is not None:
        parameters["portfolio"] = estimators_of(parameters["portfolio"], make)
    estimator: ModelClassifier = face()
    allowed = estimator.get_params(deep=False)
    estimator.set_params(**{name: value for name, value in parameters.items() if name in allowed})
    return estimator._adopt(model)


@cache
def _estimator(algorithm: Algorithm) -> type[ModelClassifier]:
    if algorithm.kind == "online":
        return _made(algorithm, (OnlineClassifier,), tuple(COMMON_PARAMETERS), {})
    learner: Any = algorithm.learner
    if not hasattr(learner, "selects"):  # no batch learner: made of others
        return _made(algorithm, (BlendClassifier,), _OF_BLENDS, {})
    base = next(face for kind, face in _FACES if issubclass(learner, kind))
    names = (*base._common, "random_state") if getattr(learner, "draws", False) else base._common
    own = {f"{name}_": found_attribute(name) for name in getattr(learner, "attributes", {})}
    return _made(algorithm, (Selecting, base) if learner.selects else (base,), names, own)


def _made(
    algorithm: Algorithm, bases: tuple[type, ...], common: tuple[str, ...], attributes: dict[str, Any]
) -> type[ModelClassifier]:
    """The class, from source that can be looked at."""
    own = {parameter.name: parameter.default for parameter in algorithm.parameters}
    defaults = own | {name: COMMON_PARAMETERS.get(name) for name in common}
    if algorithm.kind == "batch":  # where a constant would be one of the features to choose from
        defaults["fit_intercept"] = False
    body = [
        f"class {algorithm.name}({', '.join(base.__name__ for base in bases)}):",
        textwrap.indent(f'"""{_documentation(algorithm, bases[-1], common)}"""', "    "),
        "",
        f"    def __init__(self, *, {', '.join(f'{name}={default!r}' for name, default in defaults.items())}):",
        *(f"        self.{name} = {name}" for name in defaults),
        "",
        "",
    ]
    lines = [f"{line}\n" for line in "\n".join(body).split("\n")]
    scope: dict[str, Any] = {base.__name__: base for base in bases} | {"__name__": place.__name__}
    with _writing:
        exec(compile("\n" * len(_lines) + "".join(lines), _FILE, "exec"), scope)
        _lines.extend(lines)
        linecache.cache[_FILE] = (sum(map(len, _lines)), None, _lines, _FILE)
    made: Any = scope[algorithm.name]
    made._algorithm, made._own_parameters = algorithm.name, tuple(own)
    for name, attribute in attributes.items():
        setattr(made, name, attribute)
    found: type[ModelClassifier] = made
    return found


def _documentation(algorithm: Algorithm, base: type, names: tuple[str, ...]) -> str:
    """The rule's docstring with the common parameters after its own, and its own attributes after the common ones."""
    head, _, examples = (inspect.getdoc(algorithm.rule) or "").partition("Examples\n--------")
    head, _, own = head.partition("Attributes\n----------\n")
    if "Parameters\n----------" not in head:
        head = head.rstrip("\n") + "\n\nParameters\n----------\n"
    shared = _entries(base, "Parameters")
    parameters = "\n".join([head.rstrip(), *(shared[name] for name in names)])
    attributes = "\n".join(["Attributes\n----------", *_entries(base, "Attributes").values(), own.strip()]).rstrip()
    _, title, notes = (inspect.getdoc(base) or "").partition("Notes\n")
    examples = f"Examples\n--------{examples}\n"
    text = "\n\n".join(part for part in (parameters, attributes, title + notes, examples) if part)
    return text.replace("\\", "\\\\")


def _entries(kind: Any, section: str) -> dict[str, str]:
    """What a class says in a section of its docstring, by name; where it says nothing, what its base does."""
    known = {} if kind is ModelClassifier else _entries(kind.__base__, section)
    text = (inspect.getdoc(kind) or "").partition(f"{section}\n----------\n")[2].partition("\n\n")[0]
    entries = re.split(r"^(?=\w[\w, ]* : )", text, flags=re.MULTILINE)
    return known | {entry.partition(" : ")[0]: entry.strip("\n") for entry in entries if entry}
