"""GraDes as an estimator."""

import math
from itertools import islice
from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thinstream.engine.parameters import Count, Interval
from thinstream.errors import InvalidParameterError
from thinstream.estimators.solved import Fit, SolvedClassifier
from thinstream.solvers import grades
from thinstream.solvers.examples import Examples
from thinstream.solvers.spectral import squared_norm


class GraDesParameters(NamedTuple):
    """Its numbers, as they are checked; infinite and 0 stand for None."""

    gamma: Annotated[float, Interval(none=math.inf)] = math.inf
    n_nonzero: Annotated[int, Interval(low=1, closed=True, whole=True, none=0)] = 0
    n_iter: Count = 10


class GraDes(SolvedClassifier):
    """Gradient descent with sparsification: least squares on ±1, the s largest weights kept (P2 Eq. 6). A batch method.

    ::

        w = H(w + (1/γ)·Xᵀ(y − Xw), s),   H keeps the s largest |w_j|

    Each iteration is a pass over the examples, and one more tells the last potential; memory is O(d), so a stream that
    can be read again (files, no pipes) may be of any length. Finding a safe γ takes some dozen passes. With a γ below
    half of ‖X‖₂² it diverges on most data: `thinstream.stability` tells beforehand.

    Parameters
    ----------
    gamma : float or None, default=None
        γ: 1/γ is the learning rate. None stands for ‖X‖₂², with which Ψ never rises; papers take 3 and 100.
    n_nonzero : int or None, default=None
        s: weights kept, the constant feature's among them; None stands for a tenth of the features, at least one.
    n_iter : int, default=10
        Iterations.
    class_weight : None, "balanced" or dict {label: weight}, default=None
        Weights of the squares; "balanced" gives positives n₋/n₊.
    fit_intercept : bool, default=False
        A last column of ones, as a feature like any.

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
    gamma_ : float
        The γ taken.
    potential_ : array of shape (n_iter + 1,)
        Ψ = ½‖y − Xw‖² before the first iteration and after each.

    Examples
    --------
    >>> import thinstream as ts
    >>> model = ts.GraDes(gamma=2.0, n_nonzero=1, n_iter=2).fit([[1.0, 0.5], [-1.0, 0.0]], [0, 1])
    >>> model.coef_, model.potential_
    (array([[-1.,  0.]]), array([1., 0., 0.]))

    """

    _Parameters = GraDesParameters
    gamma_: float
    potential_: NDArray[np.float64]

    def __init__(
        self,
        *,
        gamma: float | None = None,
        n_nonzero: int | None = None,
        n_iter: int = 10,
        class_weight: Any = None,
        fit_intercept: bool = False,
    ) -> None:
        self.gamma = gamma
        self.n_nonzero = n_nonzero
        self.n_iter = n_iter
        self.class_weight = class_weight
        self.fit_intercept = fit_intercept

    def _solve(self, examples: Examples, p: GraDesParameters) -> Fit:
        gamma = p.gamma if p.gamma < math.inf else squared_norm(examples) or 1.0
        potentials = []
        for w, potential in islice(grades.path(examples, gamma, p.n_nonzero or tenth(examples)), p.n_iter + 1):
            potentials.append(potential)
            if not (math.isfinite(potential) and np.all(np.isfinite(w))):
                raise InvalidParameterError(
                    f"GraDes: it diverged, Ψ was infinite after {len(potentials) - 1} iterations: gamma must be "
                    f"at least half of ‖X‖₂² = {squared_norm(examples):.4g}, or None, got {self.gamma!r}"
                )
        return Fit(w, {"gamma_": float(gamma), "potential_": np.array(potentials)})


def tenth(examples: Examples) -> int:
    """The weights kept by default."""
    return max(1, examples.n_features // 10)
