"""Cost curves of an estimator."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from thinstream.estimators.scorers import threads_of
from thinstream.estimators.study_inputs import base_of, config_of, from_matrix, from_stream, trial_of
from thinstream.tune.cost_curves import WEIGHTS, CostCurves, study_costs


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
    """What it is worth to tell a learner the costs it is judged by: paper P3's Figs 3 and 4, in one pass.

    For each weight w of the positives one model learns with ρ = c₊/c₋ = w/(1 − w)·T_n/T_p, to be judged by the weighted
    sum of sensitivity and specificity at α_p = w, and one with ρ = w/(1 − w), to be judged by the cost at c_p = w; a
    last one knows of no costs. All are judged on rows before they learn them.

    Parameters
    ----------
    estimator : estimator of thinstream
        What learns; its ``class_weight`` is replaced.
    X, y : matrix and labels, or a stream alone
        See `thinstream.open_stream`.
    weights : sequence of float
        Between 0 and 1; by default 0.05, 0.1 … 0.95.
    ratio : float or None
        T_n/T_p, negatives per positive. None: that of ``y``, or of the first 10,000 rows of a stream.
    sample_weight, memory, n_jobs
        As of ``SparsityPath``.

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
            positives = int((np.asarray(y)[present] == source.classes.positive).sum())  # raises of more than two
            ratio = max(int(present.sum()) - positives, 1) / max(positives, 1)
    source.classes.require_two()
    config, trial = config_of(base, source, memory, threads_of(n_jobs)), trial_of(base, source.classes)
    return study_costs(source.stream, config, trial, weights, ratio=ratio)
