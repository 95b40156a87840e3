"""Estimators of online algorithms, and of Auto."""

import numbers
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial, update_wrapper
from types import MethodType
from typing import TYPE_CHECKING, Any, Self
from warnings import warn

import numpy as np
from joblib import effective_n_jobs
from numpy.typing import NDArray
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets

from thinstream.algorithms.auto import Member
from thinstream.batch import Batch
from thinstream.data.in_memory import batch_like
from thinstream.data.labels import Classes, LabelOrder, warn_of_sorted
from thinstream.errors import InvalidInputError, InvalidParameterError
from thinstream.estimators.base import KEY, as_before_on_error, model_of, reads, replacing, with_fit_parameters
from thinstream.estimators.inputs import csr_of, feature_names, labels_of, weights_of
from thinstream.estimators.mixins import StreamClassifier, described
from thinstream.jit import compile_ahead
from thinstream.models.explain import with_names_of
from thinstream.models.model import Model, Names, probabilities
from thinstream.models.preparation import Preparation

if TYPE_CHECKING:
    from thinstream.data.stream import Stream
    from thinstream.distributed.sources import Source
    from thinstream.training.metrics import Report


#: The number of rows per batch in a shuffled pass.
BATCH_ROWS = 8192


class _WithProbabilities:
    """A method that exists only if the scores are log-odds. Otherwise, the error explains how to get probabilities.

    scikit-learn's ``available_if`` would hide the explanation in the cause of the error.
    """

    def __init__(self, method: Callable[..., Any]) -> None:
        self._method = method
        update_wrapper(self, method)  # type: ignore[arg-type]

    def __get__(self, estimator: "OnlineClassifier | None", owner: Any = None) -> Any:
        if estimator is None:
            return self._method
        logistic = getattr(estimator, "loss", None) == "logistic"
        if not (logistic or estimator._gives_probabilities or getattr(estimator, "calibrate", False)):
            name = estimator._algorithm
            other = " or loss='logistic'" if hasattr(estimator, "loss") else ""
            raise AttributeError(
                f"{name} has no attribute 'predict_proba', because its scores are not log-odds. Pass calibrate=True"
                f"{other}, as in {name}(calibrate=True), or use Auto"
            )
        return MethodType(self._method, estimator)


