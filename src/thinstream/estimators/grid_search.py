"""Tuning as a scikit-learn estimator: every candidate and fold is a lane of one pass."""

import numbers
import time
from collections.abc import Callable
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone
from sklearn.utils import check_random_state, get_tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from thinstream.batch import Batch
from thinstream.data.labels import Classes, warn_of_sorted
from thinstream.data.stream import Stream
from thinstream.errors import InvalidParameterError, listed
from thinstream.estimators.base import as_before_on_error
from thinstream.estimators.classifier import OnlineClassifier
from thinstream.estimators.mixins import classes_for
from thinstream.estimators.studies import (
    check_folds,
    is_number,
    labelled_csr,
    require_known_classes,
    score_of,
    scoring_for,
    splits_of,
    threads_of,
)
from thinstream.lanes.devices import chosen_device
from thinstream.models.model import Names
from thinstream.tuning.passes import Matrix, Source, is_repeatable, rewind
from thinstream.tuning.search import COMMON, Outcome, Setting, grid, make_trials, sample, search
from thinstream.tuning.study import StudyConfig

HELD_OUT_CHOICES = ("auto", "passing", "final")


def _delegates(name: str) -> Callable[[Any], bool]:
    def has(search: Any) -> bool:
        if not search.refit:
            raise AttributeError(f"{name} needs OnlineGridSearchCV(refit=True)")
        getattr(getattr(search, "best_estimator_", search.estimator), name)  # raises if it does not exist
        return True

    return has


