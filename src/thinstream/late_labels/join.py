"""A model, and the rows it has predicted that wait for their labels."""

import os
import threading
import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from thinstream.errors import InvalidInputError, InvalidParameterError, listed
from thinstream.estimators.classifier import OnlineClassifier
from thinstream.estimators.inputs import labels_of, weights_of
from thinstream.late_labels.store import Id
from thinstream.late_labels.waiting import Labelled, Waiting

UNMATCHED = ("warn", "raise", "ignore")


class LabelJoin:
    """Predicts rows now and learns them when their labels come, by id.

    Rows are learned in the order their labels come in, with the values they were predicted with; the model has the bits
    of one that got rows and labels together in that order. Threads may share it.

    Parameters
    ----------
    model : online estimator of thinstream
        It learns in place. One that is not fitted needs ``classes``, and answers 0 (the first class) at first.
    classes : sequence, default=None
        All labels.
    keep : int, default=1_000_000
        Rows that may wait; of more the oldest expire.
    seconds : float or None, default=None
        How long a row may wait; None: for ever.
    path : path or None, default=None
        A file (of SQLite) for the rows that wait, which then outlive the process. The model is saved by you.
    unmatched : {"warn", "raise", "ignore"}, default="warn"
        What to do about labels whose row does not wait. They are counted in any case.

    Attributes
    ----------
    counts : dict
        ``predicted``, ``replaced`` (predicted again under the same id before the label came), ``learned``, ``unknown``,
        ``expired``, ``repeated``.

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
            raise InvalidParameterError("classes must be given for a model that has learned nothing yet")
        if unmatched not in UNMATCHED:
            raise InvalidParameterError(f"unmatched must be {listed(UNMATCHED)}, got {unmatched!r}")
        self.model, self.classes, self.unmatched = model, classes, unmatched
        self.waiting = Waiting(keep, seconds, path, clock)
        self._lock = threading.Lock()

    @property
    def counts(self) -> dict[str, int]:
        """What became of rows and labels."""
        return self.waiting.counts

    def predict(self, ids: Sequence[Id], X: Any) -> NDArray[Any]:
        """The class of each row; the rows wait under their ids."""
        return self.model._chosen_labels(self._scores(ids, X))

    def decision_function(self, ids: Sequence[Id], X: Any) -> NDArray[Any]:
        """The score of each row (of more than two classes a column for each); the rows wait under their ids."""
        scores: NDArray[Any] = self.model._by_class(self._scores(ids, X), axis=-1)
        return scores

    def _scores(self, ids: Sequence[Id], X: Any) -> NDArray[Any]:
        names = _ids(ids)
        with self._lock:
            model = self.model
            if not model.__sklearn_is_fitted__():  # a row of weight 0: classes and width, and nothing else
                assert self.classes is not None
                model.partial_fit(X[:1], [self.classes[0]], classes=self.classes, sample_weight=[0.0])
            batch = model._batch_of(X)
            if len(batch) != len(names):
                raise InvalidInputError(f"ids: one for each row is needed, got {len(names)} for {len(batch)} rows")
            scores = model._model.learner.scores(batch)
            self.waiting.put(names, batch, scores, model._model.learner.dtype)
        return scores

    def label(self, ids: Sequence[Id], y: Any, sample_weight: Any = None) -> Labelled:
        """Learns the rows of these ids, in this order; says which were not there.

        An error leaves model and rows as they were.
        """
        names = _ids(ids)
        labels, weights = labels_of(y, len(names)), weights_of(sample_weight, len(names))
        with self._lock:
            outcome, places = self.waiting.look(names)
            self._tell(outcome)
            if places:
                model = self.model._model
                classes = model.classes.meeting(labels[places])
                coded = classes.coded(labels[places])
                with self.waiting.taking([names[k] for k in places], model.learner.n_features) as (rows, _):
                    batch = rows.labelled(coded, None if weights is None else weights[places])
                    model, _ = model.learn(batch, classes, scores=False)
                self.model._adopt(model)
            self.waiting.count(outcome)
        return outcome

    def _tell(self, outcome: Labelled) -> None:
        said = [
            f"{len(ids):,} {name} ({', '.join(map(repr, ids[:3]))}{' …' if len(ids) > 3 else ''})"
            for name, ids in outcome.unmatched.items()
        ]
        if said and self.unmatched == "raise":
            raise InvalidInputError(f"labels of ids that do not wait: {', '.join(said)}; nothing was learned")
        if said and self.unmatched == "warn":
            warnings.warn(f"labels of ids that do not wait: {', '.join(said)}", UserWarning, stacklevel=3)

    def __len__(self) -> int:
        """Rows that wait."""
        return len(self.waiting)

    def close(self) -> None:
        """Lets go of the file of rows."""
        self.waiting.close()


def _ids(ids: Sequence[Any]) -> list[Id]:
    """Ids as whole numbers and texts."""
    if isinstance(ids, str | bytes):
        raise InvalidInputError(f"ids must be a sequence, one for each row, got {ids!r}")
    found = [each.item() if isinstance(each, np.generic) else each for each in ids]
    for place, each in enumerate(found):
        if isinstance(each, bool) or not isinstance(each, int | str):
            raise InvalidInputError(f"ids must be whole numbers or texts, got {each!r} at {place}")
        if isinstance(each, int) and not -(2**63) <= each < 2**63:
            raise InvalidInputError(f"ids that are numbers must fit into 64 bits, got {each!r} at {place}")
    return found
