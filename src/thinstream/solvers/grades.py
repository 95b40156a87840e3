"""GraDes: gradient descent with sparsification.

Garg, Khandekar: Gradient Descent with Sparsification (2009); P2 Equation 6.

    w = H(w + (1/γ)·Xᵀ(y − Xw), s),   Ψ(w) = ½‖y − Xw‖²,   H keeps the s largest |w_j|

With γ ≥ ‖X‖₂² no step raises Ψ. Costs and sample weights c_i weigh the squares: X and y with rows times √c_i.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from thinstream.solvers.examples import Examples


class Iterate(NamedTuple):
    """One w of the path from 0."""

    w: NDArray[np.float64]
    potential: float  # Ψ(w)


def path(examples: Examples, gamma: float, s: int) -> Iterator[Iterate]:
    """W = 0 and all that follow, without end; a pass over the examples for each.

    Nothing stops it where it diverges: numbers grow until they are infinite.
    """
    w = np.zeros(examples.width)
    while True:
        gradient, potential = np.zeros(len(w)), 0.0
        with np.errstate(over="ignore", invalid="ignore"):
            for X, y, c in examples.blocks():
                residual = y - X @ w
                gradient += X.T @ (c * residual)
                potential += float(c @ (residual * residual)) / 2.0
            yield Iterate(w, potential)
            w = largest(w + gradient / gamma, s)


def largest(v: NDArray[np.float64], s: int) -> NDArray[np.float64]:
    """H(v, s): all but the s largest |v_j| become 0; among equals the lower index stays.

    >>> largest(np.array([1.0, -3.0, 2.0, -2.0]), 2)
    array([ 0., -3.,  2.,  0.])
    """
    if s >= len(v):
        return v
    size = np.abs(v)
    edge = np.partition(size, len(v) - s)[len(v) - s]
    kept = size > edge
    kept[np.flatnonzero(size == edge)[: s - int(np.count_nonzero(kept))]] = True
    return np.where(kept, v, 0.0)
