"""What a learner predicts with: blends as the linear models they are, all others as they are."""

from typing import Any

from thinstream.blend.learner import Blend
from thinstream.errors import InvalidInputError
from thinstream.growing import Growing
from thinstream.learners.protocol import AnyLearner
from thinstream.one_vs_rest import learner_of
from thinstream.preparing import plain_learner, preparation_of, prepared


def blends_of(learner: AnyLearner) -> list[Blend]:
    """The blends that a learner is made of: one, one for each class (those to come included), or none."""
    if learner.algorithm.name != "Auto" or learner.weights_only:
        return []
    inner = plain_learner(learner)
    models: list[Any] = [*inner.models, *(inner.spares if isinstance(inner, Growing) else [])]
    return models


def served(learner: AnyLearner) -> AnyLearner:
    """The learner without what it needs to go on, if it is made of blends; of weights in any case as it is."""
    if not blends_of(learner):
        return learner
    plain = plain_learner(learner)
    models = [blend.the_linear() for blend in plain.models]
    kinds = {tuple(preparation_of(model).kinds.values()) for model in models}
    if len(kinds) > 1:
        raise InvalidInputError(
            "Auto: the models of its classes learn rows of different preparations, so that no single kind of rows can "
            "be multiplied with their weights; a portfolio with one normalize for all has one"
        )
    inner = [plain_learner(model) for model in models]
    if isinstance(plain, Growing):
        together: AnyLearner = Growing(inner, [], plain.n_mistakes, plain.spare_costs)
    else:
        together = learner_of(inner, plain.n_mistakes)
    preparation = preparation_of(learner) or preparation_of(models[0])
    found: AnyLearner = prepared(together, preparation)
    return found


def n_vectors(learner: AnyLearner) -> int:
    """Vectors of weights that are read for one of the learner's."""
    return max((len(blend.head) for blend in blends_of(learner)), default=1)
