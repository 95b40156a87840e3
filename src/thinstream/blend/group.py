"""Models of one algorithm on the same rows: side by side as lanes, or each for itself where they are few."""

from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thinstream.batch import Batch
from thinstream.engine.full import Matrix
from thinstream.lanes import Lanes
from thinstream.lanes.block import Block
from thinstream.lanes.single import SingleLane
from thinstream.learners.learner import unit_vectors

#: So many models run each for itself: a block has room for sixteen, and reads and writes it all (docs/auto.md).
FEW = 3


#: Features that models for few features begin with; their room doubles when a row needs it, whatever the chunks are.
FIRST_ROOM = 1 << 4


class Group(Lanes):
    """`Lanes`; a few of them are single loops, with the same bits.

    With ``max_features``, for models of a full covariance, they have room for the features of the rows met so far, and
    never for more than that; `make_room` gives it.
    """

    max_features: int | None = None

    def __init__(self, *given: Any, max_features: int | None = None, **options: Any) -> None:
        self.max_features = max_features
        super().__init__(*given, **options)

    def _build(self) -> None:
        if len(self._lanes) <= FEW and self.device == "cpu":
            self._kind = SingleLane
        super()._build()

    def keep(self, lanes: Sequence[int]) -> None:
        """Keeps these models, in the order given; the memory of others is returned."""
        if len(lanes) > FEW or self._kind is SingleLane or self.device != "cpu":
            super().keep(lanes)
            return
        out = self.out()[list(lanes)]
        models, rows = [self[k] for k in lanes], [self.failed.get(k, 0) for k in lanes]
        self._lanes, self._failed = [self._lanes[k] for k in lanes], {}
        self._build()
        self.put([model.memory for model in models])
        for k in np.flatnonzero(out).tolist():
            self.fail(k, rows[k])

    def put(self, memories: Sequence[Any]) -> None:
        """The models become what these memories of `Learner` s say, which are as wide."""
        if self.max_features is not None:
            self.make_room(max(Matrix(memory.extra).d for memory in memories) - self._lanes[0].offset)
        for block, numbers in zip(self._blocks, self._numbers, strict=True):
            block.put([memories[k] for k in numbers], self._width(numbers))

    def out(self) -> NDArray[np.bool_]:
        """Which of them have come to a row they cannot learn, and learn no more."""
        found = np.zeros(len(self), np.bool_)
        for block, numbers in zip(self._blocks, self._numbers, strict=True):
            found[numbers] = block.failed[: len(numbers)] >= 0
        return found

    def fail(self, lane: int, row: int = 0) -> None:
        """A model learns no more, from that row on."""
        for block, numbers in zip(self._blocks, self._numbers, strict=True):
            if lane in numbers:
                failed = block.failed  # of a device: a copy
                failed[numbers.index(lane)] = 0
                block.failed = failed
        self.failed[lane] = row

    def weights_at(self, coordinates: NDArray[Any]) -> NDArray[Any]:
        """`Learner.weights_at` of every model, coordinates × models; NaN of those that are out. Nothing changes."""
        found = np.full((len(coordinates), len(self)), np.nan, self.dtype)
        for block, numbers in zip(self._blocks, self._numbers, strict=True):
            if isinstance(block, Block):
                found[:, numbers] = _weights_of(block, coordinates)
            elif block.failed[0] < 0:
                known = coordinates < self._width(numbers)  # those beyond have met no row
                found[~known, numbers[0]] = 0.0
                found[known, numbers[0]] = block._model.weights_at(coordinates[known])
        return found

    def learn(self, batch: Batch, *more: Any) -> NDArray[Any]:
        """As of `Lanes`; rows have no features that there is no room for, however wide they might be."""
        return super().learn(batch if self.max_features is None else replace(batch, n_features=self.n_features), *more)

    def widen(self, n_features: int) -> None:
        """Room for so many features, unless it is given row by row."""
        if self.max_features is None:
            self.grow = True
            self._widen(n_features)

    def make_room(self, n_features: int) -> None:
        """Room for so many features, and for as many as there may be before it doubles again."""
        self.grow = True
        self._widen(min(max(FIRST_ROOM, 1 << (n_features - 1).bit_length()), self.max_features or n_features))

    def needed(self, n_features: int) -> int:
        """Bytes of models this wide."""
        return self._needed(n_features if self.max_features is None else min(n_features, self.max_features))


def _weights_of(block: Block, coordinates: NDArray[Any]) -> NDArray[Any]:
    """Scores of unit vectors of weight 0."""
    n, alone = len(coordinates), copy(block)  # counters of its own, because another thread may be learning
    counts, totals = block.memory.counts.copy(), block.memory.totals.copy()
    alone.memory, alone.failed = block.memory._replace(counts=counts, totals=totals), block.failed.copy()
    dtype = block.memory.state.dtype
    scores = np.empty((n, len(block.lanes)), dtype)
    alone.learn(unit_vectors(coordinates, dtype), np.ones((n, 1), np.int8), np.zeros((n, 1)), 1.0, scores)
    return scores
