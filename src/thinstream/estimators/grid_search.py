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
from thinstream.errors import InvalidParameterError, listed
from thinstream.estimators.base import as_before_on_error
from thinstream.estimators.classifier import OnlineClassifier
from thinstream.estimators.scorers import score_of, scoring_for, threads_of
from thinstream.estimators.splits import check_folds, is_number, splits_of
from thinstream.estimators.streams import classes_for
from thinstream.estimators.study_inputs import labelled_csr, require_known_classes
from thinstream.evaluate.label_order import warn_of_sorted
from thinstream.lanes.devices import chosen_device
from thinstream.learners import Classes
from thinstream.models.model import Names
from thinstream.streams.stream import Stream
from thinstream.tune.candidates import COMMON, Setting, grid, make_trials, sample
from thinstream.tune.search import Outcome, search
from thinstream.tune.sources import Matrix, Source, is_repeatable, rewind
from thinstream.tune.study import StudyConfig

HELD_OUT_CHOICES = ("auto", "passing", "final")


def _delegates(name: str) -> Callable[[Any], bool]:
    def has(search: Any) -> bool:
        if not search.refit:
            raise AttributeError(f"{name} needs the best model: OnlineGridSearchCV(refit=True)")
        getattr(getattr(search, "best_estimator_", search.estimator), name)  # raises if it has none
        return True

    return has


