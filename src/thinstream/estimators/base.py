"""Base class of all estimators: parameters, fitted attributes, and what is stored with a model."""

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

from thinstream.algorithms.auto import Member
from thinstream.algorithms.registry import find, unknown_parameter
from thinstream.data.labels import Classes, GrowingClasses, class_weight_of
from thinstream.errors import InvalidInputError, InvalidParameterError, MergeError
from thinstream.estimators.inputs import common_names
from thinstream.files import SharedLock
from thinstream.models.blend import same_portfolio
from thinstream.models.container import plain
from thinstream.models.file import grade_of, write
from thinstream.models.model import Model, Names, names_of_kept
from thinstream.models.pipeline import Pipeline

# The parameters of an estimator in a model file.

#: Parameters that only ``fit`` uses. They may change between calls to ``partial_fit``.
ONLY_FIT = ("n_passes", "shuffle", "random_state")
#: The key in ``Model.extra`` under which an estimator stores its data.
KEY = "estimator"
#: The key of the algorithm of a calibrated model.
CALIBRATED = "calibrated"


def learned_parameters(model: Model) -> dict[str, Any]:
    """Return the parameters of the estimator that trained a model."""
    learner, stored = model.learner, model.extra.get(KEY, {})
    own = model.class_weight if model.classes.grow else class_weight_of(learner.costs, model.classes)
    weight = stored.get("class_weight", own)
    algorithm, parameters = learner.algorithm, learner.parameters
    if CALIBRATED in stored:
        algorithm, parameters = find(stored[CALIBRATED]), learner.parameters["portfolio"][0]["parameters"]
    return {
        **{parameter.name: parameters.get(parameter.name) for parameter in algorithm.parameters},
        "calibrate": CALIBRATED in stored,
        "class_weight": dict(weight) if isinstance(weight, list) else weight,
        "fit_intercept": bool(learner.offset),
        "dtype": learner.dtype.name,
        "grow": learner.grow,
        "grow_classes": model.classes.grow,
        **model.preparation.kinds,
        **(model.budget if model.budget_table is not None else {"max_features": None}),
    }


def as_pairs(class_weight: Any) -> Any:
    """Return a dict as a list of pairs, because keys in JSON must be strings."""
    return [[*pair] for pair in class_weight.items()] if isinstance(class_weight, dict) else class_weight


def same_value(name: str, value: Any, was: Any) -> bool:
    """Return whether a parameter has the same value as before."""
    if name == "dtype":
        return bool(np.dtype(value).name == was)
    if name == "portfolio":
        return same_portfolio(value, was)
    if np.ndim(value) or np.ndim(was):
        return bool(np.array_equal(value, was))
    return value is was or bool(value == was)


# An estimator is a set of parameters and a `Model`.

#: Kinds of dtypes that ``classes_`` can have after loading. Other labels get NumPy's default dtype.
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
    """Return the property ``name_`` of an estimator, which reads the attribute of its learner."""

    @reads
    def read(self: Any) -> Any:
        return self._by_class(getattr(self._fitted(f"{name}_"), name))

    return property(read, doc=text)


