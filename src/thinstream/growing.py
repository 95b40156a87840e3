"""Classes that come later: spare models learn every row as negative, and a new class takes a copy of one."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thinstream.batch import Batch
from thinstream.engine.loop import Costs
from thinstream.errors import InvalidInputError, InvalidParameterError, MergeError
from thinstream.learners import Learner, find, make_learner, require_distinct
from thinstream.learners import merge as merge_two_class
from thinstream.learners.growing_classes import GrowingClasses, called, known_before
from thinstream.learners.learner import require_range
from thinstream.one_vs_rest import OneVsRest, class_numbers


class Growing(OneVsRest):
    """`OneVsRest` for classes that are met as they come, from none on.

    A row of a class not met before is negative to all models but that class's own. So are all rows before it: a model
    that learned each of them as negative is what the class's model would be, had it been there from the start. That is
    the spare. As costs of positives may enter a step on negatives as well (CW's, PA's), there is one spare for each
    cost that a class may have.

    A class can be called only after it was met, so its first row is a mistake.

    Parameters
    ----------
    models : sequence of Learner
        One per class met.
    spares : sequence of Learner
        One per cost of classes to come, the usual one first; none where models predict only.
    n_mistakes : int
        Rows called another class than theirs before they were learned, or none at all.
    spare_costs : sequence of Costs, optional
        Those of the spares.

    Examples
    --------
    >>> model = Growing.begin("fsol", GrowingClasses(), n_features=3, eta=0.5)
    >>> for k in range(3):
    ...     rows = Batch.of(np.arange(2), np.array([k]), np.ones(1), 3, y=np.array([k], np.int32))
    ...     print(model.learn(rows))
    [[0.]]
    [[0. 0.]]
    [[0. 0. 0.]]
    >>> model.weights()
    array([[ 0.5, -0.5, -0.5],
           [-0.5,  0.5, -0.5],
           [-0.5, -0.5,  0.5]], dtype=float32)

    """

    def __init__(
        self,
        models: Sequence[Learner],
        spares: Sequence[Learner],
        n_mistakes: int = 0,
        spare_costs: Sequence[Costs] | None = None,
    ) -> None:
        super().__init__([*models, *spares], n_mistakes)
        self.costs = self.costs[: len(models)]
        self.spare_costs = tuple(spare.costs for spare in spares) if spare_costs is None else tuple(spare_costs)
        self.to_come: dict[int, Costs] = {}  #: costs of classes not met yet, by their numbers, where not the usual ones
        self._known = len(models)  # classes that rows can be called

    @classmethod
    def begin(cls, algorithm: str, classes: GrowingClasses, **options: Any) -> "Growing":
        """A model that has seen nothing; ``options`` are those of each `Learner`."""
        declared = find(algorithm)
        if declared.kind == "batch":
            raise InvalidParameterError(f"{declared.name}: grow_classes is for algorithms that learn online")
        spare_costs = classes.spare_costs(algorithm)
        costs = [*classes.costs, *spare_costs]
        models = [make_learner(algorithm, costs=each, **options) for each in costs]
        first = models[0]
        first.require_room(first.n_features, len(models))
        return cls(models[: len(classes)], models[len(classes) :])

    @property
    def spares(self) -> list[Learner]:
        """What a class to come begins as, to read, not to change."""
        return list(self._held)[len(self) :]

    def learn(self, batch: Batch, scores: bool = True) -> NDArray[Any]:
        """Takes the examples in order; returns the scores of each before its update, rows × classes.

        Numbers of new classes follow those known, in order of appearance. Where a row comes before the first of a
        class, its score is that of the spare. An error leaves the classes as they were.
        """
        with self.meeting(batch):
            batch = batch.check()
            require_range(batch, self.dtype)
            return self._learn_all(batch, scores)

    @contextmanager
    def meeting(self, batch: Batch) -> Iterator[None]:
        """Where the rows of a batch, in pieces or not, are learned: their classes are known, unless that fails."""
        before, known = len(self), self._known
        y = class_numbers(batch, np.iinfo(np.int32).max)
        ahead = np.flatnonzero(y > known_before(y, before))
        if len(ahead):
            raise InvalidInputError(
                f"y: numbers of new classes must follow those before, got {y[ahead[0]]} at row "
                f"{batch.first_row + int(ahead[0])}"
            )
        self._meet(max(before, int(y.max(initial=-1)) + 1))
        try:
            yield
        except BaseException:
            self._forget(before)
            self._known = known
            raise

    def _meet(self, many: int) -> None:
        """So many classes there are now."""
        if many == len(self):
            return
        self._require_spares()
        self._require_room(self.n_features, many + len(self.spare_costs))
        self.come_home()
        held = list(self._held)
        models, spares = held[: len(self)], held[len(self) :]
        costs = [self.to_come.get(k, self.spare_costs[0]) for k in range(len(self), many)]
        models += [deepcopy(spares[self.spare_costs.index(each)]) for each in costs]
        self._held, self.costs = [*models, *spares], (*self.costs, *costs)

    def _require_spares(self) -> None:
        if self.weights_only:
            from thinstream.learners.frozen import refuse_learning

            refuse_learning(self.algorithm.name)

    def _forget(self, many: int) -> None:
        """Only the first classes there are."""
        if many < len(self):
            self.come_home()
            held = list(self._held)
            self._held, self.costs = [*held[:many], *held[len(self) :]], self.costs[:many]

    def _count_mistakes(self, scores: NDArray[Any], rows: Batch) -> int:
        y = rows.require_labels()
        known = known_before(y, self._known)
        self._known = max(self._known, int(y.max(initial=-1)) + 1)
        wrong = called(scores, known) != y
        return int(np.count_nonzero(wrong if rows.weights is None else wrong & (rows.weights != 0)))


def merge_growing(
    learners: Sequence[Growing], numbers: Sequence[Sequence[int]], costs: Sequence[Costs], *, average: bool = False
) -> Growing:
    """One learner out of several that learned from disjoint parts of the data.

    ``numbers`` says for each class to be which class of each learner that is, −1 where it has not met it: then its
    spare is what the class's model would be there.
    """
    require_distinct(learners)
    first = learners[0]
    for other in learners[1:]:
        if other.spare_costs != first.spare_costs:
            raise MergeError("models to merge must agree in class_weight")
    models, spares = [list(each) for each in learners], [each.spares for each in learners]

    def merged(own: Sequence[int], cost: Costs) -> Learner:
        place = first.spare_costs.index(cost)
        shards = [mine[k] if k >= 0 else spare[place] for mine, spare, k in zip(models, spares, own, strict=True)]
        return merge_two_class(shards, average=average)

    nobody = [-1] * len(learners)
    return Growing(
        [merged(own, cost) for own, cost in zip(numbers, costs, strict=True)],
        [merged(nobody, cost) for cost in first.spare_costs],
        sum(learner.n_mistakes for learner in learners),
    )
