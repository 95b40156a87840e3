"""What the estimators that need all rows of a batch at once share; they differ in their parameters and learners."""

import os
import warnings
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.feature_selection import SelectorMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from thinstream.batch import Batch
from thinstream.batch_learners.base import BatchLearner
from thinstream.batch_learners.devices import is_device_array
from thinstream.batch_learners.rows import Examples, require_finite
from thinstream.engine.rule import Algorithm
from thinstream.errors import InvalidInputError, InvalidParameterError, MergeError
from thinstream.estimators.batch_streams import BatchStreaming
from thinstream.estimators.inputs import labels_of, weights_of
from thinstream.estimators.undo import as_before_on_error
from thinstream.learners import Classes, class_costs
from thinstream.learners.learner import LARGEST

#: Precision of those that have no choice.
WIDE = "float64"


class BatchClassifier(BatchStreaming, ClassifierMixin, BaseEstimator):
    """Base of the estimators that take all rows at once: they start anew each time.

    Parameters
    ----------
    class_weight : None, "balanced" or dict {label: weight}, default=None
        Costs c of the classes, which multiply C row by row. "balanced" is the ratio of the class counts.
    fit_intercept : bool, default=False
        Learn a constant feature along, reported as ``intercept_``.
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

    _declared: Algorithm
    _common: tuple[str, ...] = ("class_weight", "fit_intercept", "dtype")
    n_features_in_: int
    classes_: NDArray[Any]

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learns from scratch from all rows."""
        with as_before_on_error(self):
            self._check_common_parameters()
            rows = self._rows(X, reset=True)
            labels = labels_of(y, rows.shape[0])
            check_classification_targets(labels)
            classes, found = Classes.of(labels).require_two(), np.unique(labels)
            examples = Examples(rows, classes.coded(labels), self._weights(sample_weight, len(labels)))
            if not examples.weights.any():
                raise InvalidInputError("sample_weight: at least one weight must be non-zero, all are zero")
            learner = self._new_learner(classes, rows.shape[1])
            self._teach(learner, self._in_order(examples))
            if not getattr(learner, "converged", True):
                warnings.warn(
                    f"{self._declared.name} stopped before its subproblems were solved; a smaller C, or rows of "
                    "unit length, make them easier",
                    ConvergenceWarning,
                    stacklevel=2,
                )
            self._learner, self._classes, self.classes_ = learner, classes, found
        return self

    def decision_function(self, X: Any) -> NDArray[Any]:
        """w·x of each row; positive means the second class."""
        check_is_fitted(self)
        rows = self._rows(X, reset=False)
        scores = self._learner.row_scores(rows)
        if not np.all(np.isfinite(scores)):
            require_finite(Examples(rows, np.empty(0, np.int8), np.empty(0)))
        return scores

    def predict(self, X: Any) -> NDArray[Any]:
        """The class of each row; a score of exactly 0 is the first class."""
        positive = self.decision_function(X) > 0
        return self.classes_[positive.astype(np.intp)]

    def sparsify(self) -> Self:
        """``coef_`` becomes a sparse matrix."""
        check_is_fitted(self)
        self._sparse_coef = True
        return self

    def densify(self) -> Self:
        """``coef_`` becomes an array again."""
        check_is_fitted(self)
        self._sparse_coef = False
        return self

    def merge(self, other: Any, *more: Any) -> Self:
        """Raises: there is no rule that makes one such model out of several."""
        raise MergeError(f"{self._declared.name} cannot be merged: {self._learner_class().no_merge}")

    def save(self, path: str | os.PathLike[str], *, weights_only: bool = False) -> None:
        """Writes the fitted model to a file, replacing it in one step; ``thinstream.load`` reads it."""
        from thinstream.estimators.batch_saving import save_batch

        save_batch(self, path, weights_only=weights_only)

    # What subclasses change -------------------------------------------------------------------------------------------

    def _teach(self, learner: Any, examples: Examples) -> None:
        learner.learn_rows(examples, last=True)

    def _in_order(self, examples: Examples) -> Examples:
        return examples

    def _rows(self, X: Any, *, reset: bool) -> Any:
        """X as a CSR matrix, checked; where the learner wants them, dense rows and arrays on devices as they are."""
        dense = self._learner_class().takes_dense
        if is_device_array(X):
            if dense:
                return self._device_rows(X, reset)
            raise InvalidInputError(
                f"{self._declared.name} takes numpy arrays and sparse matrices, got {type(X).__module__}."
                f"{type(X).__name__}; only BCW learns on a device"
            )
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

    # Inside -----------------------------------------------------------------------------------------------------------

    def _learner_class(self) -> Any:
        return self._declared.learner

    def _new_learner(self, classes: Classes, n_features: int, grow: bool = False) -> BatchLearner:
        given = self.get_params(deep=False)
        self._learned_with = {n: v for n, v in given.items() if n not in ("shuffle", "random_state")}
        learner: BatchLearner = self._learner_class()(
            n_features=n_features,
            grow=grow,
            costs=class_costs(given["class_weight"], classes, self._declared.name)[0],
            dtype=given.get("dtype", WIDE),
            fit_intercept=given["fit_intercept"],
            **{parameter.name: given[parameter.name] for parameter in self._declared.parameters},
        )
        return learner

    def _weights(self, sample_weight: Any, n: int) -> NDArray[np.float64]:
        weights = weights_of(sample_weight, n)
        return np.ones(n) if weights is None else weights

    def _check_common_parameters(self) -> None:
        given = self.get_params(deep=False)
        for name in ("fit_intercept", "shuffle"):
            if name in given and not isinstance(given[name], bool | np.bool_):
                raise InvalidParameterError(f"{self._declared.name}: {name} must be True or False, got {given[name]!r}")

    # Reading ----------------------------------------------------------------------------------------------------------

    @property
    def coef_(self) -> Any:
        """The weights, 1×d."""
        weights = self._fitted("coef_").weights()[np.newaxis]
        return sp.csr_matrix(weights) if getattr(self, "_sparse_coef", False) else weights

    @property
    def intercept_(self) -> NDArray[Any]:
        """Weight of the constant feature; 0 without ``fit_intercept``."""
        learner = self._fitted("intercept_")
        return np.array([learner.intercept], dtype=learner.dtype)

    @property
    def nnz_(self) -> int:
        """Non-zero weights, the intercept not counted."""
        return self._fitted("nnz_").nnz

    @property
    def density_(self) -> float:
        """Share of the weights that are not zero."""
        learner = self._fitted("density_")
        return learner.nnz / learner.n_features

    @property
    def t_(self) -> int:
        """Examples learned from."""
        return self._fitted("t_").t

    @property
    def n_mistakes_(self) -> int:
        """Examples called wrong before their update."""
        return self._fitted("n_mistakes_").n_mistakes

    @property
    def n_updates_(self) -> int:
        """Rounds in which the update condition held."""
        return self._fitted("n_updates_").n_updates

    @property
    def cumulative_loss_(self) -> float:
        """Sum of the algorithm's own loss."""
        return self._fitted("cumulative_loss_").cumulative_loss

    @property
    def variance_(self) -> NDArray[Any]:
        """Variance σ of each weight."""
        learner = self._fitted("variance_")
        if learner.weights_only:
            raise AttributeError(f"this {self._declared.name} has its weights only, without variances")
        return learner.variance()

    def _fitted(self, attribute: str) -> BatchLearner:
        if not self.__sklearn_is_fitted__():
            raise AttributeError(f"{self._declared.name} has no {attribute} before it is fitted")
        return self._learner

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_learner")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.classifier_tags.multi_class = False
        return tags


class Selecting(SelectorMixin):
    """``get_support`` and ``transform``: the features it chose, so that a Pipeline can go on with them."""

    def _get_support_mask(self) -> NDArray[np.bool_]:
        me: Any = self
        check_is_fitted(me)
        found: NDArray[np.bool_] = me._learner.support()
        return found
