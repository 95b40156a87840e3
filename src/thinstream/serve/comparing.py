"""Two versions of a model, weight by weight."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from thinstream.blend.serving import served
from thinstream.dashboard.weights import name_of
from thinstream.models.model import Model

#: Weights that are named, those that differ most.
MOST = 20


def compare(one: Model, other: Model, top: int = MOST) -> dict[str, Any]:
    """How two models of the same classes and features differ: how many weights, how much, and which most.

    Examples
    --------
    >>> from thinstream.learners import Classes
    >>> one = Model.fresh("perceptron", Classes(0, 1), n_features=3)
    >>> other = one.copy()
    >>> other.learner.memory.state[:] = [0.0, 3.0, -4.0]
    >>> found = compare(one, other)
    >>> found["distance"], found["appeared"], found["most"][0]
    (5.0, 2, {'feature': 'column 2', 'from': 0.0, 'to': -4.0})

    """
    keys, values = zip(*(_cells(each) for each in (one, other)), strict=True)
    both = np.union1d(*keys)
    a, b = (_placed(both, key, value) for key, value in zip(keys, values, strict=True))
    size = float(np.linalg.norm(a) * np.linalg.norm(b))
    order = np.argsort(-np.abs(b - a), kind="stable")[:top]
    return {
        "algorithms": [each.learner.algorithm.name for each in (one, other)],
        "non_zeros": [len(key) for key in keys],
        "changed": int(np.count_nonzero(a != b)),
        "appeared": int(np.count_nonzero(a == 0)),
        "gone": int(np.count_nonzero(b == 0)),
        "distance": float(np.linalg.norm(a - b)),
        "cosine": float(a @ b) / size if size else None,
        "intercepts": [[float(single.intercept) for single in served(each.learner).models] for each in (one, other)],
        "most": [
            {"feature": name_of(one, *_cell(int(both[k]))), "from": float(a[k]), "to": float(b[k])}
            for k in order.tolist()
            if a[k] != b[k]
        ],
    }


#: Numbers of features of all vectors of a class; more than any model has.
_WIDTH = 1 << 48


def _cells(model: Model) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Non-zero weights, and where they stand: class and feature in one number."""
    parts = [one.sparse_weights() for one in served(model.learner).models]
    width = served(model.learner).n_features
    if width == 0:
        return np.empty(0, np.int64), np.empty(0)
    keys = [k * _WIDTH + (where // width << 40) + where % width for k, (where, _) in enumerate(parts)]
    return np.concatenate(keys), np.concatenate([weights for _, weights in parts]).astype(np.float64)


def _cell(key: int) -> tuple[int, int, int]:
    """Class, vector and feature."""
    return key // _WIDTH, key % _WIDTH >> 40, key % (1 << 40)


def _placed(both: NDArray[np.int64], keys: NDArray[np.int64], values: NDArray[np.float64]) -> NDArray[np.float64]:
    found = np.zeros(len(both))
    found[np.searchsorted(both, keys)] = values
    return found
