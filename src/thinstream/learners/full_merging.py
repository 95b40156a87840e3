"""Merging learners with a full covariance: precisions add, the prior counted once."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from thinstream.engine.full import Matrix
from thinstream.errors import MergeError
from thinstream.learners.full import FullLearner

HOW = "precisions add (the prior counted once); θ and v add, means are weighted by precision"


def merge_full(parts: Sequence[FullLearner], model: FullLearner) -> None:
    """What the parts know goes into the fresh model, which is as wide as the widest and has their counters.

    P = Σ P_k − (n − 1)·P₀ and, for a mean, μ = P⁻¹ Σ P_k μ_k (of AROW: the belief with the updates of all parts).
    """
    width = model.sigma.d
    prior = 1.0 / float(model.rule.variance(model.rule.fresh()))
    P, b = -(len(parts) - 1) * prior * np.eye(width), np.zeros(width)
    sums = model.rule.merge_rule().belief is None  # the vector is a sum over examples, else the mean of a belief
    for part in parts:
        d = part.sigma.d
        mean, one = part.belief.mean.astype(np.float64), _inverse(part.sigma.dense(), part.algorithm.name)
        P[:d, :d] += one
        P[range(d, width), range(d, width)] += prior  # features it never saw
        b[:d] += mean if sums else one @ mean
    sigma = _inverse(P, model.algorithm.name)
    model.memory.extra[:] = Matrix.of(sigma.astype(model.memory.state.dtype)).packed
    model.belief.mean[:] = b if sums else sigma @ b


def _inverse(matrix: NDArray[np.float64], owner: str) -> NDArray[np.float64]:
    """Of a symmetric positive matrix, in 64 bits."""
    from scipy.linalg import LinAlgError, cho_factor, cho_solve

    try:
        factor = cho_factor(matrix.astype(np.float64))
    except LinAlgError:
        raise MergeError(f"{owner}: a covariance has lost its positive definiteness and cannot be merged") from None
    found: NDArray[np.float64] = cho_solve(factor, np.eye(len(matrix)))
    return (found + found.T) / 2
