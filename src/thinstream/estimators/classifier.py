"""The estimators that learn online; they differ only in the parameters of their algorithms."""

import numbers
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets

from thinstream.batch import Batch
from thinstream.blend.placing import check_device, place
from thinstream.budget import ADMIT
from thinstream.errors import InvalidInputError, InvalidParameterError
from thinstream.estimators.base import as_before_on_error, replacing
from thinstream.estimators.inputs import csr_of, feature_names, labels_of, weights_of
from thinstream.estimators.remembered import KEY
from thinstream.estimators.streams import StreamClassifier
from thinstream.evaluate.label_order import LabelOrder, warn_of_sorted
from thinstream.learners import Classes
from thinstream.models import Model, Names
from thinstream.models.probabilities import probabilities
from thinstream.preparing import Preparation
from thinstream.streams.at_hand import batch_like

COMMON_PARAMETERS: dict[str, Any] = {
    "class_weight": None,
    "fit_intercept": True,
    "n_passes": 1,
    "shuffle": False,
    "random_state": None,
    "dtype": "float32",
    "grow": False,
    "grow_classes": False,
    "scale": None,
    "normalize": None,
    "max_features": None,
    "admit": ADMIT,
    "calibrate": False,
    "device": "cpu",
}

#: Rows of a shuffled pass that are gathered at a time.
PIECE = 8192


def _is_logistic(estimator: "OnlineClassifier") -> bool:
    if estimator._gives_probabilities or getattr(estimator, "calibrate", False):
        return True
    if getattr(estimator, "loss", None) == "logistic":
        return True
    raise AttributeError("predict_proba needs calibrate=True, loss='logistic' of those that have it, or Auto")


