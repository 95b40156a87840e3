"""Inputs of grid search, sparsity paths and cost curves: rows, splits and scorers."""

import inspect
import numbers
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, cast, overload

import numpy as np
import scipy.sparse as sp
from joblib import effective_n_jobs
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.metrics import get_scorer, get_scorer_names
from sklearn.model_selection import check_cv
from sklearn.utils import check_random_state, indexable
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets

from thinstream.data.in_memory import from_memory
from thinstream.data.labels import Classes, class_costs
from thinstream.data.stream import Stream
from thinstream.errors import InvalidInputError, InvalidParameterError, listed
from thinstream.estimators.classifier import OnlineClassifier
from thinstream.estimators.factory import make
from thinstream.estimators.inputs import Csr, csr_of, labels_of, weights_of
from thinstream.estimators.mixins import classes_for
from thinstream.models.model import Names, probabilities
from thinstream.training.metrics import P3, Tradeoff
from thinstream.tuning.counts import ABSENT, HELD_OUT, LEARNED, RANKED, LaneRanks, LaneTallies
from thinstream.tuning.measures import NAMES, AnyScoring, PredictionScoring, RankScoring, scoring_of
from thinstream.tuning.passes import Roles
from thinstream.tuning.sparsity_path import PathResult
from thinstream.tuning.study import StudyConfig, Trial

#: The default algorithm of `SparsityPath`.
DEFAULT = "AdaRDA"


class Source(NamedTuple):
    """Rows to learn, and their classes."""

    stream: Stream
    classes: Classes
    labels: NDArray[Any]
    n_features: int  # 0 if unknown


def base_of(estimator: Any) -> OnlineClassifier:
    """Return a copy of the estimator of a study, which must be an online estimator with a single pass."""
    estimator = make(DEFAULT) if estimator is None else estimator
    if not isinstance(estimator, OnlineClassifier):
        raise InvalidParameterError(
            f"estimator must be an online estimator of thinstream (ts.algorithms('online')) or None, got {estimator!r}"
        )
    base: OnlineClassifier = clone(estimator)
    base._check_common_parameters()
    if base.get_params(deep=False)["n_passes"] != 1:
        raise InvalidParameterError(f"{base._algorithm}: n_passes must be 1, because studies make one pass")
    require_known_classes(base)
    return base


def require_known_classes(estimator: OnlineClassifier) -> None:
    """Raise if models cannot be compared in lanes: with a feature budget, a head or growing classes."""
    if getattr(estimator, "max_features", None) is not None:
        raise InvalidParameterError("max_features must be None, because studies compare models of all features")
    if getattr(estimator, "calibrate", True):  # Auto has no parameter ``calibrate``
        why = "calibrate must be False" if hasattr(estimator, "calibrate") else "it has nothing to tune"
        raise InvalidParameterError(f"{estimator._algorithm} cannot be compared in a study: {why}")
    if estimator.get_params(deep=False)["grow_classes"]:
        raise InvalidParameterError(
            f"{estimator._algorithm}: grow_classes must be False, because studies need to know the classes"
        )


class LabelledCsr(NamedTuple):
    """A checked matrix with labels and sample weights."""

    rows: Csr
    labels: NDArray[Any]
    classes: Classes
    weights: NDArray[np.float64] | None


def labelled_csr(owner: Any, X: Any, y: Any, sample_weight: Any) -> LabelledCsr:
    """Check X, y and sample_weight. ``owner`` gets ``n_features_in_`` and ``feature_names_in_``."""
    rows = csr_of(owner, X, reset=True)
    labels, weights = labels_of(y, len(rows)), weights_of(sample_weight, len(rows))
    check_classification_targets(labels)
    classes = Classes.of(labels)
    if weights is not None and not weights.any():
        raise InvalidInputError("sample_weight must have at least one non-zero weight, got only zeros")
    return LabelledCsr(rows, labels, classes, weights)


