"""The whole curve from dense to sparse in one pass, and the model to take from it."""

import os
import warnings
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from thinstream.errors import EdgeWarning
from thinstream.estimators.base import as_before_on_error
from thinstream.estimators.scorers import is_scorer, score_of, scoring_for, threads_of
from thinstream.estimators.study_inputs import (
    Models,
    Source,
    base_of,
    config_of,
    from_matrix,
    from_stream,
    rows_to_test,
    trial_of,
)
from thinstream.evaluate.label_order import warn_of_sorted
from thinstream.evaluate.report import P3, Tradeoff
from thinstream.streams.stream import Stream
from thinstream.tune.scoring import AnyScoring, check_metric
from thinstream.tune.selection import Limits, check_rule
from thinstream.tune.sparsity_path import Sweep, sweep_stream

#: With fewer rows than this it is not warned of where the best model is.
TELLING = 200


def _tells_probabilities(path: "SparsityPath") -> bool:
    if getattr(path.estimator, "loss", None) == "logistic":
        return True
    raise AttributeError("predict_proba needs an estimator with loss='logistic'")


class SparsityPath(MetaEstimatorMixin, ClassifierMixin, BaseEstimator):
    """Models of one algorithm from dense to empty, learned in one pass, and the one to take.

    A model per value of l1, geometric from ``l1_min`` to ``l1_max``, each with the bits it would have alone; all learn
    from all rows. To know its error on rows it has not learned, each has a twin that leaves out every
    ``holdout``-th row; the final twins are scored on these rows (at most 40,000 are kept, evenly spread over the data).

    Parameters
    ----------
    estimator : estimator of thinstream, default=None
        What is swept, with all parameters but l1; None: ``AdaRDA()``. One pass only.
    n : int, default=20
        Number of models.
    l1_min, l1_max : float or None, default=None
        The ends of the sweep. None: found by a look at the first 4000 rows, from next to all weights to next to none.
    pick : {"one_se", "best"}, default="one_se"
        The model to take: the sparsest that is no worse than the best by more than its standard error, or the best.
        Judged by held-out rows if there are a hundred or more, else by the progressive metric.
    max_nnz, max_density : int, float or None, default=None
        Most non-zero weights, and most as a share of all, of the model to take. If all have more, ``fit`` raises, but
        ``path_``, ``models_`` and ``choose`` are there.
    scoring : str or callable, default="accuracy"
        What it is judged by, and what ``score`` tells (greater is better). From counts: "accuracy",
        "balanced_accuracy", "f1", "precision", "recall" and "jaccard" as in scikit-learn (of more than two classes
        means over them), negated "error" and "log_loss", and of two classes "weighted_sum" of paper P3 and negated
        "cost" (per row). From scores in bins: "auc" and "average_precision". In ``fit`` also any other name of
        ``sklearn.metrics.get_scorer_names()``, as "roc_auc", or a function of (estimator, X, y): computed by
        scikit-learn from the held-out predictions, its standard error from ten parts of them.
    tradeoff : thinstream.evaluate.Tradeoff or None, default=None
        What the two kinds of mistakes weigh in the weighted sum and the cost. None: the paper's, 0.5 and 0.95.
    holdout : int, default=10
        Every so many-th row is held out from the twins. 0: there are none, and half as many lanes.
    memory : int or None, default=None
        Bytes that all lanes may take; beyond it they go in several passes. None: half of the machine's.
    n_jobs : int or None, default=None
        Threads that lanes are spread over; None is 1, -1 all cores. The result is the same.

    Attributes
    ----------
    path_ : dict of arrays
        The table, an entry per model (``pandas.DataFrame(path_)``): l1, nnz, density, sparsity; error,
        balanced_accuracy, weighted_sum and cost (per row) of rows before they were learned; the same held out, with
        standard errors (``held_out_error``, ``held_out_error_se`` …), and the error of the densest model thinned to as
        many weights (``held_out_thinned_error``).
    models_ : sequence of estimators
        All models. With the weights only, unable to go on learning, where they took several passes.
    best_index_, best_estimator_ : int, estimator
        The model that was picked, which also predicts; ``choose`` picks another.
    classes_, n_features_in_
        As of any estimator.

    Examples
    --------
    >>> import thinstream as ts
    >>> from thinstream.datasets import sparse_gaussian
    >>> train, test = sparse_gaussian(10_000, 1000, n_features=100, n_informative=10, n_noise=20)
    >>> path = ts.SparsityPath(ts.FSOL(fit_intercept=False), n=12).fit(train.X, train.y)
    >>> path.path_["nnz"]
    array([98, 96, 85, 60, 26, 19,  9,  8,  7,  6,  2,  0])
    >>> path.best_estimator_.nnz_, path.score(test.X, test.y)
    (9, 0.987)

    """

    def __init__(
        self,
        estimator: Any = None,
        *,
        n: int = 20,
        l1_min: float | None = None,
        l1_max: float | None = None,
        pick: str = "one_se",
        max_nnz: int | None = None,
        max_density: float | None = None,
        scoring: Any = "accuracy",
        tradeoff: Tradeoff | None = None,
        holdout: int = 10,
        memory: int | None = None,
        n_jobs: int | None = None,
    ) -> None:
        self.estimator, self.n, self.l1_min, self.l1_max = estimator, n, l1_min, l1_max
        self.pick, self.max_nnz, self.max_density, self.scoring = pick, max_nnz, max_density, scoring
        self.tradeoff, self.holdout, self.memory, self.n_jobs = tradeoff, holdout, memory, n_jobs

    def fit(self, X: Any, y: Any, sample_weight: Any = None, *, test: Any = None) -> Self:
        """Sweeps l1 over the rows. With ``test=(X, y)`` these are the held-out rows, and there are no twins."""
        with as_before_on_error(self):
            base = self._checked()
            source = from_matrix(self, base, X, y, sample_weight)
            scoring = scoring_for(self.scoring, None, base, source.classes, len(source.classes))
            rows = None if test is None else rows_to_test(self, base, source.classes, test)
            self._sweep(base, source, rows, scoring)
        return self._choose(self.pick, self.max_nnz, self.max_density, self.scoring)

    def fit_stream(self, stream: Stream, classes: Any = None, *, test: Stream | None = None) -> Self:
        """Sweeps l1 over a stream, also one that can be read only once; ``classes`` as in ``fit_stream`` elsewhere."""
        with as_before_on_error(self):
            base = self._checked()
            source = from_stream(base, stream, classes)
            scoring = scoring_for(self.scoring, None, base, None, len(source.classes))
            self.__dict__.pop("feature_names_in_", None)
            self._sweep(base, source, test, scoring)
        return self._choose(self.pick, self.max_nnz, self.max_density, self.scoring)

    def _checked(self) -> Any:
        if not is_scorer(self.scoring):
            check_metric(self.scoring)
        check_rule(self.pick, Limits(self.max_nnz, self.max_density))
        return base_of(self.estimator)

    def _sweep(self, base: Any, source: Source, test: Stream | None, scoring: AnyScoring) -> None:
        if not is_scorer(self.scoring):
            check_metric(self.scoring, len(source.classes))
        path = sweep_stream(
            source.stream,
            config_of(base, source, self.memory, threads_of(self.n_jobs)),
            trial_of(base, source.classes),
            Sweep(self.n, self.l1_min, self.l1_max, self.holdout),
            test=test,
            tradeoff=self.tradeoff or P3,
            scoring=scoring,
        )
        if path.looks_sorted:
            warn_of_sorted("shuffle them first", stacklevel=3)
        names = getattr(self, "feature_names_in_", None)
        self._path, self.path_ = path, path.columns()
        self.models_ = Models(base, path, source, names)
        self.classes_, self.n_features_in_ = source.labels, path.n_features
        for name in ("best_index_", "best_estimator_"):  # of an earlier fit: no model of this one may be small enough
            self.__dict__.pop(name, None)

    def choose(
        self,
        pick: str | None = None,
        *,
        max_nnz: int | None = None,
        max_density: float | None = None,
        scoring: Any = None,
    ) -> Self:
        """Takes another model from the path, without learning anew; limits not given here do not hold."""
        check_is_fitted(self, "path_")
        return self._choose(pick or self.pick, max_nnz, max_density, scoring or self.scoring)

    def _choose(self, rule: str, max_nnz: int | None, max_density: float | None, scoring: Any) -> Self:
        scoring = "score" if callable(scoring) else scoring
        limits = Limits(max_nnz, max_density)
        self.best_index_ = self._path.pick(scoring, rule, limits)
        self.best_estimator_ = self.models_[self.best_index_]
        self._judged_by = scoring
        edge = self._path.edge(scoring, limits)
        if edge is not None and self._path.rows >= TELLING and self.n > 2:
            low, high = edge.beyond
            warnings.warn(f"{edge}, l1_min={low:g}, l1_max={high:g}", EdgeWarning, stacklevel=3)
        return self

    def plot(self, path: str | os.PathLike[str]) -> None:
        """Draws the path into a PNG, SVG or HTML file; needs ``thinstream[plot]``."""
        from thinstream.tune.figures import draw_path

        check_is_fitted(self)
        draw_path(self._path, self._judged_by, self.best_index_, path)

    def decision_function(self, X: Any) -> NDArray[Any]:
        """w·x of each row by the picked model; positive means the second class."""
        return np.asarray(self._best().decision_function(X))

    def predict(self, X: Any) -> NDArray[Any]:
        """The class of each row by the picked model."""
        return np.asarray(self._best().predict(X))

    @available_if(_tells_probabilities)
    def predict_proba(self, X: Any) -> NDArray[Any]:
        """Probabilities of the two classes by the picked model. Only with ``loss="logistic"``."""
        return np.asarray(self._best().predict_proba(X))

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The picked model by ``scoring``, on these rows: greater is better."""
        return score_of(self._best(), self.scoring, self.tradeoff, X, y, sample_weight)

    def _best(self) -> Any:
        check_is_fitted(self)
        return self.best_estimator_

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "best_estimator_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags
