"""What every estimator does; the algorithms differ only in their parameters."""

import numbers
import os
from collections.abc import Iterator
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.utils import check_random_state
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from thinstream.batch import Batch
from thinstream.errors import InvalidInputError, InvalidParameterError, MergeError
from thinstream.estimators.inputs import common_names, csr_of, extend_names, feature_names, labels_of, weights_of
from thinstream.estimators.probabilities import probabilities
from thinstream.estimators.streaming import Streaming
from thinstream.estimators.undo import as_before_on_error
from thinstream.learners import Classes
from thinstream.one_vs_rest import AnyLearner, merge, model_for

COMMON_PARAMETERS: dict[str, Any] = {
    "class_weight": None,
    "fit_intercept": False,
    "n_passes": 1,
    "shuffle": False,
    "random_state": None,
    "dtype": "float32",
    "grow": False,
}


#: Parameters that ``fit`` alone uses.
ONLY_FIT = ("n_passes", "shuffle", "random_state")

#: Rows of a shuffled pass that are gathered at a time.
PIECE = 8192


def _is_logistic(estimator: "OnlineClassifier") -> bool:
    if getattr(estimator, "loss", None) == "logistic":
        return True
    raise AttributeError("predict_proba needs loss='logistic'")


class OnlineClassifier(Streaming, ClassifierMixin, BaseEstimator):
    """Base of all estimators.

    Parameters
    ----------
    class_weight : None, "balanced" or dict {label: weight}, default=None
        Costs c of the classes; their role is the algorithm's. "balanced" is the running ratio of the class counts.
    fit_intercept : bool, default=False
        Learn a constant feature along, reported as ``intercept_``.
    n_passes : int, default=1
        Passes over the data in ``fit``.
    shuffle : bool, default=False
        Whether ``fit`` takes the rows of each pass in random order.
    random_state : int, RandomState or None, default=None
        Seed of the shuffling.
    dtype : {"float32", "float64"}, default="float32"
        Precision of state, values and sums; counters always have 64 bits.
    grow : bool, default=False
        Whether more columns than before extend the model instead of raising. Rows to predict may then have any
        width: unknown columns count nothing.

    Attributes
    ----------
    coef_ : array or sparse matrix of shape (1, n_features), or (K, n_features) of K > 2 classes
        The weights, computed on demand; sparse after ``sparsify()``.
    intercept_ : array of shape (1,) or (K,)
    classes_ : array of shape (2,) or (K,)
        The labels; of two the second is positive.
    t_, n_mistakes_ : int
        Examples seen, and those whose prediction before their update was wrong.
    n_updates_ : int, or array of shape (K,)
        Examples updated on.
    cumulative_loss_ : float, or array of shape (K,)
        Sum of the algorithm's own loss.
    nnz_, density_ : int, float
        Non-zero weights in all of ``coef_``, and their share.
    variance_ : array of shape (n_features,) or (K, n_features)
        Variance of each weight; second-order learners that keep one.

    Notes
    -----
    More than two classes are learned one-vs-rest: a model for each class, positive on its rows and negative on all
    others, the same bits as one learned alone on ``y == class``. The highest score is predicted. ``class_weight`` gives
    each class the cost of its positives, those of the others being 1; "balanced" is each model's own running ratio.

    """

    _algorithm: str
    _own_parameters: tuple[str, ...]
    n_features_in_: int
    classes_: NDArray[Any]

    # Learning ---------------------------------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learns from scratch, in ``n_passes`` passes over the rows."""
        with as_before_on_error(self):
            return self._fit(X, y, sample_weight)

    def _fit(self, X: Any, y: Any, sample_weight: Any) -> Self:
        self._check_common_parameters()
        X = csr_of(self, X, reset=True)
        labels = labels_of(y, len(X))
        check_classification_targets(labels)
        classes, found = Classes.of(labels), np.unique(labels)
        learner = self._new_learner(classes, X.n_features)
        coded, weights = classes.coded(labels), weights_of(sample_weight, len(X))
        if weights is not None and not weights.any():
            raise InvalidInputError("sample_weight: at least one weight must be non-zero, all are zero")
        # one pass can check as it learns: on an error the new learner is thrown away
        batch = Batch.unchecked(*X) if self.n_passes == 1 and not self.shuffle else Batch.of(*X)
        batch = batch.labelled(coded, weights)
        generator = check_random_state(self.random_state)
        for _ in range(self.n_passes):
            for rows in self._in_order(batch, generator):
                learner.learn(rows, scores=False)
        self._learner, self._classes, self.classes_ = learner, classes, found
        return self

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Goes on learning, one pass in the given order; ``classes`` must be given on the first call."""
        with as_before_on_error(self):
            self._learn(X, y, classes, sample_weight, scores=False, classes_from_y=False)
        return self

    def learn(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> NDArray[Any]:
        """``partial_fit`` that returns each row's score before its update: progressive validation for free.

        Of more than two classes it returns a score for each, rows × classes. On the first call ``classes`` may be left
        out if all of them occur in y.
        """
        with as_before_on_error(self):
            return self._learn(X, y, classes, sample_weight, scores=True, classes_from_y=True)

    def _learn(
        self, X: Any, y: Any, classes: Any, sample_weight: Any, *, scores: bool, classes_from_y: bool
    ) -> NDArray[Any]:
        first = not self.__sklearn_is_fitted__()
        if first:
            self._check_common_parameters()
        names = feature_names(X)
        X = csr_of(self, X, reset=first, any_width=self.grow)
        labels = labels_of(y, len(X))
        if first:
            known, found = self._first_classes(labels, classes, classes_from_y)
            learner = self._new_learner(known, X.n_features)
        else:
            known, found, learner = self._classes, self.classes_, self._learner
            self._check_unchanged_parameters()
            if classes is not None and not np.array_equal(np.unique(classes), np.unique(found)):
                raise InvalidInputError(f"classes={classes!r} differ from those of the first call, {found.tolist()!r}")
        coded, weights = known.coded(labels), weights_of(sample_weight, len(X))
        batch = Batch.unchecked(*X) if first else Batch.of(*X)  # a first learner is thrown away on an error
        out = learner.learn(batch.labelled(coded, weights), scores=scores)
        self._learner, self._classes, self.classes_ = learner, known, found
        self.n_features_in_ = learner.n_features
        if self.grow:
            extend_names(self, names)
        return out

    def _first_classes(self, labels: Any, classes: Any, from_y: bool) -> tuple[Classes, NDArray[Any]]:
        if classes is not None:
            try:
                return Classes.of(classes), np.unique(classes)
            except InvalidInputError as error:
                raise InvalidInputError(f"classes= must name all labels, got {classes!r}: {error}") from None
        check_classification_targets(labels)
        found = np.unique(labels)
        if from_y and len(found) > 1:
            return Classes.of(found), found
        unless = "learn unless y holds them all" if from_y else "partial_fit"
        raise ValueError(f"classes= must be passed on the first call to {unless}; y holds {found.tolist()[:5]!r}")

    def _new_learner(self, classes: Classes, n_features: int) -> AnyLearner:
        parameters = self.get_params(deep=False)
        self.__dict__.pop("_meaning", None)  # what feature numbers meant in a model that was loaded and is now replaced
        self._learned_with = {n: v for n, v in parameters.items() if n not in ONLY_FIT}
        return model_for(
            self._algorithm,
            classes,
            parameters["class_weight"],
            n_features=n_features,
            dtype=parameters["dtype"],
            grow=parameters["grow"],
            fit_intercept=parameters["fit_intercept"],
            **{name: parameters[name] for name in self._own_parameters},
        )

    def _in_order(self, batch: Batch, generator: np.random.RandomState) -> Iterator[Batch]:
        """One pass: the batch as it is, or shuffled, a piece at a time so that no second copy of it is made."""
        if not self.shuffle:
            yield batch
            return
        order = generator.permutation(len(batch))
        for start in range(0, len(order), PIECE):
            yield batch.take(order[start : start + PIECE])

    def _check_common_parameters(self) -> None:
        given = self.get_params(deep=False)
        for name in ("fit_intercept", "shuffle", "grow"):
            if not isinstance(given[name], bool | np.bool_):
                raise InvalidParameterError(f"{self._algorithm}: {name} must be True or False, got {given[name]!r}")
        passes = given["n_passes"]
        if isinstance(passes, bool) or not isinstance(passes, numbers.Integral) or passes < 1:
            raise InvalidParameterError(f"{self._algorithm}: n_passes must be a whole number ≥ 1, got {passes!r}")

    def _check_unchanged_parameters(self) -> None:
        """Parameters belong to the state: changed in the middle of a stream they would silently not take effect."""
        for name, value in self.get_params(deep=False).items():
            if name in self._learned_with and value is not (was := self._learned_with[name]) and value != was:
                raise InvalidParameterError(
                    f"{self._algorithm}: {name} was changed from {was!r} to {value!r} after learning began; "
                    "only fit, which starts anew, takes other parameters"
                )

    # Merging ----------------------------------------------------------------------------------------------------------

    def merge(self, other: "OnlineClassifier", *more: "OnlineClassifier", average: bool = False) -> Self:
        """A new estimator out of several that learned from disjoint parts of the data; they are left as they are.

        Algorithm, parameters, classes, columns and their names must agree; with ``grow=True`` some may have met fewer
        columns. Counters add, the order does not matter. What is merged how: `thinstream.learners.merge_table`.
        ``average=True`` averages what has no rule of its own, SSOL with ``diagonal="drop"``, instead of refusing.

        Examples
        --------
        >>> import thinstream as ts
        >>> one = ts.FSOL(eta=0.5).fit([[1.0, 0.0], [0.0, 1.0]], ["ham", "spam"])
        >>> other = ts.FSOL(eta=0.5).fit([[1.0, 0.0], [1.0, 2.0]], ["ham", "spam"])
        >>> both = one.merge(other)
        >>> both.coef_, both.t_
        (array([[-0.5,  1.5]], dtype=float32), 4)

        """
        estimators: list[OnlineClassifier] = [self, other, *more]
        for estimator in estimators:
            self._require_like(estimator)
        new: Self = clone(self)
        new._learner = merge([estimator._learner for estimator in estimators], average=average)
        new._learned_with, new._classes, new.classes_ = self._learned_with, self._classes, self.classes_.copy()
        new.n_features_in_ = new._learner.n_features
        names = common_names(estimators)
        if names is not None:
            new.feature_names_in_ = names
        return new

    def _require_like(self, other: Any) -> None:
        """What the learners do not know must agree too."""
        if not isinstance(other, OnlineClassifier):
            raise MergeError(f"{self._algorithm}: only its own kind can be merged with it, got {other!r}")
        check_is_fitted(other)
        other._check_unchanged_parameters()
        facts = {"classes": "classes_", "grow": "grow", "n_features_in_": "n_features_in_"}
        for what, attribute in facts.items():
            if what == "n_features_in_" and self.grow:
                continue
            one, two = (np.asarray(getattr(estimator, attribute)).tolist() for estimator in (self, other))
            if one != two:
                raise MergeError(f"{self._algorithm}: models to merge must agree in {what}, got {one!r} and {two!r}")

    # Predicting -------------------------------------------------------------------------------------------------------

    def decision_function(self, X: Any) -> NDArray[Any]:
        """w·x of each row; positive means the second class. Of more than two classes a column for each."""
        check_is_fitted(self)
        return self._learner.scores(Batch.of(*csr_of(self, X, reset=False, any_width=self.grow)))

    def predict(self, X: Any) -> NDArray[Any]:
        """The class of each row: of two the second if the score is > 0, of more the first of highest score."""
        scores = self.decision_function(X)
        return self.classes_[self._classes.chosen(scores)]

    @available_if(_is_logistic)
    def predict_proba(self, X: Any) -> NDArray[Any]:
        """Probabilities of the classes. Only with ``loss="logistic"``.

        1/(1 + e^∓s) of two classes. Of more each class has its 1/(1 + e^−s), and a row is divided by its sum.
        """
        return probabilities(self.decision_function(X).astype(np.float64))

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

    # Saving -----------------------------------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str], *, weights_only: bool = False) -> None:
        """Writes the fitted model to a file, replacing it in one step; ``thinstream.load`` reads it.

        ``weights_only``: much smaller where weights are sparse, and predicts the same, but cannot go on learning.
        """
        from thinstream.estimators.saving import save

        save(self, path, weights_only=weights_only)

    # Reading, on demand and without touching the state ----------------------------------------------------------------

    @property
    def coef_(self) -> Any:
        """The weights, 1×d, or K×d of K > 2 classes."""
        learner = self._fitted("coef_")
        if not getattr(self, "_sparse_coef", False):
            return np.atleast_2d(learner.weights())
        found = [model.sparse_weights() for model in learner.models]
        ends = np.cumsum([0, *(len(where) for where, _ in found)])
        where, weights = (np.concatenate(parts) for parts in zip(*found, strict=True))
        return sp.csr_matrix((weights, where, ends), shape=(len(found), learner.n_features))

    @property
    def intercept_(self) -> NDArray[Any]:
        """Weights of the constant feature; 0 without ``fit_intercept``."""
        learner = self._fitted("intercept_")
        return np.array([model.intercept for model in learner.models], dtype=learner.dtype)

    @property
    def nnz_(self) -> int:
        """Non-zero weights, the intercept not counted."""
        return self._fitted("nnz_").nnz

    @property
    def density_(self) -> float:
        """Share of the weights that are not zero."""
        learner = self._fitted("density_")
        return learner.nnz / learner.n_weights

    @property
    def t_(self) -> int:
        """Examples seen."""
        return self._fitted("t_").t

    @property
    def n_mistakes_(self) -> int:
        """Examples whose prediction before their update was wrong."""
        return self._fitted("n_mistakes_").n_mistakes

    @property
    def n_updates_(self) -> Any:
        """Rounds in which the update condition held, per class if there are more than two."""
        return self._fitted("n_updates_").n_updates

    @property
    def cumulative_loss_(self) -> Any:
        """Sum of the algorithm's own loss, per class if there are more than two."""
        return self._fitted("cumulative_loss_").cumulative_loss

    @property
    def variance_(self) -> NDArray[Any]:
        """Variance σ of each weight."""
        learner = self._fitted("variance_")
        if not learner.has_variance:
            if learner.weights_only and hasattr(learner.algorithm.rule, "variance"):
                raise AttributeError(f"{self._algorithm} was saved with its weights only, without variances")
            raise AttributeError(f"{self._algorithm} keeps no variances")
        return learner.variance()

    def _fitted(self, attribute: str) -> AnyLearner:
        if not self.__sklearn_is_fitted__():
            raise AttributeError(f"{self._algorithm} has no {attribute} before it is fitted")
        return self._learner

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_learner")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags
