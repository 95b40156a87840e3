"""A lane that keeps an array of its own (SOFS, full covariances): a `Learner` with the face of a block."""

from collections.abc import Sequence
from copy import deepcopy
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thinstream.engine.forgetting import declared
from thinstream.engine.full import Matrix
from thinstream.engine.records import Memory, field_names
from thinstream.engine.rows import Bounds, Rows
from thinstream.lanes.lane import Lane
from thinstream.learners.memory import allocate, capacity, is_full, kept_width, widen


class SingleLane:
    """One lane."""

    def __init__(self, lanes: Sequence[Lane], width: int, dtype: np.dtype[Any]) -> None:
        (lane,) = lanes
        algorithm = declared(type(lane.rule))
        self.lanes, self.offset = [lane], lane.offset
        memory = allocate(algorithm, lane.rule, width, dtype)
        self._model = lane.model(algorithm, memory, width - lane.offset, grow=False)
        self.failed = np.full(1, -1)

    @property
    def memory(self) -> Memory:
        """That of the model."""
        return self._model.memory

    @property
    def width(self) -> int:
        """Coordinates there is room for."""
        return capacity(self._model.algorithm, self.memory)

    @property
    def nbytes(self) -> int:
        """Bytes of memory."""
        return sum(array.nbytes for array in self.memory)

    @staticmethod
    def group(lanes: Sequence[Lane], threads: int) -> list[list[int]]:
        """Each lane by itself."""
        return [[number] for number in range(len(lanes))]

    @staticmethod
    def estimate_nbytes(lanes: Sequence[Lane], width: int, dtype: np.dtype[Any]) -> int:
        """What ``nbytes`` will be."""
        algorithm = declared(type(lanes[0].rule))
        fields, clocks = field_names(algorithm.coordinate)
        rule, own = lanes[0].rule, 8 * (5 + 1 + len(algorithm.totals._fields))
        extra = len(rule.extra())
        matrix = Matrix.size(width) * dtype.itemsize if is_full(rule) else 0
        return max(width, extra) * (len(fields) * dtype.itemsize + 8 * len(clocks)) + 8 * extra + own + matrix

    def learn(
        self, rows: Rows, y: NDArray[np.int8], weights: NDArray[np.float64], largest: float, scores: NDArray[Any]
    ) -> None:
        """As `Block.learn`."""
        scores[:, 0] = np.nan
        if self.failed[0] >= 0:
            return
        own = rows._replace(y=np.ascontiguousarray(y[:, 0]), weights=np.ascontiguousarray(weights[:, 0]))
        out = np.empty(len(y), self.memory.state.dtype)
        done = self._model._run(own, self.memory, out, Bounds(-1, largest))
        if done < 0:
            done = self.failed[0] = -1 - done
        if len(scores):
            scores[:done, 0] = out[:done]

    def widen(self, width: int) -> None:
        """As `Block.widen`."""
        self._model.memory = widen(self._model.algorithm, self._model.rule, self.memory, width)

    def memory_of(self, slot: int, width: int) -> Memory:
        """A copy of the memory, cut to its width."""
        width, memory = kept_width(self._model.rule, self.memory, width), self.memory
        state, clocks = (
            array[: width * len(names)].copy()
            for array, names in zip(memory[:2], field_names(self._model.algorithm.coordinate), strict=True)
        )
        return Memory(state, clocks, memory.counts.copy(), memory.totals.copy(), memory.extra.copy())

    def put(self, memories: Sequence[Memory], width: int) -> None:
        """The lane becomes what the memory of a `Learner` says."""
        copies: list[Any] = [array.copy() for array in memories[0]]
        self._model.memory = Memory(*copies)
        self.widen(width)

    def take(self, slots: Sequence[int], source: "SingleLane", from_slots: Sequence[int], width: int) -> None:
        """The lane becomes another."""
        self.put([source.memory_of(0, width)], width)
        self.failed[:] = source.failed

    def copy(self) -> "SingleLane":
        """A lane of its own with the same content."""
        return deepcopy(self)


def keeps_own_array(rule: Any) -> bool:
    """Whether models of this rule keep an array of their own."""
    return is_full(rule) or len(rule.extra()) > 0