class ModelClassifier(ClassifierMixin, BaseEstimator):
    """A scikit-learn classifier whose fitted state is a `Model`."""

    _algorithm: str
    _own_parameters: tuple[str, ...]
    _model: Model
    n_features_in_: int
    classes_: NDArray[Any]
    _order: NDArray[np.intp] | None = None  # sorts the classes of the model, if they are in order of occurrence

    def __new__(cls, *positional: Any, **parameters: Any) -> Self:
        """List the allowed parameters in the error for an unknown one."""
        allowed = list(cls.__init__.__kwdefaults__ or ())
        if positional:
            example = f"{cls.__name__}({allowed[0]}={positional[0]!r})"
            raise TypeError(f"{cls.__name__} accepts only keyword arguments, such as {example}")
        for name in parameters:
            if name not in allowed:
                raise TypeError(unknown_parameter(cls.__name__, name, ", ".join(allowed)))
        made: Self = super().__new__(cls)
        return made

    # The model --------------------------------------------------------------------------------------------------------

    def _fresh_model(
        self, classes: Classes, n_features: int = 0, labels: Any = None, columns: Any = None, **more: Any
    ) -> Model:
        """Return a new model with the parameters of this estimator.

        ``labels`` become ``classes_``, and ``columns`` become ``feature_names_in_``.
        """
        parameters = self.get_params(deep=False)
        common = ("dtype", "grow", "fit_intercept", "scale", "normalize", "max_features", "admit")
        options = {name: parameters[name] for name in common if name in parameters}
        own = {name: parameters[name] for name in self._own_parameters}
        algorithm, calibrated = self._algorithm, {}
        if parameters.get("calibrate"):  # a blend with one member, whose head calibrates the scores
            own = {"portfolio": [Member(algorithm, own)], "drop": False}
            algorithm, calibrated = "Auto", {CALIBRATED: algorithm}
        options |= {"n_features": n_features, "parameters": own}
        model = Model.fresh(algorithm, classes, parameters["class_weight"], **more, **options)
        dtype = None if labels is None or labels.dtype.kind not in _KINDS else labels.dtype.str
        extra = {"classes": dtype, "class_weight": as_pairs(parameters["class_weight"]), "named": columns is not None}
        extra |= calibrated
        names = model.names if columns is None else Names.of(list(columns))
        return replace(model, names=names, extra={KEY: plain(extra, KEY)})

    def _adopt(self, model: Model) -> Self:
        """Make this model the fitted state of the estimator."""
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
        """Return values with one entry per class of the model in the order of ``classes_``."""
        order = getattr(self, "_order", None)
        return values if order is None or not np.ndim(values) else np.take(values, order, axis=axis)

    def _chosen_labels(self, scores: NDArray[Any]) -> NDArray[Any]:
        """Return the predicted labels for scores."""
        chosen, order = self._model.chosen(scores), getattr(self, "_order", None)
        return self.classes_[chosen if order is None else np.argsort(order)[chosen]]

    def _adopt_learner(self, learner: Pipeline, classes: Classes, labels: Any, **more: Any) -> Self:
        """Make a learner that was trained elsewhere, such as a lane, the fitted state of the estimator."""
        learner.grow = self.get_params(deep=False)["grow"]
        return self._adopt(replace(self._fresh_model(classes, 0, labels, **more), learner=learner))

    def _fitted(self, attribute: str) -> Pipeline:
        if not self.__sklearn_is_fitted__():
            raise AttributeError(f"{self._algorithm} has no {attribute}, because it is not fitted")
        return self._model.learner

    def _check_common_parameters(self) -> None:
        parameters = self.get_params(deep=False)
        for name in ("fit_intercept", "shuffle", "grow", "grow_classes", "calibrate"):
            if name in parameters and not isinstance(parameters[name], bool | np.bool_):
                value = parameters[name]
                raise InvalidParameterError(f"{self._algorithm}: {name} must be True or False, got {value!r}")

    def __thinstream_member__(self) -> Member:
        """Return this estimator as a member of a blend."""
        common = self.get_params(deep=False)
        own = {name: common.pop(name) for name in self._own_parameters}
        member = Member(self._algorithm.lower(), own, common.pop("scale", None), common.pop("normalize", None))
        defaults = type(self).__init__.__kwdefaults__ or {}
        for name, value in common.items():
            if value != defaults[name]:
                raise InvalidParameterError(
                    f"portfolio: {self!r} has {name}={value!r}. Set {name} on Auto: it applies to all members"
                )
        return member

    def _check_unchanged_parameters(self) -> None:
        """Raise if a parameter has changed since learning began, because the model would ignore it."""
        parameters = self.get_params(deep=False)
        for name, was in learned_parameters(self._model).items():
            value = parameters.get(name, was)
            if not same_value(name, value, was):
                raise InvalidParameterError(
                    f"{self._algorithm}: {name} was changed from {was!r} to {value!r} after learning began. Call fit "
                    "to train a new model with other parameters"
                )

    def _model_to_teach(self, labels: Any, classes: Any, n_features: int, from_y: bool, **space: Any) -> Model:
        """Return the model to update, a new one on the first call. ``from_y``: y may determine the classes."""
        if not self.__sklearn_is_fitted__():
            new_classes, names = self._first_classes(labels, classes, from_y)
            return self._fresh_model(new_classes, n_features, names, getattr(self, "feature_names_in_", None), **space)
        self._check_unchanged_parameters()
        if classes is None or (self._model.classes.grow and {*np.asarray(classes).tolist()} <= {*self._model.classes}):
            return self._model
        if not np.array_equal(np.unique(classes), np.unique(self.classes_)):
            raise InvalidInputError(
                f"classes must be the same as in the first call, {self.classes_.tolist()!r}, got {classes!r}"
            )
        return self._model

    def _classes_of(self, labels: Any) -> Classes:
        parameters = self.get_params(deep=False)
        if not parameters.get("grow_classes"):
            return Classes.of(labels)
        return GrowingClasses.of(labels, class_weight=parameters["class_weight"])

    def _first_classes(self, labels: Any, classes: Any, from_y: bool) -> tuple[Classes, NDArray[Any]]:
        if classes is None and self.get_params(deep=False).get("grow_classes"):
            return self._classes_of(()), np.unique(labels)
        if classes is not None:
            try:
                return self._classes_of(classes), np.unique(classes)
            except InvalidInputError as error:
                raise InvalidInputError(f"classes must contain all labels, got {classes!r}: {error}") from None
        check_classification_targets(labels)
        distinct = np.unique(labels)
        if from_y and len(distinct) > 1:
            return self._classes_of(distinct), distinct
        unless = "learn unless y contains all classes" if from_y else "partial_fit"
        raise ValueError(f"classes= must be passed on the first call to {unless}; y contains {distinct.tolist()[:5]!r}")

    # Merging ----------------------------------------------------------------------------------------------------------

    def merge(self, other: "ModelClassifier", *more: "ModelClassifier", average: bool = False) -> Self:
        """Merge estimators that learned disjoint parts of the data, and return a new estimator.

        All must have the same algorithm, parameters, classes, columns and names of columns. With ``grow=True``, the
        number of columns may differ. Counters are added, and the order does not matter. docs/algorithms.md describes
        the merge rule of each algorithm. With ``average=True``, weights without a merge rule (SSOL with
        ``diagonal="drop"``) are averaged instead of raising an error.

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
        merged = self._model.merge(*(estimator._model for estimator in estimators[1:]), average=average)
        return new._adopt(merged if names is None else replace(merged, names=Names.of(list(names))))

    def _require_like(self, other: Any) -> None:
        """Raise if another estimator differs in properties that are not part of the model."""
        if not isinstance(other, ModelClassifier) or find(self._algorithm).kind != find(other._algorithm).kind:
            raise MergeError(f"{self._algorithm} can only be merged with the same kind of estimator, got {other!r}")
        check_is_fitted(other)
        other._check_unchanged_parameters()
        facts = {"grow_classes": "grow_classes", "classes": "classes_", "grow": "grow"}
        facts |= {"n_features_in_": "n_features_in_"}
        for name, attribute in facts.items():
            if (name == "n_features_in_" and getattr(self, "grow", False)) or (
                name == "classes" and self._model.classes.grow
            ):
                continue
            own, others = (np.asarray(getattr(estimator, attribute, False)).tolist() for estimator in (self, other))
            if own != others:
                raise MergeError(f"{self._algorithm}: models to merge must agree in {name}, got {own!r} and {others!r}")

    # Predicting and saving --------------------------------------------------------------------------------------------

    @reads
    def predict(self, X: Any) -> NDArray[Any]:
        """Predict the class of each row.

        With two classes, a row is predicted as the second class if its score is above ``threshold_``. With more, it is
        predicted as the class with the highest score, the first one in case of a tie.
        """
        check_is_fitted(self)
        return self._chosen_labels(self._scores(X))

    @reads
    def decision_function(self, X: Any) -> NDArray[Any]:
        """Return the score w·x of each row, which is positive for the second class.

        With more than two classes, return a column of scores for each class.
        """
        check_is_fitted(self)
        scores: NDArray[Any] = self._by_class(self._scores(X), axis=-1)
        return scores

    def _scores(self, X: Any) -> NDArray[Any]:
        raise NotImplementedError  # online and batch estimators read rows differently

    def sparsify(self) -> Self:
        """Convert ``coef_`` to a sparse matrix."""
        check_is_fitted(self)
        self._sparse_coef = True
        return self

    def densify(self) -> Self:
        """Convert ``coef_`` back to an array."""
        check_is_fitted(self)
        self._sparse_coef = False
        return self

    @reads
    def save(self, path: str | os.PathLike[str], *, weights_only: bool | None = None) -> None:
        """Save the fitted model to a file, which is replaced atomically. Load it with ``thinstream.load``.

        With ``weights_only=True``, the file is much smaller if the weights are sparse, and the model predicts the same
        but cannot continue to learn. None saves the full state if the model has it. Thin models have only weights.
        """
        model = model_of(self)
        write(path, model, grade=grade_of(model, weights_only))

    @reads
    def export(self, path: str | os.PathLike[str], format: str | None = None) -> None:  # noqa: A002
        """Export the fitted model for other programs: C, JavaScript, SQL, ONNX, JSON or text.

        The extension of the path selects the format: ``.h``, ``.js``, ``.mjs``, ``.sql``, ``.onnx``, ``.json``,
        ``.txt``; ``format`` selects another one. See docs/exports.md.
        """
        from thinstream.export import LinearModel, export

        check_is_fitted(self)
        export(LinearModel.of(self._model), path, format)

    # Fitted attributes ------------------------------------------------------------------------------------------------

    @property
    @reads
    def coef_(self) -> Any:
        """The weights, of shape (1, d), or (K, d) for K > 2 classes. The array is read-only and cached."""
        return self._weights("coef_")

    def _weights(self, name: str) -> Any:
        """Return `coef_` or `raw_coef_`, and cache the last one."""
        learner = self._fitted(name)
        sparse = getattr(self, "_sparse_coef", False)
        key = (name, learner, learner.t, learner.n_features, sparse)
        cached = self.__dict__.get("_known_coef")
        if cached is None or cached[0] != key:
            shown, raw = learner.served(), name == "raw_coef_"
            if sparse:
                coef = _sparse_coef(shown, self._order, raw)
            else:
                coef = self._by_class(np.atleast_2d(shown.weights() if raw else shown.feature_weights()))
            cached = self._known_coef = (key, coef)
            held: Any = cached[1].data if sparse else cached[1]
            held.flags.writeable = False
        return cached[1]

    @property
    @reads
    def intercept_(self) -> NDArray[Any]:
        """The intercepts; 0 without ``fit_intercept``."""
        learner = self._fitted("intercept_")
        intercepts = np.array([model.intercept for model in learner.models], dtype=learner.dtype)
        return np.asarray(self._by_class(intercepts))

    nnz_: int = attribute_of_learner("nnz", "The number of non-zero weights, without the intercept.")
    t_: int = attribute_of_learner("t", "The number of examples learned.")
    n_mistakes_: int = attribute_of_learner("n_mistakes", "The number of progressive mistakes.")
    n_updates_: Any = attribute_of_learner(
        "n_updates", "The number of examples that changed the model, per class if there are more than two."
    )
    cumulative_loss_: Any = attribute_of_learner(
        "cumulative_loss", "The sum of the algorithm's progressive loss, per class if there are more than two."
    )

    @property
    @reads
    def density_(self) -> float:
        """The share of non-zero weights."""
        learner = self._fitted("density_")
        return float(learner.nnz / learner.n_weights)

    @property
    @reads
    def kept_names_(self) -> dict[int, str]:
        """With ``max_features``, the names of the kept features, by number."""
        names = names_of_kept(self._fitted("kept_names_"))
        if names is None:
            raise AttributeError(
                f"{self._algorithm} has no names of its features. They need max_features, and rows that carry names "
                "(Hashing(bits=62))"
            )
        return names.as_dict()

    @property
    @reads
    def variance_(self) -> NDArray[Any]:
        """The variance σ of each weight."""
        learner = self._fitted("variance_")
        if not learner.has_variance:
            one = next(iter(learner.outputs))
            kept = hasattr(learner.algorithm.rule, "variance") or getattr(one, "keeps_variance", False)
            if learner.weights_only and kept:
                raise AttributeError(f"{self._algorithm} was saved with weights_only=True, without variances")
            why = " with calibrate=True" if CALIBRATED in self._model.extra.get(KEY, {}) else ""
            raise AttributeError(f"{self._algorithm} has no variances{why}")
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
    """Return the model of a fitted estimator, to save it."""
    if not isinstance(fitted, ModelClassifier):
        raise InvalidInputError(f"only thinstream estimators and Models can be saved, got {type(fitted).__name__}")
    check_is_fitted(fitted)
    return with_fit_parameters(fitted, fitted._model)


def with_fit_parameters(estimator: ModelClassifier, model: Model) -> Model:
    """Return the model with the parameters of the estimator that only ``fit`` uses."""
    parameters = estimator.get_params(deep=False)
    extra = {name: parameters[name] for name in ONLY_FIT if name in parameters}
    if "random_state" in extra:  # a seed, if it is one; a generator's state is not kept
        seed = extra["random_state"]
        extra["random_state"] = int(seed) if isinstance(seed, int | np.integer) else None
    extra = plain({**model.extra.get(KEY, {}), **extra}, KEY)
    return replace(model, extra={**model.extra, KEY: extra})


def _sparse_coef(learner: Pipeline, order: NDArray[np.intp] | None, raw: bool) -> Any:
    vectors = [one.sparse_weights() for one in learner.models] if raw else list(learner.sparse_feature_weights())
    vectors = vectors if order is None else [vectors[k] for k in order]
    ends = np.cumsum([0, *(len(indices) for indices, _ in vectors)])
    indices, weights = (np.concatenate(parts) for parts in zip(*vectors, strict=True))
    width = learner.n_columns * learner.preparation.vectors if raw else learner.n_features
    return sp.csr_matrix((weights, indices, ends), shape=(len(vectors), width))


def _labels(classes: Classes, dtype_name: str | None) -> NDArray[Any]:
    """Return ``classes_`` with its original dtype, unless the classes grow and may need another one."""
    if dtype_name is None or classes.grow:
        return np.array(classes)
    dtype = np.dtype(dtype_name)
    if dtype.kind not in _KINDS:
        raise InvalidInputError(f"its classes have the unsupported dtype {dtype_name!r}")
    return np.array(classes, dtype=dtype)
