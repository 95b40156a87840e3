"""Delayed labels: predict rows now, and learn them when their labels arrive."""

import os
import threading
import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from thinstream.errors import InvalidInputError, InvalidParameterError, ThinstreamWarning, listed
from thinstream.estimators.classifier import OnlineClassifier
from thinstream.estimators.inputs import labels_of, weights_of
from thinstream.training.delayed_labels import Id, Labelled, Waiting

UNMATCHED = ("warn", "raise", "ignore")


class LabelJoin:
    """Predict rows now, and learn them when their labels arrive, matched by id.

    Rows are learned in the order of their labels, with the values that were predicted. The model is identical to one
    that learns rows and labels together in this order. Threads can share a `LabelJoin`.

    Parameters
    ----------
    model : online estimator of thinstream
        The model, which is updated in place. If it is not fitted, it needs ``classes`` and first predicts the first
        class.
    classes : sequence, default=None
        All labels.
    keep : int, default=1_000_000
        The maximum number of waiting rows. Then the oldest expire.
    seconds : float or None, default=None
        The maximum time that a row waits. None: no limit.
    path : path or None, default=None
        An SQLite file for the waiting rows, so that they survive the process. Save the model yourself.
    unmatched : {"warn", "raise", "ignore"}, default="warn"
        How to handle labels without a waiting row. They are always counted.

    Attributes
    ----------
    counts : dict
        The number of rows ``predicted``, ``replaced`` (predicted again with the same id before the label arrived) and
        ``learned``, and of labels that were ``unknown``, ``expired`` or ``repeated``.

    Examples
    --------
    >>> import thinstream as ts
    >>> join = ts.LabelJoin(ts.FSOL(), classes=["ham", "spam"])
    >>> join.predict(["mail 1", "mail 2"], [[1.0, 0.0], [0.0, 1.0]])
    array(['ham', 'ham'], dtype='<U4')
    >>> join.label(["mail 2", "mail 1"], ["spam", "ham"])
    Labelled(learned=2, unknown=[], expired=[], repeated=[])
    >>> join.predict(["mail 3"], [[0.0, 1.0]])
    array(['spam'], dtype='<U4')

    """

    def __init__(
        self,
        model: OnlineClassifier,
        *,
        classes: Sequence[Any] | None = None,
        keep: int = 1_000_000,
        seconds: float | None = None,
        path: str | os.PathLike[str] | None = None,
        unmatched: Literal["warn", "raise", "ignore"] = "warn",
        clock: Callable[[], float] = time.time,
    ) -> None:
        if not isinstance(model, OnlineClassifier):
            raise InvalidParameterError(f"model must be an online estimator of thinstream, got {model!r}")
        if not (model.__sklearn_is_fitted__() or classes is not None):
            raise InvalidParameterError("classes= is required for a model that is not fitted")
        if unmatched not in UNMATCHED:
            raise InvalidParameterError(f"unmatched must be {listed(UNMATCHED)}, got {unmatched!r}")
        self.model, self.classes, self.unmatched = model, classes, unmatched
        self.waiting = Waiting(keep, seconds, path, clock)
        self._lock = threading.Lock()

    @property
    def counts(self) -> dict[str, int]:
        """The number of rows and labels by outcome."""
        return self.waiting.counts

    def predict(self, ids: Sequence[Id], X: Any) -> NDArray[Any]:
        """Predict the class of each row, and store the rows by id until their labels arrive."""
        return self.model._chosen_labels(self._scores(ids, X))

    def decision_function(self, ids: Sequence[Id], X: Any) -> NDArray[Any]:
        """Return the scores of the rows like the estimator, and store the rows by id until their labels arrive."""
        scores: NDArray[Any] = self.model._by_class(self._scores(ids, X), axis=-1)
        return scores

    def _scores(self, ids: Sequence[Id], X: Any) -> NDArray[Any]:
        names = _ids(ids)
        with self._lock:
            model = self.model
            if not model.__sklearn_is_fitted__():  # a row with weight 0 sets the classes and the number of columns
                assert self.classes is not None
                model.partial_fit(X[:1], [self.classes[0]], classes=self.classes, sample_weight=[0.0])
            batch = model._batch_of(X)
            if len(batch) != len(names):
                raise InvalidInputError(f"ids must have one id per row, got {len(names)} ids for {len(batch)} rows")
            scores = model._model.learner.scores(batch)
            self.waiting.put(names, batch, scores, model._model.learner.dtype)
        return scores

    def label(self, ids: Sequence[Id], y: Any, sample_weight: Any = None) -> Labelled:
        """Learn the rows with these ids in this order, and return the ids that did not match.

        If an error occurs, the model and the waiting rows do not change.
        """
        names = _ids(ids)
        labels, weights = labels_of(y, len(names)), weights_of(sample_weight, len(names))
        with self._lock:
            outcome, positions = self.waiting.look(names)
            self._report_unmatched(outcome)
            if positions:
                model = self.model._model
                classes = model.classes.meeting(labels[positions])
                coded = classes.coded(labels[positions])
                with self.waiting.taking([names[k] for k in positions], model.learner.n_features) as (rows, _):
                    batch = rows.labelled(coded, None if weights is None else weights[positions])
                    model, _ = model.learn(batch, classes, scores=False)
                self.model._adopt(model)
            self.waiting.count(outcome)
        return outcome

    def _report_unmatched(self, outcome: Labelled) -> None:
        parts = [
            f"{len(ids):,} {name} ({', '.join(map(repr, ids[:3]))}{' …' if len(ids) > 3 else ''})"
            for name, ids in outcome.unmatched.items()
        ]
        if parts and self.unmatched == "raise":
            raise InvalidInputError(f"labels without a waiting row: {', '.join(parts)}; nothing was learned")
        if parts and self.unmatched == "warn":
            warnings.warn(f"labels without a waiting row: {', '.join(parts)}", ThinstreamWarning, stacklevel=3)

    def __len__(self) -> int:
        """Return the number of waiting rows."""
        return len(self.waiting)

    def close(self) -> None:
        """Close the file of rows."""
        self.waiting.close()


def _ids(ids: Sequence[Any]) -> list[Id]:
    """Check ids and return them as Python numbers and strings."""
    if isinstance(ids, str | bytes):
        raise InvalidInputError(f"ids must be a sequence with one id per row, got {ids!r}")
    checked = [value.item() if isinstance(value, np.generic) else value for value in ids]
    for position, value in enumerate(checked):
        if isinstance(value, bool) or not isinstance(value, int | str):
            raise InvalidInputError(f"ids must be whole numbers or strings, got {value!r} at position {position}")
        if isinstance(value, int) and not -(2**63) <= value < 2**63:
            raise InvalidInputError(f"ids must fit into 64 bits, got {value!r} at position {position}")
    return checked
