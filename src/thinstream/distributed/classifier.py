"""An estimator that learns on many workers, for pipelines; the only module here built on scikit-learn."""

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from thinstream.batch import Batch
from thinstream.distributed.fitting import train
from thinstream.distributed.sources import BatchSource
from thinstream.errors import InvalidParameterError
from thinstream.estimators.inputs import csr_of, labels_of, weights_of
from thinstream.learners import Classes


def _can(name: str) -> Any:
    return available_if(lambda self: hasattr(getattr(self, "estimator_", self.estimator), name))


class DistributedClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc] # scikit-learn has no types
    """An online learner whose ``fit`` is spread over many workers.

    Rows are sent to the workers, a stretch to each. For data that does not fit into memory there is
    `thinstream.distributed.train`.

    Parameters
    ----------
    estimator : estimator
        An online learner of thinstream; it is cloned, not fitted.
    engine, workers, mode, merge_every, merge, batch, engine_options
        As `thinstream.distributed.train` takes them.

    Attributes
    ----------
    estimator_ : estimator
        The fitted one.
    progressive_ : Report
        Of the scores rows got before they were learned from.

    Examples
    --------
    >>> import thinstream as ts
    >>> model = DistributedClassifier(ts.FSOL(), engine="local", workers=1)
    >>> model.fit([[1.0, 0.0], [0.0, 1.0]], ["ham", "spam"]).predict([[0.0, 2.0]])
    array(['spam'], dtype='<U4')

    """

    def __init__(
        self,
        estimator: Any,
        *,
        engine: Any = "ray",
        workers: int = 2,
        mode: str = "examples",
        merge_every: int | None = None,
        merge: str | None = None,
        batch: int | None = None,
        engine_options: Any = None,
    ) -> None:
        self.estimator, self.engine, self.workers, self.mode = estimator, engine, workers, mode
        self.merge_every, self.merge, self.batch, self.engine_options = merge_every, merge, batch, engine_options

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learns from scratch."""
        if not hasattr(self.estimator, "get_params") or isinstance(self.estimator, type):
            raise InvalidParameterError(
                f"estimator must be an online learner of thinstream, such as FSOL(), got {self.estimator!r}"
            )
        rows = csr_of(self, X, reset=True)
        labels = labels_of(y, len(rows))
        check_classification_targets(labels)
        known = Classes.of(labels)
        weights = weights_of(sample_weight, len(rows))
        batch = Batch.of(*rows).labelled(known.coded(labels), weights)
        options = self.get_params(deep=False)
        fitted = train(BatchSource(batch, tuple(known)), clone(options.pop("estimator")), **options)
        names = getattr(self, "feature_names_in_", None)
        fitted._adopt_learner(fitted._model.learner, known, np.unique(labels), columns=names)  # labels of their type
        self.estimator_, self.classes_, self.progressive_ = fitted, fitted.classes_, fitted.progressive_
        return self

    def decision_function(self, X: Any) -> NDArray[Any]:
        """w·x of each row; see `OnlineClassifier`."""
        check_is_fitted(self)
        return np.asarray(self.estimator_.decision_function(X))

    def predict(self, X: Any) -> NDArray[Any]:
        """The class of each row."""
        check_is_fitted(self)
        return np.asarray(self.estimator_.predict(X))

    @_can("predict_proba")  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> NDArray[Any]:
        """Probabilities of the classes, where the estimator has them."""
        check_is_fitted(self)
        return np.asarray(self.estimator_.predict_proba(X))

    @property
    def coef_(self) -> Any:
        """The weights."""
        return self.estimator_.coef_

    @property
    def intercept_(self) -> Any:
        """Weights of the constant feature."""
        return self.estimator_.intercept_

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags
