"""Estimators to files and back."""

import os
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from thinstream.errors import InvalidInputError, ModelFileError
from thinstream.estimators.batch_base import BatchClassifier
from thinstream.estimators.batch_saving import load_batch
from thinstream.estimators.classifier import ONLY_FIT, OnlineClassifier
from thinstream.estimators.factory import estimator
from thinstream.learners import Classes, class_weight_of
from thinstream.models import Model, Names, read, write
from thinstream.models.batch_file import is_batch_file
from thinstream.models.plain import plain

#: The entry of ``Model.extra`` with what only estimators have.
_KEY = "estimator"

#: Kinds of arrays ``classes_`` comes back as; labels of any other come back as numpy takes them.
_KINDS = "biufUO"


def save(
    model: OnlineClassifier | BatchClassifier | Model, path: str | os.PathLike[str], *, weights_only: bool = False
) -> None:
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
    if isinstance(model, BatchClassifier):
        model.save(path, weights_only=weights_only)
        return
    if not isinstance(model, Model):
        model = model_of(model)
    write(path, model, grade="weights" if weights_only else "full")


def load(path: str | os.PathLike[str]) -> Any:
    """The fitted estimator of a model file, whoever wrote it: an estimator, or a run without one."""
    if is_batch_file(path):
        return load_batch(path)
    model = read(path)
    try:
        return estimator_of(model)
    except (ValueError, TypeError, LookupError, AttributeError) as error:
        raise ModelFileError(f"{os.fspath(path)}: is not a model this library can load: {error}") from error


def model_of(fitted: OnlineClassifier) -> Model:
    """A fitted estimator as a model. Parameters are those it has learned with."""
    if not isinstance(fitted, OnlineClassifier):
        raise InvalidInputError(f"only an estimator of thinstream or a Model can be saved, got {type(fitted).__name__}")
    check_is_fitted(fitted)
    learned = fitted._learned_with
    weight, given = learned["class_weight"], getattr(fitted, "feature_names_in_", None)
    extra = {
        "classes": fitted.classes_.dtype.str if fitted.classes_.dtype.kind in _KINDS else None,
        "class_weight": [[*pair] for pair in weight.items()] if isinstance(weight, dict) else weight,
        "named": given is not None,
        **{name: getattr(fitted, name) for name in ("n_passes", "shuffle")},
        "random_state": _seed(fitted.get_params(deep=False)["random_state"]),
    }
    space, names = getattr(fitted, "_meaning", ({}, None))
    if given is not None:
        names = Names.of(list(given))
    return Model(fitted._learner, fitted._classes, space, names, {_KEY: plain(extra, _KEY)})


def estimator_of(model: Model) -> OnlineClassifier:
    """A model as the fitted estimator of its algorithm."""
    learner, classes, extra = model.learner, model.classes, model.extra.get(_KEY, {})
    weight = extra.get("class_weight", class_weight_of(tuple(model.costs for model in learner.models), classes))
    parameters = {
        **learner.parameters,
        "class_weight": dict(weight) if isinstance(weight, list) else weight,
        "fit_intercept": bool(learner.offset),
        "dtype": learner.dtype.name,
        "grow": learner.grow,
    }
    fitted = estimator(learner.algorithm.name)(
        **parameters, **{name: extra[name] for name in ONLY_FIT if name in extra}
    )
    fitted._learned_with = parameters
    fitted._learner, fitted._classes, fitted._meaning = learner, classes, (model.feature_space, model.names)
    fitted.classes_, fitted.n_features_in_ = _labels(classes, extra.get("classes")), learner.n_features
    if extra.get("named") and model.names is not None:
        fitted.feature_names_in_ = np.array(model.names.texts, dtype=object)
    return fitted


def _seed(random_state: Any) -> int | None:
    """A seed, if it is one; a generator's state is not kept."""
    return int(random_state) if isinstance(random_state, int | np.integer) else None


def _labels(classes: Classes, kind: str | None) -> NDArray[Any]:
    """``classes_``, of the type it had."""
    if kind is None:
        return np.array(list(classes))
    dtype = np.dtype(kind)
    if dtype.kind not in _KINDS:
        raise ModelFileError(f"its classes are of type {kind!r}")
    return np.array(list(classes), dtype=dtype)
