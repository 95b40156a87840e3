"""What a learner predicts with: blends as the linear models they are, all others as they are."""

from typing import Any

from thinstream.blend.learner import Blend
from thinstream.blend.linear import Kind, frozen, preparation_of_kinds
from thinstream.growing import Growing
from thinstream.learners.protocol import AnyLearner
from thinstream.one_vs_rest import learner_of
from thinstream.preparing import Preparation, Several, plain_learner, preparation_of, prepared


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
    blends = list(plain.models)
    rows = preparation_of_kinds([blend.parts for blend in blends], plain.n_features)
    inner = [frozen(blend, [blend.vector_of(kind) for kind in kinds_of(rows)]) for blend in blends]
    if isinstance(plain, Growing):
        together: AnyLearner = Growing(inner, [], plain.n_mistakes, plain.spare_costs)
    else:
        together = learner_of(inner, plain.n_mistakes)
    found: AnyLearner = prepared(together, preparation_of(learner) or rows)
    return found


def kinds_of(rows: Preparation) -> list[Kind]:
    """The kinds of rows that vectors are for, one after another."""
    each = rows.each if isinstance(rows, Several) else [rows]
    return [(one.scale, one.normalize) for one in each]


def kinds_of_rows(learner: AnyLearner) -> int:
    """Preparations of rows for which the learner has a vector of weights for each class."""
    blends = blends_of(learner)
    return len({part.kind for blend in blends for part in blend.parts}) if blends else preparation_of(learner).vectors


def n_vectors(learner: AnyLearner) -> int:
    """Vectors of weights that are read for one of the learner's."""
    return max((len(blend.head) for blend in blends_of(learner)), default=1)
