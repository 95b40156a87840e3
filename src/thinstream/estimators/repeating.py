"""Estimators that go over all rows again and again: SCD and GraDes."""

from typing import Any

from sklearn.utils import check_random_state

from thinstream.batch_learners.base import BatchLearner
from thinstream.batch_learners.rows import Examples
from thinstream.estimators.batch_base import BatchClassifier
from thinstream.learners import Classes
from thinstream.streams.stream import Stream


class RepeatingClassifier(BatchClassifier):
    """Base of the estimators that take a matrix, or go over a stream several times, and start anew each time.

    Parameters
    ----------
    class_weight : None, "balanced" or dict {label: weight}, default=None
        Weights of the rows' losses; "balanced" gives positives n₋/n₊.
    fit_intercept : bool, default=False
        A last column of ones, as a feature like any.
    random_state : int, RandomState or None, default=None
        Seed of what is drawn.

    Attributes
    ----------
    coef_ : array or sparse matrix of shape (1, n_features)
        The weights, in 64 bits; sparse after ``sparsify()``.
    intercept_ : array of shape (1,)
    classes_ : array of shape (2,)
        The labels; the second is positive.
    t_, n_mistakes_, n_updates_ : int
        Examples learned from, those of weight 0 not counted; called wrong by the final weights; steps that moved.
    cumulative_loss_ : float
        Sum of the algorithm's own loss under the final weights.
    nnz_, density_ : int, float
        Non-zero weights, and their share of all.

    """

    _common = ("class_weight", "fit_intercept")

    def _teach(self, learner: Any, examples: Examples) -> None:
        learner.random = self._random()
        learner.learn_rows(examples)

    def _taught_by(self, stream: Stream, classes: Classes) -> BatchLearner:
        learner: Any = self._new_learner(classes, 0, grow=True)
        learner.random = self._random()
        learner.learn_from(stream.batches)
        learner.grow = False
        found: BatchLearner = learner
        return found

    def _random(self) -> Any:
        return check_random_state(self.get_params(deep=False).get("random_state"))


def found_attribute(name: str) -> property:
    """What the learner has found under this name, with an underscore behind it."""

    def read(self: Any) -> Any:
        return self._fitted(f"{name}_").found[name]

    return property(read)
