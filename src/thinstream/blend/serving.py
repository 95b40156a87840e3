"""What a learner predicts with: blends as the linear models they are, all others as they are."""

from typing import Any

import numpy as np

from thinstream.batch import Batch
from thinstream.blend.learner import Blend
from thinstream.blend.linear import Kind, frozen, preparation_of_kinds
from thinstream.compact import CompactLearner, narrow_learner
from thinstream.growing import Growing
from thinstream.learners.protocol import AnyLearner
from thinstream.one_vs_rest import learner_of
from thinstream.preparing import Preparation, plain_learner, preparation_of, prepared


def blends_of(learner: AnyLearner) -> list[Blend]:
    """The blends that a learner is made of: one, one for each class (those to come included), or none."""
    if learner.algorithm.name != "Auto" or learner.weights_only:
        return []
    inner = plain_learner(narrow_learner(learner))
    models: list[Any] = [*inner.models, *(inner.spares if isinstance(inner, Growing) else [])]
    return models


def rows_for_few(learner: AnyLearner, batch: Batch) -> int | None:
    """How many rows come before the first that is too wide for models of few features; None: there is none."""
    limits = [group.max_features for blend in blends_of(learner) for group in blend.groups]
    most = max((limit for limit in limits if limit is not None), default=None)
    if most is None or batch.n_features <= most:
        return None
    beyond = np.flatnonzero(batch.indices[: batch.indptr[-1]] >= most)
    return int(np.searchsorted(batch.indptr, beyond[0], side="right")) - 1 if len(beyond) else None


def leave_few(learner: AnyLearner, n_features: int) -> None:
    """Models for fewer features are out, as a row with so many will come."""
    for blend in blends_of(learner):
        blend.make_narrow_room(n_features)


def served(learner: AnyLearner) -> AnyLearner:
    """The learner without what it needs to go on, if it is made of blends; of weights in any case as it is."""
    if not blends_of(learner):
        return learner
    if isinstance(learner, CompactLearner):
        return learner.around(served(learner.inner))
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
    return [(one.scale, one.normalize) for one in rows.each]


def kinds_of_rows(learner: AnyLearner) -> int:
    """Preparations of rows for which the learner has a vector of weights for each class."""
    blends = blends_of(learner)
    return len({part.kind for blend in blends for part in blend.parts}) if blends else preparation_of(learner).vectors


def n_vectors(learner: AnyLearner) -> int:
    """Vectors of weights that are read for one of the learner's."""
    return max((len(blend.head) for blend in blends_of(learner)), default=1)
