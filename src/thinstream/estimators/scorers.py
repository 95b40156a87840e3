"""What `scoring` may be, for estimators: our names and functions, and scikit-learn's scorers."""

import inspect
import numbers
from collections.abc import Callable
from typing import Any

import numpy as np
from joblib import effective_n_jobs
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.metrics import get_scorer, get_scorer_names
from sklearn.utils.metaestimators import available_if

from thinstream.errors import InvalidParameterError, listed
from thinstream.evaluate.report import P3, Tradeoff
from thinstream.learners import Classes
from thinstream.models.probabilities import probabilities
from thinstream.tune.class_counts import tallies_of
from thinstream.tune.lane_counts import HELD_OUT
from thinstream.tune.lane_ranks import RANKED, LaneRanks
from thinstream.tune.scoring import NAMES, AnyScoring, PredictionScoring, RankScoring, scoring_of

#: What is told without holding predictions.
COUNTED = (*NAMES, *RANKED)
#: Of those that counts tell, the names that are scikit-learn's as well, and mean the same.
SHARED = tuple(name for name in NAMES if name in get_scorer_names() and name != "neg_log_loss")


def is_scorer(given: Any) -> bool:
    """Whether scikit-learn is asked: by a name that counts do not tell, or a function of (estimator, X, y)."""
    if callable(given):
        found = inspect.signature(given).parameters.values()
        places = [one for one in found if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]
        return sum(one.default is one.empty for one in places) == 3
    return isinstance(given, str) and given not in NAMES and given in get_scorer_names()


def scoring_for(
    given: Any, tradeoff: Tradeoff | None, estimator: Any, classes: Classes | None, n_classes: int = 2
) -> AnyScoring:
    """What candidates are compared by; ``classes`` None: of a stream, whose predictions are not held."""
    if not is_scorer(given) or (classes is None and isinstance(given, str) and given in RANKED):
        try:
            return scoring_of(given, tradeoff or P3, n_classes)
        except InvalidParameterError:
            if isinstance(given, str) and given in NAMES:  # but not of so many classes
                raise
            raise InvalidParameterError(
                f"scoring must be {listed(COUNTED)}, another of sklearn.metrics.get_scorer_names(), a function of a "
                f"Report, or one of (estimator, X, y), got {given!r}"
            ) from None
    if classes is None:
        raise InvalidParameterError(
            f"scoring of a stream must be {listed(COUNTED)}, or a function of a Report: what is told without holding "
            f"its predictions; got {given!r}"
        )
    name, score = given if isinstance(given, str) else "score", _scorer(given)
    labels, proba = np.array(list(classes)), hasattr(estimator, "predict_proba")

    def function(scores: NDArray[Any], y: NDArray[Any]) -> float:
        stored = _Predictions(scores, labels, proba)
        truth = labels[(y > 0).astype(int) if classes.are_two else y]
        return float(score(stored, np.arange(len(y))[:, np.newaxis], truth))

    return PredictionScoring(name, function)


def score_of(estimator: Any, given: Any, tradeoff: Tradeoff | None, X: Any, y: Any, sample_weight: Any) -> float:
    """What ``scoring`` says of a fitted estimator on these rows."""
    if isinstance(given, str) and given in ("accuracy", "error"):
        return float(estimator.score(X, y, sample_weight)) - (given == "error")
    if is_scorer(given) or (given in SHARED and sample_weight is not None):
        more = {} if sample_weight is None else {"sample_weight": sample_weight}
        return float(_scorer(given)(estimator, X, y, **more))
    if sample_weight is not None:
        raise InvalidParameterError(
            f"score: sample_weight goes with {listed(SHARED)} and scikit-learn's, not {given!r}"
        )
    classes, scores = Classes(*np.asarray(estimator.classes_).tolist()), np.asarray(estimator.decision_function(X))
    scoring = scoring_of(given, tradeoff or P3, len(classes))
    each = (scores[:, np.newaxis], classes.coded(y), np.full((len(scores), 1), HELD_OUT, np.int8))
    if isinstance(scoring, RankScoring):
        ranks = LaneRanks(1, len(classes), HELD_OUT)
        ranks.update(*each)
        return float(scoring.measure.values(ranks)[0])
    tallies = tallies_of(1, scoring.losses, len(classes))
    tallies.update(*each)
    return float(scoring.scores(tallies.held_out)[0]) + scoring.offset


def _scorer(given: Any) -> Callable[..., Any]:
    return get_scorer(given) if isinstance(given, str) else given  # type: ignore[no-any-return] # scikit-learn has no types


class _Predictions(ClassifierMixin, BaseEstimator):
    """Scores that are known, as an estimator whose rows are their numbers."""

    def __init__(self, scores: NDArray[Any], labels: NDArray[Any], proba: bool) -> None:
        self.scores, self.labels, self.proba = scores, labels, proba
        self.classes_ = labels

    def decision_function(self, X: NDArray[np.int64]) -> NDArray[Any]:
        return self.scores[X[:, 0]]

    def predict(self, X: NDArray[np.int64]) -> NDArray[Any]:
        scores = self.decision_function(X)
        found: NDArray[Any] = self.labels[(scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)]
        return found

    @available_if(lambda self: self.proba)
    def predict_proba(self, X: NDArray[np.int64]) -> NDArray[np.float64]:
        return probabilities(self.decision_function(X).astype(np.float64))

    def __sklearn_is_fitted__(self) -> bool:
        return True


def threads_of(n_jobs: Any) -> int:
    """Threads for ``n_jobs``, which means what it does in scikit-learn: None is 1, -1 all cores, -2 all but one.

    >>> threads_of(None), threads_of(3)
    (1, 3)
    """
    if n_jobs is not None and (isinstance(n_jobs, bool) or not isinstance(n_jobs, numbers.Integral) or n_jobs == 0):
        raise InvalidParameterError(f"n_jobs must be a whole number, -1 for all cores, or None for 1, got {n_jobs!r}")
    return int(effective_n_jobs(n_jobs))
