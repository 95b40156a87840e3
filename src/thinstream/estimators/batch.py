"""Base classes of the estimators that need many rows at once."""

import warnings
from dataclasses import replace
from typing import Any, Self, cast

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.feature_selection import SelectorMixin
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from thinstream.algorithms.batch.arrays import Examples, is_device_array, require_finite
from thinstream.algorithms.batch.base import BatchLearner
from thinstream.algorithms.registry import find
from thinstream.batch import Batch
from thinstream.data.in_memory import TableRows, batch_like, collected, require_numbers
from thinstream.data.labels import Classes
from thinstream.engine.protocol import LARGEST
from thinstream.errors import InvalidInputError
from thinstream.estimators.base import as_before_on_error, replacing
from thinstream.estimators.inputs import labels_of, weights_of
from thinstream.estimators.mixins import StreamClassifier, described
from thinstream.models.explain import with_names_of
from thinstream.models.model import Model

#: The precision of estimators without the parameter ``dtype``.
WIDE = "float64"


class BatchClassifier(StreamClassifier):
    """Base class of estimators that need all rows at once. Each call to ``fit`` trains a new model.

    tools/estimators.py combines the sections below with those of a derived base class.

    Parameters
    ----------
    class_weight : None, "balanced" or dict {label: weight}, default=None
        The cost of each class, which multiplies C in its rows. "balanced" is the ratio of the class counts.
    fit_intercept : bool, default=False
        Learn an intercept, ``intercept_``. The algorithm treats it like a feature.
    dtype : {"float32", "float64"}, default="float32"
        The precision of the weights. The solver always uses 64 bits.

    Attributes
    ----------
    coef_ : array or sparse matrix of shape (1, n_features)
        The weights. Sparse after ``sparsify()``.
    intercept_ : array of shape (1,)
        The intercept.
    classes_ : array of shape (2,)
        The labels. The second is positive.
    t_, n_mistakes_, n_updates_ : int
        The number of examples learned, misclassified before the update, and used for updates.
    cumulative_loss_ : float
        The sum of the algorithm's loss.
    nnz_, density_ : int, float
        The number of non-zero weights, and their share.

    """

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Train from scratch on all rows."""
        with replacing(self) as fitted:
            fitted._fit(X, y, sample_weight)
        return self

    def _fit(self, X: Any, y: Any, sample_weight: Any) -> Self:
        self._check_common_parameters()
        table = self._table_of(X)
        rows: Any = self._rows(X, reset=True) if table is None else None
        n, width = rows.shape if table is None else (len(table.batch), table.batch.n_features)
        labels = labels_of(y, n)
        check_classification_targets(labels)
        classes = Classes.of(labels).require_two(self._algorithm)
        weights = weights_of(sample_weight, n)
        if weights is not None and not weights.any():
            raise InvalidInputError("sample_weight must have at least one non-zero weight, got only zeros")
        columns = getattr(self, "feature_names_in_", None)
        space = {} if table is None else {"feature_space": table.feature_space}
        model = self._fresh_model(classes, width, np.unique(labels), columns, **space)
        learner, order = _batch_learner(model), self._order_of(n)
        if table is None:
            examples = self._examples(rows, classes, labels, weights)
            learner.learn_rows(examples if order is None else examples.take(order), last=True)
        else:
            batch = table.batch.labelled(classes.coded(labels), weights)
            model, _ = model.learn(batch if order is None else batch.take(order), classes, scores=False)
            model.learner.finish()
            model = described(model, table, X)
        if not getattr(learner, "converged", True):
            warnings.warn(
                f"{self._algorithm} stopped before its subproblems were solved. Try a smaller C, or normalize the rows",
                ConvergenceWarning,
                stacklevel=3,
            )
        return self._adopt(model)

    def _scores(self, X: Any) -> NDArray[Any]:
        batch = batch_like(self._model.reading_spec, X)
        if batch is not None:
            return self._model.learner.scores(batch)
        rows, learner = self._rows(X, reset=False), _batch_learner(self._model)
        scores = learner.row_scores(rows)
        if not np.all(np.isfinite(scores)):
            require_finite(Examples(rows, np.empty(0, np.int8), np.empty(0)))
        return learner.finite(scores)

    def _fresh_model(
        self, classes: Classes, n_features: int = 0, labels: Any = None, columns: Any = None, **more: Any
    ) -> Model:
        parameters = self.get_params(deep=False)
        if "dtype" not in parameters:
            more = {"dtype": WIDE, **more}
        model = super()._fresh_model(classes.require_two(self._algorithm), n_features, labels, columns, **more)
        if "random_state" in parameters:
            learner: Any = _batch_learner(model)
            learner.random = check_random_state(parameters["random_state"])
        return model

    def _order_of(self, n: int) -> NDArray[np.int64] | None:
        """Return the order in which `fit` learns n rows. None: their own order."""
        return None

    def _examples(self, rows: Any, classes: Classes, labels: Any, weights: NDArray[np.float64] | None) -> Examples:
        return Examples(rows, classes.coded(labels), np.ones(len(labels)) if weights is None else weights)

    def _rows(self, X: Any, *, reset: bool) -> Any:
        """Check X and return it as a CSR matrix, or as a dense or device array if the learner supports it."""
        dense = find(self._algorithm).learner.takes_dense
        if is_device_array(X):
            if dense:
                return self._device_rows(X, reset)
            raise InvalidInputError(
                f"{self._algorithm} accepts NumPy arrays and sparse matrices, got {type(X).__module__}."
                f"{type(X).__name__}. Only BCW learns on a device"
            )
        X = collected(X)
        require_numbers(X)
        X = validate_data(
            self, X, reset=reset, accept_sparse="csr", dtype=[np.float64, np.float32], ensure_all_finite=False
        )
        if not sp.issparse(X):
            if dense:
                return X
            X = sp.csr_matrix(X)
        dtype = str(self.get_params(deep=False).get("dtype", WIDE))
        checked = Batch.of(X.indptr, X.indices, X.data, X.shape[1])
        checked.require_below(LARGEST.get(dtype, np.inf), f"{dtype} allows {LARGEST.get(dtype, 0):g}: squares overflow")
        return sp.csr_matrix((checked.values, checked.indices, checked.indptr), shape=X.shape)

    def _device_rows(self, X: Any, reset: bool) -> Any:
        """Check the shape of an array on a device. Its values are checked later, by the results computed from them."""
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


def _batch_learner(model: Model) -> "BatchLearner":
    return cast("BatchLearner", model.learner.outputs.one)


class BufferedClassifier(BatchClassifier):
    """Base class of estimators that learn batch by batch.

    Parameters
    ----------
    class_weight : None, "balanced" or dict {label: weight}, default=None
        The cost of each class, which multiplies the steps of the mean. "balanced" is the running ratio of the class
        counts.
    shuffle : bool, default=False
        Shuffle the rows in ``fit``.
    random_state : int, RandomState or None, default=None
        The seed for shuffling.
    dtype : {"float32", "float64"}, default="float32"
        The precision of weights and matrices. Decisions and counters have 64 bits.

    Attributes
    ----------
    n_waiting_ : int
        The number of examples that wait until their batch is full.
    variance_ : array of shape (n_features,)
        The variance of each weight.

    """

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Update the model. The first call needs ``classes``, all labels that will occur.

        With ``batch_size``, rows wait until their batch is full (see ``flush``). The batches do not depend on how many
        rows a call has.
        """
        with as_before_on_error(self):
            self._learn(X, y, classes, sample_weight, classes_from_y=False)
        return self

    def learn(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> NDArray[Any]:
        """Update the model like ``partial_fit``, and return the progressive scores (before each update).

        A row that waits for its batch is scored with the current weights. The first call does not need ``classes`` if y
        contains both.
        """
        with as_before_on_error(self):
            return self._learn(X, y, classes, sample_weight, classes_from_y=True)

    def flush(self) -> Self:
        """Learn the waiting rows as a smaller batch."""
        with as_before_on_error(self):
            check_is_fitted(self)
            self._model.learner.finish()
        return self

    @property
    def n_waiting_(self) -> int:
        """The number of examples that wait until their batch is full."""
        self._fitted("n_waiting_")
        return _batch_learner(self._model).n_waiting

    def _learn(self, X: Any, y: Any, classes: Any, sample_weight: Any, *, classes_from_y: bool) -> NDArray[Any]:
        first = not self.__sklearn_is_fitted__()
        if first:
            self._check_common_parameters()
        table = self._table_of(X) if first else None
        batch = table.batch if table is not None else None if first else batch_like(self._model.reading_spec, X)
        if batch is not None:
            return self._learn_batch(X, batch, table, y, classes, sample_weight, classes_from_y)
        rows = self._rows(X, reset=first)
        labels = labels_of(y, rows.shape[0])
        model = self._model_to_teach(labels, classes, rows.shape[1], classes_from_y)
        examples = self._examples(rows, model.classes, labels, weights_of(sample_weight, len(labels)))
        learner = _batch_learner(model)
        if learner.parameters["batch_size"]:
            require_finite(examples)  # an invalid row must not fail later, when its batch is learned
        self._adopt(model)
        return learner.learn_rows(examples)

    def _learn_batch(
        self, X: Any, batch: Batch, table: TableRows | None, y: Any, classes: Any, sample_weight: Any, from_y: bool
    ) -> NDArray[Any]:
        """Learn rows with named features. ``table`` is set for the first rows."""
        labels = labels_of(y, len(batch))
        space = {} if table is None else {"feature_space": table.feature_space}
        model = self._model_to_teach(labels, classes, batch.n_features, from_y, **space)
        batch = batch.labelled(model.classes.coded(labels), weights_of(sample_weight, len(batch)))
        model, scores = model.learn(batch, model.classes)
        self._adopt(with_names_of(model if table is None else replace(model, reading=table.reading), X))
        return scores

    def _order_of(self, n: int) -> NDArray[np.int64] | None:
        parameters = self.get_params(deep=False)
        return check_random_state(parameters["random_state"]).permutation(n) if parameters["shuffle"] else None


class RepeatingClassifier(BatchClassifier):
    """Base class of estimators that make several passes over a matrix or a stream. Each call to ``fit`` starts again.

    Parameters
    ----------
    class_weight : None, "balanced" or dict {label: weight}, default=None
        The weight of the loss of each class. "balanced" gives positives the weight n₋/n₊.
    fit_intercept : bool, default=False
        Add a column of ones, which is a feature like any other.
    random_state : int, RandomState or None, default=None
        The random seed.

    Attributes
    ----------
    coef_ : array or sparse matrix of shape (1, n_features)
        The weights, in 64 bits. Sparse after ``sparsify()``.
    t_, n_mistakes_, n_updates_ : int
        The number of examples with a weight above 0, the number misclassified by the final weights, and the number of
        steps that changed the weights.
    cumulative_loss_ : float
        The sum of the algorithm's loss with the final weights.

    """


class Selecting(SelectorMixin):
    """Adds ``get_support`` and ``transform``, which return the selected features, for use in a Pipeline."""

    def _get_support_mask(self) -> NDArray[np.bool_]:
        me: Any = self
        check_is_fitted(me)
        mask: NDArray[np.bool_] = _batch_learner(me._model).support()
        return mask


def found_attribute(name: str) -> Any:
    """Return the property ``name_`` of an estimator, which reads a result of its learner."""

    def read(self: Any) -> Any:
        self._fitted(f"{name}_")
        learner: Any = _batch_learner(self._model)
        return learner.found[name]

    return property(read)
