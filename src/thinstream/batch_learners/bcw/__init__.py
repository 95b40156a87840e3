"""BCW: confidence-weighted learning in batches.

Tan, Yan, Wang, van den Hengel, Tsang, Shi: Learning Sparse Confidence-Weighted Classifier on Very High Dimensional Data
(2016), Algorithm 1 (P1). Specification §5, E9.

Υ of the paper, the root of Σ, is not formed: any root whitens as well, and the mean μ = Υw is kept itself.
"""

import copy
from collections.abc import Sequence
from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thinstream.batch_learners.base import runs
from thinstream.batch_learners.bcw.covariance import ByFeatures, ByRows, Covariance, by_features, covariance_of
from thinstream.batch_learners.bcw.steps import take_steps, walk
from thinstream.batch_learners.blas import cholesky, times, whiten
from thinstream.batch_learners.buffered import BufferedLearner
from thinstream.batch_learners.devices import in_precision, is_device_array, like, to_host
from thinstream.batch_learners.rows import Arrays, Examples, require_finite
from thinstream.engine.parameters import CountOrNone, OneOf, Positive

#: Rows on a device that are decided on at a time: each time their products come to the host.
STRETCH = 1024


class BCW(NamedTuple):
    """Confidence-weighted learning in batches: one covariance matrix for all rows of a batch.

    ::

        Σ⁻¹ ← Σ⁻¹ + C·XᵀX;   then row by row  ξ = max(0, 1 − y·μ·x),  μ ← μ + α·y·Σx
        α = min(ξ / xᵀΣx, C) (hinge),   ξ / (xᵀΣx + 0.5/C) (squared_hinge)

    Memory is that of a few features × features matrices, or of rows × rows ones as long as there are fewer rows. Rows
    may be on a device (arrays of PyTorch or CuPy): they are then multiplied there.

    Parameters
    ----------
    C : float, default=1.0
        Weight of the data against what was known before.
    loss : {"hinge", "squared_hinge"}, default="hinge"
        Loss ξ or ξ².
    batch_size : int or None, default=None
        Rows of a batch: rows wait until so many are there (``fit`` learns from the rest, too). None: each call is one
        batch, and how rows are cut into calls changes the result.

    Examples
    --------
    >>> import thinstream as ts
    >>> ts.BCW(dtype="float64").fit([[1.0, 0.0], [0.0, 2.0]], [0, 1]).coef_
    array([[-0.5,  0.4]])

    """

    C: Positive = 1.0
    loss: Annotated[int, OneOf(hinge=1, squared_hinge=2)] = 1
    batch_size: CountOrNone = 0