class OnlineGridSearchCV(MetaEstimatorMixin, BaseEstimator):
    """Tries a grid of parameters, or a random sample, with cross-validation in one pass over the data.

    Each candidate × fold is a lane: a model that learns from the rows of the other folds and is judged by its own; of
    more than two classes a lane for each class. Lanes learn side by side, each with the bits of a run of its own. As
    scikit-learn's ``GridSearchCV``, except that data may be a stream, which is never held, and that held-out rows are
    by default scored as they pass.

    Parameters
    ----------
    estimator : estimator of thinstream
        With the parameters that are not searched.
    param_grid : dict {name: values} or list of such
        Values of the algorithm's parameters (also those that select code, as ``l1_schedule``), ``fit_intercept`` and
        ``class_weight``; ``scale`` and ``normalize`` are the estimator's, as rows are prepared once for all. With
        ``n_iter``, values may be distributions (anything with ``rvs``, as those of scipy.stats).
    n_iter : int, default=None
        Try that many random candidates instead of all. From lists alone none is drawn twice.
    cv : int, splitter, iterable of (train, test) or None, default=5
        A number k: row i is held out from the lane i mod k, in memory and on streams. A splitter or an iterable (in
        memory only): its own masks; rows are learned in the order they stand in. None: no folds, every row is scored
        before it is learned (progressive validation): the fewest lanes, and the winner's is the model.
    scoring : str or callable, default="accuracy"
        What candidates are compared by; scores are greater for the better. Counted as rows pass: "accuracy",
        "balanced_accuracy", "f1", "precision", "recall", "jaccard", "matthews_corrcoef" and "neg_log_loss" as in
        scikit-learn (the second class is positive, the log-loss that of the scores), "weighted_sum" of paper P3, and
        negated "error", "cost" (per row) and "log_loss"; "auc" and "average_precision" of scores in 2^14 bins (see
        `Progress`). Of more than two classes "f1", "precision", "recall", "jaccard", "auc" and "average_precision" are
        means over the classes, and there is neither "weighted_sum" nor "cost". A function of a `Report` (which has no
        AUC), greater for the better. In ``fit`` also any other name of ``sklearn.metrics.get_scorer_names()``, as
        "roc_auc", or a scorer, a function of (estimator, X, y): computed by scikit-learn from the held-out predictions,
        which are kept.
    tradeoff : Tradeoff, default=None
        Weights of "weighted_sum" and "cost"; None: those of paper P3.
    held_out : {"auto", "passing", "final"}, default="auto"
        Held-out rows are scored as they pass, by models that have learned from the rows before (the first quarter to
        half of the rows is left out: up to the largest power of two that is no more than half), or by the final models
        in a further pass (not for pipes). "auto" is "passing" where ``cv`` is a number; a splitter's test rows may come
        before anything is learned, so there it is "final".
    eliminate : bool, default=False
        Drop hopeless candidates on the way: those 5 standard errors behind the best, and not catching up, when the
        number of rows has doubled (see `thinstream.tune.elimination`).
    refit : bool, default=True
        Learn ``best_estimator_`` from all rows: in a further pass; from a pipe by one more lane per candidate.
    memory : int, default=None
        Bytes all lanes may take (None: half of the machine's). Beyond it candidates go in several passes.
    n_jobs : int or None, default=None
        Threads that lanes are spread over; None is 1, -1 all cores. The result is the same.
    device : {"cpu", "cuda", "auto"}, default="cpu"
        Where lanes live: on a GPU they have the same bits (docs/gpu.md). "auto" takes one where it pays.
    random_state : int, RandomState or None, default=None
        Seed of the random candidates.

    Attributes
    ----------
    cv_results_ : dict of arrays
        ``params``, ``param_<name>``, ``split<i>_test_score``, ``mean_test_score``, ``std_test_score``,
        ``rank_test_score``, and ``standard_error``, ``progressive_score`` (on all rows before they were learned) and
        ``dropped_at`` (rows there were when it was dropped; 0: never). Scores are greater for the better: errors, costs
        and losses are negative, as in scikit-learn. Scores of scikit-learn's have no ``progressive_score`` with folds.
    best_index_, best_params_, best_score_, best_estimator_
    n_splits_ : int
        0 without folds.
    device_ : str
        Where lanes were.
    n_study_passes_ : int
        Over the data; more than one where memory asked for it.
    refit_time_ : float
        Seconds.

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
        """Searches and, with ``refit``, learns the best. ``groups`` are for the splitter."""
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
        """Searches a stream (see `thinstream.open_stream`) without holding it; ``classes`` as of the estimators."""
        with as_before_on_error(self):
            settings = self._settings(streamed=True)
            if self.estimator.shuffle:
                raise InvalidParameterError("a stream is taken in its order, shuffle of the estimator must be False")
            if self.cv is not None and not is_number(self.cv):
                raise InvalidParameterError(f"cv of a stream must be a number of folds or None, got {self.cv!r}")
            known = classes_for(stream, classes)
            folds, again = 0 if self.cv is None else check_folds(self.cv), is_repeatable(stream)
            width = getattr(stream, "n_features", None) or 0
            outcome = self._search(stream, settings, known, folds, width, models=not again)
            self._conclude(outcome, settings, folds)
            self.__dict__.pop("feature_names_in_", None)
            self.__dict__.pop("n_features_in_", None)
            if self.refit:
                start = time.perf_counter()
                self.best_estimator_ = self._best()
                if outcome.models:
                    found = {"feature_space": stream.feature_space, "names": Names.from_stream(stream)}
                    self._adopt(outcome, known, np.array(known), **found)
                else:
                    rewind(stream)
                    self.best_estimator_.fit_stream(stream, classes)
                self.n_features_in_ = self.best_estimator_.n_features_in_
                self.refit_time_ = time.perf_counter() - start
        return self

    def _settings(self, streamed: bool = False) -> list[Setting]:
        """The candidates' own values; all parameters of the search are checked here."""
        if not isinstance(self.estimator, OnlineClassifier):
            raise InvalidParameterError(
                f"estimator must be an online one of thinstream (see ts.algorithms('online')), got {self.estimator!r}"
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
        known = classes if isinstance(source, Matrix) else None
        scoring = scoring_for(self.scoring, self.tradeoff, estimator, known, len(classes))
        found = search(
            source,
            config,
            make_trials(estimator._algorithm, settings, base, classes),
            scoring,
            eliminate=self.eliminate,
            models=bool(self.refit) and (models or not folds),
        )
        shown = {name: getattr(found, name) + scoring.offset for name in ("splits", "mean", "progressive")}
        return found._replace(**shown)

    def _orders(self, n: int) -> list[NDArray[np.int64]]:
        """Of the rows in each pass, where the estimator shuffles; the same as its ``fit`` draws."""
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
        if outcome.looks_sorted and (outcome.models or not self.refit):  # else learning the best says so
            warn_of_sorted("shuffle them first", stacklevel=3)

    def _best(self) -> OnlineClassifier:
        """The best estimator, not fitted yet."""
        best: OnlineClassifier = clone(self.estimator).set_params(**clone(self.best_params_, safe=False))
        return best

    def _adopt(self, outcome: Outcome, classes: Classes, labels: NDArray[Any], **more: Any) -> None:
        """The best lane becomes the model of the best estimator."""
        self.best_estimator_._adopt_learner(outcome.models[outcome.best], classes, labels, **more)

    # Predicting, with the best model ----------------------------------------------------------------------------------

    @available_if(_delegates("predict"))
    def predict(self, X: Any) -> Any:
        """Classes of the rows."""
        check_is_fitted(self)
        return self.best_estimator_.predict(X)

    @available_if(_delegates("decision_function"))
    def decision_function(self, X: Any) -> Any:
        """Scores of the rows."""
        check_is_fitted(self)
        return self.best_estimator_.decision_function(X)

    @available_if(_delegates("predict_proba"))
    def predict_proba(self, X: Any) -> Any:
        """Probabilities, if the estimator has them."""
        check_is_fitted(self)
        return self.best_estimator_.predict_proba(X)

    @available_if(_delegates("score"))
    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The best model by ``scoring``, on these rows: greater is better."""
        check_is_fitted(self)
        return score_of(self.best_estimator_, self.scoring, self.tradeoff, X, y, sample_weight)

    @available_if(_delegates("predict_stream"))
    def predict_stream(self, stream: Stream) -> Any:
        """Predictions for a stream, an array per batch."""
        check_is_fitted(self)
        return self.best_estimator_.predict_stream(stream)

    @property
    def classes_(self) -> NDArray[Any]:
        """Those of the best model."""
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
