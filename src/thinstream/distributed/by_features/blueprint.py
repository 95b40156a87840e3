"""What a model is before it has any memory, and whether its features may live on several machines."""

from dataclasses import dataclass
from typing import Any, Self

from thinstream.budget.learner import require_all_features
from thinstream.compact import narrow_learner
from thinstream.engine import rule as rules
from thinstream.engine.forgetting import HALF_LIFE
from thinstream.errors import InvalidParameterError, WeightsOnlyError
from thinstream.learners import Classes, Learner
from thinstream.learners.memory import is_full
from thinstream.learners.registry import find, make_learner_like, rule_of
from thinstream.models.model import Model
from thinstream.one_vs_rest import AnyLearner, learner_of

#: Said of models that scale or normalise rows, of which a worker has a part only.
NOT_PREPARED = (
    "mode='features' (--mode features) is for rows as they are: no worker has a whole row to normalize, nor the scales "
    "of all features; mode='examples' takes scale and normalize"
)


@dataclass(frozen=True)
class Blueprint:
    """What makes a model, without its memory, which need not fit on the machine that has the blueprint.

    ``learners`` have seen nothing and are one feature wide: one for two classes, else one per class.
    """

    learners: tuple[Learner, ...]
    classes: Classes
    n_features: int

    @classmethod
    def of(cls, model: Model, n_features: int | None = None) -> Self:
        """The blueprint of a model, of another width if one is given; refused if it cannot be cut by features."""
        require_all_features(model.learner)
        learner = narrow_learner(model.learner)
        if learner.weights_only:
            raise WeightsOnlyError(f"this {learner.algorithm.name} has its weights only and cannot go on learning")
        if model.preparation:
            raise InvalidParameterError(NOT_PREPARED)
        require_separable(learner.algorithm.name, learner.parameters)
        fresh = tuple(make_learner_like(each, n_features=1, grow=model.learner.grow) for each in learner.models)
        return cls(fresh, model.classes, model.learner.n_features if n_features is None else n_features)

    def whole(self, n_features: int, n_mistakes: int = 0) -> AnyLearner:
        """A model of all features that has seen nothing."""
        return learner_of([make_learner_like(e, n_features=n_features, grow=e.grow) for e in self.learners], n_mistakes)

    def slice(self, n_features: int, width: int) -> list[Learner]:
        """The learners, one per class, of ``width`` of the coordinates of a model that has ``n_features``."""
        changes = {"n_features": width, "fit_intercept": False}
        models = [make_learner_like(each, grow=each.grow, **changes) for each in self.learners]
        for model in models:  # thresholds on the share of non-zero weights are about the whole model
            model.rule = rule_of(model.algorithm, model.parameters).for_width(n_features)
        return models


def require_separable(algorithm: str, parameters: dict[str, Any]) -> None:
    """Raises unless each coordinate of the algorithm moves by itself, given s and v.

    >>> require_separable("sofs", {})
    Traceback (most recent call last):
    thinstream.errors.InvalidParameterError: SOFS ranks or couples its coordinates, so they cannot live on several
    machines; mode='features' is for algorithms that move each by itself
    """
    found = find(algorithm)
    rule = rule_of(found, parameters)
    if found.kind != "online":
        raise InvalidParameterError(
            f"{found.name} learns by examples: mode='features' is for algorithms that learn online"
        )
    if is_full(rule):
        raise InvalidParameterError(
            f"{found.name}: covariance='full' couples all coordinates, so they cannot live on several machines; "
            "mode='features' needs covariance='diagonal'"
        )
    if parameters.get(HALF_LIFE) is not None:
        raise InvalidParameterError(
            f"{found.name}: mode='features' has no half_life (its mini-batches would be discounted out of order); "
            "learn on one machine, or without it"
        )
    if has_own_hook(type(rule), "settle") or len(rule.extra()):
        raise InvalidParameterError(
            f"{found.name} ranks or couples its coordinates, so they cannot live on several machines; mode='features' "
            "is for algorithms that move each by itself"
        )


def has_own_hook(rule: Any, name: str) -> bool:
    """Whether a rule has a hook of its own."""
    return bool(getattr(rule, name).__module__ != rules.__name__)