def from_matrix(owner: Any, base: OnlineClassifier, X: Any, y: Any, sample_weight: Any) -> Source:
    """Return a matrix as a stream. ``owner`` gets ``n_features_in_`` and ``feature_names_in_``."""
    rows, labels, classes, weights = labelled_csr(owner, X, y, sample_weight)
    matrix = _matrix(rows)
    coded, parameters = classes.coded(labels), base.get_params(deep=False)
    if parameters["shuffle"]:
        order = check_random_state(parameters["random_state"]).permutation(len(rows))
        matrix, coded = matrix[order], coded[order]
        weights = None if weights is None else weights[order]
    stream: Any = from_memory(matrix, coded, weights, classes=_codes(classes), dtype=parameters["dtype"], look=0)
    return Source(stream, classes, np.unique(labels), rows.n_features)


def _codes(classes: Classes) -> Sequence[int] | None:
    """Return the codes of the classes for a stream. Two classes need none, because a stream uses the signs."""
    return None if classes.are_two else range(len(classes))


def _matrix(rows: Csr) -> sp.csr_matrix:
    return sp.csr_matrix((rows.values, rows.indices, rows.indptr), shape=(len(rows), rows.n_features))


def from_stream(base: OnlineClassifier, stream: Stream, classes: Any) -> Source:
    """Return a stream with its classes."""
    if base.get_params(deep=False)["shuffle"]:
        raise InvalidParameterError(f"{base._algorithm}: a stream cannot be shuffled, so shuffle must be False")
    classes_of_stream = classes_for(stream, classes)
    return Source(stream, classes_of_stream, np.array(classes_of_stream), getattr(stream, "n_features", None) or 0)


def rows_to_test(owner: Any, base: OnlineClassifier, classes: Classes, test: Any) -> Stream:
    """Return (X, y) as a stream of rows to score."""
    X, y = test
    rows = csr_of(owner, X, reset=False)
    coded, dtype = classes.coded(labels_of(y, len(rows))), base.get_params(deep=False)["dtype"]
    return cast(Stream, from_memory(_matrix(rows), coded, classes=_codes(classes), dtype=dtype, look=0))


def trial_of(base: OnlineClassifier, classes: Classes) -> Trial:
    """Return the parameters that all lanes share."""
    parameters = base.get_params(deep=False)
    return Trial(
        {name: parameters[name] for name in base._own_parameters},
        class_costs(parameters["class_weight"], classes, base._algorithm),
        bool(parameters["fit_intercept"]),
    )


def config_of(base: OnlineClassifier, source: Source, memory: int | None, threads: int) -> StudyConfig:
    """Return the configuration of a study."""
    parameters = base.get_params(deep=False)
    return StudyConfig(
        base._algorithm,
        n_features=source.n_features,
        dtype=np.dtype(parameters["dtype"]).name,
        threads=threads,
        memory=memory,
        scale=parameters["scale"],
        normalize=parameters["normalize"],
        classes=len(source.classes),
    )


class Models(Sequence[Any]):
    """The models of a path as fitted estimators, identical to models that were trained alone.

    An estimator that can continue to learn is created once. The others would need much memory, and are created on each
    access.
    """

    def __init__(self, base: OnlineClassifier, path: PathResult, source: Source, names: Any) -> None:
        self._base, self._path = base, path
        self._classes, self._labels = source.classes, source.labels
        self._columns = {
            "columns": names,
            "feature_space": source.stream.feature_space,
            "names": Names.from_stream(source.stream),
        }
        self._made: dict[int, Any] = {}

    def __len__(self) -> int:
        return len(self._path.l1)

    @overload
    def __getitem__(self, k: int) -> Any: ...
    @overload
    def __getitem__(self, k: slice) -> list[Any]: ...
    def __getitem__(self, k: int | slice) -> Any:
        if isinstance(k, slice):
            return [self[i] for i in range(*k.indices(len(self)))]
        k = range(len(self))[k]
        if k in self._made:
            return self._made[k]
        estimator: Any = clone(self._base).set_params(l1=float(self._path.l1[k]))
        estimator._adopt_learner(self._path.model(k), self._classes, self._labels, **self._columns)
        if estimator._model.learner.outputs is self._path.models[k]:
            self._made[k] = estimator
        return estimator


# The parameter ``scoring``: metrics and functions of thinstream, or scorers of scikit-learn.

#: Metrics that do not need stored predictions.
COUNTED = (*NAMES, *RANKED)
#: Metrics from counts that have the same name and meaning in scikit-learn.
SHARED = tuple(name for name in NAMES if name in get_scorer_names() and name != "neg_log_loss")


def is_scorer(scoring: Any) -> bool:
    """Return whether scikit-learn computes the scoring: a name only it has, or a function of (estimator, X, y)."""
    if callable(scoring):
        parameters = inspect.signature(scoring).parameters.values()
        positional = [one for one in parameters if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]
        return sum(one.default is one.empty for one in positional) == 3
    return isinstance(scoring, str) and scoring not in NAMES and scoring in get_scorer_names()


def scoring_for(
    scoring: Any, tradeoff: Tradeoff | None, estimator: Any, classes: Classes | None, n_classes: int = 2
) -> AnyScoring:
    """Return the scoring of candidates. ``classes=None`` is for streams, whose predictions are not stored."""
    if not is_scorer(scoring) or (classes is None and isinstance(scoring, str) and scoring in RANKED):
        try:
            return scoring_of(scoring, tradeoff or P3, n_classes)
        except InvalidParameterError:
            if isinstance(scoring, str) and scoring in NAMES:  # not defined for this number of classes
                raise
            raise InvalidParameterError(
                f"scoring must be {listed(COUNTED)}, a name in sklearn.metrics.get_scorer_names(), a function of a "
                f"Report, or a function of (estimator, X, y), got {scoring!r}"
            ) from None
    if classes is None:
        raise InvalidParameterError(
            f"scoring for a stream must be {listed(COUNTED)}, or a function of a Report, because predictions are not "
            f"stored, got {scoring!r}"
        )
    name, score = scoring if isinstance(scoring, str) else "score", _scorer(scoring)
    labels, proba = np.array(list(classes)), hasattr(estimator, "predict_proba")

    def function(scores: NDArray[Any], y: NDArray[Any]) -> float:
        stored = _Predictions(scores, labels, proba)
        truth = labels[(y > 0).astype(int) if classes.are_two else y]
        return float(score(stored, np.arange(len(y))[:, np.newaxis], truth))

    return PredictionScoring(name, function)


def score_of(estimator: Any, scoring: Any, tradeoff: Tradeoff | None, X: Any, y: Any, sample_weight: Any) -> float:
    """Return the score of a fitted estimator on rows."""
    if isinstance(scoring, str) and scoring in ("accuracy", "error"):
        return float(estimator.score(X, y, sample_weight)) - (scoring == "error")
    if is_scorer(scoring) or (scoring in SHARED and sample_weight is not None):
        more = {} if sample_weight is None else {"sample_weight": sample_weight}
        return float(_scorer(scoring)(estimator, X, y, **more))
    if sample_weight is not None:
        raise InvalidParameterError(
            f"score: sample_weight needs the scoring {listed(SHARED)} or a scorer of scikit-learn, got {scoring!r}"
        )
    classes, scores = Classes(*np.asarray(estimator.classes_).tolist()), np.asarray(estimator.decision_function(X))
    metric = scoring_of(scoring, tradeoff or P3, len(classes))
    arrays = (scores[:, np.newaxis], classes.coded(y), np.full((len(scores), 1), HELD_OUT, np.int8))
    if isinstance(metric, RankScoring):
        ranks = LaneRanks(1, len(classes), HELD_OUT)
        ranks.update(*arrays)
        return float(metric.measure.values(ranks)[0])
    tallies = LaneTallies(1, len(classes), metric.losses)
    tallies.update(*arrays)
    return float(metric.scores(tallies.held_out)[0]) + metric.offset


def _scorer(scoring: Any) -> Callable[..., Any]:
    return get_scorer(scoring) if isinstance(scoring, str) else scoring  # type: ignore[no-any-return] # scikit-learn has no types


