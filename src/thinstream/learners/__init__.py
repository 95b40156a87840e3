"""Models without scikit-learn: a rule, its memory, classes, and the counters of a run."""

from thinstream.learners.classes import Classes, class_costs, class_weight_of
from thinstream.learners.frozen import Frozen
from thinstream.learners.full import FullLearner
from thinstream.learners.learner import Learner
from thinstream.learners.merging import merge, require_distinct, require_mergeable
from thinstream.learners.registry import algorithms, find, make_learner, make_learner_like

__all__ = [
    "Classes",
    "Frozen",
    "FullLearner",
    "Learner",
    "algorithms",
    "class_costs",
    "class_weight_of",
    "find",
    "make_learner",
    "make_learner_like",
    "merge",
    "require_distinct",
    "require_mergeable",
]