@runs(BCW, paper="P1 Alg. 1", order="second")
class BCWLearner(BufferedLearner):
    """μ in ``w``, and Σ.

    Examples
    --------
    >>> rows = Examples(np.array([[1.0, 0.0], [0.0, 2.0]]), np.array([-1, 1], np.int8), np.ones(2))
    >>> model = BCWLearner(width=2, dtype="float64")
    >>> model.learn_rows(rows)
    array([0., 0.])
    >>> model.weights(), model.variance()
    (array([-0.5,  0.4]), array([0.5, 0.2]))

    """

    takes_dense = True
    keeps_variance = True

    def start(self) -> None:
        """Σ = I."""
        super().start()
        self.covariance: Covariance = ByRows.empty(len(self.w), self.dtype)

    def absorb(self, batch: Examples) -> NDArray[Any]:
        """Algorithm 1 on one batch."""
        c, old, d = self.row_costs(batch), self.covariance, len(self.w)
        few = isinstance(old, ByRows) and old.A.shape[0] + len(batch) < d
        w, scores = self._by_rows(batch, c) if few else self._by_features(batch, c)
        self.w = w
        self.count(scores, batch.y, np.maximum(0.0, 1.0 - batch.y * scores))
        return scores.astype(self.dtype)

    def _by_rows(self, batch: Examples, c: NDArray[np.float64]) -> tuple[NDArray[Any], NDArray[np.float64]]:
        assert isinstance(self.covariance, ByRows)
        require_finite(batch)
        X = batch.sparse(self.dtype)
        new, M = self.covariance.add_rows(X, self.rule.C, self.algorithm.name)
        steps = take_steps(M, X @ self.w, batch.y, c, self.rule.C, self.rule.loss)
        self.covariance = new
        return self.w + new.times(steps.sizes), steps.scores

    def _by_features(self, batch: Examples, c: NDArray[np.float64]) -> tuple[NDArray[Any], NDArray[np.float64]]:
        if is_device_array(batch.X):
            batch = Examples(in_precision(batch.X, self.dtype), batch.y, batch.weights)
        new = by_features(self.covariance, batch, self.rule.C, self.dtype, self.algorithm.name)
        whitener, scores, move = new.factor(), np.empty(len(batch)), np.zeros_like(self.w)
        room: Any = None
        known = bool(self.w.any())  # not in the first batch, which spares a pass over the rows
        for rows, block in batch.blocks(self.dtype):
            f = times(block, like(self.w, block)) if known else np.zeros(len(block), dtype=self.dtype)
            y, costs = batch.y[rows], c[rows]
            if is_device_array(block):
                scores[rows], move = self._on_device(block @ like(whitener.T, block), f, y, costs, move)
                continue
            room = np.empty_like(block) if room is None else room
            white = whiten(block, whitener, room[: len(block)])
            scores[rows] = walk(white, f, y, costs, self.rule.C, self.rule.loss, move)
        self.covariance = new
        return self.w + times(whitener.T, move), scores

    def _on_device(self, white: Any, f: Any, y: Any, c: Any, move: NDArray[Any]) -> tuple[Any, NDArray[Any]]:
        """Scores of whitened rows on a device, and the move after them; products come to the host by stretches."""
        found, there = [], like(move, white)
        for start in range(0, len(y), STRETCH):
            part = slice(start, start + STRETCH)
            x = white[part]
            before = f[part] + to_host(x @ there)
            steps = take_steps(to_host(x @ x.T), before, y[part], c[part], self.rule.C, self.rule.loss)
            there = there + x.T @ like(steps.sizes.astype(self.dtype), x)
            found.append(steps.scores)
        return np.concatenate(found), to_host(there)

    def widen(self, n_features: int) -> None:
        """Makes room for further features, each with variance 1."""
        before = len(self.w)
        super().widen(n_features)
        if len(self.w) > before:
            self.covariance = self.covariance.widen(len(self.w))

    def variance(self) -> NDArray[Any]:
        """σ of every feature: the diagonal of Σ."""
        return self.covariance.variance(self.rule.C)[self.offset :]

    def arrays(self, *, weights_only: bool = False) -> Arrays:
        """The state, Σ included."""
        return super().arrays(weights_only=weights_only) | ({} if weights_only else self.covariance.arrays())

    def restore(self, arrays: Arrays) -> None:
        """Becomes the learner these arrays were taken from."""
        super().restore(arrays)
        self.covariance = covariance_of(arrays, len(self.w), self.dtype)

    def merge_all(self, learners: Sequence["BCWLearner"]) -> "BCWLearner":
        """Precisions add, which is exact; means are weighted by them."""
        from scipy.linalg import cho_solve

        model = copy.deepcopy(learners[0])
        model.counts[:], model.cumulative_loss = 0, 0.0
        d, C, name = len(self.w), self.rule.C, self.algorithm.name
        P, b = np.zeros((d, d), dtype=self.dtype, order="F"), np.zeros(d)
        for each in sorted(learners, key=lambda e: (e.t, e.w.tobytes(), e.cumulative_loss)):
            own = each.covariance.precision(C, name)
            own = np.tril(own) + np.tril(own, -1).T
            b += own.astype(np.float64) @ each.w.astype(np.float64)
            P += own
            model.counts += each.counts
            model.cumulative_loss += each.cumulative_loss
        P[np.diag_indices_from(P)] -= P.dtype.type(len(learners) - 1)
        model.covariance = ByFeatures(P)
        model.w = cho_solve((cholesky(P), True), b).astype(self.dtype)
        return model
