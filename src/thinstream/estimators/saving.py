"""Estimators to files and back."""

import os
from typing import Any

from thinstream.errors import ModelFileError
from thinstream.estimators.base import KEY, ONLY_FIT, ModelClassifier, learned_parameters, model_of
from thinstream.estimators.factory import named
from thinstream.models import Model, read, write


def save(model: ModelClassifier | Model, path: str | os.PathLike[str], *, weights_only: bool = False) -> None:
    """Writes a fitted estimator (or a `Model`) to a file, replacing it in one step.

    ``weights_only`` stores no more than predicting needs: the non-zero weights and the counters.

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
    write(path, saved, grade="weights" if weights_only else "full")


def load(path: str | os.PathLike[str]) -> Any:
    """The fitted estimator of a model file, whoever wrote it: an estimator, or a run without one."""
    model = read(path)
    try:
        return estimator_of(model)
    except (ValueError, TypeError, LookupError, AttributeError) as error:
        raise ModelFileError(f"{os.fspath(path)}: is not a model this library can load: {error}") from error


def estimator_of(model: Model) -> ModelClassifier:
    """The fitted estimator of a model: the face of its algorithm, with the parameters it has learned with."""
    face, known = named(model.learner.algorithm.name), model.extra.get(KEY, {})
    parameters = learned_parameters(model) | {name: known[name] for name in ONLY_FIT if name in known}
    estimator: ModelClassifier = face()
    allowed = estimator.get_params(deep=False)
    estimator.set_params(**{name: value for name, value in parameters.items() if name in allowed})
    return estimator._adopt(model)