class OnlineClassifier(StreamClassifier):
    """Base of all estimators that learn online.

    Parameters
    ----------
    class_weight : None, "balanced" or dict {label: weight}, default=None
        Costs c of the classes; their role is the algorithm's. "balanced" is the running ratio of the class counts.
    fit_intercept : bool, default=True
        Learn a constant feature along, reported as ``intercept_``. The papers' algorithms have none: False.
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
    grow_classes : bool, default=False
        Whether classes may come later: the first call to ``partial_fit`` needs no ``classes``, and a label not met
        before is a new class, whose model is the one it would have if it had been known from the start. Every class has
        a model then, of one or two as well. ``class_weight`` may name labels still to come.
    scale : {"max", "rms", "idf"} or None, default=None
        Divide each feature by the largest |x| it had in the rows learned so far, or by the root of the mean of its
        squares, the row at hand included. For features of different units; 0 stays 0. "idf" multiplies by the inverse
        document frequency in these rows, for counts of words: with ``normalize="l2"`` it is tf-idf.
    normalize : "l2" or None, default=None
        Divide each row by its length, after scaling; the intercept's constant is no part of it.
    max_features : int or None, default=None
        Most features that are kept at any time, of however many there are: where a new one needs room, the eighth that
        matters least (`thin`) gives way. Rows are taken by the features that are kept. For names without end, hashed
        into 2⁶² numbers (``bits=62`` of the stream): those of what is kept are kept exactly, no two share a weight.
    admit : int, default=2
        With ``max_features``: at which sight a feature is kept; how often others came is counted, in little room.
    calibrate : bool, default=False
        Whether a head learns along how sure the scores are: a logistic regression on them, fitted as rows come by, each
        before it is learned. ``predict_proba`` is its; ``coef_`` and scores are log-odds, ``cumulative_loss_`` is the
        logistic loss, and every row counts as an update.
    device : {"cpu", "cuda", "auto"}, default="cpu"
        Where models of many classes learn side by side, and those of ``Auto``: "cuda" is a GPU (docs/gpu.md), "auto"
        takes one where it pays. The model is the same; a file of it does not say where it learned.

    Attributes
    ----------
    coef_ : array or sparse matrix of shape (1, n_features), or (K, n_features) of K > 2 classes
        The weights, computed on demand; sparse after ``sparsify()``. With ``scale`` they are in the units of X. With
        ``normalize`` the score is coef_·x over the length of the scaled row, plus ``intercept_``.
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

    With ``grow_classes=True`` a spare model learns every row as negative, and a class met for the first time takes a
    copy of it. ``classes_`` is sorted; whatever has an entry for each class (``coef_``, scores) follows it, so that a
    new class may come in between. A class can be predicted once it was met: its first row is a mistake.

    """

    _gives_probabilities = False  # whatever its loss

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learns from scratch, in ``n_passes`` passes over the rows."""
        with replacing(self) as fitted:
            fitted._fit(X, y, sample_weight)
        return self

    def _fit(self, X: Any, y: Any, sample_weight: Any) -> Self:
        self._check_common_parameters()
        X = csr_of(self, X, reset=True)
        labels = labels_of(y, len(X))
        check_classification_targets(labels)
        classes = self._classes_of(labels)
        columns = getattr(self, "feature_names_in_", None)
        model = self._fresh_model(classes, X.n_features, np.unique(labels), columns)
        coded, weights = classes.coded(labels), weights_of(sample_weight, len(X))
        if weights is not None and not weights.any():
            raise InvalidInputError("sample_weight: at least one weight must be non-zero, all are zero")
        # one pass can check as it learns: on an error the new model is thrown away
        batch = Batch.unchecked(*X) if self.n_passes == 1 and not self.shuffle else Batch.of(*X)
        batch = batch.labelled(coded, weights)
        if not self.shuffle:
            order = LabelOrder()
            order.update(coded)
            if order.looks_sorted:
                warn_of_sorted("shuffle=True takes them in random order", stacklevel=3)
        generator = check_random_state(self.random_state)
        for _ in range(self.n_passes):
            for rows in self._in_order(batch, generator):
                model, _ = model.learn(rows, classes, scores=False)
        return self._adopt(model)

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Goes on learning, one pass in the given order.

        ``classes`` must be given on the first call, unless there is ``grow_classes=True``.
        """
        with as_before_on_error(self):
            self._learn(X, y, classes, sample_weight, scores=False)
        return self

    def learn(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> NDArray[Any]:
        """``partial_fit`` that returns each row's score before its update: progressive validation for free.

        Of more than two classes it returns a score for each, rows × classes. On the first call ``classes`` may be left
        out if all of them occur in y. With ``grow_classes=True`` there is a column for each class met by the end of the
        call; rows before its first one have the score it would have given, had it been known.
        """
        with as_before_on_error(self):
            scores = self._learn(X, y, classes, sample_weight, scores=True)
            found: NDArray[Any] = self._by_class(scores, axis=-1)
            return found

    def _learn(self, X: Any, y: Any, classes: Any, sample_weight: Any, *, scores: bool) -> NDArray[Any]:
        first = not self.__sklearn_is_fitted__()
        if first:
            self._check_common_parameters()
        names = feature_names(X)
        # a first model is thrown away on an error
        batch = Batch.unchecked(*csr_of(self, X, reset=True)) if first else self._batch_of(X)
        labels = labels_of(y, len(batch))
        model = self._model_to_teach(labels, classes, batch.n_features, from_y=scores)
        known = model.classes.meeting(y if isinstance(y, list | tuple) else labels)
        coded, weights = known.coded(labels), weights_of(sample_weight, len(batch))
        model, out = model.learn(batch.labelled(coded, weights), known, scores)
        if self.grow and names is not None and (model.names is None or len(names) > len(model.names.texts)):
            known_extra = {**model.extra[KEY], "named": True}
            model = replace(model, names=Names.of(list(names)), extra={**model.extra, KEY: known_extra})
        self._adopt(model)
        return out

    def _fresh_model(
        self, classes: Classes, n_features: int = 0, labels: Any = None, columns: Any = None, **more: Any
    ) -> Model:
        model, device = super()._fresh_model(classes, n_features, labels, columns, **more), self._device
        check_device(model.learner, device)
        place(model.learner, device)
        return model

    def _model_to_teach(self, labels: Any, classes: Any, n_features: int, from_y: bool) -> Model:
        model = super()._model_to_teach(labels, classes, n_features, from_y)
        place(model.learner, self._device)
        return model

    def _copy_to_teach(self) -> Model:
        model = super()._copy_to_teach()
        place(model.learner, self._device)
        return model

    @property
    def _device(self) -> str:
        found: str = self.get_params(deep=False)["device"]
        return found

    def _in_order(self, batch: Batch, generator: np.random.RandomState) -> Iterator[Batch]:
        """One pass: the batch as it is, or shuffled, a piece at a time so that no second copy of it is made."""
        if not self.shuffle:
            yield batch
            return
        order = generator.permutation(len(batch))
        for start in range(0, len(order), PIECE):
            yield batch.take(order[start : start + PIECE])

    def _check_common_parameters(self) -> None:
        super()._check_common_parameters()
        passes = self.n_passes
        if isinstance(passes, bool) or not isinstance(passes, numbers.Integral) or passes < 1:
            raise InvalidParameterError(f"{self._algorithm}: n_passes must be a whole number ≥ 1, got {passes!r}")
        Preparation(self.scale, self.normalize)

    def _scores(self, X: Any) -> NDArray[Any]:
        return self._model.learner.scores(self._batch_of(X))

    def _batch_of(self, X: Any) -> Batch:
        """Rows for the fitted model: a matrix, or whatever the stream it has learned from took."""
        found = batch_like(self._model, X)
        hashed = "hashing" in self._model.feature_space  # as wide as all that names are hashed into, met or not
        return Batch.of(*csr_of(self, X, reset=False, any_width=self.grow or hashed)) if found is None else found

    @available_if(_is_logistic)
    def predict_proba(self, X: Any) -> NDArray[Any]:
        """Probabilities of the classes. Of ``Auto``, and with ``calibrate=True`` or ``loss="logistic"``.

        1/(1 + e^∓s) of two classes. Of more each class has its 1/(1 + e^−s), and a row is divided by its sum.
        """
        return probabilities(self.decision_function(X).astype(np.float64))
