"""A model cut by features: rank r of n has coordinates r, r + n, r + 2n, …, and all counters.

The constant feature, where there is one, is coordinate 0, as in a `Learner`. Taking every n-th coordinate spreads the
work however features are numbered, and needs no width beforehand: slices grow as a model does.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from thinstream.batch import Batch
from thinstream.distributed.by_features.blueprint import Blueprint, has_own_hook
from thinstream.distributed.by_features.collective import Collective
from thinstream.distributed.by_features.loop import compiled_part, split
from thinstream.engine.diagonal import Exact
from thinstream.engine.rows import Rows
from thinstream.errors import InvalidInputError
from thinstream.learners import Learner
from thinstream.learners.learner import EVERY_WEIGHT_1, require_range, require_signs
from thinstream.learners.memory import record_views, widen
from thinstream.one_vs_rest import AnyLearner, class_numbers, count_mistakes, learner_of, signs_of


class Slice:
    """One rank's coordinates of a model, and how they learn.

    Examples
    --------
    >>> from thinstream.learners import Classes
    >>> from thinstream.models.model import Model
    >>> rows = Batch.of(np.array([0, 1, 2]), np.array([0, 1]), np.array([1.0, 1.0]), 2, y=np.array([-1, 1], np.int8))
    >>> model = Model(Learner("fsol", n_features=2, eta=0.5), Classes(-1, 1))
    >>> part = Slice(Blueprint.of(model), rank=0, size=1)
    >>> part.learn(rows, Collective(0, 1))
    array([0., 0.], dtype=float32)
    >>> join_slices(Blueprint.of(model), [part]).weights()
    array([-0.5,  0.5], dtype=float32)

    """

    def __init__(self, blueprint: Blueprint, rank: int, size: int) -> None:
        self.blueprint, self.rank, self.size = blueprint, rank, size
        self.offset, self.n_features, self.n_mistakes = blueprint.learners[0].offset, blueprint.n_features, 0
        self.models = blueprint.slice(self.n_features, self._width(self.n_features))
        rule = type(self.models[0].rule)
        self._observes = bool(self.models[0].rule.observes())
        exact = self._observes and isinstance(getattr(self.models[0].rule, "diagonal", None), Exact)
        self._confident = has_own_hook(rule, "confidence") and not exact  # which observes without looking at v
        self._tallies = has_own_hook(rule, "tally")
        self._parts = {name: compiled_part(name, rule) for name in ("confide", "score", "decide", "conclude")}

    def learn(self, batch: Batch, collective: Collective, *, batch_size: int = 1) -> NDArray[Any]:
        """Takes the examples in order, ``batch_size`` at a time; returns the score of each before its update.

        Every rank is given all rows. All rows of a mini-batch are scored before the first of them is learned.
        """
        batch = batch.check()
        classes = len(self.models)
        signs = require_signs(batch)[:, None] if classes == 1 else signs_of(class_numbers(batch, classes), classes)
        require_range(batch, self.models[0].dtype)
        self._widen(batch.n_features)
        rows = self._own(batch)
        each = [rows._replace(y=np.ascontiguousarray(signs[:, k])) for k in range(classes)]
        scores = np.empty((len(batch), classes), dtype=self.models[0].dtype)
        sums, changes = self._scratch(batch_size)
        for first in range(0, len(batch), batch_size):
            last = min(first + batch_size, len(batch))
            if last - first < batch_size:
                sums, changes = self._scratch(last - first)
            self._take(each, first, last, collective, sums, changes)
            scores[first:last] = sums[0].T
        if classes == 1:
            return scores[:, 0]
        self.n_mistakes += count_mistakes(scores, batch)
        return scores

    def prepare(self) -> NDArray[Any]:
        """Loads all compiled code (or compiles it, which takes seconds); returns the scores of no rows."""
        labels = np.empty(0, np.int8 if len(self.models) == 1 else np.int32)
        nothing = Batch(np.zeros(1, np.int64), np.empty(0, np.int32), np.empty(0, self.models[0].dtype), 0, labels)
        rows = self._own(nothing)._replace(y=np.empty(0, np.int8))
        alone = Collective(0, 1)
        self._take([rows] * len(self.models), 0, 0, alone, *self._scratch(0))
        return self.learn(nothing, alone)

    @property
    def nnz(self) -> int:
        """Non-zero weights of this slice, the intercept not counted."""
        first = int(self.offset and self.rank == 0)
        return sum(int(np.count_nonzero(block)) for model in self.models for _, block in model._weights(first))

    # As data ----------------------------------------------------------------------------------------------------------

    def learner(self) -> AnyLearner:
        """The slice in the form of a model, to be stored."""
        return learner_of(self.models, self.n_mistakes)

    @classmethod
    def of(cls, blueprint: Blueprint, rank: int, size: int, learner: AnyLearner, n_features: int) -> Self:
        """The slice that ``learner`` was taken from, of a model that had ``n_features``."""
        part = cls(blueprint, rank, size)
        part.n_features, part.n_mistakes = n_features, learner.n_mistakes
        fresh, part.models = part.models, list(learner.models)
        for model, known in zip(part.models, fresh, strict=True):
            model.rule = known.rule
            part._fit(model)
        return part

    def cut(self, learner: AnyLearner) -> None:
        """Takes its coordinates out of a model of all features."""
        self._widen(learner.n_features, always=True)
        self.n_mistakes = learner.n_mistakes
        for mine, theirs in self._pairs(learner):
            mine[:] = theirs
        for model, whole in zip(self.models, learner.models, strict=True):
            model.memory.counts[:], model.memory.totals[:] = whole.memory.counts, whole.memory.totals

    def paste(self, learner: AnyLearner) -> None:
        """Puts its coordinates into a model of all features."""
        for mine, theirs in self._pairs(learner):
            theirs[:] = mine

    def _pairs(self, learner: AnyLearner) -> Iterator[tuple[NDArray[Any], NDArray[Any]]]:
        """Views of the records of this slice, and of the same ones in a model of all features."""
        for model, whole in zip(self.models, learner.models, strict=True):
            own = record_views(model.algorithm, model.memory, model.n_features)
            all_of_it = record_views(whole.algorithm, whole.memory, learner.n_features + self.offset)
            for mine, theirs in zip(own, all_of_it, strict=True):
                cut = theirs[self.rank :: self.size]
                yield mine[: len(cut)], cut

    # Rows -------------------------------------------------------------------------------------------------------------

    def _own(self, batch: Batch) -> Rows:
        """The part of the rows that is this rank's."""
        room = batch.nnz + (len(batch) if self.offset and self.rank == 0 else 0) + 1
        values = batch.values.astype(self.models[0].dtype, copy=False)
        weights = EVERY_WEIGHT_1 if batch.weights is None else np.ascontiguousarray(batch.weights, np.float64)
        indptr, indices = np.empty(len(batch) + 1, np.int64), np.empty(room, batch.indices.dtype)
        out = Rows(indptr, indices, np.empty(room, values.dtype), np.empty(0, np.int8), weights)
        found = split(batch.indptr, batch.indices, values, self.rank, self.size, self.offset, out)
        return out._replace(indices=out.indices[:found], values=out.values[:found])

    def _width(self, n_features: int) -> int:
        return max(-(-(n_features + self.offset - self.rank) // self.size), 1)

    def _widen(self, n_features: int, always: bool = False) -> None:
        if n_features <= self.n_features:
            return
        if not (self.models[0].grow or always):
            raise InvalidInputError(
                f"X has {n_features} features, but the model has {self.n_features}; grow=True would extend it"
            )
        self.n_features = n_features
        for model in self.models:
            self._fit(model)

    def _fit(self, model: Learner) -> None:
        width = self._width(self.n_features)
        model.memory = widen(model.algorithm, model.rule, model.memory, width)
        model.n_features = width

    # Learning ---------------------------------------------------------------------------------------------------------

    def _scratch(self, rows: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Sums of s and v, and tallies: in 64 bits whatever the model's precision, as decisions are."""
        return np.zeros((2, len(self.models), rows)), np.zeros((len(self.models), rows))

    def _take(
        self,
        each: Sequence[Rows],
        first: int,
        last: int,
        collective: Collective,
        sums: NDArray[np.float64],
        changes: NDArray[np.float64],
    ) -> None:
        """One mini-batch."""
        s, v = sums
        if self._observes and self._confident:
            for model, rows, v_k in zip(self.models, each, v, strict=True):
                self._parts["confide"](model.rule, rows, first, last, model.memory, v_k)
            collective.allreduce(v)
        for model, rows, s_k, v_k in zip(self.models, each, s, v, strict=True):
            self._parts["score"](model.rule, rows, first, last, model.memory, s_k, v_k)
        collective.allreduce(sums if self._confident and not self._observes else s)
        for model, rows, s_k, v_k, changes_k in zip(self.models, each, s, v, changes, strict=True):
            more = model.costs, model.memory, s_k, v_k, changes_k, self._tallies
            self._parts["decide"](model.rule, rows, first, last, *more)
        if self._tallies:
            collective.allreduce(changes)
            for model, rows, changes_k in zip(self.models, each, changes, strict=True):
                self._parts["conclude"](model.rule, rows, first, last, model.memory, changes_k)


def join_slices(blueprint: Blueprint, slices: Iterator[Slice] | Sequence[Slice]) -> AnyLearner:
    """One model out of all slices, of which every rank must have seen the same rows."""
    whole: AnyLearner | None = None
    for part in slices:
        if whole is None:
            whole = blueprint.whole(part.n_features, part.n_mistakes)
            for model, mine in zip(whole.models, part.models, strict=True):
                model.memory.counts[:], model.memory.totals[:] = mine.memory.counts, mine.memory.totals
        for model, mine in zip(whole.models, part.models, strict=True):
            if model.memory.counts.tobytes() != mine.memory.counts.tobytes() or part.n_features != whole.n_features:
                raise InvalidInputError(f"slices of different runs cannot become one model: rank {part.rank} differs")
        part.paste(whole)
    if whole is None:
        raise InvalidInputError("a model needs one slice at least")
    return whole
