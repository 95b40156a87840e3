"""The estimators that need many rows at once; they differ in their parameters and in what their learners read."""

import warnings
from typing import Any, Self, cast

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.feature_selection import SelectorMixin
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from thinstream.batch import Batch
from thinstream.batch_learners.base import BatchLearner
from thinstream.batch_learners.devices import is_device_array
from thinstream.batch_learners.rows import Examples, require_finite
from thinstream.errors import InvalidInputError
from thinstream.estimators.base import as_before_on_error, attribute_of_learner, replacing
from thinstream.estimators.inputs import labels_of, weights_of
from thinstream.estimators.streams import StreamClassifier
from thinstream.learners import Classes, find
from thinstream.learners.learner import LARGEST
from thinstream.models import Model
from thinstream.streams.at_hand import batch_like, require_numbers

#: Precision of those that have no choice.
WIDE = "float64"


class BatchClassifier(StreamClassifier):
    """Base of the estimators that take all rows at once: they start anew each time.

    What is said here holds for those below where they say nothing else (`factory` puts it into their docstrings).

    Parameters
    ----------
    class_weight : None, "balanced" or dict {label: weight}, default=None
        Costs c of the classes, which multiply C row by row. "balanced" is the ratio of the class counts.
    fit_intercept : bool, default=False
        Learn a constant feature along, reported as ``intercept_``: to the algorithm it is one of the features.
    dtype : {"float32", "float64"}, default="float32"
        Precision of the weights; these solvers compute in 64 bits.

    Attributes
    ----------
    coef_ : array or sparse matrix of shape (1, n_features)
        The weights; sparse after ``sparsify()``.
    intercept_ : array of shape (1,)
    classes_ : array of shape (2,)
        The labels; the second is positive.
    t_, n_mistakes_, n_updates_ : int
        Examples learned from, called wrong before their update, and updated on.
    cumulative_loss_ : float
        Sum of the algorithm's own loss.
    nnz_, density_ : int, float
        Non-zero weights, and their share of all.

    """

    _common: tuple[str, ...] = ("class_weight", "fit_intercept", "dtype")

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learns from scratch from all rows."""
        with replacing(self) as fitted:
            fitted._fit(X, y, sample_weight)
        return self

    def _fit(self, X: Any, y: Any, sample_weight: Any) -> Self:
        self._check_common_parameters()
        rows = self._rows(X, reset=True)
        labels = labels_of(y, rows.shape[0])
        check_classification_targets(labels)
        classes = Classes.of(labels).require_two(self._algorithm)
        examples = self._examples(rows, classes, labels, sample_weight)
        if not examples.weights.any():
            raise InvalidInputError("sample_weight: at least one weight must be non-zero, all are zero")
        columns = getattr(self, "feature_names_in_", None)
        model = self._fresh_model(classes, rows.shape[1], np.unique(labels), columns)
        learner: Any = model.learner
        learner.learn_rows(self._in_order(examples), last=True)
        if not getattr(learner, "converged", True):
            warnings.warn(
                f"{self._algorithm} stopped before its subproblems were solved; a smaller C, or rows of "
                "unit length, make them easier",
                ConvergenceWarning,
                stacklevel=3,
            )
        return self._adopt(model)

    def _scores(self, X: Any) -> NDArray[Any]:
        found = batch_like(self._model, X)
        if found is not None:
            return self._model.learner.scores(found)
        rows, learner = self._rows(X, reset=False), cast("BatchLearner", self._model.learner)
        scores = learner.row_scores(rows)
        if not np.all(np.isfinite(scores)):
            require_finite(Examples(rows, np.empty(0, np.int8), np.empty(0)))
        return learner.finite(scores)

    def _fresh_model(
        self, classes: Classes, n_features: int = 0, labels: Any = None, columns: Any = None, **more: Any
    ) -> Model:
        given = self.get_params(deep=False)
        if "dtype" not in given:
            more = {"dtype": WIDE, **more}
        model = super()._fresh_model(classes.require_two(self._algorithm), n_features, labels, columns, **more)
        if "random_state" in given:
            learner: Any = model.learner
            learner.random = check_random_state(given["random_state"])
        return model

    def _in_order(self, examples: Examples) -> Examples:
        return examples

    def _examples(self, rows: Any, classes: Classes, labels: Any, sample_weight: Any) -> Examples:
        weights = weights_of(sample_weight, len(labels))
        return Examples(rows, classes.coded(labels), np.ones(len(labels)) if weights is None else weights)

    def _rows(self, X: Any, *, reset: bool) -> Any:
        """X as a CSR matrix, checked; where the learner wants them, dense rows and arrays on devices as they are."""
        dense = find(self._algorithm).learner.takes_dense
        if is_device_array(X):
            if dense:
                return self._device_rows(X, reset)
            raise InvalidInputError(
                f"{self._algorithm} takes numpy arrays and sparse matrices, got {type(X).__module__}."
                f"{type(X).__name__}; only BCW learns on a device"
            )
        require_numbers(X)
        X = validate_data(
            self, X, reset=reset, accept_sparse="csr", dtype=[np.float64, np.float32], ensure_all_finite=False
        )
        if not sp.issparse(X):
            if dense:
                return X
            X = sp.csr_matrix(X)
        kind = str(self.get_params(deep=False).get("dtype", WIDE))
        checked = Batch.of(X.indptr, X.indices, X.data, X.shape[1])
        checked.require_below(LARGEST.get(kind, np.inf), f"{kind} allows {LARGEST.get(kind, 0):g}: squares overflow")
        return sp.csr_matrix((checked.values, checked.indices, checked.indptr), shape=X.shape)

    def _device_rows(self, X: Any, reset: bool) -> Any:
        """An array on a device: its shape is checked here, its values by what is computed from them."""
        if X.ndim != 2 or X.shape[0] == 0:
            raise InvalidInputError(f"X must have two dimensions and at least one row, got shape {tuple(X.shape)}")
        if reset:
            self.n_features_in_ = int(X.shape[1])
            self.__dict__.pop("feature_names_in_", None)
        elif X.shape[1] != self.n_features_in_:
            raise InvalidInputError(f"X has {X.shape[1]} features, but the model has {self.n_features_in_}")
        return X

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags


class BufferedClassifier(BatchClassifier):
    """Base of the estimators that learn batch after batch.

    Parameters
    ----------
    class_weight : None, "balanced" or dict {label: weight}, default=None
        Costs c of the classes, which multiply the mean's steps. "balanced" is the running ratio of the class counts.
    shuffle : bool, default=False
        Whether ``fit`` takes the rows in random order.
    random_state : int, RandomState or None, default=None
        Seed of the shuffling.
    dtype : {"float32", "float64"}, default="float32"
        Precision of state and matrix work; decisions and counters have 64 bits.

    Attributes
    ----------
    n_waiting_ : int
        Examples that wait until their batch is full.
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
        with as_before_on_error(self):
            check_is_fitted(self)
            self._model.learner.finish()
        return self

    n_waiting_: int = attribute_of_learner("n_waiting", "Examples that wait until their batch is full.")

    def _learn(self, X: Any, y: Any, classes: Any, sample_weight: Any, *, classes_from_y: bool) -> NDArray[Any]:
        first = not self.__sklearn_is_fitted__()
        if first:
            self._check_common_parameters()
        rows = self._rows(X, reset=first)
        labels = labels_of(y, rows.shape[0])
        model = self._model_to_teach(labels, classes, rows.shape[1], classes_from_y)
        examples = self._examples(rows, model.classes, labels, sample_weight)
        learner = cast("BatchLearner", model.learner)
        if learner.parameters["batch_size"]:
            require_finite(examples)  # a row that waits must not turn out bad later
        self._adopt(model)
        return learner.learn_rows(examples)

    def _in_order(self, examples: Examples) -> Examples:
        given = self.get_params(deep=False)
        if not given["shuffle"]:
            return examples
        return examples.take(check_random_state(given["random_state"]).permutation(len(examples)))


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
    t_, n_mistakes_, n_updates_ : int
        Examples learned from, those of weight 0 not counted; called wrong by the final weights; steps that moved.
    cumulative_loss_ : float
        Sum of the algorithm's own loss under the final weights.

    """

    _common = ("class_weight", "fit_intercept")


class Selecting(SelectorMixin):
    """``get_support`` and ``transform``: the features it chose, so that a Pipeline can go on with them."""

    def _get_support_mask(self) -> NDArray[np.bool_]:
        me: Any = self
        check_is_fitted(me)
        found: NDArray[np.bool_] = me._model.learner.support()
        return found


def found_attribute(name: str) -> property:
    """What the learner has found under this name, with an underscore behind it."""

    def read(self: Any) -> Any:
        return self._fitted(f"{name}_").found[name]

    return property(read)
