"""All lanes of one kind on the device: a block with the interface of `lanes.block.Block`."""

from collections.abc import Iterator, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from thinstream.engine.forgetting import declared
from thinstream.engine.records import Memory, field_names
from thinstream.lanes.block import Lane, tables_of, with_floats
from thinstream.lanes.cuda.kernels import (
    GROUP,
    Columns,
    DeviceMemory,
    DeviceRows,
    DeviceTables,
    fetch,
    fill,
    launch,
    learning,
    store,
    take,
)
from thinstream.lanes.cuda.package import SIMULATED, cuda, free_memory, processors, require_device
from thinstream.lanes.cuda.team import can_share, shape_of, team
from thinstream.lanes.loop import COUNTS, PARAMETERS, ROWS, WHOLES

#: Bytes of scores on the device at a time.
SCORES = 1 << 30
#: Share of the free memory of a device that lanes may use; rows, scores and the driver also need some.
SHARE = 0.9


class CudaBlock:
    """Lanes that have seen nothing."""

    #: Whether teams of warps share lanes, where the rule allows it.
    sharing = not SIMULATED

    def __init__(self, lanes: Sequence[Lane], width: int, dtype: np.dtype[Any]) -> None:
        require_device()
        self.lanes, self.offset, self.dtype = list(lanes), lanes[0].offset, dtype
        self.algorithm = declared(type(lanes[0].rule))
        self._rule = with_floats(lanes[0].rule)
        self._tables = self._make_tables()
        own = np.zeros((int(max(self._extra)), len(lanes)))
        for slot in np.flatnonzero(self._extra).tolist():
            own[: self._extra[slot], slot] = lanes[slot].rule.extra()
        totals = np.array([0.0, *self.algorithm.totals()])[:, np.newaxis]
        arrays = np.zeros((5, len(lanes)), np.int64), np.repeat(totals, len(lanes), axis=1), own
        self.width = max(width, len(own))  # what a lane's own array names must be there
        self.memory = DeviceMemory(*self._fresh(self.width), *map(cuda.to_device, arrays))
        self.failed = np.full(len(lanes), -1)
        self._which: tuple[tuple[Any, Any], Any] | None = None
        self._scores: Any = None

    @property
    def failed(self) -> NDArray[np.int64]:
        """The row, by its number in the stream, that would have left infinite numbers in a lane; else −1."""
        failed: NDArray[np.int64] = self._failed.copy_to_host()
        return failed

    @failed.setter
    def failed(self, rows: NDArray[np.int64]) -> None:
        self._failed = cuda.to_device(np.ascontiguousarray(rows))

    def learn(self, rows: DeviceRows, columns: Columns, largest: float, count: Any | None = None) -> None:
        """Learn rows that are on the device in order, like `Block.learn`; ``columns`` are on the host.

        ``count(scores, rows)``, if any, receives the scores of as many rows as fit; ``rows`` is a slice.
        """
        n, used, rows = len(columns.y), len(self.lanes), rows._replace(offset=self.offset)
        columns = columns._replace(**dict(zip(("label_of", "weight_of"), self._sent(columns), strict=True)))
        step = max(SCORES // (used * self.dtype.itemsize), 1) if count else max(n, 1)
        for start in range(0, n, step):
            stop = min(start + step, n)
            part = columns._replace(y=columns.y[start:stop], weights=columns.weights[start:stop])
            chunk = rows._replace(indptr=rows.indptr[start : stop + 1], first=rows.first + start)
            scores = self._room_for_scores(stop - start if count else 0)
            self._launch(chunk, part, largest, scores)
            if count:
                count(scores, slice(start, stop))

    def _launch(self, rows: DeviceRows, columns: Columns, largest: float, scores: Any) -> None:
        rule: Any = type(self._rule)
        blocks, started, threads = -(-len(self.lanes) // GROUP), learning(rule), (GROUP, 1)
        if self.sharing and can_share(rule):
            real: Any = self.dtype.type
            workers, registers = shape_of(blocks, processors())
            started = team(rule, bool(self._rule.observes()), real, workers, registers)
            threads = GROUP, workers
        arguments = self._rule, self._tables, rows, columns, largest, self.memory, self._failed, scores
        launch(started, blocks, threads, *arguments)

    def _sent(self, columns: Columns) -> tuple[Any, Any]:
        """Which columns are the lanes', on the device; they are the same for chunk after chunk."""
        which = columns.label_of, columns.weight_of
        if self._which is None or not all(np.array_equal(a, b) for a, b in zip(which, self._which[0], strict=True)):
            self._which = which, tuple(cuda.to_device(np.ascontiguousarray(array)) for array in which)
        sent: tuple[Any, Any] = self._which[1]
        return sent

    def _room_for_scores(self, rows: int) -> Any:
        """Return the array for the scores of a number of rows. It is reused."""
        if self._scores is None or self._scores.shape[0] < rows:
            self._scores = cuda.device_array((rows, len(self.lanes)), self.dtype)
        return self._scores[:rows]

    def widen(self, width: int) -> None:
        """Room for ``width`` coordinates."""
        if width <= self.width:
            return
        old, everyone = self.memory, np.arange(len(self.lanes))
        self.memory = old._replace(**dict(zip(("state", "clocks"), self._fresh(width), strict=True)))
        for mine, other in zip(self.memory[:2], old[:2], strict=True):
            take(mine, everyone, other, everyone, other.shape[1] // GROUP)
        self.width = width

    @property
    def nbytes(self) -> int:
        """Bytes of the device's memory."""
        return sum(array.nbytes for array in self.memory)

    @staticmethod
    def group(lanes: Sequence[Lane], threads: int) -> list[list[int]]:
        """Numbers of the lanes of each block: those of one kind."""
        kinds: dict[Any, list[int]] = {}
        for number, lane in enumerate(lanes):
            kinds.setdefault(lane.kind, []).append(number)
        return list(kinds.values())

    @staticmethod
    def estimate_nbytes(lanes: Sequence[Lane], width: int, dtype: np.dtype[Any]) -> int:
        """What ``nbytes`` will be."""
        algorithm = declared(type(lanes[0].rule))
        fields, clocks = field_names(algorithm.coordinate)
        extra = max(_extra_sizes(lanes))
        per_lane = max(width, extra) * (len(fields) * dtype.itemsize + len(clocks) * 8)
        own = 8 * (5 + 1 + len(algorithm.totals._fields) + extra)
        return -(-len(lanes) // GROUP) * GROUP * per_lane + len(lanes) * own

    @staticmethod
    def room() -> int:
        """Bytes lanes may take."""
        require_device()
        return int(SHARE * free_memory())

    def memory_of(self, slot: int, width: int) -> Memory:
        """The memory of one lane as that of a `Learner`."""
        width = max(width, int(self._extra[slot]))
        fields = field_names(self.algorithm.coordinate)
        arrays = [fetch(array, slot, width * len(names)) for array, names in zip(self.memory[:2], fields, strict=True)]
        counts, totals, extra = (np.ascontiguousarray(array.copy_to_host()[:, slot]) for array in self.memory[2:])
        return Memory(arrays[0], arrays[1], counts, totals, extra[: self._extra[slot]])

    def put(self, memories: Sequence[Memory], width: int) -> None:
        """The lanes become what the memories of `Learner` s say."""
        fields = field_names(self.algorithm.coordinate)
        counts, totals, extra = (array.copy_to_host() for array in self.memory[2:])
        for slot, memory in enumerate(memories):
            for array, values, names in zip(self.memory[:2], memory[:2], fields, strict=True):
                store(array, slot, values[: self.width * len(names)])
            counts[:, slot], totals[:, slot], extra[: len(memory.extra), slot] = memory[2:]
        self.memory = self.memory._replace(
            counts=cuda.to_device(counts), totals=cuda.to_device(totals), extra=cuda.to_device(extra)
        )

    def take(self, slots: Sequence[int], source: "CudaBlock", from_slots: Sequence[int], width: int) -> None:
        """The lanes at ``slots`` become those of another block."""
        here, there = np.array(slots, np.int64), np.array(from_slots, np.int64)
        width = min(self.width, source.width)
        for mine, other, names in zip(
            self.memory[:2], source.memory[:2], field_names(self.algorithm.coordinate), strict=True
        ):
            take(mine, here, other, there, width * len(names))
        arrays = []
        for mine, other in zip(self.memory[2:], source.memory[2:], strict=True):
            array, source_array = mine.copy_to_host(), other.copy_to_host()
            array[:, here] = source_array[: len(array), there]
            arrays.append(cuda.to_device(array))
        self.memory = self.memory._replace(counts=arrays[0], totals=arrays[1], extra=arrays[2])
        failed = self.failed
        failed[here] = source.failed[there]
        self.failed = failed

    def copy(self) -> Self:
        """Return a separate block with the same content."""
        made = object.__new__(type(self))
        made.__setstate__(self.__getstate__())
        return made

    def _make_tables(self) -> DeviceTables:
        tables = tables_of(self.lanes, self.dtype)
        reals, wholes = np.zeros((ROWS, len(self.lanes))), np.zeros((COUNTS, len(self.lanes)), np.int64)
        reals[PARAMETERS : PARAMETERS + len(tables.reals64)] = tables.reals64
        wholes[WHOLES : WHOLES + len(tables.wholes)] = tables.wholes
        self._extra = np.array(list(_extra_sizes(self.lanes)), np.int64)
        arrays = reals, wholes, tables.negative, tables.positive, tables.balanced, self._extra
        return DeviceTables(*map(cuda.to_device, arrays))

    def _fresh(self, width: int) -> list[Any]:
        """Return state and clocks of untouched coordinates."""
        groups = -(-len(self.lanes) // GROUP)
        records = np.array([tuple(lane.rule.fresh()) for lane in self.lanes]).T
        position = {name: k for k, name in enumerate(self.algorithm.coordinate._fields)}
        made = []
        for names, dtype in zip(
            field_names(self.algorithm.coordinate), (self.dtype, np.dtype(np.float64)), strict=True
        ):
            row = np.empty((len(names), groups * GROUP), dtype)
            row[:, : len(self.lanes)] = records[[position[name] for name in names]]
            row[:, len(self.lanes) :] = row[:, len(self.lanes) - 1 : len(self.lanes)]  # what fills the last group
            array = cuda.device_array((groups, width * len(names) * GROUP), dtype)
            fill(array, row)
            made.append(array)
        return made

    def __getstate__(self) -> dict[str, Any]:
        """On the host: blocks are pickled, and come back wherever there is a device."""
        arrays = [array.copy_to_host() for array in self.memory]
        left = "_tables", "_failed", "_which", "_scores"
        state = {name: value for name, value in self.__dict__.items() if name not in left}
        return state | {"algorithm": self.algorithm.name, "memory": arrays, "failed": self.failed}

    def __setstate__(self, state: dict[str, Any]) -> None:
        require_device()
        self.__dict__.update(state)
        self.failed = self.__dict__.pop("failed")
        self._which = self._scores = None
        self.algorithm = declared(type(self._rule))
        self.memory = DeviceMemory(*map(cuda.to_device, state["memory"]))
        self._tables = self._make_tables()


def _extra_sizes(lanes: Sequence[Lane]) -> Iterator[int]:
    """Return the length of the separate array that lanes of a few rules keep."""
    size = getattr(lanes[0].rule, "extra_size", None)
    return (0 if size is None else lane.rule.extra_size() for lane in lanes)
