"""What learners share that go over all rows again and again: a matrix, or a stream from its start each time."""

from collections.abc import Callable, Iterable
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from thinstream.batch import Batch
from thinstream.batch_learners.base import BatchLearner, checked
from thinstream.batch_learners.passes import Passes
from thinstream.batch_learners.rows import Arrays, Examples
from thinstream.engine.loop import FALSE_NEGATIVES, FALSE_POSITIVES, POSITIVES, UPDATES, T


class RepeatingLearner(BatchLearner):
    """A learner that starts anew each time; a subclass has ``solve``, which ends with ``take``.

    To the solver the constant feature is the last coordinate; kept, as by the others, it is the first.
    """

    selects = True
    draws = False  # whether it needs random numbers
    attributes: ClassVar[dict[str, Any]] = {}  # what it finds beside the weights: name → float or np.ndarray
    no_merge = "it goes over all rows again and again; fit it on all of them"

    def start(self) -> None:
        """Nothing is found."""
        self.found: dict[str, Any] = {}

    def learn(self, examples: Examples, *, last: bool = True, random: Any = None) -> NDArray[Any]:
        """Learns from all rows, from scratch; returns their scores under the final weights."""
        self.admit(examples)
        X = examples.sparse(np.float64)
        rows = Batch.of(X.indptr, X.indices, X.data, X.shape[1], y=examples.y, weights=examples.weights)
        self.solve(Passes.of(rows, self.costs, bool(self.offset)), random)
        return self.scores(X)

    def learn_from(self, batches: Callable[[], Iterable[Batch]], random: Any = None) -> None:
        """The same from rows of any width that are read anew, from the first on, for each pass."""
        passes = Passes(batches, costs=self.costs, fit_intercept=bool(self.offset))
        self.widen(passes.n_features)
        self.solve(passes, random)

    def solve(self, passes: Passes, random: Any) -> None:
        """Finds the weights; ``random`` is a ``numpy.random.RandomState`` for those that draw."""
        raise NotImplementedError

    def take(self, passes: Passes, w: NDArray[np.float64], wrong: Any, updates: int, loss: float, **found: Any) -> None:
        """The weights found, the rows they call wrong (positives, negatives), steps that moved, loss of all rows."""
        self.w = np.roll(w, 1) if self.offset else w.copy()
        self.counts[T], self.counts[POSITIVES] = passes.positives + passes.negatives, passes.positives
        self.counts[FALSE_NEGATIVES], self.counts[FALSE_POSITIVES] = wrong
        self.counts[UPDATES], self.loss, self.found = updates, loss, found

    def arrays(self) -> Arrays:
        """The state, what was found included."""
        return super().arrays() | {f"found.{name}": np.atleast_1d(self.found[name]) for name in self.attributes}

    def restore_weights(self, arrays: Arrays) -> None:
        """Weights, counters and what was found: there is no more."""
        super().restore_weights(arrays)
        for name, kind in self.attributes.items():
            shape = (1,) if kind is float else arrays[f"found.{name}"].shape[:1]
            array = checked(arrays, f"found.{name}", shape, np.dtype(np.float64))
            self.found[name] = float(array[0]) if kind is float else array.copy()
