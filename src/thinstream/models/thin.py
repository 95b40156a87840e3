"""Thin models: a model with the most important of its features, and fresh models for a few features."""

import numbers
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thinstream.data.labels import Classes, class_weight_of
from thinstream.errors import InvalidInputError, InvalidParameterError
from thinstream.models import importance as importances
from thinstream.models import packing
from thinstream.models.container import Arrays
from thinstream.models.model import NORMALIZED, Model, Names
from thinstream.models.packing import with_short_scales
from thinstream.models.pipeline import Pipeline
from thinstream.models.slots import SlotTable

# Cutting: the most important features with the weights that they have.


def thin(model: Model, n: int, importance: NDArray[Any] | None = None) -> Model:
    """Return a new model with the n most important features. It predicts, and cannot continue to learn.

    Features are kept with all their weights: of every class, and for every kind of prepared rows. Their weights, the
    intercept, the preparation of rows, the classes and the threshold are those of the model. The first of equally
    important features is kept. Features without a weight are never kept, so the result can have fewer than n.

    Parameters
    ----------
    model : Model
        A model of any algorithm, with two classes or more.
    n : int
        The number of features to keep.
    importance : array like the model's weights
        By default, `models.importance.importance` computes it. `models.importance.joint_importance` combines the
        importance of the weights of a feature.

    Examples
    --------
    >>> from thinstream.batch import Batch
    >>> rows = Batch.of(np.arange(4), np.arange(3), np.array([1.0, 3.0, 2.0]), 3, y=np.array([1, -1, 1], np.int8))
    >>> model = Model.fresh("fsol", Classes("ham", "spam"), n_features=3)
    >>> _ = model.learner.learn(rows)
    >>> model.learner.weights(), thin(model, 2).learner.weights()
    (array([ 1., -3.,  2.], dtype=float32), array([ 0., -3.,  2.], dtype=float32))

    """
    whole = model.learner.in_order()
    narrow = replace(model, learner=whole.decoded())
    kept, learner = most_important(narrow, require_count(n), _of_slots(whole, importance)), narrow.learner.served()
    head = packing.describe(learner) | {"grade": "weights", "classes": list(model.classes)}
    arrays = _left(packing.pack(learner, "weights"), kept, learner.offset)
    by_vector = kept.reshape(len(kept), -1, learner.n_slots)
    vectors = np.asarray(by_vector.any(axis=0))  # a row for each weight vector, over all classes
    small = packing.unpack(head, with_short_scales(arrays, head.get("preparation", {}), vectors))
    features = np.flatnonzero(vectors.any(axis=0))
    if whole.encoder is not None:
        before = small.to_dense()
        small = before.encoded(whole.encoder, whole.n_columns, whole.grow)
        small = small if whole.products is None else small.with_products(whole.products)
        features = small.numbers[features - 1]
    if small.products is not None:
        features = np.union1d(features, small.products.numbers)  # products have the names of their features
    return replace(model, learner=small, names=_names_of(model, features), arrays={})


def _of_slots(learner: Pipeline, importance: NDArray[Any] | None) -> NDArray[Any] | None:
    """Return the importance of slots, if there is one for every feature number."""
    if importance is None or learner.encoder is None or np.size(importance) != learner.n_weights:
        return importance
    of_slots = np.reshape(importance, (-1, learner.n_features))[:, learner.encoder.numbers]
    return np.hstack([np.zeros((len(of_slots), 1)), of_slots])


def require_count(n: Any) -> int:
    """Return the number of features to keep, if it is valid."""
    if not isinstance(n, numbers.Integral) or isinstance(n, bool) or n < 1:
        raise InvalidParameterError(f"thin: the number of features to keep must be an integer ≥ 1, got {n!r}")
    return int(n)


def most_important(model: Model, n: int, importance: NDArray[Any] | None = None) -> NDArray[np.bool_]:
    """Return which weights are kept, with a row for each row of ``coef_``."""
    served = model.learner.served()
    weights = np.atleast_2d(served.outputs.weights())
    values = np.asarray(importances.importance(model.learner) if importance is None else importance, np.float64)
    if values.size != weights.size or not np.isfinite(values).all():
        raise InvalidInputError(
            f"thin: importance must have a finite number per weight, in the shape {weights.shape}, got {values.shape}"
        )
    used = weights.reshape(-1, served.n_slots).any(axis=0)
    joint = importances.joint_importance(model.learner, values)
    order = np.flatnonzero(used)[np.argsort(-joint[used], kind="stable")]
    kept = np.zeros(served.n_slots, np.bool_)
    kept[order[:n]] = True
    return np.asarray(np.tile(kept, weights.size // len(kept)).reshape(weights.shape) & (weights != 0))


def _left(arrays: Arrays, kept: NDArray[np.bool_], offset: int) -> Arrays:
    """Return the arrays of a model with weights only, without the weights that are not kept."""
    if "batch/w" in arrays:
        w = arrays["batch/w"].copy()
        w[offset:][~kept[0]] = 0
        return arrays | {"batch/w": w}
    for k, row in enumerate(kept):
        name = f"{k}/" if f"{k}/indices" in arrays else ""
        where = row[arrays[f"{name}indices"]]
        arrays = arrays | {f"{name}{part}": arrays[f"{name}{part}"][where] for part in ("indices", "weights")}
    return arrays


def _names_of(model: Model, kept: NDArray[np.int64]) -> Names | None:
    """Return the names of the features that are kept. If an estimator checks columns by name, all names stay."""
    names = model.names
    if names is None or model.extra.get("estimator", {}).get("named"):
        return names
    is_kept = np.isin(names.indices, kept)
    return Names(names.indices[is_kept], [text for text, keep in zip(names.texts, is_kept, strict=True) if keep])


# A fresh model for a few features of a model.


def fresh_for_features(
    model: Model, features: NDArray[np.int64], scale: str | None = None, normalize: str | None = None
) -> Model:
    """Return a model that has learned nothing, for these features of a model: `Auto` with one weight per feature.

    It reads the same rows as the model and leaves all other features out of them. Its rows are prepared with ``scale``
    and ``normalize``. Rows that a stream has normalized are used unchanged.
    """
    if NORMALIZED in model.feature_space:
        scale = normalize = None
    learner, features = model.learner, np.sort(features)
    classes = Classes(*model.classes)
    options: dict[str, Any] = {"scale": scale, "normalize": normalize, "dtype": learner.dtype.name}
    width = len(features) + 1  # slot 0 belongs to no feature
    options["parameters"] = {"interactions": False}  # products of features would have weights
    auto = Model.fresh("auto", classes, _class_weight(model), n_features=width, fit_intercept=True, **options)
    fresh = auto.learner.to_dense()
    if not fresh.preparation:
        for blend in fresh.blends:
            blend.remove_preparation()
    _share_threads(model, auto)
    names = learner.encoder.names_of(features) if learner.encoder is not None and learner.drops_unknown else None
    table = SlotTable.of(features, names, drops_unknown=True)
    pipeline = fresh.encoded(table, learner.n_features, learner.grow)
    return replace(model, learner=pipeline, classes=classes, arrays={}, report=None, threshold=0.0)


def fresh_like(model: Model) -> Model:
    """Return a model that has learned nothing, with the algorithm and the options of a model, or `Auto`.

    It is `Auto` if the algorithm needs many rows at once. It has an intercept and no limit on its weights.
    """
    learner, classes = model.learner, Classes(*model.classes)
    algorithm, parameters = "Auto", {}
    if learner.algorithm.kind != "batch":
        algorithm = learner.algorithm.name
        parameters = {
            name: value for name, value in learner.parameters.items() if name not in ("max_nnz", "max_density")
        }
    options: dict[str, Any] = {**model.preparation.kinds, **model.budget}
    options = {name: value for name, value in options.items() if value is not None}
    options |= {"dtype": learner.dtype.name, "grow": learner.grow, "feature_space": model.feature_space}
    fresh = Model.fresh(
        algorithm,
        classes,
        _class_weight(model),
        n_features=learner.n_features,
        fit_intercept=True,
        parameters=parameters,
        **options,
    )
    _share_threads(model, fresh)
    return replace(model, learner=fresh.learner, classes=classes, arrays={}, report=None, threshold=0.0)


def _share_threads(model: Model, fresh: Model) -> None:
    if model.blends:
        fresh.set_threads(model.blends[0].threads)


def _class_weight(model: Model) -> Any:
    return model.class_weight if model.classes.grow else class_weight_of(model.learner.costs, model.classes)
