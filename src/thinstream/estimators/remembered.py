"""What a model file remembers of the estimator it was: parameters it learned with, and whether they are still these."""

from typing import Any

import numpy as np

from thinstream.blend.member import same_portfolio
from thinstream.budget import BudgetLearner
from thinstream.learners import class_weight_of, find
from thinstream.models import Model

#: Parameters that ``fit`` alone uses: they may change in the middle of a stream.
ONLY_FIT = ("n_passes", "shuffle", "random_state")
#: The entry of ``Model.extra`` with what only estimators have.
KEY = "estimator"
#: What it says there of a model whose scores a head is fitted to: the algorithm.
CALIBRATED = "calibrated"


def learned_parameters(model: Model) -> dict[str, Any]:
    """The parameters of an estimator that a model has learned with."""
    learner, known = model.learner, model.extra.get(KEY, {})
    costs = tuple(each.costs for each in learner.models)
    own = model.class_weight if model.classes.grow else class_weight_of(costs, model.classes)
    weight = known.get("class_weight", own)
    algorithm, parameters = learner.algorithm, learner.parameters
    if CALIBRATED in known:
        algorithm, parameters = find(known[CALIBRATED]), learner.parameters["portfolio"][0]["parameters"]
    return {
        **{parameter.name: parameters.get(parameter.name) for parameter in algorithm.parameters},
        "calibrate": CALIBRATED in known,
        "class_weight": dict(weight) if isinstance(weight, list) else weight,
        "fit_intercept": bool(learner.offset),
        "dtype": learner.dtype.name,
        "grow": learner.grow,
        "grow_classes": model.classes.grow,
        **model.preparation.kinds,
        **(model.budget if isinstance(learner, BudgetLearner) else {"max_features": None}),
    }


def as_pairs(class_weight: Any) -> Any:
    """A dict as JSON can hold it, whatever its keys are."""
    return [[*pair] for pair in class_weight.items()] if isinstance(class_weight, dict) else class_weight


def same_value(name: str, value: Any, was: Any) -> bool:
    """Whether a parameter has the value it had."""
    if name == "dtype":
        return bool(np.dtype(value).name == was)
    if name == "portfolio":
        return same_portfolio(value, was)
    if np.ndim(value) or np.ndim(was):
        return bool(np.array_equal(value, was))
    return value is was or bool(value == was)
