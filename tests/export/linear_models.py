"""Linear models, trained and made by hand, and names that are hard to write down."""

from functools import cache

import numpy as np
import pytest

from thinstream.batch import Batch
from thinstream.data.labels import Classes
from thinstream.export import LinearModel
from thinstream.lanes.learner import Learner
from thinstream.models.model import Model, Names

WIDTH, BEYOND = 60, 25
AWKWARD = [
    "plain", "", "#head", "12", "007", "\\", "\\t", "a\tb", "a\nb", "a\r\nb", "*/", "/*", "/*/", "*", "/", "//", "x \\",
    '"quoted"', "'", "??/", "??)", "naïve", "日本語", "🙂", "\u2028", "\x00", "\x7f", "%s%n", "$x_1$", "\\#", "\\12",
    "\\\\", "{name}", "}}", "</svg>", "&amp;", " led", "٣", "²",
]  # fmt: skip
MODELS = [
    pytest.param((name, dtype, intercept), id=f"{name}-{dtype}{'-intercept' * intercept}")
    for name, dtype, intercept in [
        ("fsol", "float32", False),
        ("fsol", "float64", True),
        ("arow", "float32", True),
        ("arow", "float64", False),
        ("adafobos", "float32", False),
    ]
]


def made(weights, dtype="float32", classes=(-1, 1), intercept=0.0, **more):
    """A model of a dense vector; of a matrix, one of more classes."""
    dense = np.atleast_2d(np.asarray(weights, dtype=dtype))
    which, where = np.nonzero(dense)
    facts = {
        "algorithm": "FSOL", "parameters": {"eta": 0.5}, "classes": classes, "n_features": dense.shape[1],
        "indices": where, "rows": which, "weights": dense[which, where],
        "intercepts": np.full(len(dense), intercept, dtype), "names": {},
    }  # fmt: skip
    return LinearModel(**(facts | more))


def rows(rng, n, width, dtype, y=True):
    """Random sparse rows, some of them empty."""
    lengths = rng.integers(0, 12, n)
    indices = [np.sort(rng.choice(width, k, replace=False)) for k in lengths]
    indptr = np.concatenate([[0], np.cumsum(lengths)])
    values = rng.standard_normal(indptr[-1]).astype(dtype)
    labels = rng.choice(np.array([-1, 1], np.int8), n) if y else None
    return Batch.of(indptr, np.concatenate(indices).astype(np.int32), values, width, y=labels)


def each(batch):
    for a, b in zip(batch.indptr[:-1], batch.indptr[1:]):
        yield batch.indices[a:b], batch.values[a:b]


@cache
def trained_model(name, dtype, intercept):
    """A learner, its linear model with awkward names on some features, and rows wider than the model."""
    rng = np.random.default_rng(7)
    more = {"l1": 0.02} if name == "adafobos" else {"l1": 1.0} if name == "fsol" else {}
    learner = Learner(name, n_features=WIDTH, dtype=dtype, fit_intercept=intercept, **more)
    learner.learn(rows(rng, 300, WIDTH - 5, dtype))  # the last five are never seen
    model = Model(learner, Classes('h"am\\ ??/ \n*/', "späm 日本"), names=Names.of(AWKWARD))
    return learner, LinearModel.of(model), rows(rng, 200, WIDTH + BEYOND, dtype, y=False)


def close(found, learner, linear, batch):
    """To rounding, relative to the size of what is summed."""
    dense = np.zeros(batch.n_features)
    dense[linear.indices] = np.abs(linear.weights)
    size = np.array([dense[j] @ np.abs(x) for j, x in each(batch)]) + abs(linear.intercepts[0])
    epsilon = 1e-6 if linear.weights.dtype == np.float32 else 1e-14
    error = np.abs(np.asarray(found, dtype=np.float64) - learner.scores(batch))
    np.testing.assert_array_less(error, epsilon * size + 1e-300)
