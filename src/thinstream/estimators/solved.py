"""What estimators of batch methods share: they take a matrix, or go over a stream several times, and start anew."""

from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from thinstream.batch import Batch
from thinstream.engine.parameters import parameters_of
from thinstream.errors import InvalidInputError, InvalidParameterError
from thinstream.estimators.inputs import csr_of, labels_of, weights_of
from thinstream.estimators.streaming import classes_for, two_classes
from thinstream.estimators.undo import as_before_on_error
from thinstream.learners import Classes, class_costs, classes_of
from thinstream.learners.learner import LARGEST
from thinstream.solvers.examples import Examples
from thinstream.streams.stream import Stream


class Fit(NamedTuple):
    """What a solver has found: weights (the constant feature's last), and further fitted attributes."""

    w: NDArray[np.float64]
    attributes: dict[str, Any]


class SolvedClassifier(ClassifierMixin, BaseEstimator):
    """Base of SCD and GraDes. A subclass has ``_Parameters``, a record of its own, and ``_solve``."""

    _Parameters: ClassVar[Any]
    classes_: NDArray[Any]
    n_features_in_: int
    t_: int

    # Learning ---------------------------------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learns from scratch."""
        with as_before_on_error(self):
            p = self._checked()
            csr = csr_of(self, X, reset=True)
            labels = labels_of(y, len(csr))
            check_classification_targets(labels)
            classes, weights = two_classes(classes_of(labels)), weights_of(sample_weight, len(csr))
            batch = Batch.of(*csr, y=classes.signs(labels), weights=weights)
            batch.require_below(LARGEST["float64"], "sums of squares would overflow")
            examples = Examples.of(batch, self._costs(classes), self.fit_intercept)
            return self._take(self._solve(examples, p), examples, classes, np.unique(labels))

    def fit_stream(self, stream: Stream, classes: Any = None) -> Self:
        """Learns from scratch from a stream that can be read from its start again and again (files, no pipes).

        ``classes`` are the labels its negative and positive rows stand for; by default those it was opened with, or
        -1 and 1.
        """
        with as_before_on_error(self):
            p = self._checked()
            every, found = classes_for(stream, classes)
            known = two_classes(every)
            examples = Examples(stream.batches, costs=self._costs(known), fit_intercept=self.fit_intercept)
            self.__dict__.pop("feature_names_in_", None)
            self.n_features_in_ = examples.n_features
            return self._take(self._solve(examples, p), examples, known, found)

    def _solve(self, examples: Examples, p: Any) -> Fit:
        raise NotImplementedError

    def _take(self, fit: Fit, examples: Examples, classes: Classes, found: NDArray[Any]) -> Self:
        self._w, self._classes, self.classes_ = fit.w, classes, found
        self.t_ = examples.positives + examples.negatives
        for name, value in fit.attributes.items():
            setattr(self, name, value)
        return self

    def _costs(self, classes: Classes) -> Any:
        return class_costs(self.get_params(deep=False)["class_weight"], classes, type(self).__name__)

    def _checked(self) -> Any:
        """The parameters as the solver takes them, or InvalidParameterError."""
        given, owner = self.get_params(deep=False), type(self).__name__
        if not isinstance(given["fit_intercept"], bool | np.bool_):
            raise InvalidParameterError(f"{owner}: fit_intercept must be True or False, got {given['fit_intercept']!r}")
        own = {p.name: p.encode(given[p.name], owner) for p in parameters_of(self._Parameters)}
        return self._Parameters(**own)

    # Predicting -------------------------------------------------------------------------------------------------------

    def decision_function(self, X: Any) -> NDArray[Any]:
        """w·x of each row; positive means the second class."""
        check_is_fitted(self)
        csr = csr_of(self, X, reset=False)
        batch = Batch.of(*csr)
        rows = sp.csr_matrix((batch.values, batch.indices, batch.indptr), shape=(len(batch), batch.n_features))
        scores: NDArray[Any] = rows @ self._w[: batch.n_features] + self.intercept_[0]
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

    # Reading ----------------------------------------------------------------------------------------------------------

    @property
    def coef_(self) -> Any:
        """The weights, 1×d."""
        w = self._fitted("coef_")[np.newaxis, : self.n_features_in_]
        return sp.csr_matrix(w) if getattr(self, "_sparse_coef", False) else w

    @property
    def intercept_(self) -> NDArray[np.float64]:
        """Weight of the constant feature; 0 without ``fit_intercept``."""
        w = self._fitted("intercept_")
        return w[-1:] if len(w) > self.n_features_in_ else np.zeros(1)

    @property
    def nnz_(self) -> int:
        """Non-zero weights, the intercept not counted."""
        return int(np.count_nonzero(self._fitted("nnz_")[: self.n_features_in_]))

    @property
    def density_(self) -> float:
        """Share of the weights that are not zero."""
        return self.nnz_ / self.n_features_in_

    def _fitted(self, attribute: str) -> NDArray[np.float64]:
        if not self.__sklearn_is_fitted__():
            raise AttributeError(f"{type(self).__name__} has no {attribute} before it is fitted")
        return self._w

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_w")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.classifier_tags.multi_class = False
        return tags


def whole_numbers(values: Any, below: int, owner: str, name: str) -> NDArray[np.int64]:
    """A sequence of whole numbers from 0 to below − 1."""
    found = np.asarray(values)
    if found.ndim != 1 or (found.size and found.dtype.kind not in "iu"):
        raise InvalidParameterError(f"{owner}: {name} must be a sequence of whole numbers, or None, got {values!r}")
    bad = found[(found < 0) | (found >= below)]
    if bad.size:
        raise InvalidInputError(f"{owner}: {name} must be from 0 to {below - 1}, got {bad[0]}")
    return found.astype(np.int64)