class _Predictions(ClassifierMixin, BaseEstimator):
    """An estimator that returns stored scores. Its X has the numbers of rows."""

    def __init__(self, scores: NDArray[Any], labels: NDArray[Any], proba: bool) -> None:
        self.scores, self.labels, self.proba = scores, labels, proba
        self.classes_ = labels

    def decision_function(self, X: NDArray[np.int64]) -> NDArray[Any]:
        return self.scores[X[:, 0]]

    def predict(self, X: NDArray[np.int64]) -> NDArray[Any]:
        scores = self.decision_function(X)
        labels: NDArray[Any] = self.labels[(scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)]
        return labels

    @available_if(lambda self: self.proba)
    def predict_proba(self, X: NDArray[np.int64]) -> NDArray[np.float64]:
        return probabilities(self.decision_function(X).astype(np.float64))

    def __sklearn_is_fitted__(self) -> bool:
        return True


def threads_of(n_jobs: Any) -> int:
    """Return the number of threads for ``n_jobs`` as in scikit-learn: None is 1, -1 all cores, -2 all but one.

    >>> threads_of(None), threads_of(3)
    (1, 3)
    """
    if n_jobs is not None and (isinstance(n_jobs, bool) or not isinstance(n_jobs, numbers.Integral) or n_jobs == 0):
        raise InvalidParameterError(f"n_jobs must be a whole number, -1 for all cores, or None for 1, got {n_jobs!r}")
    return int(effective_n_jobs(n_jobs))


# The role of each row in each split of a cross-validation.


def is_number(cv: Any) -> bool:
    """Return whether ``cv`` is a number of folds, and not a splitter or an iterable."""
    return isinstance(cv, numbers.Number)


def check_folds(cv: Any) -> int:
    """Check the number of folds."""
    if isinstance(cv, bool) or not isinstance(cv, numbers.Integral) or cv < 2:
        raise InvalidParameterError(
            f"cv must be a whole number ≥ 2, a splitter, an iterable of splits or None, got {cv!r}"
        )
    return int(cv)


def splits_of(cv: Any, X: Any, y: NDArray[Any], groups: Any, explicit: bool) -> tuple[int, Roles | None]:
    """Return the number of splits and the roles of the rows in each. None is row number mod k, unless ``explicit``.

    >>> splits_of([([0, 1], [2])], np.zeros((4, 1)), np.array([0, 1, 1, 0]), None, False)[1].ravel()
    array([ 1,  1,  0, -1], dtype=int8)
    """
    n = len(y)
    if cv is None:
        return 0, None
    if is_number(cv):
        folds = check_folds(cv)
        if n < folds:
            raise InvalidInputError(f"cv={folds} needs at least {folds} rows, got {n}")
        by_number = np.arange(n)[:, np.newaxis] % folds == np.arange(folds)
        return folds, np.where(by_number, HELD_OUT, LEARNED).astype(np.int8) if explicit else None
    X, y, groups = indexable(X, y, groups)
    splits = list(check_cv(cv, y, classifier=True).split(X, y, groups))
    if not splits:
        raise InvalidParameterError("cv must have at least one split, got none")
    roles = np.full((n, len(splits)), ABSENT, np.int8)
    for number, (train, test) in enumerate(splits):
        for rows, role, name in ((train, LEARNED, "train"), (test, HELD_OUT, "test")):
            _mark(roles[:, number], np.asarray(rows), role, f"cv: split {number} has {name} rows that")
    return len(splits), roles


def _mark(roles: Roles, rows: NDArray[Any], role: int, subject: str) -> None:
    """Set the role of rows, which are indices or a mask."""
    n = len(roles)
    rows = np.flatnonzero(rows) if rows.dtype == bool else rows.astype(np.intp)
    if len(rows) and not (-n <= rows.min() and rows.max() < n):
        raise InvalidInputError(f"{subject} are not in X, which has {n} rows")
    if len(np.unique(rows % n)) != len(rows):
        raise InvalidInputError(f"{subject} occur twice")
    if np.any(roles[rows] != ABSENT):
        raise InvalidInputError(f"{subject} are also train rows")
    roles[rows] = role