class OnlineGridSearchCV(MetaEstimatorMixin, BaseEstimator):
    """Search a grid of parameters, or random candidates, with cross-validation in one pass over the data.

    There is a model for each candidate and fold (a lane), which learns the rows of the other folds and is scored on its
    own. All lanes learn side by side, and each is identical to a model that is trained alone. The interface is that of
    scikit-learn's ``GridSearchCV``, but the data may be a stream, which is never stored, and by default held-out rows
    are scored while they are read.

    Parameters
    ----------
    estimator : estimator of thinstream
        The estimator, with the parameters that are not searched.
    param_grid : dict {name: values} or list of dicts
        Values of the algorithm's parameters, ``fit_intercept`` and ``class_weight``. ``scale`` and ``normalize`` cannot
        be searched, because all lanes share the prepared rows. With ``n_iter``, values may be distributions with a
        method ``rvs``, such as those of scipy.stats.
    n_iter : int, default=None
        Try N random candidates instead of all. If all values are lists, no candidate occurs twice.
    cv : int, splitter, iterable of (train, test) or None, default=5
        With a number k, row i is held out from fold i mod k. A splitter or an iterable (not for streams) determines the
        folds, and rows are learned in their own order. None uses progressive scores without folds: each row is
        predicted, then learned. This needs the fewest lanes, and the model of the best lane is the result.
    scoring : str or callable, default="accuracy"
        The metric that compares candidates (greater is better). From counts: "accuracy", "balanced_accuracy", "f1",
        "precision", "recall", "jaccard", "matthews_corrcoef" and "neg_log_loss" as in scikit-learn (the second class is
        positive), "weighted_sum" of paper P3, and negated "error", "cost" (per row) and "log_loss". From scores in 2^14
        bins: "auc" and "average_precision" (see `Progress`). With more than two classes, "f1", "precision", "recall",
        "jaccard", "auc" and "average_precision" are means over the classes, and "weighted_sum" and "cost" are not
        available. It can also be a function of a `Report` (which has no AUC). ``fit`` also accepts other names in
        ``sklearn.metrics.get_scorer_names()``, such as "roc_auc", and scorers, functions of (estimator, X, y), which
        use the stored held-out predictions.
    tradeoff : Tradeoff, default=None
        The weights of "weighted_sum" and "cost". None: those of paper P3.
    held_out : {"auto", "passing", "final"}, default="auto"
        When to score held-out rows. "passing" scores them while they are read, with models that have learned the rows
        before, and ignores the first quarter to half of the rows (up to the largest power of two that is at most half).
        "final" scores them with the final models in another pass, which needs files or arrays. "auto" is "passing" if
        ``cv`` is a number. Otherwise it is "final", because the first rows may be test rows.
    eliminate : bool, default=False
        Drop candidates early if they are 5 standard errors behind the best and are not catching up, each time the
        number of rows has doubled (see `thinstream.tuning.search`).
    refit : bool, default=True
        Train ``best_estimator_`` on all rows in another pass. With a pipe, train one more lane per candidate instead.
    memory : int, default=None
        The memory limit of all lanes in bytes. If it is not enough, there are several passes. None: half of the
        machine's memory.
    n_jobs : int or None, default=None
        The number of threads. None: 1. -1: all cores. The result is the same.
    device : {"cpu", "cuda", "auto"}, default="cpu"
        The device for training the lanes. "cuda" uses a GPU (see docs/gpu.md), and "auto" uses it if it is faster. The
        result is the same.
    random_state : int, RandomState or None, default=None
        The seed of the random candidates.

    Attributes
    ----------
    cv_results_ : dict of arrays
        ``params``, ``param_<name>``, ``split<i>_test_score``, ``mean_test_score``, ``std_test_score``,
        ``rank_test_score``, ``standard_error``, ``progressive_score`` (on all rows) and ``dropped_at`` (the number of
        rows when the candidate was dropped; 0: never). Errors, costs and losses are negative, as in scikit-learn. With
        folds, scorers of scikit-learn have no ``progressive_score``.
    best_index_, best_params_, best_score_, best_estimator_
        The best candidate.
    n_splits_ : int
        The number of folds. 0 without folds.
    device_ : str
        The device of the lanes.
    n_study_passes_ : int
        The number of passes over the data. More than 1 if the memory limit required it.
    refit_time_ : float
        The time to train the best estimator, in seconds.

    Examples
    --------
    >>> import thinstream as ts
    >>> from thinstream.datasets import sparse_gaussian
    >>> train, test = sparse_gaussian(2_000, 500)
    >>> grid = {"eta": [0.01, 0.1, 1.0], "l1": [0.0, 10.0, 100.0]}
    >>> search = ts.OnlineGridSearchCV(ts.FSOL(fit_intercept=False), grid)
    >>> search = search.fit(train.X, train.y)                  # 45 models, one pass
    >>> search.best_params_, search.score(test.X, test.y) > 0.8
    ({'eta': 0.01, 'l1': 100.0}, True)

    """

    def __init__(
        self,
        estimator: OnlineClassifier,
        param_grid: Any,
        *,
        n_iter: int | None = None,
        cv: Any = 5,
        scoring: Any = "accuracy",
        tradeoff: Any = None,
        held_out: str = "auto",
        eliminate: bool = False,
        refit: bool = True,
        memory: int | None = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        device: str = "cpu",
    ) -> None:
        self.estimator, self.param_grid, self.n_iter, self.cv = estimator, param_grid, n_iter, cv
        self.scoring, self.tradeoff, self.held_out, self.eliminate = scoring, tradeoff, held_out, eliminate
        self.refit, self.memory, self.n_jobs, self.random_state = refit, memory, n_jobs, random_state
        self.device = device

    # Learning ---------------------------------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> Self:
        """Compare the candidates and, with ``refit``, train the best. ``groups`` are passed to the splitter."""
        with as_before_on_error(self):
            settings = self._settings()
            rows, labels, classes, weights = labelled_csr(self, X, y, sample_weight)
            batch = Batch.of(*rows).labelled(classes.coded(labels), weights)
            orders = self._orders(len(rows))
            folds, roles = splits_of(self.cv, X, labels, groups, explicit=bool(orders))
            outcome = self._search(Matrix(batch, roles, orders), settings, classes, folds, rows.n_features)
            self._conclude(outcome, settings, folds)
            if self.refit:
                start = time.perf_counter()
                self.best_estimator_ = self._best()
                if outcome.models:
                    columns = getattr(self, "feature_names_in_", None)
                    self._adopt(outcome, classes, np.unique(labels), columns=columns)
                else:
                    self.best_estimator_.fit(X, y, sample_weight)
                self.refit_time_ = time.perf_counter() - start
        return self

    def fit_stream(self, stream: Stream, classes: Any = None) -> Self:
        """Compare the candidates on a stream (see `thinstream.open_stream`); ``classes`` as in the estimator."""
        with as_before_on_error(self):
            settings = self._settings(streamed=True)
            if self.estimator.shuffle:
                raise InvalidParameterError("a stream cannot be shuffled, so shuffle of the estimator must be False")
            if self.cv is not None and not is_number(self.cv):
                raise InvalidParameterError(f"cv must be a number of folds or None for a stream, got {self.cv!r}")
            classes_of_stream = classes_for(stream, classes)
            folds, again = 0 if self.cv is None else check_folds(self.cv), is_repeatable(stream)
            width = getattr(stream, "n_features", None) or 0
            outcome = self._search(stream, settings, classes_of_stream, folds, width, models=not again)
            self._conclude(outcome, settings, folds)
            self.__dict__.pop("feature_names_in_", None)
            self.__dict__.pop("n_features_in_", None)
            if self.refit:
                start = time.perf_counter()
                self.best_estimator_ = self._best()
                if outcome.models:
                    more = {"feature_space": stream.feature_space, "names": Names.from_stream(stream)}
                    self._adopt(outcome, classes_of_stream, np.array(classes_of_stream), **more)
                else:
                    rewind(stream)
                    self.best_estimator_.fit_stream(stream, classes)
                self.n_features_in_ = self.best_estimator_.n_features_in_
                self.refit_time_ = time.perf_counter() - start
        return self

    def _settings(self, streamed: bool = False) -> list[Setting]:
        """Check the parameters of the search and return the candidates."""
        if not isinstance(self.estimator, OnlineClassifier):
            raise InvalidParameterError(
                f"estimator must be an online estimator of thinstream (ts.algorithms('online')), got {self.estimator!r}"
            )
        self.estimator._check_common_parameters()
        require_known_classes(self.estimator)
        if self.held_out not in HELD_OUT_CHOICES:
            raise InvalidParameterError(f"held_out must be {listed(HELD_OUT_CHOICES)}, got {self.held_out!r}")
        memory = 1 if self.memory is None else self.memory
        if isinstance(memory, bool) or not isinstance(memory, numbers.Integral) or memory < 1:
            raise InvalidParameterError(f"memory must be a whole number ≥ 1, got {memory!r}")
        threads_of(self.n_jobs)
        chosen_device(self.device, 1, 1)  # raises
        scoring_for(self.scoring, self.tradeoff, self.estimator, None if streamed else Classes(-1, 1))  # raises
        if self.n_iter is None:
            return grid(self.param_grid)
        seed = check_random_state(self.random_state).randint(2**31 - 1)
        return sample(self.param_grid, self.n_iter, np.random.default_rng(seed))

    def _search(
        self, source: Source, settings: list[Setting], classes: Classes, folds: int, width: int, models: bool = False
    ) -> Outcome:
        estimator = self.estimator
        base = {name: getattr(estimator, name) for name in (*estimator._own_parameters, *COMMON)}
        config = StudyConfig(
            estimator._algorithm,
            folds=folds,
            n_features=width,
            dtype=np.dtype(estimator.dtype).name,
            threads=threads_of(self.n_jobs),
            n_passes=estimator.n_passes,
            final=folds > 0 and (self.held_out == "final" or (self.held_out == "auto" and not is_number(self.cv))),
            memory=self.memory,
            device=self.device,
            scale=estimator.scale,
            normalize=estimator.normalize,
            classes=len(classes),
        )
        in_memory_classes = classes if isinstance(source, Matrix) else None
        scoring = scoring_for(self.scoring, self.tradeoff, estimator, in_memory_classes, len(classes))
        outcome = search(
            source,
            config,
            make_trials(estimator._algorithm, settings, base, classes),
            scoring,
            eliminate=self.eliminate,
            models=bool(self.refit) and (models or not folds),
        )
        shown = {name: getattr(outcome, name) + scoring.offset for name in ("splits", "mean", "progressive")}
        return outcome._replace(**shown)

    def _orders(self, n: int) -> list[NDArray[np.int64]]:
        """Return the order of the rows in each pass if the estimator shuffles, the same as in its ``fit``."""
        if not self.estimator.shuffle:
            return []
        generator = check_random_state(self.estimator.random_state)
        return [generator.permutation(n) for _ in range(self.estimator.n_passes)]

    # Concluding -------------------------------------------------------------------------------------------------------

    def _conclude(self, outcome: Outcome, settings: list[Setting], folds: int) -> None:
        results: dict[str, Any] = {}
        for name in sorted({name for setting in settings for name in setting}):
            column = np.ma.MaskedArray(np.empty(len(settings), dtype=object), mask=True)
            for i, setting in enumerate(settings):
                if name in setting:
                    column[i] = setting[name]
            results[f"param_{name}"] = column
        results["params"] = settings
        for split in range(folds):
            results[f"split{split}_test_score"] = outcome.splits[:, split]
        results["mean_test_score"] = outcome.mean
        results["std_test_score"] = outcome.splits.std(axis=1) if folds else np.full(len(settings), np.nan)
        results["rank_test_score"] = outcome.rank.astype(np.int32)
        results["standard_error"] = outcome.standard_error
        results["progressive_score"] = outcome.progressive
        results["dropped_at"] = outcome.dropped
        for name in ("best_estimator_", "refit_time_"):
            self.__dict__.pop(name, None)
        self.cv_results_, self.n_splits_, self.n_study_passes_ = results, folds, outcome.passes
        self.device_ = outcome.device
        self.best_index_, self.best_params_ = outcome.best, settings[outcome.best]
        self.best_score_ = float(outcome.mean[outcome.best])
        if outcome.looks_sorted and (outcome.models or not self.refit):  # otherwise the refit warns
            warn_of_sorted("shuffle them first", stacklevel=3)

    def _best(self) -> OnlineClassifier:
        """Return the best estimator before it is fitted."""
        best: OnlineClassifier = clone(self.estimator).set_params(**clone(self.best_params_, safe=False))
        return best

    def _adopt(self, outcome: Outcome, classes: Classes, labels: NDArray[Any], **more: Any) -> None:
        self.best_estimator_._adopt_learner(outcome.models[outcome.best], classes, labels, **more)

    # Predicting, with the best model ----------------------------------------------------------------------------------

    @available_if(_delegates("predict"))
    def predict(self, X: Any) -> Any:
        """Predict the class of each row with the best estimator."""
        check_is_fitted(self)
        return self.best_estimator_.predict(X)

    @available_if(_delegates("decision_function"))
    def decision_function(self, X: Any) -> Any:
        """Return the scores of the rows by the best estimator."""
        check_is_fitted(self)
        return self.best_estimator_.decision_function(X)

    @available_if(_delegates("predict_proba"))
    def predict_proba(self, X: Any) -> Any:
        """Return the probabilities of the classes, if the estimator has them."""
        check_is_fitted(self)
        return self.best_estimator_.predict_proba(X)

    @available_if(_delegates("score"))
    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the score of the best estimator by ``scoring``. Greater is better."""
        check_is_fitted(self)
        return score_of(self.best_estimator_, self.scoring, self.tradeoff, X, y, sample_weight)

    @available_if(_delegates("predict_stream"))
    def predict_stream(self, stream: Stream) -> Any:
        """Predict a stream, and yield an array per batch."""
        check_is_fitted(self)
        return self.best_estimator_.predict_stream(stream)

    @property
    def classes_(self) -> NDArray[Any]:
        """The classes of the best estimator."""
        if not hasattr(self, "best_estimator_"):
            raise AttributeError("OnlineGridSearchCV has no classes_ before it is fitted with refit=True")
        return self.best_estimator_.classes_

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "cv_results_")

    def __sklearn_tags__(self) -> Any:
        tags, inner = super().__sklearn_tags__(), get_tags(self.estimator)
        tags.estimator_type = inner.estimator_type
        tags.classifier_tags = inner.classifier_tags
        tags.target_tags, tags.input_tags = inner.target_tags, inner.input_tags
        return tags
