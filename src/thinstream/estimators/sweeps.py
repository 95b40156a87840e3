"""Sweeps: sparsity paths over l1, and cost curves over class weights, in one pass."""

import os
import warnings
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from thinstream.data.labels import Classes, warn_of_sorted
from thinstream.data.stream import Stream
from thinstream.errors import EdgeWarning, ThinstreamWarning
from thinstream.estimators.base import as_before_on_error
from thinstream.estimators.studies import (
    Models,
    Source,
    base_of,
    config_of,
    from_matrix,
    from_stream,
    is_scorer,
    rows_to_test,
    score_of,
    scoring_for,
    threads_of,
    trial_of,
)
from thinstream.training.metrics import P3, Tradeoff
from thinstream.tuning.cost_curves import WEIGHTS, CostCurves, study_costs
from thinstream.tuning.measures import AnyScoring, check_metric, default_metric, scoring_of
from thinstream.tuning.sparsity_path import Limits, Sweep, check_rule, sweep_stream


def cost_curve(
    estimator: Any,
    X: Any,
    y: Any = None,
    *,
    weights: Sequence[float] = WEIGHTS,
    ratio: float | None = None,
    sample_weight: Any = None,
    memory: int | None = None,
    n_jobs: int | None = None,
) -> CostCurves:
    """Compare models that know the class costs with one that does not, in one pass (paper P3, Figs 3 and 4).

    For each weight w of the positives, two models learn. One has ρ = c₊/c₋ = w/(1 − w)·T_n/T_p. Its metric is the
    weighted sum of sensitivity and specificity at α_p = w. The other has ρ = w/(1 − w). Its metric is the cost at
    c_p = w. Another model ignores costs. All metrics are progressive.

    Parameters
    ----------
    estimator : estimator of thinstream
        The model. Its ``class_weight`` is ignored.
    X, y : matrix and labels, or only a stream
        See `thinstream.open_stream`.
    weights : sequence of float
        Weights between 0 and 1. The default is 0.05, 0.1 … 0.95.
    ratio : float or None
        T_n/T_p, the number of negatives per positive. None: the ratio in ``y``, or in the first 10,000 rows of a
        stream.
    sample_weight, memory, n_jobs
        As in ``SparsityPath``.

    Returns
    -------
    CostCurves
        ``weighted_sum`` and ``cost``, each with ``weights``, ``rho``, ``tuned``, ``blind``, ``sensitivity``,
        ``specificity`` (and ``columns()`` for a data frame), and ``plot(path)``.

    Examples
    --------
    >>> import thinstream as ts
    >>> rng = np.random.default_rng(0)
    >>> y = np.where(rng.random(2000) < 0.2, 1, -1)
    >>> X = rng.normal(size=(2000, 5)) + 0.5 * y[:, np.newaxis]
    >>> curves = ts.cost_curve(ts.FSOL(eta=0.1, fit_intercept=True), X, y, weights=[0.5, 0.95])
    >>> curves.cost.tuned.round(3), curves.cost.blind.round(3)
    (array([0.055, 0.028]), array([0.055, 0.066]))

    """
    base = base_of(estimator).set_params(class_weight=None)
    if hasattr(X, "batches"):
        source = from_stream(base, X, None)
    else:
        source = from_matrix(base, base, X, y, sample_weight)
        if ratio is None:
            present = np.ones(len(y), np.bool_) if sample_weight is None else np.asarray(sample_weight) > 0
            positives = int((np.asarray(y)[present] == source.classes.positive).sum())  # raises if multiclass
            ratio = max(int(present.sum()) - positives, 1) / max(positives, 1)
    source.classes.require_two()
    config, trial = config_of(base, source, memory, threads_of(n_jobs)), trial_of(base, source.classes)
    return study_costs(source.stream, config, trial, weights, ratio=ratio)


#: With fewer rows, fit does not warn about the selected model.
ENOUGH = 200


def _has_probabilities(path: "SparsityPath") -> bool:
    if getattr(path.estimator, "loss", None) == "logistic":
        return True
    raise AttributeError("predict_proba needs an estimator with loss='logistic'")


