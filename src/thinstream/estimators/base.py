"""An estimator is its parameters and a `Model`: what all of them share, online or in batches."""

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from copy import copy
from dataclasses import replace
from functools import wraps
from typing import Any, Self, TypeVar, cast
from weakref import WeakKeyDictionary

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from thinstream.blend.member import Member
from thinstream.blend.serving import served
from thinstream.errors import InvalidInputError, InvalidParameterError, MergeError
from thinstream.estimators.inputs import common_names
from thinstream.estimators.remembered import CALIBRATED, KEY, ONLY_FIT, as_pairs, learned_parameters, same_value
from thinstream.learners import Classes, find
from thinstream.learners.growing_classes import GrowingClasses
from thinstream.learners.protocol import AnyLearner
from thinstream.learners.registry import unknown_parameter
from thinstream.locks import SharedLock
from thinstream.models import Model, Names, write
from thinstream.models.container import plain
from thinstream.models.file import grade_of
from thinstream.models.model import names_of_kept

#: Kinds of arrays ``classes_`` comes back as; labels of any other come back as numpy takes them.
_KINDS = "biufUO"


class _Locks:
    """The locks of one estimator: one thread learns at a time, and none reads while the model changes."""

    def __init__(self) -> None:
        self.learning, self.model = threading.RLock(), SharedLock()


Estimator = TypeVar("Estimator", bound=BaseEstimator)
#: The locks of each estimator in use; scikit-learn allows only parameters as attributes.
_locks: "WeakKeyDictionary[BaseEstimator, _Locks]" = WeakKeyDictionary()
_making = threading.Lock()


def _locks_of(estimator: BaseEstimator) -> _Locks:
    locks = _locks.get(estimator)
    if locks is None:
        with _making:
            locks = _locks.setdefault(estimator, _Locks())
    return locks


def _unlock_all() -> None:
    """Forget all locks, which threads may have held that a forked process does not have."""
    global _making
    _making = threading.Lock()
    _locks.clear()


if hasattr(os, "register_at_fork"):  # not on Windows, which does not fork
    os.register_at_fork(after_in_child=_unlock_all)


@contextmanager
def as_before_on_error(estimator: BaseEstimator, *, in_place: bool = True) -> Iterator[None]:
    """Restore the attributes of the estimator (its width, its feature names) if a call that learns fails.

    One thread at a time learns. If it changes the model ``in_place``, threads that read wait meanwhile; otherwise they
    read the model before, until `ModelClassifier._adopt` replaces it.
    """
    locks = _locks_of(estimator)
    with locks.learning, locks.model.writing() if in_place else nullcontext():
        before = vars(estimator).copy()
        try:
            yield
        except BaseException:
            with locks.model.writing():
                vars(estimator).clear()
                vars(estimator).update(before)
            raise


@contextmanager
def replacing(estimator: Estimator) -> Iterator[Estimator]:
    """Yield a copy to fit from scratch, which then replaces the estimator.

    Meanwhile other threads read the old model.
    """
    with as_before_on_error(estimator, in_place=False):
        fitted = copy(estimator)
        yield fitted
        with _locks_of(estimator).model.writing():
            estimator.__dict__ = fitted.__dict__


Method = TypeVar("Method", bound=Callable[..., Any])


def reads(method: Method) -> Method:
    """Make a method of an estimator wait while another thread changes the model."""

    @wraps(method)
    def wrapped(self: BaseEstimator, *arguments: Any, **options: Any) -> Any:
        lock = _locks_of(self).model
        lock.acquire_read()
        try:
            return method(self, *arguments, **options)
        finally:
            lock.release_read()

    return cast(Method, wrapped)


def attribute_of_learner(name: str, text: str) -> Any:
    """The property ``name_`` of an estimator: what its learner has under the name."""

    @reads
    def read(self: Any) -> Any:
        return self._by_class(getattr(self._fitted(f"{name}_"), name))

    return property(read, doc=text)


class ModelClassifier(ClassifierMixin, BaseEstimator):
    """A classifier of scikit-learn whose fitted part is a `Model`: everything it knows is read from there."""

    _algorithm: str
    _own_parameters: tuple[str, ...]
    _model: Model
    n_features_in_: int
    classes_: NDArray[Any]
    _order: NDArray[np.intp] | None = None  # the model's classes sorted, where it has met them in another order

    def __new__(cls, *positional: Any, **given: Any) -> Self:
        """Says which parameters there are, where Python would only say that one is unexpected."""
        allowed = list(cls.__init__.__kwdefaults__ or ())
        if positional:
            raise TypeError(f"{cls.__name__} takes keywords only: {cls.__name__}({allowed[0]}={positional[0]!r}), say")
        for name in given:
            if name not in allowed:
                raise TypeError(unknown_parameter(cls.__name__, name, ", ".join(allowed)))
        made: Self = super().__new__(cls)
        return made

    # The model --------------------------------------------------------------------------------------------------------

    def _fresh_model(
        self, classes: Classes, n_features: int = 0, labels: Any = None, columns: Any = None, **more: Any
    ) -> Model:
        """A model of this estimator's parameters that has seen nothing.

        ``labels`` are to become ``classes_``, ``columns`` ``feature_names_in_``.
        """
        given = self.get_params(deep=False)
        common = ("dtype", "grow", "fit_intercept", "scale", "normalize", "max_features", "admit")
        options = {name: given[name] for name in common if name in given}
        own = {name: given[name] for name in self._own_parameters}
        algorithm, calibrated = self._algorithm, {}
        if given.get("calibrate"):  # a blend of this one, whose head is fitted to its scores
            own = {"portfolio": [Member(algorithm, own)], "drop": False}
            algorithm, calibrated = "Auto", {CALIBRATED: algorithm}
        options |= {"n_features": n_features, "parameters": own}
        model = Model.fresh(algorithm, classes, given["class_weight"], **more, **options)
        kind = None if labels is None or labels.dtype.kind not in _KINDS else labels.dtype.str
        known = {"classes": kind, "class_weight": as_pairs(given["class_weight"]), "named": columns is not None}
        known |= calibrated
        names = model.names if columns is None else Names.of(list(columns))
        return replace(model, names=names, extra={KEY: plain(known, KEY)})

    def _adopt(self, model: Model) -> Self:
        """Becomes the face of the model."""
        if model is getattr(self, "_model", None):
            self.n_features_in_ = model.learner.n_features
            return self
        with _locks_of(self).model.writing():
            extra = model.extra.get(KEY, {})
            self._model, self.classes_ = model, _labels(model.classes, extra.get("classes"))
            self._order = np.argsort(self.classes_) if model.classes.grow else None
            if self._order is not None:
                self.classes_ = self.classes_[self._order]
            self.__dict__.pop("feature_names_in_", None)
            if extra.get("named") and model.names is not None:
                self.feature_names_in_ = np.array(model.names.texts, dtype=object)
            self.n_features_in_ = model.learner.n_features
        return self

    def _by_class(self, values: Any, axis: int = 0) -> Any:
        """What a learner has of each class, in the order of ``classes_``; it may have met them in another."""
        order = getattr(self, "_order", None)
        return values if order is None or not np.ndim(values) else np.take(values, order, axis=axis)

    def _chosen_labels(self, scores: NDArray[Any]) -> NDArray[Any]:
        """The labels that a learner's scores speak for."""
        chosen, order = self._model.chosen(scores), getattr(self, "_order", None)
        return self.classes_[chosen if order is None else np.argsort(order)[chosen]]

    def _adopt_learner(self, learner: AnyLearner, classes: Classes, labels: Any, **more: Any) -> Self:
        """Becomes the face of a learner with its parameters that learned elsewhere: a lane, say."""
        learner.grow = self.get_params(deep=False)["grow"]
        return self._adopt(replace(self._fresh_model(classes, 0, labels, **more), learner=learner))

    def _fitted(self, attribute: str) -> AnyLearner:
        if not self.__sklearn_is_fitted__():
            raise AttributeError(f"{self._algorithm} has no {attribute} before it is fitted")
        return self._model.learner

    def _check_common_parameters(self) -> None:
        given = self.get_params(deep=False)
        for name in ("fit_intercept", "shuffle", "grow", "grow_classes", "calibrate"):
            if name in given and not isinstance(given[name], bool | np.bool_):
                raise InvalidParameterError(f"{self._algorithm}: {name} must be True or False, got {given[name]!r}")

    def _check_unchanged_parameters(self) -> None:
        """Parameters belong to the state: changed in the middle of a stream they would silently not take effect."""
        given = self.get_params(deep=False)
        for name, was in learned_parameters(self._model).items():
            value = given.get(name, was)
            if not same_value(name, value, was):
                raise InvalidParameterError(
                    f"{self._algorithm}: {name} was changed from {was!r} to {value!r} after learning began; "
                    "only fit, which starts anew, takes other parameters"
                )

    def _model_to_teach(self, labels: Any, classes: Any, n_features: int, from_y: bool) -> Model:
        """The model that goes on learning, or on the first call a fresh one; ``from_y``: y may tell the classes."""
        if not self.__sklearn_is_fitted__():
            known, found = self._first_classes(labels, classes, from_y)
            return self._fresh_model(known, n_features, found, getattr(self, "feature_names_in_", None))
        self._check_unchanged_parameters()
        if classes is None or (self._model.classes.grow and {*np.asarray(classes).tolist()} <= {*self._model.classes}):
            return self._model
        if not np.array_equal(np.unique(classes), np.unique(self.classes_)):
            raise InvalidInputError(
                f"classes={classes!r} differ from those of the first call, {self.classes_.tolist()!r}"
            )
        return self._model

    def _classes_of(self, labels: Any) -> Classes:
        """The distinct labels, sorted; with ``grow_classes`` more may come."""
        given = self.get_params(deep=False)
        if not given.get("grow_classes"):
            return Classes.of(labels)
        return GrowingClasses.of(labels, class_weight=given["class_weight"])

    def _first_classes(self, labels: Any, classes: Any, from_y: bool) -> tuple[Classes, NDArray[Any]]:
        if classes is None and self.get_params(deep=False).get("grow_classes"):
            return self._classes_of(()), np.unique(labels)
        if classes is not None:
            try:
                return self._classes_of(classes), np.unique(classes)
            except InvalidInputError as error:
                raise InvalidInputError(f"classes= must name all labels, got {classes!r}: {error}") from None
        check_classification_targets(labels)
        found = np.unique(labels)
        if from_y and len(found) > 1:
            return self._classes_of(found), found
        unless = "learn unless y holds them all" if from_y else "partial_fit"
        raise ValueError(f"classes= must be passed on the first call to {unless}; y holds {found.tolist()[:5]!r}")

    # Merging ----------------------------------------------------------------------------------------------------------

    def merge(self, other: "ModelClassifier", *more: "ModelClassifier", average: bool = False) -> Self:
        """A new estimator out of several that learned from disjoint parts of the data; they are left as they are.

        Algorithm, parameters, classes, columns and their names must agree; with ``grow=True`` some may have met fewer
        columns. Counters add, the order does not matter. What is merged how: docs/algorithms.md.
        ``average=True`` averages what has no rule of its own, SSOL with ``diagonal="drop"``, instead of refusing.

        Examples
        --------
        >>> import thinstream as ts
        >>> one = ts.FSOL(eta=0.5, fit_intercept=False).fit([[1.0, 0.0], [0.0, 1.0]], ["ham", "spam"])
        >>> other = ts.FSOL(eta=0.5, fit_intercept=False).fit([[1.0, 0.0], [1.0, 2.0]], ["ham", "spam"])
        >>> both = one.merge(other)
        >>> both.coef_, both.t_
        (array([[-0.5,  1.5]], dtype=float32), 4)

        """
        estimators: list[ModelClassifier] = [self, other, *more]
        for estimator in estimators:
            self._require_like(estimator)
        names = common_names(estimators)
        new: Self = clone(self)
        merged = self._model.merge(*(each._model for each in estimators[1:]), average=average)
        return new._adopt(merged if names is None else replace(merged, names=Names.of(list(names))))

    def _require_like(self, other: Any) -> None:
        """What the models do not know must agree too."""
        if not isinstance(other, ModelClassifier) or find(self._algorithm).kind != find(other._algorithm).kind:
            raise MergeError(f"{self._algorithm}: only its own kind can be merged with it, got {other!r}")
        check_is_fitted(other)
        other._check_unchanged_parameters()
        facts = {"grow_classes": "grow_classes", "classes": "classes_", "grow": "grow"}
        facts |= {"n_features_in_": "n_features_in_"}
        for what, attribute in facts.items():
            if (what == "n_features_in_" and getattr(self, "grow", False)) or (
                what == "classes" and self._model.classes.grow
            ):
                continue
            one, two = (np.asarray(getattr(each, attribute, False)).tolist() for each in (self, other))
            if one != two:
                raise MergeError(f"{self._algorithm}: models to merge must agree in {what}, got {one!r} and {two!r}")

    # Predicting and saving --------------------------------------------------------------------------------------------

    @reads
    def predict(self, X: Any) -> NDArray[Any]:
        """The class of each row: of two the second if the score is above ``threshold_``, of more that of highest score.

        Of several highest scores the first wins.
        """
        check_is_fitted(self)
        return self._chosen_labels(self._scores(X))

    @reads
    def decision_function(self, X: Any) -> NDArray[Any]:
        """w·x of each row; positive means the second class. Of more than two classes a column for each."""
        check_is_fitted(self)
        scores: NDArray[Any] = self._by_class(self._scores(X), axis=-1)
        return scores

    def _scores(self, X: Any) -> NDArray[Any]:
        """What the learner says of rows."""
        raise NotImplementedError  # online and batch estimators take different rows

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

    @reads
    def save(self, path: str | os.PathLike[str], *, weights_only: bool | None = None) -> None:
        """Writes the fitted model to a file, replacing it in one step; ``thinstream.load`` reads it.

        ``weights_only``: much smaller where weights are sparse, and predicts the same, but cannot go on learning. None:
        only if there is no more, as in a thin model.
        """
        model = model_of(self)
        write(path, model, grade=grade_of(model, weights_only))

    # Reading, on demand and without touching the state ----------------------------------------------------------------

    @property
    @reads
    def coef_(self) -> Any:
        """The weights, 1×d, or K×d of K > 2 classes; read-only, computed once after each update.

        Of a blend with several preparations of rows those of each follow one another.
        """
        learner = self._fitted("coef_")
        sparse = getattr(self, "_sparse_coef", False)
        key = (learner, learner.t, learner.n_features, sparse)
        known = self.__dict__.get("_known_coef")
        if known is None or known[0] != key:
            shown = served(learner)
            found = _sparse_coef(shown, self._order) if sparse else self._by_class(np.atleast_2d(shown.weights()))
            known = self._known_coef = (key, found)
            held: Any = known[1].data if sparse else known[1]
            held.flags.writeable = False
        return known[1]

    @property
    @reads
    def intercept_(self) -> NDArray[Any]:
        """Weights of the constant feature; 0 without ``fit_intercept``."""
        learner = self._fitted("intercept_")
        found = np.array([model.intercept for model in learner.models], dtype=learner.dtype)
        return np.asarray(self._by_class(found))

    nnz_: int = attribute_of_learner("nnz", "Non-zero weights, the intercept not counted.")
    t_: int = attribute_of_learner("t", "Examples seen.")
    n_mistakes_: int = attribute_of_learner("n_mistakes", "Examples whose prediction before their update was wrong.")
    n_updates_: Any = attribute_of_learner(
        "n_updates", "Rounds in which the update condition held, per class if there are more than two."
    )
    cumulative_loss_: Any = attribute_of_learner(
        "cumulative_loss", "Sum of the algorithm's own loss, per class if there are more than two."
    )

    @property
    @reads
    def density_(self) -> float:
        """Share of the weights that are not zero."""
        learner = self._fitted("density_")
        return learner.nnz / learner.n_weights

    @property
    @reads
    def kept_names_(self) -> dict[int, str]:
        """With ``max_features``, the names of the features that are kept, by number; those that travel with rows."""
        found = names_of_kept(self._fitted("kept_names_"))
        if found is None:
            raise AttributeError(
                f"{self._algorithm} has no names of what it keeps: that needs max_features, and names that travel with "
                "rows (Hashing(bits=62))"
            )
        return found.as_dict()

    @property
    @reads
    def variance_(self) -> NDArray[Any]:
        """Variance σ of each weight."""
        learner = self._fitted("variance_")
        if not learner.has_variance:
            kept = hasattr(learner.algorithm.rule, "variance") or getattr(learner, "keeps_variance", False)
            if learner.weights_only and kept:
                raise AttributeError(f"{self._algorithm} was saved with its weights only, without variances")
            why = " at hand where it is calibrated" if CALIBRATED in self._model.extra.get(KEY, {}) else ""
            raise AttributeError(f"{self._algorithm} keeps no variances{why}")
        return np.asarray(self._by_class(learner.variance()))

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_model")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def __getstate__(self) -> Any:
        state: dict[str, Any] = super().__getstate__()
        return {name: value for name, value in state.items() if name != "_known_coef"}


def model_of(fitted: ModelClassifier) -> Model:
    """The model of a fitted estimator, with the parameters that only ``fit`` uses, to be saved."""
    if not isinstance(fitted, ModelClassifier):
        raise InvalidInputError(f"only an estimator of thinstream or a Model can be saved, got {type(fitted).__name__}")
    check_is_fitted(fitted)
    given, model = fitted.get_params(deep=False), fitted._model
    known = {name: given[name] for name in ONLY_FIT if name in given}
    if "random_state" in known:  # a seed, if it is one; a generator's state is not kept
        seed = known["random_state"]
        known["random_state"] = int(seed) if isinstance(seed, int | np.integer) else None
    known = plain({**model.extra.get(KEY, {}), **known}, KEY)
    return replace(model, extra={**model.extra, KEY: known})


def _sparse_coef(learner: AnyLearner, order: NDArray[np.intp] | None) -> Any:
    found = [model.sparse_weights() for model in learner.models]
    found = found if order is None else [found[k] for k in order]
    ends = np.cumsum([0, *(len(where) for where, _ in found)])
    where, weights = (np.concatenate(parts) for parts in zip(*found, strict=True))
    return sp.csr_matrix((weights, where, ends), shape=(len(found), learner.n_weights // len(found)))


def _labels(classes: Classes, kind: str | None) -> NDArray[Any]:
    """``classes_``, of the type it had; those to come may need a wider one."""
    if kind is None or classes.grow:
        return np.array(classes)
    dtype = np.dtype(kind)
    if dtype.kind not in _KINDS:
        raise InvalidInputError(f"its classes are of type {kind!r}")
    return np.array(classes, dtype=dtype)
