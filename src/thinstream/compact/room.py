"""When a learner keeps state for the features that occur only: foreseen, before the memory is taken."""

from bisect import bisect_right
from collections.abc import Callable
from typing import Any

from thinstream.compact.learner import CompactLearner, compacted
from thinstream.compact.sizes import needed
from thinstream.errors import InvalidParameterError
from thinstream.learners.limits import physical_memory
from thinstream.learners.memory import extra_size, is_full
from thinstream.learners.protocol import AnyLearner
from thinstream.one_vs_rest import OneVsRest
from thinstream.preparing import plain_learner

#: Bytes of state up to which names hashed into numbers are kept as wide as these are; most of them never occur.
HASHED = 1 << 26
#: The same of numbers that somebody gave to features, most of which do occur.
NUMBERED = 1 << 28
#: Features that are kept as they are without a look at what they take.
FEW = 1 << 16
#: A share of the numbers that occurs, above which it pays to have all of them.
MANY = 1 / 3


def takes_much(learner: AnyLearner, n_features: int, hashed: bool) -> bool:
    """Whether it becomes far wider than before, and its state would take much."""
    wider = not isinstance(learner, CompactLearner) and n_features >= 2 * learner.n_features and n_features > 0
    online = learner.reads == "once" and learner.algorithm.kind != "batch"
    return wider and online and needed(learner, n_features) > (HASHED if hashed else NUMBERED)


def fitting(learner: AnyLearner, n_features: int, hashed: bool) -> AnyLearner:
    """The learner as it should be before it becomes so wide: compact, where that is far more than before and much."""
    return compacted(learner) if takes_much(learner, n_features, hashed) and can_be_compact(learner) else learner


def begun(make: Callable[[int, bool], AnyLearner], n_features: int, grow: bool, hashed: bool) -> AnyLearner:
    """What ``make`` makes of a width and whether it may grow; compact, where so wide a one would take much."""
    if n_features < FEW:
        return make(n_features, grow)
    try:
        narrow = make(0, True)
    except InvalidParameterError:
        return make(n_features, grow)  # which says what is wrong with it, if not that it would grow
    found = fitting(narrow, n_features, hashed)
    if not isinstance(found, CompactLearner):
        return make(n_features, grow)
    found.n_features, found.grow = n_features, grow
    return found


def settled(learner: AnyLearner) -> AnyLearner:
    """The learner as it should go on: whole again, where many of the numbers have occurred and there is room."""
    if (
        not (isinstance(learner, CompactLearner) and learner.may_be_whole)
        or len(learner.table) <= MANY * learner.n_features
    ):
        return learner
    if needed(learner.inner, learner.n_features) > 0.3 * physical_memory():
        return learner
    found: AnyLearner = learner.whole()
    return found


def can_be_compact(learner: AnyLearner) -> bool:
    """Whether nothing of it depends on how many features there are, or on the order of their numbers."""
    if learner.reads != "once" or learner.algorithm.kind == "batch":
        return False
    inner: Any = plain_learner(learner)
    if learner.algorithm.kind == "blend":
        blends: list[Any] = [inner] if not isinstance(inner, OneVsRest) else list(inner._held)
        return learner.weights_only or all(
            blend.most is None and all(map(is_plain, (lane.rule for group in blend.groups for lane in group._lanes)))
            for blend in blends
        )
    return is_plain(inner._rule if isinstance(inner, OneVsRest) else inner.rule)


def widest(learner: AnyLearner, most_bytes: int, most: int) -> int:
    """Return the largest width, up to ``most``, whose state fits into some bytes.

    A learner that can be compact only keeps state for features that occur, so any width fits.
    """
    if isinstance(learner, CompactLearner) or can_be_compact(learner):
        return most
    return max(bisect_right(range(most + 1), most_bytes, key=lambda width: needed(learner, width)) - 1, 0)


def is_plain(rule: Any) -> bool:
    """Whether a rule moves each coordinate by itself, whatever its number is and however many there are."""
    return not (rule.needs_dimension() or is_full(rule) or extra_size(rule))