class SparsityPath(MetaEstimatorMixin, ClassifierMixin, BaseEstimator):
    """Train models from dense to empty in one pass, one for each value of l1, and select one.

    The values of l1 are geometric from ``l1_min`` to ``l1_max``. All models learn all rows, and each is identical to a
    model that is trained alone. To estimate errors on unseen rows, each model has a copy that does not learn every
    ``holdout``-th row. The final copies are scored on these rows (at most 40,000, evenly spread over the data).

    Parameters
    ----------
    estimator : estimator of thinstream, default=None
        The estimator, with all parameters except l1. None: ``AdaRDA()``. It must have a single pass.
    n : int, default=20
        The number of models.
    l1_min, l1_max : float or None, default=None
        The range of l1. None: estimated from the first 4000 rows, from almost all weights to almost none.
    pick : {"one_se", "best"}, default="one_se"
        The model to select: the sparsest within one standard error of the best, or the best. The comparison uses
        held-out rows if there are at least 100, otherwise the progressive metric.
    max_nnz, max_density : int, float or None, default=None
        The maximum number and the maximum share of non-zero weights of the selected model. If all models have more,
        ``fit`` raises an error, but ``path_``, ``models_`` and ``choose`` are available.
    scoring : str, callable or None, default=None
        The metric that compares models and that ``score`` returns (greater is better). None: log-loss if the estimator
        has ``loss="logistic"``, otherwise average precision, and ``score`` returns the accuracy. From counts:
        "accuracy", "balanced_accuracy", "f1", "precision", "recall" and "jaccard" as in scikit-learn (with more than
        two classes, means over them), negated "error" and "log_loss", and with two classes "weighted_sum" of paper P3
        and negated "cost" (per row). From scores in bins: "auc" and "average_precision". ``fit`` also accepts other
        names in ``sklearn.metrics.get_scorer_names()``, such as "roc_auc", and functions of (estimator, X, y), which
        use the held-out predictions. Their standard error comes from ten parts of the predictions.
    tradeoff : thinstream.training.metrics.Tradeoff or None, default=None
        The weights of both kinds of mistakes in the weighted sum and the cost. None: 0.5 and 0.95, as in paper P3.
    holdout : int, default=10
        Hold out every Nth row from the copies. 0: no copies and half as many lanes.
    memory : int or None, default=None
        The memory limit of all lanes in bytes. If it is not enough, there are several passes. None: half of the
        machine's memory.
    n_jobs : int or None, default=None
        The number of threads. None: 1. -1: all cores. The result is the same.

    Attributes
    ----------
    path_ : dict of arrays
        The table with an entry per model (``pandas.DataFrame(path_)``): l1, nnz, density, sparsity; the progressive
        error, balanced_accuracy, weighted_sum and cost (per row); the same on held-out rows, with standard errors
        (``held_out_error``, ``held_out_error_se`` …); and the error of the densest model thinned to the same number of
        weights (``held_out_thinned_error``).
    models_ : sequence of estimators
        All models. If there were several passes, they have weights only and cannot continue to learn.
    best_index_, best_estimator_ : int, estimator
        The selected model, which predicts. ``choose`` selects another one.
    classes_, n_features_in_
        As in other estimators.

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
        scoring: Any = None,
        tradeoff: Tradeoff | None = None,
        holdout: int = 10,
        memory: int | None = None,
        n_jobs: int | None = None,
    ) -> None:
        self.estimator, self.n, self.l1_min, self.l1_max = estimator, n, l1_min, l1_max
        self.pick, self.max_nnz, self.max_density, self.scoring = pick, max_nnz, max_density, scoring
        self.tradeoff, self.holdout, self.memory, self.n_jobs = tradeoff, holdout, memory, n_jobs

    def fit(self, X: Any, y: Any, sample_weight: Any = None, *, test: Any = None) -> Self:
        """Train the models. With ``test=(X, y)``, these are the held-out rows, and the models need no copies."""
        with as_before_on_error(self):
            base = self._checked()
            source = from_matrix(self, base, X, y, sample_weight)
            scoring = self._scoring_for(base, source.classes, len(source.classes))
            rows = None if test is None else rows_to_test(self, base, source.classes, test)
            self._sweep(base, source, rows, scoring)
        return self._choose(self.pick, self.max_nnz, self.max_density, self._compared_by())

    def fit_stream(self, stream: Stream, classes: Any = None, *, test: Stream | None = None) -> Self:
        """Train the models on a stream, which may be a pipe; ``classes`` as in ``fit_stream`` of other estimators."""
        with as_before_on_error(self):
            base = self._checked()
            source = from_stream(base, stream, classes)
            scoring = self._scoring_for(base, None, len(source.classes))
            self.__dict__.pop("feature_names_in_", None)
            self._sweep(base, source, test, scoring)
        return self._choose(self.pick, self.max_nnz, self.max_density, self._compared_by())

    def _compared_by(self) -> Any:
        if self.scoring is not None:
            return self.scoring
        return default_metric(getattr(base_of(self.estimator), "loss", None) == "logistic")

    def _scoring_for(self, base: Any, classes: Classes | None, n_classes: int) -> AnyScoring:
        if self.scoring is None:
            return scoring_of(self._compared_by(), P3, n_classes)
        return scoring_for(self.scoring, None, base, classes, n_classes)

    def _checked(self) -> Any:
        if self.scoring is not None and not is_scorer(self.scoring):
            check_metric(self.scoring)
        check_rule(self.pick, Limits(self.max_nnz, self.max_density))
        return base_of(self.estimator)

    def _sweep(self, base: Any, source: Source, test: Stream | None, scoring: AnyScoring) -> None:
        if self.scoring is not None and not is_scorer(self.scoring):
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
        for name in ("best_index_", "best_estimator_"):  # from an earlier fit, if no model is small enough now
            self.__dict__.pop(name, None)

    def choose(
        self,
        pick: str | None = None,
        *,
        max_nnz: int | None = None,
        max_density: float | None = None,
        scoring: Any = None,
    ) -> Self:
        """Select another model of the path, without training. Limits that you do not pass do not apply."""
        check_is_fitted(self, "path_")
        return self._choose(pick or self.pick, max_nnz, max_density, scoring or self._compared_by())

    def _choose(self, rule: str, max_nnz: int | None, max_density: float | None, scoring: Any) -> Self:
        scoring = "score" if callable(scoring) else scoring
        limits = Limits(max_nnz, max_density)
        self.best_index_ = self._path.pick(scoring, rule, limits)
        self.best_estimator_ = self.models_[self.best_index_]
        self._judged_by = scoring
        if self._path.rows >= ENOUGH and self._path.is_constant(self.best_index_, scoring):
            warnings.warn(
                f"the selected model is not better than a constant prediction, by {scoring}",
                ThinstreamWarning,
                stacklevel=3,
            )
        edge = self._path.edge(scoring, limits)
        if edge is not None and self._path.rows >= ENOUGH and self.n > 2:
            low, high = edge.beyond
            warnings.warn(f"{edge}, l1_min={low:g}, l1_max={high:g}", EdgeWarning, stacklevel=3)
        return self

    def plot(self, path: str | os.PathLike[str]) -> None:
        """Draw the path to a PNG, SVG or HTML file. It needs matplotlib."""
        from thinstream.tuning.figures import draw_path

        check_is_fitted(self)
        draw_path(self._path, self._judged_by, self.best_index_, path)

    def decision_function(self, X: Any) -> NDArray[Any]:
        """Return the score w·x of each row by the selected model, which is positive for the second class."""
        return np.asarray(self._best().decision_function(X))

    def predict(self, X: Any) -> NDArray[Any]:
        """Predict the class of each row with the selected model."""
        return np.asarray(self._best().predict(X))

    @available_if(_has_probabilities)
    def predict_proba(self, X: Any) -> NDArray[Any]:
        """Return the probabilities of the classes by the selected model, with ``loss="logistic"``."""
        return np.asarray(self._best().predict_proba(X))

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the score of the selected model by ``scoring``. Greater is better."""
        scoring = "accuracy" if self.scoring is None else self.scoring
        return score_of(self._best(), scoring, self.tradeoff, X, y, sample_weight)

    def _best(self) -> Any:
        check_is_fitted(self)
        return self.best_estimator_

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "best_estimator_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags
