"""Estimators that learn batch after batch: BCW and SBCW."""

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from thinstream.batch_learners.base import BatchLearner
from thinstream.batch_learners.rows import Examples, require_finite
from thinstream.errors import InvalidInputError, InvalidParameterError, MergeError
from thinstream.estimators.batch_base import BatchClassifier
from thinstream.estimators.inputs import common_names, labels_of
from thinstream.estimators.undo import as_before_on_error
from thinstream.learners import Classes


class BufferedClassifier(BatchClassifier):
    """Base of the estimators that learn batch after batch.

    Parameters
    ----------
    class_weight : None, "balanced" or dict {label: weight}, default=None
        Costs c of the classes, which multiply the mean's steps. "balanced" is the running ratio of the class counts.
    fit_intercept : bool, default=False
        Learn a constant feature along, reported as ``intercept_``.
    shuffle : bool, default=False
        Whether ``fit`` takes the rows in random order.
    random_state : int, RandomState or None, default=None
        Seed of the shuffling.
    dtype : {"float32", "float64"}, default="float32"
        Precision of state and matrix work; decisions and counters have 64 bits.

    Attributes
    ----------
    coef_ : array or sparse matrix of shape (1, n_features)
        The weights; sparse after ``sparsify()``.
    intercept_ : array of shape (1,)
    classes_ : array of shape (2,)
        The labels; the second is positive.
    t_, n_mistakes_, n_updates_ : int
        Examples learned from, called wrong before their update, and updated on.
    n_waiting_ : int
        Examples that wait until their batch is full.
    cumulative_loss_ : float
        Sum of the algorithm's own loss.
    nnz_, density_ : int, float
        Non-zero weights, and their share of all.
    variance_ : array of shape (n_features,)
        Variance of each weight.

    """

    _common = ("class_weight", "fit_intercept", "shuffle", "random_state", "dtype")

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Goes on learning; ``classes`` must be given on the first call.

        With ``batch_size`` rows wait until their batch is full (see ``flush``), and calls may cut the rows anyhow.
        """
        with as_before_on_error(self):
            self._learn(X, y, classes, sample_weight, classes_from_y=False)
        return self

    def learn(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> NDArray[Any]:
        """``partial_fit`` that returns each row's score before its update.

        A row that goes on waiting for its batch is answered with the weights as they are. On the first call ``classes``
        may be left out if both occur in y.
        """
        with as_before_on_error(self):
            return self._learn(X, y, classes, sample_weight, classes_from_y=True)

    def flush(self) -> Self:
        """Learns from the rows that wait, as a batch smaller than the others."""
        check_is_fitted(self)
        self._learner.finish()
        return self

    def merge(self, other: Any, *more: Any) -> Self:
        """A new estimator out of several that learned from disjoint rows; they are left as they are."""
        estimators: Sequence[Any] = [self, other, *more]
        if self._learner_class().merge_all is BatchLearner.merge_all:
            return super().merge(other, *more)
        for each in estimators:
            if type(each) is not type(self):
                raise MergeError(f"{self._declared.name}: only its own kind can be merged with it, got {each!r}")
            check_is_fitted(each)
            if each.classes_.tolist() != self.classes_.tolist():
                one, two = self.classes_.tolist(), each.classes_.tolist()
                raise MergeError(f"{self._declared.name}: models to merge must agree in classes, got {one} and {two}")
        new: Self = clone(self)
        new._learner = self._learner.merged_with([each._learner for each in estimators[1:]])
        new._learned_with, new._classes, new.classes_ = self._learned_with, self._classes, self.classes_.copy()
        new.n_features_in_ = self.n_features_in_
        names = common_names(estimators)
        if names is not None:
            new.feature_names_in_ = names
        return new

    @property
    def n_waiting_(self) -> int:
        """Examples that wait until their batch is full."""
        learner: Any = self._fitted("n_waiting_")
        return int(learner.n_waiting)

    def _learn(self, X: Any, y: Any, classes: Any, sample_weight: Any, *, classes_from_y: bool) -> NDArray[Any]:
        first = not self.__sklearn_is_fitted__()
        if first:
            self._check_common_parameters()
        rows = self._rows(X, reset=first)
        labels = labels_of(y, rows.shape[0])
        if first:
            known, found = _first_classes(labels, classes, classes_from_y)
            learner = self._new_learner(known, rows.shape[1])
        else:
            known, found, learner = self._classes, self.classes_, self._learner
            self._check_unchanged_parameters()
            if classes is not None and not np.array_equal(np.unique(classes), found):
                raise InvalidInputError(f"classes={classes!r} differ from those of the first call, {found.tolist()!r}")
        examples = Examples(rows, known.coded(labels), self._weights(sample_weight, len(labels)))
        if learner.rule.batch_size:
            require_finite(examples)  # a row that waits must not turn out bad later
        out = learner.learn_rows(examples)
        self._learner, self._classes, self.classes_ = learner, known, found
        return out

    def _in_order(self, examples: Examples) -> Examples:
        given = self.get_params(deep=False)
        if not given["shuffle"]:
            return examples
        return examples.take(check_random_state(given["random_state"]).permutation(len(examples)))

    def _check_unchanged_parameters(self) -> None:
        """Parameters belong to the state: changed in the middle of a stream they would silently not take effect."""
        for name, value in self.get_params(deep=False).items():
            if name in self._learned_with and value is not (was := self._learned_with[name]) and value != was:
                raise InvalidParameterError(
                    f"{self._declared.name}: {name} was changed from {was!r} to {value!r} after learning began; "
                    "only fit, which starts anew, takes other parameters"
                )


def _first_classes(labels: Any, classes: Any, from_y: bool) -> tuple[Classes, NDArray[Any]]:
    if classes is not None:
        try:
            return Classes.of(classes).require_two(), np.unique(classes)
        except InvalidInputError as error:
            raise InvalidInputError(f"classes= must name the two labels, got {classes!r}: {error}") from None
    check_classification_targets(labels)
    found = np.unique(labels)
    if from_y and len(found) == 2:
        return Classes.of(found), found
    unless = "learn unless y holds both" if from_y else "partial_fit"
    raise ValueError(f"classes= must be passed on the first call to {unless}; y holds {found.tolist()[:5]!r}")
