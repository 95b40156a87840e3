"""The measured regret of a run, and the bound that the papers prove for it."""

import math
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from thinstream.algorithms.batch.arrays import Examples
from thinstream.algorithms.batch.spardca import SparDCALearner
from thinstream.batch import Batch
from thinstream.data.labels import Classes
from thinstream.diagnostics.bounds import Bound, arcsogd_bound, batch_of, fsol_bound, matrix_of, signs_of, ssol_bound
from thinstream.errors import InvalidInputError, InvalidParameterError
from thinstream.lanes.full import FullLearner
from thinstream.lanes.learner import Learner
from thinstream.models.model import make_learner_like

#: Epochs of the SVM that is the default comparator. The bounds hold for any weights, so it does not have to converge.
EPOCHS = 1000


class Regret(NamedTuple):
    """The regret of a run and its bound. Printed, it is a report."""

    algorithm: str
    rounds: int
    loss: float  # the learner's, summed over the rounds
    comparator_loss: float  # of the fixed comparator on the same rounds
    bound: Bound  # of the difference
    measures: dict[str, tuple[float, float]]  # ARCSOGD: its weighted sum and cost, with their bounds

    @property
    def regret(self) -> float:
        """The loss minus that of the comparator."""
        return self.loss - self.comparator_loss

    @property
    def holds(self) -> bool:
        """Whether all bounds hold, up to rounding."""
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
        for name, (value, bound) in self.measures.items():
            side = "at least" if name == "sum" else "at most"
            lines.append(f"  {name:<18} {value:>14,.6g}   {side} {bound:,.6g}")
        return "\n".join(lines)


def regret(model: Any, X: Any, y: Any, comparator: Any = None) -> Regret:
    """Train a fresh copy of the model on the rows, in float64, and evaluate the papers' bound for that run.

    Parameters
    ----------
    model : estimator or Learner
        FSOL with ``l1_schedule="eta"``, SSOL with ``l1_schedule="inv_t"``, or ARCSOGD, both with ``diagonal="exact"``
        or ``covariance="full"``. It may have class costs, does not have to be fitted, and stays unchanged.
    X : matrix
        The rounds, in order.
    y : array
        Labels.
    comparator : array, optional
        Any weights. Default: a linear SVM (hinge loss, C = 1, no bias), trained on all rows.

    Examples
    --------
    >>> import thinstream as ts
    >>> train, _ = ts.datasets.sparse_gaussian(500, 1, n_features=50, n_informative=10, n_noise=10, seed=0)
    >>> result = regret(ts.FSOL(eta=0.01, fit_intercept=False), train.X, train.y)
    >>> result.holds, result.regret <= result.bound.total
    (True, True)

    """
    signs = signs_of(y)
    batch = batch_of(X, signs)
    if not len(batch):
        raise InvalidInputError("regret: X has no rows")
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
            settings = {name: p[name] for name in ("eta", "l1", "r")}
            A, largest = _precision(learner), float(np.max(c))
            bound = ssol_bound(w, A, **settings, norm=norm, rounds=len(batch), largest_cost=largest)
    return Regret(name, len(batch), learner.cumulative_loss, other, bound, measures)


def _measures(learner: Learner, T: int, most: float) -> dict[str, tuple[float, float]]:
    """P3 Theorems 2 and 3: return the weighted sum (with the α for ρ = c₊/c₋) and the cost, with their bounds."""
    c_n, c_p, _ = learner.costs
    T_p, M_p, M_n = learner.n_positives, learner.false_negatives, learner.false_positives
    T_n = T - T_p
    measures = {"cost": (c_p * M_p + c_n * M_n, c_n * most)}
    if T_p and T_n:
        alpha = c_p / c_n * T_p / (c_p / c_n * T_p + T_n)
        weighted = alpha * (T_p - M_p) / T_p + (1 - alpha) * (T_n - M_n) / T_n
        measures = {"sum": (weighted, 1 - (1 - alpha) / T_n * most), **measures}
    return measures


def _costs(learner: Learner, signs: NDArray[np.int8]) -> tuple[NDArray[np.float64], Any]:
    """Return c_y and ρ of each round."""
    negative, positive, balanced = learner.costs
    if not balanced:
        return np.where(signs > 0, positive, negative).astype(np.float64), positive / negative
    positives = np.cumsum(signs > 0)
    ratio = np.maximum(np.arange(1, len(signs) + 1) - positives, 1) / np.maximum(positives, 1)
    return np.where(signs > 0, ratio, 1.0), ratio


def _fresh(model: Any, n_features: int, classes: Classes) -> Learner:
    """Return a new learner like the model's, in float64."""
    from thinstream.estimators.classifier import OnlineClassifier

    if not isinstance(model, OnlineClassifier):
        raise InvalidInputError(
            f"regret: the model must be an online estimator of thinstream, got {type(model).__name__}"
        )
    pipeline = model._fresh_model(classes, n_features).learner.to_dense()
    if pipeline.preparation:
        raise InvalidParameterError(
            "regret: the bounds hold for the rows that the model learns. Scale X beforehand, and set scale and "
            "normalize to None."
        )
    if pipeline.offset:
        raise InvalidParameterError("regret: fit_intercept must be False. Append a constant feature to X instead.")
    fresh: Learner = make_learner_like(pipeline.outputs.one, n_features=n_features, dtype="float64")
    return fresh


#: The parameters for which each bound was proved.
_COVERED: dict[str, dict[str, str]] = {
    "FSOL": {"l1_schedule": "eta"},
    "SSOL": {"l1_schedule": "inv_t", "diagonal": "exact", "update_on": "every"},
    "ARCSOGD": {"diagonal": "exact"},
}


def _require_covered(learner: Learner) -> None:
    name, parameters = learner.algorithm.name, learner.parameters
    if name not in _COVERED:
        raise InvalidParameterError(f"regret: the papers prove bounds only for {', '.join(_COVERED)}, got {name}")
    for parameter, value in _COVERED[name].items():
        idle = parameters["l1"] == 0 if parameter == "l1_schedule" else learner.full and parameter == "diagonal"
        if parameters[parameter] != value and not idle:
            raise InvalidParameterError(
                f"regret: the bound of {name} needs {parameter}={value!r}, got {parameters[parameter]!r}"
            )


def _weights(comparator: Any, d: int) -> NDArray[np.float64]:
    w = np.asarray(comparator, dtype=np.float64).ravel()
    if w.shape != (d,) or not np.all(np.isfinite(w)):
        raise InvalidInputError(
            f"regret: the comparator must have {d} finite numbers, one per feature, got shape {w.shape}"
        )
    return w


# The comparator, and the distance of the run from it.


def _best(batch: Batch, signs: NDArray[np.int8]) -> NDArray[np.float64]:
    """Return the weights of a linear SVM on all rows, or zeros if there is only one class."""
    if len(np.unique(signs)) < 2:
        return np.zeros(batch.n_features)
    svm = SparDCALearner(width=batch.n_features, dtype="float64", l1=0.0, C=1.0, n_epochs=EPOCHS)
    svm.learn_rows(Examples(matrix_of(batch), signs, np.ones(len(signs))))
    return svm.weights()


def _precision(learner: Learner) -> NDArray[np.float64]:
    """Return Σ⁻¹ (A of SSOL), or its diagonal if only that exists."""
    if learner.full:
        inverse: NDArray[np.float64] = np.linalg.inv(cast("FullLearner", learner).sigma.dense())
        return inverse
    return 1.0 / learner.variance().astype(np.float64)


def _farthest(learner: Learner, batch: Batch, w: NDArray[np.float64]) -> float:
    """Learn the rows one by one; return the largest distance of the weights from w before any of them.

    For algorithms with a full covariance, or whose weights change only for the features of the row.
    """
    difference = -np.asarray(w, dtype=np.float64)
    square = largest = float(difference @ difference)
    for i in range(len(batch)):
        largest = max(largest, square)
        row, updates = batch.until(i + 1).after(i), learner.n_updates
        learner.learn(row, scores=False)
        if learner.full:
            difference = learner.weights() - w
            square = float(difference @ difference)
        elif learner.n_updates > updates and row.nnz:
            j = row.indices[: row.nnz]
            n = len(j)
            units = Batch(np.arange(n + 1), j, np.ones(n), batch.n_features)
            now = learner.scores(units) - w[j]
            square += float(now @ now - difference[j] @ difference[j])
            difference[j] = now
    return math.sqrt(largest)
