"""The threshold of a fitted model of two classes: the score above which a row is positive."""

from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from thinstream.errors import InvalidParameterError
from thinstream.estimators.base import ModelClassifier, as_before_on_error
from thinstream.evaluate.threshold import Goal, choose
from thinstream.models.model import score_of


class DecidingClassifier(ModelClassifier):
    """A classifier whose threshold can be set."""

    def set_threshold(
        self,
        threshold: float | None = None,
        *,
        recall: float | None = None,
        false_alarms: float | None = None,
        scores: Any = None,
        y: Any = None,
    ) -> Self:
        """Sets the score above which a row is positive, ``threshold_``, 0 before; for two classes.

        Parameters
        ----------
        threshold : float
            With ``loss="logistic"`` a probability, of other losses a score.
        recall, false_alarms : float
            Instead: the share of positives to be found, or of negatives called positive at most.
        scores, y : arrays
            Of rows the model had not learned from, to choose on: scores that ``learn`` returns, or of rows held out.

        Examples
        --------
        >>> import numpy as np, thinstream as ts
        >>> X, y = np.random.default_rng(0).normal(size=(1000, 3)), np.tile([0, 1], 500)
        >>> X[:, 0] += y
        >>> model = ts.AdaRDA()
        >>> scores = model.learn(X, y)
        >>> model = model.set_threshold(recall=0.95, scores=scores, y=y)
        >>> float(np.mean(scores[y == 1] > model.threshold_))
        0.95

        """
        check_is_fitted(self)
        goals = recall is not None or false_alarms is not None
        if goals == (threshold is not None):
            raise InvalidParameterError("set_threshold takes one of threshold, recall and false_alarms")
        with as_before_on_error(self):
            model = self._model
            if not goals:
                return self._adopt(model.with_threshold(score_of(threshold, model)))
            goal = Goal.of(recall, false_alarms)
            if scores is None or y is None:
                raise InvalidParameterError(f"{goal.kind} needs scores and y of rows the model has not learned from")
            own = np.asarray(scores, dtype=model.learner.dtype)
            return self._adopt(model.with_threshold(choose(goal, own, model.classes.coded(y) > 0)))

    @property
    def threshold_(self) -> float:
        """The score above which a row is of the second of two classes; see ``set_threshold``."""
        self._fitted("threshold_")
        return self._model.threshold
