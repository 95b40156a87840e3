"""What a learner takes, foreseen."""

from typing import Any

from thinstream.engine.forgetting import declared
from thinstream.engine.full import Matrix
from thinstream.errors import InvalidInputError
from thinstream.learners.limits import physical_memory
from thinstream.learners.memory import field_names, is_full
from thinstream.learners.protocol import AnyLearner
from thinstream.one_vs_rest import OneVsRest
from thinstream.preparing import plain_learner, preparation_of


def needed(learner: AnyLearner, n_features: int) -> int:
    """Bytes of state of a learner this wide, which need not be taken."""
    scales, inner = preparation_of(learner).scales, plain_learner(learner)
    models = len(inner._held) if isinstance(inner, OneVsRest) else 1
    if learner.algorithm.kind == "blend" and not learner.weights_only:
        one: Any = inner._held[0] if isinstance(inner, OneVsRest) else inner
        each = int(one.needed(n_features))
    else:
        rule = inner._rule if isinstance(inner, OneVsRest) else inner.rule
        fields, clocks = field_names(declared(type(rule)).coordinate)
        each = n_features * (len(fields) * learner.dtype.itemsize + 8 * len(clocks))
        each += Matrix.size(n_features) * learner.dtype.itemsize if is_full(rule) else 0
    return models * each + n_features * (8 * scales.width if scales is not None else 0)


def require_room(learner: AnyLearner, n_features: int) -> None:
    """Raises if state of so many features that occurred would not fit into the machine."""
    bytes_needed, have = needed(learner, n_features), physical_memory()
    if bytes_needed > 0.7 * have:
        raise InvalidInputError(
            f"{n_features - 1:,} features have occurred, which makes {learner.algorithm.name} need "
            f"{bytes_needed / 1e9:,.1f} GB, this machine has {have / 1e9:,.1f} GB; hash them into fewer "
            "numbers, or take fewer models"
        )
