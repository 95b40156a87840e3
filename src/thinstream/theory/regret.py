"""A run's regret, measured, beside the bound the papers prove for it."""

import math
import warnings
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thinstream.batch import Batch
from thinstream.compact import whole
from thinstream.errors import InvalidInputError, InvalidParameterError
from thinstream.learners import Classes, FullLearner, Learner, make_learner_like
from thinstream.preparing import preparation_of
from thinstream.stability.data import batch_of, matrix_of, signs_of
from thinstream.theory.bounds import Bound, arcsogd_bound, fsol_bound, ssol_bound


class Regret(NamedTuple):
    """What a run lost beside a comparator, and what it could lose at most. Printed, it is a report."""

    algorithm: str
    rounds: int
    loss: float  # the learner's, summed over the rounds
    comparator_loss: float  # the fixed comparator's on the same rounds
    bound: Bound  # on the difference
    measures: dict[str, tuple[float, float]]  # ARCSOGD: its weighted sum and at least, its cost and at most

    @property
    def regret(self) -> float:
        """Loss minus the comparator's."""
        return self.loss - self.comparator_loss

    @property
    def holds(self) -> bool:
        """Whether all bounds hold, as they must, but for rounding."""
        slack = 1e-9 * (1.0 + abs(self.bound.total) + abs(self.loss))
        low, cost = self.measures.get("sum", (0.0, 0.0)), self.measures.get("cost", (0.0, 0.0))
        fine = self.regret <= self.bound.total + slack
        return bool(fine and low[0] >= low[1] - slack and cost[0] <= cost[1] + slack)

    def __str__(self) -> str:
        lines = [
            f"{self.algorithm}, {self.rounds:,} rounds",
            f"  loss               {self.loss:>14,.6g}",
            f"  comparator's loss  {self.comparator_loss:>14,.6g}",
            f"  regret             {self.regret:>14,.6g}   at most {self.bound.total:,.6g}",
        ]
        for name, value in self.bound._asdict().items():
            lines.append(f"    {name.replace('_', ' '):<16} {'':>14}           {value:,.6g}")
        for name, (found, bound) in self.measures.items():
            side = "at least" if name == "sum" else "at most"
            lines.append(f"  {name:<18} {found:>14,.6g}   {side} {bound:,.6g}")
        return "\n".join(lines)


def regret(model: Any, X: Any, y: Any, comparator: Any = None) -> Regret:
    """Runs a fresh copy of the model once over the rows, in float64, and evaluates the papers' bound for that run.

    Parameters
    ----------
    model : estimator or Learner
        FSOL with ``l1_schedule="eta"``, SSOL with ``l1_schedule="inv_t"``, or ARCSOGD, both with ``diagonal="exact"``
        or ``covariance="full"``; class costs are taken as they are. Fitted or not; it is left as it is.
    X : matrix
        The rounds, in order.
    y : array
        Labels.
    comparator : array, optional
        Any weights; by default those of liblinear's linear SVM (hinge, C = 1, no bias) on all rows, which has seen
        the future.

    Examples
    --------
    >>> import thinstream as ts
    >>> train, _ = ts.datasets.sparse_gaussian(500, 1, n_features=50, n_informative=10, n_noise=10, seed=0)
    >>> found = regret(ts.FSOL(eta=0.01, fit_intercept=False), train.X, train.y)
    >>> found.holds, found.regret <= found.bound.total
    (True, True)

    """
    signs = signs_of(y)
    batch = batch_of(X, signs)
    if not len(batch):
        raise InvalidInputError("theory: there is no example, X has 0 rows")
    learner = _fresh(model, batch.n_features, Classes.of(y) if len(np.unique(np.asarray(y))) == 2 else Classes(-1, 1))
    _require_covered(learner)
    c, rho = _costs(learner, signs)
    w = _best(batch, signs) if comparator is None else _weights(comparator, batch.n_features)
    distance = _farthest(learner, batch, w) if learner.algorithm.name == "ARCSOGD" else 0.0
    if not learner.t:
        learner.learn(batch, scores=False)
    return _report(learner, batch, w, c, rho, distance)


def _report(learner: Learner, batch: Batch, w: Any, c: Any, rho: Any, distance: float) -> Regret:
    name, p, rows, signs = learner.algorithm.name, learner.parameters, matrix_of(batch), np.asarray(batch.y)
    margins, norm = signs * (rows @ w), float(abs(rows).sum(axis=1).max())
    measures: dict[str, tuple[float, float]] = {}
    if name == "ARCSOGD":
        other = float(np.maximum(0.0, np.where(signs > 0, rho, 1.0) - margins).sum())
        bound = arcsogd_bound(distance, _precision(learner), eta=p["eta"], gamma=p["gamma"])
        if not learner.costs.balanced:
            measures = _measures(learner, len(batch), other + bound.total)
    else:
        other = float(np.sum(c * np.maximum(0.0, 1.0 - margins)))
        if name == "FSOL":
            bound = fsol_bound(w, eta=p["eta"], l1=p["l1"], norm=norm, costs=c)
        else:
            given = {name: p[name] for name in ("eta", "l1", "r")}
            A, largest = _precision(learner), float(np.max(c))
            bound = ssol_bound(w, A, **given, norm=norm, rounds=len(batch), largest_cost=largest)
    return Regret(name, len(batch), learner.cumulative_loss, other, bound, measures)


