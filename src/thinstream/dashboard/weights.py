"""The largest weights of a model, by name."""

from collections.abc import Mapping

import numpy as np

from thinstream.blend.serving import served
from thinstream.models.model import Model, Names

#: Weights that are followed.
TOP = 12


def top_weights(model: Model, known: Mapping[int, str] | None = None, top: int = TOP) -> dict[str, float]:
    """What the largest weights are called, and their values, the largest first; ``known`` are names beside the model's.

    Of more than two classes a weight is called by its feature and the class it speaks for; of several vectors of
    weights (`Auto`) the number of the vector follows.

    Examples
    --------
    >>> from thinstream.batch import Batch
    >>> from thinstream.learners import Classes
    >>> model = Model.fresh("perceptron", Classes("ham", "spam"), n_features=3, names=Names.of(["free"], [1]))
    >>> rows = Batch.of(np.array([0, 2]), np.array([1, 2], np.int32), np.array([2, -1], np.float32), 3, np.int8([1]))
    >>> _ = model.learner.learn(rows)
    >>> top_weights(model)
    {'free': 2.0, 'column 2': -1.0}

    """
    learner = served(model.learner)
    found = list[tuple[float, str]]()
    for k, one in enumerate(learner.models):
        where, weights = one.sparse_weights()
        size = np.abs(weights)
        places = np.argpartition(size, -top)[-top:] if len(size) > top else np.arange(len(size))
        for place in places.tolist():
            vector, feature = divmod(int(where[place]), max(int(learner.n_features), 1))
            found.append((float(weights[place]), name_of(model, k, vector, feature, known)))
    found.sort(key=lambda pair: (-abs(pair[0]), pair[1]))
    return {name: weight for weight, name in found[:top]}


def name_of(model: Model, number: int, vector: int, feature: int, known: Mapping[int, str] | None = None) -> str:
    """What a weight is called: by its feature, of several classes the class, and of several vectors the vector."""
    after = "" if model.classes.are_two else f" → {model.classes[number]}"
    return f"{(known or {}).get(feature) or _name(model, feature)}{after}{f' ({vector + 1})' if vector else ''}"


def _name(model: Model, feature: int) -> str:
    names: Names | None = model.names
    if names is not None:
        place = int(np.searchsorted(names.indices, feature))
        if place < len(names.indices) and names.indices[place] == feature:
            return names.texts[place]
    return f"{'hash' if 'hashing' in model.feature_space else 'column'} {feature}"
