"""An estimator that learns on many workers, for pipelines."""

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from thinstream.batch import Batch
from thinstream.data.labels import Classes
from thinstream.distributed.job import train
from thinstream.distributed.sources import BatchSource
from thinstream.errors import InvalidParameterError
from thinstream.estimators.inputs import csr_of, labels_of, weights_of


def _can(name: str) -> Any:
    return available_if(lambda self: hasattr(getattr(self, "estimator_", self.estimator), name))


class DistributedClassifier(ClassifierMixin, BaseEstimator):
    """Train an online estimator on several workers.

    Each worker gets a contiguous part of the rows. If the data does not fit into memory, use
    `thinstream.distributed.train`.

    Parameters
    ----------
    estimator : estimator
        An online estimator of thinstream. A clone of it is fitted.
    engine, workers, merge_every, merge, engine_options
        As in `thinstream.distributed.train`.

    Attributes
    ----------
    estimator_ : estimator
        The fitted estimator.
    progressive_ : Report
        The progressive metrics.

    Examples
    --------
    >>> import thinstream as ts
    >>> model = ts.DistributedClassifier(ts.FSOL(), engine="local", workers=1)
    >>> model.fit([[1.0, 0.0], [0.0, 1.0]], ["ham", "spam"]).predict([[0.0, 2.0]])
    array(['spam'], dtype='<U4')

    """

    def __init__(
        self,
        estimator: Any,
        *,
        engine: Any = "ray",
        workers: int = 2,
        merge_every: int | None = None,
        merge: str | None = None,
        engine_options: Any = None,
    ) -> None:
        self.estimator, self.engine, self.workers = estimator, engine, workers
        self.merge_every, self.merge, self.engine_options = merge_every, merge, engine_options

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Train from scratch."""
        if not hasattr(self.estimator, "get_params") or isinstance(self.estimator, type):
            raise InvalidParameterError(
                f"estimator must be an online estimator of thinstream, such as FSOL(), got {self.estimator!r}"
            )
        rows = csr_of(self, X, reset=True)
        labels = labels_of(y, len(rows))
        check_classification_targets(labels)
        classes = Classes.of(labels)
        weights = weights_of(sample_weight, len(rows))
        batch = Batch.of(*rows).labelled(classes.coded(labels), weights)
        options = self.get_params(deep=False)
        fitted = train(BatchSource(batch, tuple(classes)), clone(options.pop("estimator")), **options)
        names = getattr(self, "feature_names_in_", None)
        fitted._adopt_learner(fitted._model.learner, classes, np.unique(labels), columns=names)  # labels of their type
        self.estimator_, self.classes_, self.progressive_ = fitted, fitted.classes_, fitted.progressive_
        return self

    def decision_function(self, X: Any) -> NDArray[Any]:
        """Return the score w·x of each row; see `OnlineClassifier`."""
        check_is_fitted(self)
        return np.asarray(self.estimator_.decision_function(X))

    def predict(self, X: Any) -> NDArray[Any]:
        """Predict the class of each row."""
        check_is_fitted(self)
        return np.asarray(self.estimator_.predict(X))

    @_can("predict_proba")
    def predict_proba(self, X: Any) -> NDArray[Any]:
        """Return the probabilities of the classes, if the estimator has them."""
        check_is_fitted(self)
        return np.asarray(self.estimator_.predict_proba(X))

    @property
    def coef_(self) -> Any:
        """The weights."""
        return self.estimator_.coef_

    @property
    def intercept_(self) -> Any:
        """The intercepts."""
        return self.estimator_.intercept_

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags
