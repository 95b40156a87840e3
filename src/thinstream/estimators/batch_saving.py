"""Batch estimators to files and back."""

import os
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from thinstream.engine.loop import Costs
from thinstream.errors import ModelFileError, WeightsOnlyError
from thinstream.estimators.batch_base import BatchClassifier
from thinstream.learners import Classes
from thinstream.models import Names
from thinstream.models.batch_file import BatchModel, read_batch, write_batch
from thinstream.models.plain import label

#: Kinds of arrays ``classes_`` comes back as; labels of any other come back as numpy takes them.
_KINDS = "biufUO"
#: How arrays begin that are parameters too long for a file's header.
_GIVEN = "given."
#: Names that parameters had when a file was written.
_RENAMED = {("SBCW", "n_features"): "n_features_to_select"}


def save_batch(fitted: BatchClassifier, path: str | os.PathLike[str], *, weights_only: bool = False) -> None:
    """Writes a fitted batch estimator."""
    check_is_fitted(fitted)
    learner, given = fitted._learner, fitted.get_params(deep=False)
    if learner.weights_only and not weights_only:
        raise WeightsOnlyError(f"{os.fspath(path)}: this {fitted._declared.name} has its weights only")
    learned, seed = fitted._learned_with, given.get("random_state")
    weight = learned["class_weight"]
    long = {name: value for name, value in learner.parameters.items() if np.ndim(value)}
    description = {
        "algorithm": fitted._declared.name,
        "parameters": {name: value for name, value in learner.parameters.items() if name not in long},
        "costs": [float(learner.costs[0]), float(learner.costs[1]), bool(learner.costs[2])],
        "n_features": learner.n_features,
        "dtype": learner.dtype.name,
        "fit_intercept": bool(learner.offset),
        "frozen": bool(weights_only or learner.weights_only),
        "classes": [label(each) for each in fitted._classes],
        "classes_dtype": fitted.classes_.dtype.str if fitted.classes_.dtype.kind in _KINDS else None,
        "class_weight": [[*pair] for pair in weight.items()] if isinstance(weight, dict) else weight,
        "shuffle": bool(given.get("shuffle", False)),
        "random_state": int(seed) if isinstance(seed, int | np.integer) else None,
    }
    arrays = learner.arrays(weights_only=weights_only)
    arrays |= {_GIVEN + name: np.asarray(value, dtype=np.int64) for name, value in long.items()}
    names = getattr(fitted, "feature_names_in_", None)
    write_batch(path, BatchModel(description, arrays, None if names is None else Names.of(list(names))))


def load_batch(path: str | os.PathLike[str]) -> BatchClassifier:
    """The fitted estimator of such a file."""
    model = read_batch(path)
    try:
        return _estimator_of(model)
    except (ValueError, TypeError, LookupError, AttributeError, OverflowError) as error:
        raise ModelFileError(f"{os.fspath(path)}: is not a model this library can load: {error}") from error


def _estimator_of(model: BatchModel) -> BatchClassifier:
    from thinstream.estimators.factory import batch_estimator

    head: dict[str, Any] = model.description
    cls = batch_estimator(head["algorithm"])
    weight = head["class_weight"]
    common = {
        "class_weight": dict(weight) if isinstance(weight, list) else weight,
        "fit_intercept": head["fit_intercept"],
        "dtype": head["dtype"],
        "shuffle": head["shuffle"],
        "random_state": head["random_state"],
    }
    long = {name.removeprefix(_GIVEN): a for name, a in model.arrays.items() if name.startswith(_GIVEN)}
    given = {_RENAMED.get((head["algorithm"], name), name): value for name, value in head["parameters"].items()}
    fitted: Any = cls(**given, **long, **{name: common[name] for name in cls._common})
    classes = Classes(*(label(each) for each in head["classes"]))
    learner = fitted._new_learner(classes, head["n_features"])
    learner.costs = Costs(*head["costs"])
    learner.restore_weights(model.arrays) if head["frozen"] else learner.restore(model.arrays)
    fitted._learner, fitted._classes = learner, classes
    kind = head["classes_dtype"]
    fitted.classes_ = np.array(list(classes), dtype=None if kind is None else np.dtype(kind))
    fitted.n_features_in_ = learner.n_features
    if model.names is not None:
        fitted.feature_names_in_ = np.array(model.names.texts, dtype=object)
    found: BatchClassifier = fitted
    return found