class OnlineClassifier(StreamClassifier):
    """Base class of online estimators.

    Parameters
    ----------
    class_weight : None, "balanced" or dict {label: weight}, default=None
        The cost of each class. The algorithm determines how costs change its updates. "balanced" uses the running ratio
        of the class counts.
    fit_intercept : bool, default=True
        Learn an intercept, ``intercept_``. The algorithms in the papers have no intercept.
    n_passes : int, default=1
        The number of passes over the data in ``fit``.
    shuffle : bool, default=False
        Shuffle the rows before each pass of ``fit``.
    random_state : int, RandomState or None, default=None
        The seed for shuffling.
    dtype : {"float32", "float64"}, default="float32"
        The precision of weights, values and sums. Counters always have 64 bits.
    grow : bool, default=False
        Accept rows with more columns than before, and extend the model. Prediction then ignores unknown columns.
        Otherwise, a different number of columns raises an error.
    grow_classes : bool, default=False
        Add a class when a new label occurs. The first call to ``partial_fit`` then needs no ``classes``. The model of a
        class is the same as if the class had been known from the start. ``class_weight`` may contain labels that have
        not occurred yet.
    scale : {"max", "rms", "idf"} or None, default=None
        Divide each feature by a running scale, for features with different units: the largest |x| so far ("max") or the
        root mean square ("rms"), both including the current row. "idf" instead multiplies by the inverse document
        frequency, for word counts. With ``normalize="l2"``, this is tf-idf. Zeros stay zero.
    normalize : "l2" or None, default=None
        Divide each row by its Euclidean norm, after scaling and without the intercept.
    max_features : int or None, default=None
        The maximum number of features in the model. If a new feature needs space, the least important eighth (see
        `thin`) is removed, and rows are learned without these features. Use it for an unlimited number of feature
        names, with names hashed into 2⁶² numbers (``bits=62`` of the stream). Then the model stores the names of its
        features, so that no two features share a weight.
    admit : int, default=2
        With ``max_features``, the occurrence at which a feature is added to the model. Earlier occurrences are counted
        in little memory.
    calibrate : bool, default=False
        Calibrate the scores with a logistic regression on the progressive scores. Then ``predict_proba`` is available,
        ``coef_`` and scores are log-odds, ``cumulative_loss_`` is the logistic loss, and each row counts as an update.
    device : {"cpu", "cuda", "auto"}, default="cpu"
        The device for training the models of many classes and the members of ``Auto``. "cuda" uses a GPU (see
        docs/gpu.md), and "auto" uses it if it is faster. The trained model is the same.

    Attributes
    ----------
    coef_ : array or sparse matrix of shape (1, n_features), or (K, n_features) for K > 2 classes
        The weights, computed on demand. Sparse after ``sparsify()``. With ``scale``, they refer to the values in X.
        With ``normalize``, the score is coef_·x divided by the norm of the scaled row, plus ``intercept_``.
    intercept_ : array of shape (1,) or (K,)
        The intercepts.
    classes_ : array of shape (2,) or (K,)
        The labels. With two classes, the second is positive.
    t_, n_mistakes_ : int
        The number of examples learned, and the number of progressive mistakes (misclassified before the update).
    n_updates_ : int, or array of shape (K,)
        The number of examples that changed the model.
    cumulative_loss_ : float, or array of shape (K,)
        The sum of the algorithm's progressive loss.
    nnz_, density_ : int, float
        The number of non-zero weights in ``coef_``, and their share.
    variance_ : array of shape (n_features,) or (K, n_features)
        The variance of each weight, for second-order algorithms that store it.

    Notes
    -----
    Multiclass problems are learned one-vs-rest. The model of a class is identical to a binary model of ``y == class``.
    The class with the highest score is predicted. ``class_weight`` is the cost of a class in its own model, where the
    other classes have cost 1. "balanced" is the running ratio in each model.

    With ``grow_classes=True``, a spare model learns every row as negative, and a new class starts with a copy of it.
    ``classes_`` is sorted, and so are arrays with an entry per class (``coef_``, scores). A new class may therefore
    change the positions of others. A class cannot be predicted before its first row.

    """

    _gives_probabilities = False

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Train from scratch, in ``n_passes`` passes over the rows."""
        with replacing(self) as fitted:
            fitted._fit(X, y, sample_weight)
        return self

    def _fit(self, X: Any, y: Any, sample_weight: Any) -> Self:
        self._check_common_parameters()
        table = self._table_of(X)
        # with a single pass, rows are checked while they are learned: an error discards the new model
        check_later = self.n_passes == 1 and not self.shuffle
        batch = (
            (Batch.unchecked if check_later else Batch.of)(*csr_of(self, X, reset=True))
            if table is None
            else table.batch
        )
        labels = labels_of(y, len(batch))
        check_classification_targets(labels)
        classes = self._classes_of(labels)
        columns = getattr(self, "feature_names_in_", None)
        space = {} if table is None else {"feature_space": table.feature_space}
        fresh = partial(self._fresh_model, classes, batch.n_features, np.unique(labels), columns, **space)
        model = fresh()
        coded, weights = classes.coded(labels), weights_of(sample_weight, len(batch))
        if weights is not None and not weights.any():
            raise InvalidInputError("sample_weight must have at least one non-zero weight, got only zeros")
        batch = batch.labelled(coded, weights)
        if not self.shuffle:
            order = LabelOrder()
            order.update(coded)
            if order.looks_sorted:
                warn_of_sorted("pass shuffle=True to shuffle them", stacklevel=3)
        generator = check_random_state(self.random_state)
        with compile_ahead(lambda: fresh().learn(batch.take(np.arange(1)), classes, scores=False)):
            for number in range(self.n_passes):
                model.begin_pass(number)
                for rows in self._in_order(batch, generator):
                    model, _ = model.learn(rows, classes, scores=False)
        model.begin_pass(0)  # later rows are new
        return self._adopt(model if table is None else described(model, table, X))

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Update the model with rows in the given order.

        The first call needs ``classes``, all labels that will occur, unless ``grow_classes=True``.
        """
        with as_before_on_error(self):
            self._learn(X, y, classes, sample_weight, scores=False)
        return self

    def learn(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> NDArray[Any]:
        """Update the model like ``partial_fit``, and return the progressive scores (before each update).

        With more than two classes, return an array of rows × classes. The first call does not need ``classes`` if y
        contains all of them. With ``grow_classes=True``, there is a column for each class known at the end of the call.
        Rows before the first one of a class have the scores as if it had been known.
        """
        with as_before_on_error(self):
            scores = self._learn(X, y, classes, sample_weight, scores=True)
            ordered: NDArray[Any] = self._by_class(scores, axis=-1)
            return ordered

    def _learn(self, X: Any, y: Any, classes: Any, sample_weight: Any, *, scores: bool) -> NDArray[Any]:
        first = not self.__sklearn_is_fitted__()
        if first:
            self._check_common_parameters()
        table, names = self._table_of(X) if first else None, feature_names(X)
        if table is not None:
            batch = table.batch
        else:  # an error discards a new model, so its rows need no check in advance
            batch = Batch.unchecked(*csr_of(self, X, reset=True)) if first else self._batch_of(X)
        labels = labels_of(y, len(batch))
        space = {} if table is None else {"feature_space": table.feature_space}
        model = self._model_to_teach(labels, classes, batch.n_features, from_y=scores, **space)
        if table is not None:
            model = replace(model, reading=table.reading)
        classes_so_far = model.classes.meeting(y if isinstance(y, list | tuple) else labels)
        coded, weights = classes_so_far.coded(labels), weights_of(sample_weight, len(batch))
        model, out = model.learn(batch.labelled(coded, weights), classes_so_far, scores)
        if "hashing" in model.feature_space:
            model = with_names_of(model, X)
        elif self.grow and names is not None and (model.names is None or len(names) > len(model.names.texts)):
            known_extra = {**model.extra[KEY], "named": True}
            model = replace(model, names=Names.of(list(names)), extra={**model.extra, KEY: known_extra})
        self._adopt(model)
        return out

    def _fresh_model(
        self, classes: Classes, n_features: int = 0, labels: Any = None, columns: Any = None, **more: Any
    ) -> Model:
        model, device = super()._fresh_model(classes, n_features, labels, columns, **more), self._device
        model.learner.outputs.check_device(device)
        model.learner.outputs.place(device)
        return model

    def _model_to_teach(self, labels: Any, classes: Any, n_features: int, from_y: bool, **space: Any) -> Model:
        model = super()._model_to_teach(labels, classes, n_features, from_y, **space)
        model.learner.outputs.place(self._device)
        return model

    def _copy_to_teach(self) -> Model:
        model = super()._copy_to_teach()
        model.learner.outputs.place(self._device)
        return model

    def __thinstream_algorithm__(self) -> tuple[str, dict[str, Any]]:
        """Return the name of the algorithm and its hyperparameters; `thinstream.distributed` trains them."""
        parameters = self.get_params(deep=False)
        return self._algorithm, {name: parameters[name] for name in self._own_parameters}

    def __thinstream_model__(self, source: "Source | Stream", *, resume: bool = False) -> Model:
        """Return the model to train on many workers."""
        if resume and self.__sklearn_is_fitted__():
            return model_of(self).copy()
        self._check_common_parameters()
        return with_fit_parameters(self, self._model_of_stream(source, None))

    def __thinstream_fitted__(self, model: Model, progressive: "Report") -> Self:
        """Become the fitted estimator of a model that many workers have trained."""
        model.learner.grow = self.grow
        self._adopt(model)
        self.progressive_ = progressive
        return self

    @property
    def _device(self) -> str:
        device: str = self.get_params(deep=False)["device"]
        return device

    def _in_order(self, batch: Batch, generator: np.random.RandomState) -> Iterator[Batch]:
        """Yield the batch, or smaller shuffled batches, which avoids a second copy of all rows."""
        if not self.shuffle:
            yield batch
            return
        order = generator.permutation(len(batch))
        for start in range(0, len(order), BATCH_ROWS):
            yield batch.take(order[start : start + BATCH_ROWS])

    def _check_common_parameters(self) -> None:
        super()._check_common_parameters()
        passes = self.n_passes
        if isinstance(passes, bool) or not isinstance(passes, numbers.Integral) or passes < 1:
            raise InvalidParameterError(f"{self._algorithm}: n_passes must be a whole number ≥ 1, got {passes!r}")
        Preparation(self.scale, self.normalize)

    def _scores(self, X: Any) -> NDArray[Any]:
        return self._model.learner.scores(self._batch_of(X))

    def _batch_of(self, X: Any) -> Batch:
        """Return rows for the fitted model, from a matrix or from rows as in the stream that trained it."""
        batch = batch_like(self._model.reading_spec, X)
        hashed = "hashing" in self._model.feature_space  # any column of the hash space may occur
        return Batch.of(*csr_of(self, X, reset=False, any_width=self.grow or hashed)) if batch is None else batch

    @_WithProbabilities
    def predict_proba(self, X: Any) -> NDArray[Any]:
        """Return the probabilities of the classes, for ``Auto``, ``calibrate=True`` or ``loss="logistic"``.

        With two classes, they are 1/(1 + e^∓s). With more, they are 1/(1 + e^−s) for each class, divided by their sum.
        """
        return probabilities(self.decision_function(X).astype(np.float64))


class BlendClassifier(OnlineClassifier):
    """Base class of estimators whose model is a blend.

    Parameters
    ----------
    n_jobs : int or None, default=None
        The number of threads for training. None: 1. -1: one per processor. The trained model is the same.

    Attributes
    ----------
    coef_ : array or sparse matrix of shape (1, n_features), or (K, n_features) for K > 2 classes
        The effect of each feature, computed on demand: the mean change of the score that one unit of the feature causes
        in the rows that have it. It is the weight for unprepared rows, plus the weight for normalized rows divided by
        the mean norm of the rows with the feature. Scores differ from ``X @ coef_.T`` (see docs/auto.md).
    raw_coef_ : array or sparse matrix of shape (1, V·n_features), or (K, V·n_features) for K > 2 classes
        The exact weights: V concatenated vectors, one for each way in which members prepare rows. The default portfolio
        has two, for unprepared and for normalized rows.

    """

    _gives_probabilities = True

    @property
    @reads
    def raw_coef_(self) -> Any:
        """The exact weights: a vector for each way in which members prepare rows, concatenated."""
        return self._weights("raw_coef_")

    @property
    @reads
    def nnz_(self) -> int:  # type: ignore[override]
        """The number of non-zero weights in ``coef_``, which has one weight per feature."""
        served = self._fitted("nnz_").served()
        return sum(len(where) for where, _ in served.sparse_feature_weights())

    @property
    @reads
    def density_(self) -> float:
        """The share of non-zero weights in ``coef_``."""
        learner = self._fitted("density_")
        return self.nnz_ / max(len(list(learner.models)) * learner.n_features, 1)

    @property
    @reads
    def lanes_(self) -> list[dict[str, Any]]:
        """A dict for each member: its algorithm, parameters, progressive error and share, and why it was dropped.

        With more than two classes, each class has its own members, and the dicts have the key "class".
        """
        learner = self._fitted("lanes_")
        if learner.weights_only:
            raise AttributeError(f"{self._algorithm} was saved with weights_only=True, without its members")
        blends = self._model.blends
        order = range(len(blends)) if self._order is None else self._order
        tables = [blends[k].table() for k in order]
        if len(tables) == 1:
            return tables[0]
        labels = self.classes_.tolist()
        return [{"class": label} | line for label, table in zip(labels, tables, strict=True) for line in table]

    def _fresh_model(
        self, classes: Classes, n_features: int = 0, labels: Any = None, columns: Any = None, **more: Any
    ) -> Model:
        return self._with_threads(super()._fresh_model(classes, n_features, labels, columns, **more))

    def _model_to_teach(self, labels: Any, classes: Any, n_features: int, from_y: bool, **space: Any) -> Model:
        return self._with_threads(super()._model_to_teach(labels, classes, n_features, from_y, **space))

    def _with_threads(self, model: Model) -> Model:
        model.set_threads(effective_n_jobs(self.get_params(deep=False)["n_jobs"]))
        return model

    def _adopt(self, model: Model) -> Self:
        adopted = super()._adopt(model)
        for line in model.pop_news():
            warn(f"{self._algorithm}: {line}", RuntimeWarning, stacklevel=4)
        return adopted


def estimators_of(portfolio: Sequence[Mapping[str, Any]], make: Any) -> list[Any]:
    """Return the parameter ``portfolio`` of an estimator from its description in a model."""
    return [
        Member.from_description(member)  # a member with a feature budget has no estimator
        if "max_features" in member
        else make(member["learner"], **member["parameters"], scale=member["scale"], normalize=member["normalize"])
        for member in portfolio
    ]
