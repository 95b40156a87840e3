"""Models without scikit-learn: a rule, its memory, classes, and the counters of a run."""

from thinstream.learners.classes import AnyClasses, Classes, ManyClasses, class_costs, classes_of, costs_of_each
from thinstream.learners.frozen import Frozen
from thinstream.learners.full import FullLearner
from thinstream.learners.learner import Learner
from thinstream.learners.making import make_learner
from thinstream.learners.merging import merge, merge_table, require_mergeable
from thinstream.learners.registry import algorithms, find

__all__ = [
    "AnyClasses",
    "Classes",
    "Frozen",
    "FullLearner",
    "Learner",
    "ManyClasses",
    "algorithms",
    "class_costs",
    "classes_of",
    "costs_of_each",
    "find",
    "make_learner",
    "merge",
    "merge_table",
    "require_mergeable",
]