def _measures(learner: Learner, T: int, most: float) -> dict[str, tuple[float, float]]:
    """P3 Theorems 2 and 3: sum (with the α that fits ρ = c₊/c₋) and cost (c₊ and c₋ as prices), and their bounds."""
    c_n, c_p, _ = learner.costs
    T_p, M_p, M_n = learner.n_positives, learner.false_negatives, learner.false_positives
    T_n = T - T_p
    found = {"cost": (c_p * M_p + c_n * M_n, c_n * most)}
    if T_p and T_n:
        alpha = c_p / c_n * T_p / (c_p / c_n * T_p + T_n)
        weighted = alpha * (T_p - M_p) / T_p + (1 - alpha) * (T_n - M_n) / T_n
        found = {"sum": (weighted, 1 - (1 - alpha) / T_n * most), **found}
    return found


def _costs(learner: Learner, signs: NDArray[np.int8]) -> tuple[NDArray[np.float64], Any]:
    """c_y and ρ of each round."""
    negative, positive, balanced = learner.costs
    if not balanced:
        return np.where(signs > 0, positive, negative).astype(np.float64), positive / negative
    positives = np.cumsum(signs > 0)
    ratio = np.maximum(np.arange(1, len(signs) + 1) - positives, 1) / np.maximum(positives, 1)
    return np.where(signs > 0, ratio, 1.0), ratio


def _fresh(model: Any, n_features: int, classes: Classes) -> Learner:
    """An untaught learner like the model's, in float64."""
    if not isinstance(model, Learner):
        from sklearn.base import clone

        from thinstream.estimators import OnlineClassifier

        if not isinstance(model, OnlineClassifier):
            raise InvalidInputError(f"theory: an online estimator of thinstream is needed, got {type(model).__name__}")
        model = whole(clone(model)._fresh_model(classes, n_features).learner)
    if preparation_of(model):
        raise InvalidParameterError(
            "theory: the bounds are about rows as they are learned; prepare X beforehand, with scale and normalize None"
        )
    if model.offset:
        raise InvalidParameterError("theory: fit_intercept must be False; append a constant feature to X instead")
    found: Learner = make_learner_like(model, n_features=n_features, dtype="float64")
    return found


#: What a bound was proved for.
_COVERED: dict[str, dict[str, str]] = {
    "FSOL": {"l1_schedule": "eta"},
    "SSOL": {"l1_schedule": "inv_t", "diagonal": "exact", "update_on": "every"},
    "ARCSOGD": {"diagonal": "exact"},
}


def _require_covered(learner: Learner) -> None:
    name, given = learner.algorithm.name, learner.parameters
    if name not in _COVERED:
        raise InvalidParameterError(f"theory: the papers prove bounds for {', '.join(_COVERED)}, got {name}")
    for parameter, value in _COVERED[name].items():
        idle = given["l1"] == 0 if parameter == "l1_schedule" else learner.full and parameter == "diagonal"
        if given[parameter] != value and not idle:
            raise InvalidParameterError(
                f"theory: the bound of {name} needs {parameter}={value!r}, got {given[parameter]!r}"
            )


def _weights(comparator: Any, d: int) -> NDArray[np.float64]:
    w = np.asarray(comparator, dtype=np.float64).ravel()
    if w.shape != (d,) or not np.all(np.isfinite(w)):
        raise InvalidInputError(f"theory: the comparator must be {d} finite numbers, one per feature, got {w.shape}")
    return w


# The comparator, and how far from it the run has been -----------------------------------------------------------------


def _best(batch: Batch, signs: NDArray[np.int8]) -> NDArray[np.float64]:
    """Weights of liblinear's linear SVM on all rows; 0 where there is one class only."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.svm import LinearSVC

    if len(np.unique(signs)) < 2:
        return np.zeros(batch.n_features)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # any comparator will do
        svm = LinearSVC(loss="hinge", dual=True, fit_intercept=False, random_state=0)
        svm.fit(matrix_of(batch).astype(np.float64), signs)
    w: NDArray[np.float64] = svm.coef_[0]
    return w


def _precision(learner: Learner) -> NDArray[np.float64]:
    """Σ⁻¹ (A of SSOL), or its diagonal if that is all there is."""
    if not isinstance(learner, FullLearner):
        return 1.0 / learner.variance().astype(np.float64)
    inverse: NDArray[np.float64] = np.linalg.inv(learner.sigma.dense())
    return inverse


def _farthest(learner: Learner, batch: Batch, w: NDArray[np.float64]) -> float:
    """Learns the rows one by one; the largest distance of the weights from w before any of them.

    For algorithms whose weights change only on the features of an example, or have a full covariance.
    """
    apart = -np.asarray(w, dtype=np.float64)
    square = largest = float(apart @ apart)
    for i in range(len(batch)):
        largest = max(largest, square)
        row, updates = batch.until(i + 1).after(i), learner.n_updates
        learner.learn(row, scores=False)
        if learner.full:
            apart = learner.weights() - w
            square = float(apart @ apart)
        elif learner.n_updates > updates and row.nnz:
            j = row.indices[: row.nnz]
            n = len(j)
            units = Batch(np.arange(n + 1), j, np.ones(n), batch.n_features)
            now = learner.scores(units) - w[j]
            square += float(now @ now - apart[j] @ apart[j])
            apart[j] = now
    return math.sqrt(largest)
