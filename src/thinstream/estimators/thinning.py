"""Thin copies of fitted models."""

from typing import Any, Self

from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from thinstream.batch import Batch
from thinstream.errors import InvalidParameterError
from thinstream.estimators.base import reads
from thinstream.estimators.deciding import DecidingClassifier
from thinstream.estimators.inputs import csr_of, labels_of
from thinstream.streams.at_hand import batch_like
from thinstream.thinning import importance, measured, require_count, thin


class ThinnableClassifier(DecidingClassifier):
    """A classifier of which a small copy can be made that predicts."""

    @reads
    def thin(self, n: int | None = None, *, X: Any = None, y: Any = None) -> Self:
        """A new estimator of the most important weights only: it predicts, and cannot go on learning.

        ``save(path, weights_only=True)`` writes it to a small file.

        A weight's importance is |w_j|·q_j^½, q_j being what the model knows of √Σx_j² from learning; of learners that
        keep no such thing it is |w_j|. With rows that the model has not learned, |w_j| and |w_j|·q_j are tried as well.

        Parameters
        ----------
        n : int
            How many weights to keep, intercepts not counted and all classes together. With rows it may be left out:
            the smallest number whose error on them is within one standard error of the lowest.
        X, y : array or sparse matrix, labels
            Rows held out from learning, to choose on.

        Examples
        --------
        >>> import thinstream as ts
        >>> from thinstream.datasets import sparse_gaussian
        >>> train, test = sparse_gaussian(20_000, 5_000)      # 1000 features, 100 of them informative
        >>> model = ts.AROW().fit(train.X, train.y)
        >>> small = model.thin(100)
        >>> model.nnz_, small.nnz_, round(model.score(test.X, test.y), 2), round(small.score(test.X, test.y), 2)
        (1000, 100, 0.94, 0.95)

        """
        check_is_fitted(self)
        if (X is None) != (y is None):
            raise InvalidParameterError("thin: rows to choose on are X and y, one of them is missing")
        if X is None and n is None:
            raise InvalidParameterError(
                "thin takes a number of weights to keep, rows to choose it on (X=, y=), or both"
            )
        count = None if n is None else require_count(n)
        new: Self = clone(self)
        if X is None:
            return new._adopt(thin(self._model, require_count(n)))
        curve = measured(self._model, [self._labelled(X, y)], None if count is None else [count])
        choice = curve.choice if count is None else curve.at(count)
        return new._adopt(thin(self._model, choice.n, importance(self._model.learner, choice.power)))

    def _labelled(self, X: Any, y: Any) -> Batch:
        """Rows with labels."""
        rows = batch_like(self._model, X)
        if rows is None:
            rows = Batch.of(*csr_of(self, X, reset=False, any_width=getattr(self, "grow", False)))
        return rows.labelled(self._model.classes.coded(labels_of(y, len(rows))))
