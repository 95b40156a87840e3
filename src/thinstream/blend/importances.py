"""How important each weight of a model is: |w_j|·q_j^p, q_j being what its state knows of √Σx_j² (§15)."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thinstream.blend.learner import Blend
from thinstream.blend.linear import Kind
from thinstream.blend.serving import blends_of, kinds_of, served
from thinstream.compact import CompactLearner
from thinstream.growing import Growing
from thinstream.learners.protocol import AnyLearner
from thinstream.preparing import plain_learner, preparation_of

Numbers = NDArray[np.float64]
#: The powers of q_j that rows decide between, and the one that is taken without any.
POWERS, USUAL = (0.0, 0.5, 1.0), 0.5
#: Rows as they are.
PLAIN: tuple[Kind, ...] = ((None, None),)

#: √Σg_j² of algorithms that keep no variances, from the record of their coordinates; g_j is x_j times the loss's slope.
GRADIENTS: dict[str, Callable[[Any], Any]] = {
    "AdaFOBOS": lambda f: np.sqrt(f.S),
    "AdaRDA": lambda f: np.sqrt(f.S),
    "FTRLProximal": lambda f: f.r,
    "NAG": lambda f: np.sqrt(f.G),
    "Coin": lambda f: np.sqrt(f.L * f.G),  # Σ|g| is what it keeps: the root of Σg² if all are of one size
}


def importance(learner: AnyLearner, power: float = USUAL) -> Numbers:
    """Of every weight: an array like ``learner.weights()``, 0 where a weight is 0.

    Of a compact learner only the features that occurred have a column, after one of zeros, in the order of numbers.

    Where the state knows nothing of the rows it has seen (first-order learners, models of weights only), it is |w_j|.
    Weights are those of rows as they are prepared, so that the units of columns do not matter where these are scaled.

    >>> from thinstream.batch import Batch
    >>> from thinstream.learners import Learner
    >>> y = np.array([1, 1, -1], np.int8)
    >>> rows = Batch.of(np.arange(4), np.array([0, 1, 1]), np.array([1.0, 2.0, 1.0]), 2, y)
    >>> model = Learner("arow", n_features=2, dtype="float64")
    >>> _ = model.learn(rows)
    >>> model.weights(), 1 / model.variance() - 1, importance(model, power=1.0)
    (array([0.5       , 0.16666667]), array([1., 5.]), array([0.5     , 0.372678]))
    """
    if isinstance(learner, CompactLearner):
        return importance(learner.in_order().inner, power)
    sizes = np.abs(np.asarray(plain_learner(served(learner)).weights(), np.float64))
    if not power:
        return sizes
    found = np.empty_like(sizes)
    models = plain_learner(learner).models
    # rows that are prepared for all models at once are plain to each of them
    kinds = PLAIN if preparation_of(learner) else kinds_of(preparation_of(served(learner)))
    for size, model, out in zip(np.atleast_2d(sizes), models, np.atleast_2d(found), strict=True):
        out[:] = _with_seen(learner, model, size, power, kinds)
    return found


def importance_at(
    learner: AnyLearner, features: NDArray[Any], classes: NDArray[Any], vectors: NDArray[Any]
) -> tuple[Numbers, bool]:
    """Of the weights of these features, for these classes and vectors; and whether it is more than their size.

    >>> from thinstream.batch import Batch
    >>> from thinstream.learners import Learner
    >>> model = Learner("fsol", n_features=2)
    >>> _ = model.learn(Batch.of(np.arange(2), np.array([1]), np.ones(1), 2, np.array([-1], np.int8)))
    >>> importance_at(model, np.array([1]), np.array([0]), np.array([0]))
    (array([1.]), False)
    """
    each = [np.atleast_2d(importance(learner, power)) for power in (USUAL, 0.0)]
    if isinstance(learner, CompactLearner):
        ordered = learner.in_order()
        features, learner = np.searchsorted(ordered.table.numbers, features) + 1, ordered.inner
    found, sizes = (values[classes, vectors * learner.n_features + features] for values in each)
    return found, not np.array_equal(found, sizes)


def _with_seen(learner: AnyLearner, model: Any, sizes: Numbers, power: float, kinds: Sequence[Kind] = PLAIN) -> Any:
    q = seen(model, kinds)
    return sizes * (_by_scales(learner) if q is None else q) ** power


def feature_importance(learner: AnyLearner) -> Numbers:
    """Of every feature: that of the most important of its weights, of all classes and all kinds of rows.

    Classes to come count, which are like one that is there and was not met: so it does not matter when one is.
    """
    found, inner = np.zeros(learner.n_features), plain_learner(learner)
    if not blends_of(learner):
        for model in [*inner.models, *(inner.spares if isinstance(inner, Growing) else ())]:
            sizes = np.abs(np.asarray(model.weights(), np.float64))
            found = np.maximum(found, _with_seen(learner, model, sizes, USUAL))
        return found
    for blend in blends_of(learner):
        for part in blend.parts:
            sizes = np.abs(np.asarray(blend.vector_of(part.kind)[0], np.float64))
            found = np.maximum(found, sizes * part.squares[: len(sizes)] ** (USUAL / 2))
    return found


def seen(model: Any, kinds: Sequence[Kind] = PLAIN) -> Numbers | None:
    """q_j of every weight, up to a factor, of rows as they were learned; None where the state tells nothing.

    Of a blend they are of rows of these kinds, one after another.
    """
    if isinstance(model, Blend):  # which keeps the sums themselves
        squares = np.concatenate([model.squares_of(kind) for kind in kinds])
        return np.asarray(np.sqrt(squares))
    if model.weights_only:
        return None
    if model.has_variance:  # 1/σ_j grows by x_j²/r with every row that is learned
        precision = 1.0 / np.asarray(model.variance(), np.float64)
        return np.sqrt(np.maximum(precision - 1.0 / _fresh_variance(model), 0.0))
    root = GRADIENTS.get(model.algorithm.name)
    if root is None:
        return None
    return np.asarray(root(model.coordinates(model.offset, model.n_features + model.offset)), np.float64)


def _fresh_variance(model: Any) -> float:
    """Of a feature never seen; that of batch methods is 1."""
    return float(model.rule.variance(model.rule.fresh())) if model.algorithm.kind == "online" else 1.0


def _by_scales(learner: AnyLearner) -> Any:
    """q_j of rows divided by the root of their mean square: √n_j; 1 where nothing counts rows."""
    preparation = preparation_of(learner)
    if preparation.scale != "rms" or preparation.scales is None:
        return 1.0
    return np.sqrt(preparation.scales.columns(np.arange(learner.n_features))["counts"])
