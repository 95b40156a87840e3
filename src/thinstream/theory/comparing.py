"""Comparators, and how far from one a run has been."""

import math
import warnings

import numpy as np
from numpy.typing import NDArray

from thinstream.batch import Batch
from thinstream.learners import FullLearner, Learner
from thinstream.stability.inputs import matrix_of


def best(batch: Batch, signs: NDArray[np.int8]) -> NDArray[np.float64]:
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


def precision(learner: Learner) -> NDArray[np.float64]:
    """Σ⁻¹ (A of SSOL), or its diagonal if that is all there is."""
    if not isinstance(learner, FullLearner):
        return 1.0 / learner.variance().astype(np.float64)
    inverse: NDArray[np.float64] = np.linalg.inv(learner.sigma.dense())
    return inverse


def farthest(learner: Learner, batch: Batch, w: NDArray[np.float64]) -> float:
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
