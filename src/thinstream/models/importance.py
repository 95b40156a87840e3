"""The importance of each weight: |w_j|·q_j^p, where q_j estimates √Σx_j² from the state (specification §15)."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from thinstream.models.members import Kind

if TYPE_CHECKING:
    from thinstream.models.pipeline import Pipeline

Numbers = NDArray[np.float64]
#: The powers of q_j that rows choose from, and the default without rows.
POWERS, DEFAULT_POWER = (0.0, 0.5, 1.0), 0.5
#: The kind of rows without preparation.
PLAIN: tuple[Kind, ...] = ((None, None, False),)

#: √Σg_j² for algorithms without variances, from their coordinates; g_j is x_j times the slope of the loss.
GRADIENTS: dict[str, Callable[[Any], Any]] = {
    "AdaFOBOS": lambda f: np.sqrt(f.S),
    "AdaRDA": lambda f: np.sqrt(f.S),
    "FTRLProximal": lambda f: f.r,
    "NAG": lambda f: np.sqrt(f.G),
    "Coin": lambda f: np.sqrt(f.L * f.G),  # it keeps Σ|g|: the root of Σg² if all |g| are equal
}


def importance(model: "Pipeline", power: float = DEFAULT_POWER) -> Numbers:
    """Return the importance of every weight, in an array like ``model.weights()``.

    With an encoder, only features that occurred have a column, in the order of their numbers. The first column is zero.

    The importance is |w_j| if the state has no information on the rows (first-order algorithms, models with weights
    only). Weights are those for prepared rows, so the units of columns do not matter if these are scaled.

    >>> from thinstream.batch import Batch
    >>> from thinstream.lanes.learner import Learner
    >>> from thinstream.models.pipeline import Pipeline
    >>> y = np.array([1, 1, -1], np.int8)
    >>> rows = Batch.of(np.arange(4), np.array([0, 1, 1]), np.array([1.0, 2.0, 1.0]), 2, y)
    >>> model = Pipeline.of(Learner("arow", n_features=2, dtype="float64"))
    >>> _ = model.learn(rows)
    >>> model.weights(), 1 / model.variance() - 1, importance(model, power=1.0)
    (array([0.5       , 0.16666667]), array([1., 5.]), array([0.5     , 0.372678]))
    """
    model = model.in_order().decoded()
    served = model.served()
    sizes = np.abs(np.asarray(served.outputs.weights(), np.float64))
    if not power:
        return sizes
    values = np.empty_like(sizes)
    # learners do not prepare rows that are prepared for all of them
    kinds = PLAIN if model.preparation else [one.kind for one in served.preparation.each]
    for size, learner, out in zip(np.atleast_2d(sizes), model.outputs, np.atleast_2d(values), strict=True):
        out[:] = _with_rms(model, learner, size, power, kinds)
    return values


def importance_at(
    model: "Pipeline", features: NDArray[Any], classes: NDArray[Any], vectors: NDArray[Any]
) -> tuple[Numbers, bool]:
    """Return the importance of weights of these features, classes and vectors, and whether it differs from |w_j|.

    >>> from thinstream.batch import Batch
    >>> from thinstream.lanes.learner import Learner
    >>> from thinstream.models.pipeline import Pipeline
    >>> model = Pipeline.of(Learner("fsol", n_features=2))
    >>> _ = model.learn(Batch.of(np.arange(2), np.array([1]), np.ones(1), 2, np.array([-1], np.int8)))
    >>> importance_at(model, np.array([1]), np.array([0]), np.array([0]))
    (array([1.]), False)
    """
    by_power = [np.atleast_2d(importance(model, power)) for power in (DEFAULT_POWER, 0.0)]
    width = by_power[0].shape[1] // max(model.n_kinds, 1)  # slots, then products of members
    if model.encoder is not None:
        model = model.in_order()
        of_products = (features >= model.n_features) & bool(model.blends)
        products = features - model.n_features + model.n_slots
        features = np.where(of_products, products, np.searchsorted(model.numbers, features) + 1)
    weighted, sizes = (values[classes, vectors * width + features] for values in by_power)
    return weighted, not np.array_equal(weighted, sizes)


def effect_importance(
    model: "Pipeline", features: NDArray[Any], classes: NDArray[Any], weights: NDArray[Any]
) -> tuple[Numbers, bool]:
    """Return the importance of `Pipeline.feature_weights` of these features or products.

    Also return whether it differs from the size of the weights.

    >>> from thinstream.batch import Batch
    >>> from thinstream.lanes.learner import Learner
    >>> from thinstream.models.pipeline import Pipeline
    >>> model = Pipeline.of(Learner("fsol", n_features=2))
    >>> _ = model.learn(Batch.of(np.arange(2), np.array([1]), np.ones(1), 2, np.array([-1], np.int8)))
    >>> effect_importance(model, np.array([1]), np.array([0]), np.array([-1.0]))
    (array([1.]), False)
    """
    if model.preparation.vectors > 1:  # a model with weights only has no information on rows
        return np.abs(weights.astype(np.float64)), False
    if not model.blends:
        return importance_at(model, features, classes, np.zeros_like(classes))
    model = model.in_order()
    slots = features if model.encoder is None else np.searchsorted(model.numbers, features) + 1
    kinds = model.served().preparation.each
    rows_kind = PLAIN[0] if model.preparation else kinds[0].kind
    squares = np.array([blend.squares_of(rows_kind) for blend in model.blends[: len(model.outputs)]])
    sizes, squares_of_features = np.abs(weights.astype(np.float64)), np.empty(len(features))
    plain = features < model.n_features
    sizes[plain] *= model.preparation.divisors(model.n_slots)[slots[plain]]
    squares_of_features[plain] = squares[classes[plain], slots[plain]]
    if not plain.all():  # the squares of products are in their scales
        scales = next(one.scales for one in kinds if one.products)
        assert scales is not None
        products = features[~plain] - model.n_features + model.n_slots
        squares_of_features[~plain] = scales.columns(products)["squares"]
    return sizes * squares_of_features ** (DEFAULT_POWER / 2), True


def _with_rms(model: "Pipeline", learner: Any, sizes: Numbers, power: float, kinds: Sequence[Kind] = PLAIN) -> Any:
    q = rms_of(learner, kinds)
    return sizes * (_by_scales(model) if q is None else q) ** power


def joint_importance(model: "Pipeline", importance: Numbers) -> Numbers:
    """Combine the importance of weights into one per slot (or feature number), then one per product of features.

    The weights of one output for several kinds of rows are added with their signs. Over outputs, the importance is the
    root of the sum of squares.
    """
    served = model.served()
    weights = np.atleast_2d(np.asarray(served.outputs.weights(), np.float64))
    signed = np.copysign(np.reshape(importance, weights.shape), weights)
    total = signed.reshape(len(weights), -1, served.n_slots).sum(axis=1)
    return np.asarray(np.sqrt(np.square(total).sum(axis=0)) if len(total) > 1 else np.abs(total[0]))


def ranked_features(model: "Pipeline", power: float = 1.0) -> NDArray[np.int64]:
    """Return the numbers of the features with weights, the most important first, without products of features.

    >>> from thinstream.batch import Batch
    >>> from thinstream.lanes.learner import Learner
    >>> from thinstream.models.pipeline import Pipeline
    >>> y = np.array([1, 1, -1], np.int8)
    >>> rows = Batch.of(np.arange(4), np.array([0, 1, 1]), np.array([1.0, 2.0, 1.0]), 3, y)
    >>> model = Pipeline.of(Learner("arow", n_features=3))
    >>> _ = model.learn(rows)
    >>> ranked_features(model)
    array([0, 1])
    """
    ordered = model.in_order()
    slots = ordered.decoded()
    joint = joint_importance(slots, importance(slots, power))
    served = slots.served()
    weights = np.asarray(served.outputs.weights())
    used = np.flatnonzero(weights.reshape(-1, served.n_slots)[:, : slots.n_slots].any(axis=0))
    ranked = used[np.argsort(-joint[used], kind="stable")]
    numbers = np.asarray(ranked if ordered.encoder is None else ordered.numbers[ranked - 1], np.int64)
    return numbers[numbers < model.n_features]


def feature_importance(model: "Pipeline") -> Numbers:
    """Return the importance of every slot: the largest importance of its weights, over all classes and kinds of rows.

    Spares count as learners of classes that have not appeared. So the result does not depend on when a class appears.
    """
    largest = np.zeros(model.n_slots)
    for learner in model.outputs.all if not model.blends else ():
        sizes = np.abs(np.asarray(learner.weights(), np.float64))
        largest = np.maximum(largest, _with_rms(model, learner, sizes, DEFAULT_POWER))
    for blend in model.blends:
        for part in blend.parts:
            sizes = np.abs(np.asarray(blend.vector_of(part.kind)[0], np.float64))
            largest = np.maximum(largest, (sizes * blend.squares_of(part.kind) ** (DEFAULT_POWER / 2))[: len(largest)])
    return largest


def rms_of(learner: Any, kinds: Sequence[Kind] = PLAIN) -> Numbers | None:
    """Return q_j of every weight, up to a factor, for rows as they were learned; None if the state has no information.

    For a blend, there is a vector for each of these kinds of rows, one after another.
    """
    if learner.weights_only:
        return None
    if learner.algorithm.kind == "blend":  # it stores the sums
        squares = np.concatenate([learner.squares_of(rows_kind) for rows_kind in kinds])
        return np.asarray(np.sqrt(squares))
    if learner.has_variance:  # 1/σ_j grows by x_j²/r with every row that is learned
        precision = 1.0 / np.asarray(learner.variance(), np.float64)
        return np.sqrt(np.maximum(precision - 1.0 / _fresh_variance(learner), 0.0))
    root = GRADIENTS.get(learner.algorithm.name)
    if root is None:
        return None
    return np.asarray(root(learner.coordinates(learner.offset, learner.n_features + learner.offset)), np.float64)


def _fresh_variance(learner: Any) -> float:
    """Return the variance of a feature that never occurred. With batch methods it is 1."""
    return float(learner.rule.variance(learner.rule.fresh())) if learner.algorithm.kind == "online" else 1.0


def _by_scales(model: "Pipeline") -> Any:
    """Return √n_j, which is q_j of rows divided by their root mean square, or 1 if rows are not counted."""
    preparation = model.preparation
    if preparation.scale != "rms" or preparation.scales is None:
        return 1.0
    return np.sqrt(preparation.scales.columns(np.arange(model.n_slots))["counts"])
