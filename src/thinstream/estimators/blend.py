"""The estimator of a blend."""

from collections.abc import Mapping, Sequence
from typing import Any, Self
from warnings import warn

from joblib import effective_n_jobs

from thinstream.blend.serving import blends_of
from thinstream.estimators.base import reads
from thinstream.estimators.classifier import OnlineClassifier
from thinstream.learners import Classes
from thinstream.models import Model


class BlendClassifier(OnlineClassifier):
    """Base of the estimator whose model is a blend of others.

    Parameters
    ----------
    n_jobs : int or None, default=None
        Threads that learn; None is one, -1 as many as there are processors. The model is the same.

    Attributes
    ----------
    coef_ : array or sparse matrix of shape (1, V·n_features), or (K, V·n_features) of K > 2 classes
        The weights of the blend, computed on demand. There is a vector for each of the V ways in which its models have
        their rows prepared, one after another: two with our portfolio, first that for rows as they are, then that for
        rows of unit length. With ``normalize="l2"`` or ``scale`` said to Auto there is one, and a column for each
        feature, as ``SelectFromModel`` and ``feature_names_in_[np.argsort(…)]`` need it (docs/auto.md).

    """

    _gives_probabilities = True

    @property
    @reads
    def lanes_(self) -> list[dict[str, Any]]:
        """A line for each model: learner, parameters, progressive error, share, why it is out where it is.

        Of more than two classes each has its own models, told apart by "class".
        """
        learner = self._fitted("lanes_")
        if learner.weights_only:
            raise AttributeError(f"{self._algorithm} was saved with its weights only, without its models")
        blends = blends_of(learner)[: self._model.classes.n_models]
        order = range(len(blends)) if self._order is None else self._order
        tables = [blends[k].table() for k in order]
        if len(tables) == 1:
            return tables[0]
        labels = self.classes_.tolist()
        return [{"class": label} | line for label, table in zip(labels, tables, strict=True) for line in table]

    def _fresh_model(
        self, classes: Classes, n_features: int = 0, labels: Any = None, columns: Any = None, **more: Any
    ) -> Model:
        return self._with_threads(super()._fresh_model(classes, n_features, labels, columns, **more))

    def _model_to_teach(self, labels: Any, classes: Any, n_features: int, from_y: bool) -> Model:
        return self._with_threads(super()._model_to_teach(labels, classes, n_features, from_y))

    def _with_threads(self, model: Model) -> Model:
        for blend in blends_of(model.learner):
            blend.threads = effective_n_jobs(self.get_params(deep=False)["n_jobs"])
        return model

    def _adopt(self, model: Model) -> Self:
        adopted = super()._adopt(model)
        for blend in blends_of(model.learner):
            while blend.news:
                warn(f"{self._algorithm}: {blend.news.pop(0)}", RuntimeWarning, stacklevel=4)
        return adopted


def estimators_of(portfolio: Sequence[Mapping[str, Any]], make: Any) -> list[Any]:
    """The parameter ``portfolio`` of an estimator, out of what a model knows of it."""
    return [
        make(each["learner"], **each["parameters"], scale=each["scale"], normalize=each["normalize"])
        for each in portfolio
    ]
