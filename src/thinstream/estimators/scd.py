"""SCD as an estimator."""

from typing import Any, NamedTuple

import numpy as np
from sklearn.utils import check_random_state

from thinstream.engine.parameters import Count, NonNegative, Positive
from thinstream.estimators.solved import Fit, SolvedClassifier, whole_numbers
from thinstream.solvers import scd
from thinstream.solvers.examples import Examples


class SCDParameters(NamedTuple):
    """Its numbers, as they are checked."""

    l1: NonNegative = 0.001
    beta: Positive = 0.25
    n_epochs: Count = 10


class SCD(SolvedClassifier):
    """Stochastic coordinate descent for the logistic loss with the l1 norm (P2 baseline). A batch method.

    ::

        g = (1/m)·Σ_i ∂ℓ/∂s_i·x_ij;   w_j = soft(w_j − g/β, λ/β),   j drawn at random, n_epochs·d times

    It needs columns, so it holds the whole matrix in memory, also of a stream, and each ``fit`` starts anew. Scaled so
    that |x| ≤ 1 no step raises the objective; otherwise ``beta`` of max x²/4 is safe.

    Parameters
    ----------
    l1 : float, default=0.001
        λ: larger is sparser.
    beta : float, default=0.25
        β: bound on the curvature; steps are 1/β long.
    n_epochs : int, default=10
        Steps per coordinate, on average.
    coordinates : sequence of int or None, default=None
        The coordinates to take, in this order, instead of random ones.
    class_weight : None, "balanced" or dict {label: weight}, default=None
        Weights of the losses in their mean; "balanced" gives positives n₋/n₊.
    fit_intercept : bool, default=False
        A last column of ones, as coordinate d; its weight shrinks like any.
    random_state : int, RandomState or None, default=None
        Seed of the coordinates.

    Attributes
    ----------
    coef_ : array or sparse matrix of shape (1, n_features)
    intercept_ : array of shape (1,)
    classes_ : array of shape (2,)
        The labels; the second is positive.
    t_ : int
        Examples learned from, those of weight 0 not counted.
    nnz_, density_ : int, float
        Non-zero weights, and their share of all.
    objective_ : float
        Mean logistic loss plus λ‖w‖₁.

    Examples
    --------
    >>> import thinstream as ts
    >>> model = ts.SCD(l1=0.1, coordinates=[0, 1, 0]).fit([[1.0, 0.1], [-1.0, 0.1]], ["no", "yes"])
    >>> model.coef_.round(3), model.nnz_
    (array([[-1.872,  0.   ]]), 1)

    """

    _Parameters = SCDParameters
    objective_: float

    def __init__(
        self,
        *,
        l1: float = 0.001,
        beta: float = 0.25,
        n_epochs: int = 10,
        coordinates: Any = None,
        class_weight: Any = None,
        fit_intercept: bool = False,
        random_state: Any = None,
    ) -> None:
        self.l1 = l1
        self.beta = beta
        self.n_epochs = n_epochs
        self.coordinates = coordinates
        self.class_weight = class_weight
        self.fit_intercept = fit_intercept
        self.random_state = random_state

    def _solve(self, examples: Examples, p: SCDParameters) -> Fit:
        d = examples.width
        if self.coordinates is None:
            order = check_random_state(self.random_state).randint(d, size=p.n_epochs * d, dtype=np.int64)
        else:
            order = whole_numbers(self.coordinates, d, "SCD", "coordinates")
        found = scd.solve(examples, order, p.l1, p.beta)
        return Fit(found.w, {"objective_": found.objective})
